"""The words of README's tables: why a cell is not decided, what was not measured, how far two GPU models agree."""

from typing import Any

import networks
import pytest

from cudnn_sweep.analysis.results.advice import UNDECIDED, Advice
from cudnn_sweep.analysis.results.verdicts import Verdict
from tests.analysis.conftest import changed


def _row(ratio: float, half_width: float, **columns: Any) -> Verdict:
    """An undecided cell whose interval reaches so far to each side, as a factor."""
    ends = {"ratio_low": ratio / half_width, "ratio_high": ratio * half_width}
    usual = {"wall_verdict": "inconclusive", "launch_bound": False, "by_choice": None}
    return changed(networks.fixed()[0], **{**usual, "ratio": ratio, **ends, **columns})


@pytest.fixture
def with_choices(monkeypatch: pytest.MonkeyPatch) -> str:
    """The id of a cell whose choices differ in device time."""
    monkeypatch.setattr(networks, "by_choice", lambda: {"told apart"})
    return "told apart"


@pytest.mark.long
def test_kernels_are_the_reason_only_where_device_time_or_one_launch_says_so(
    with_choices: str,
) -> None:
    slower = {"by_choice": "usually 0.65; in 2 of 5 processes 0.90", "launch_bound": True}
    assert networks.word(_row(0.73, 1.7, **slower)) == networks.CPU, "choices are of two launches"
    assert networks.word(_row(0.73, 1.7, cell_id=with_choices, **slower)) == networks.KERNELS


@pytest.mark.usefixtures("with_choices")
@pytest.mark.parametrize(
    ("ratio", "half_width", "expected"),
    [
        (0.975, 1.008, networks.NEAR),
        (0.975, 1.001, networks.SCATTER),  # not within its own interval
        (0.935, 1.32, networks.SCATTER),  # one process was 15% slower
        (1.0, 1.05, networks.SCATTER),
        (1.036, 1.01, networks.NEAR),
    ],
)
def test_near_is_an_estimate_that_is_near_the_margin(
    ratio: float, half_width: float, expected: str
) -> None:
    assert networks.word(_row(ratio, half_width)) == expected


def test_each_reason_of_the_table_is_explained() -> None:
    used = {networks.word(row) for row in networks.found()} - set(networks.VERDICTS)
    assert set(networks.reasons()) == used
    assert used <= set(networks.REASONS)


@pytest.mark.slow
def test_a_start_that_was_not_met_is_not_measured_and_cpu_bound_cells_are_counted() -> None:
    row = next(each for each in networks.advised(1_000) if each.start == "warm")

    def undecided(why: str, launch_bound: bool) -> Advice:
        return changed(row, advice=UNDECIDED, why=why, launch_bound=launch_bound)

    rows = [
        undecided("no process started in this state: warm", False),
        undecided("about 3 more blocks would decide", True),
        undecided("about 3 more blocks would decide", False),
        changed(row, advice="on"),
    ]
    assert networks.advice_counts(rows) == "on 1, undecided 2 (1 CPU), not measured 1"


def test_agreement_counts_closed_cells_that_could_differ() -> None:
    decided = {"wall_verdict": "helps"}
    cells = [
        (_row(0.90, 1.01, **decided), _row(0.905, 1.01, **decided)),
        (_row(0.95, 1.01, **decided), _row(0.97, 1.01)),
        (_row(1.0, 1.2), _row(1.08, 1.2)),
    ]
    said = networks.agreement(cells)
    assert "Of the 3 cells" in said
    assert "1 are decided on both GPU models, 1 of them with the same verdict" in said
    assert "1 are decided on one alone, 1 on none" in said
    assert "1 within 1%, 2 within 3%, 3 within 10%" in said
    assert all(row.loop_kind == "closed" for both in networks.closed_on_both() for row in both)
