"""`shapes_that_pay`: up to how many shapes a setting pays, and where that is not told."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from cudnn_sweep.analysis.storing.schema import ColdShape, RunRecord
from tests.analysis.conftest import Ask, make_pair

SLOWER_AND_FASTER = ((10.0, 7.9), (10.1, 8.1), (9.9, 8.0), (10.0, 8.05))
ALIKE = ((10.0, 10.01), (10.1, 10.09), (9.9, 9.9), (10.0, 10.0))


def _blocks(times: tuple[tuple[float, float], ...], **changes: object) -> list[RunRecord]:
    return [
        record
        for block, (baseline_ms, candidate_ms) in enumerate(times)
        for record in make_pair(block, baseline_ms, candidate_ms, **changes)
    ]


def _only(rows: list[dict[str, object]]) -> dict[str, object]:
    (row,) = rows
    return row


def _of_three_shapes(records: list[RunRecord], scatter_ms: float = 1.0) -> list[RunRecord]:
    """The candidate's search takes 100 ms more at the first shape, and 40 at each further one."""
    return [
        replace(
            record,
            cold=[
                ColdShape(
                    shape=[8 * (place + 1), 3, 32, 32],
                    first_ms=20.0 + record.benchmark * (extra_ms + scatter_ms * record.block),
                    first_forward_ms=None,
                    first_backward_ms=None,
                    second_ms=9.0,
                    second_forward_ms=None,
                    second_backward_ms=None,
                )
                for place, extra_ms in enumerate((100.0, 40.0, 40.0))
            ],
        )
        for record in records
    ]


def test_shapes_pay_as_long_as_the_iterations_save_what_they_cost(ask: Ask) -> None:
    records = _of_three_shapes(_blocks(SLOWER_AND_FASTER))
    row = _only(ask("shapes_that_pay", records, iterations=1000))
    gains = np.array([a - b for a, b in SLOWER_AND_FASTER])
    extras = np.arange(4.0)
    gain_margin, extra_margin = (stats.t.ppf(0.975, 3) * stats.sem(x) for x in (gains, extras))
    first, later = 100 + extras.mean(), 40 + extras.mean()

    def pays(sign: int) -> int:
        saved = 1000 * (gains.mean() + sign * gain_margin)
        return int(1 + (saved - first + sign * extra_margin) / (later - sign * extra_margin))

    assert (row["outcome"], row["shapes_met"]) == ("up to", 3)
    assert (row["shapes_low"], row["shapes_that_pay"], row["shapes_high"]) == (
        pays(-1),
        pays(0),
        pays(1),
    )
    assert pays(-1) < pays(0) < pays(1)
    one = _only(ask("shapes_that_pay", [], iterations=10))
    assert (one["outcome"], one["shapes_that_pay"]) == ("not one", None)


def test_of_one_shape_nobody_knows_what_others_cost(ask: Ask) -> None:
    row = _only(ask("shapes_that_pay", _blocks(SLOWER_AND_FASTER), iterations=1000))
    assert (row["outcome"], row["shapes_that_pay"]) == ("up to", 4), "each as much as the first"
    assert row["shapes_low"] == 3 and row["shapes_high"] is None


@pytest.mark.parametrize(
    ("times", "changes", "outcome"),
    [
        (tuple((b, a) for a, b in SLOWER_AND_FASTER), {}, "never"),
        (ALIKE, {}, "inconclusive"),
        (SLOWER_AND_FASTER[:1], {}, "inconclusive"),
        (SLOWER_AND_FASTER, {"loop_kind": "open"}, "open loop"),
        (SLOWER_AND_FASTER, {"device": "cpu"}, "no_effect"),
    ],
)
def test_no_number_of_shapes_is_told_where_none_is_known(
    ask: Ask,
    times: tuple[tuple[float, float], ...],
    changes: dict[str, object],
    outcome: str,
) -> None:
    row = _only(ask("shapes_that_pay", _blocks(times, **changes)))
    assert (row["outcome"], row["shapes_that_pay"], row["shapes_high"]) == (outcome, None, None)
