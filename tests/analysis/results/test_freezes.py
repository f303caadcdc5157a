"""What a kept choice keeps: ratios by rounds with intervals, and the share of a gain that is one."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cudnn_sweep.analysis.store.schema import RunRecord
from tests.analysis.conftest import AskAbout, cells_together, make_pair

RULES = "ConvFwd:1@91900"
OFF_MS = 10.0
ROUNDS = 5
DRIFT = np.array([1.0, 1.3, 0.8, 1.1, 0.9])  # of a machine, round by round


def block(
    number: int, ratios: tuple[float, float], device: tuple[float, float], **columns: Any
) -> list[RunRecord]:
    """Off, on and frozen in turns; `ratios`: of on and frozen to off, in each round."""
    off, searching = make_pair(number, OFF_MS, OFF_MS, **{"launch_bound": False} | columns)
    frozen = replace(off, trial_id=f"f-{number}", attempt_id=f"f-{number}", errata=RULES)
    sides = zip((off, searching, frozen), (1.0, *ratios), (1.0, *device), strict=True)
    return [
        replace(
            record,
            in_turns=True,
            steady_wall_ms=OFF_MS * ratio,
            steady_device_ms=0.9 * OFF_MS * gpu,
            steady_wall_samples_ms=(OFF_MS * ratio * DRIFT).tolist(),
            steady_device_samples_ms=(0.9 * OFF_MS * gpu * DRIFT).tolist(),
            steady_wall_rounds=list(range(ROUNDS)),
            steady_device_rounds=list(range(ROUNDS)),
        )
        for record, ratio, gpu in sides
    ]


def blocks(
    walls: Sequence[tuple[float, float]], device: tuple[float, float], **columns: Any
) -> list[RunRecord]:
    return [each for n, wall in enumerate(walls) for each in block(n, wall, device, **columns)]


def slow_at_last(records: list[RunRecord]) -> list[RunRecord]:
    """Off with a median that two odd rounds move; round by round nothing else differs."""
    off, searching, frozen = records
    samples = [OFF_MS, OFF_MS, 12.0, 12.0, 12.0]
    ratios = {searching.trial_id: 0.98, frozen.trial_id: 0.99}
    return [
        replace(off, steady_wall_samples_ms=samples, steady_wall_ms=12.0),
        *(
            replace(
                each,
                steady_wall_samples_ms=[ratios[each.trial_id] * ms for ms in samples],
                steady_wall_ms=OFF_MS * ratios[each.trial_id],
            )
            for each in (searching, frozen)
        ),
    ]


ALIKE = [(0.9, 0.91), (0.901, 0.911), (0.899, 0.909)]
CELLS = {
    "gains": blocks(ALIKE, (0.9, 0.91)),
    "one": blocks(ALIKE[:1], (0.9, 0.91)),
    "none": blocks([(1.0, 0.99)], (1.0, 0.99)),
    "small": blocks([(0.975, 0.98)], (0.975, 0.98)),
    "waits": blocks([(0.99, 1.0), (0.97, 0.98), (1.0, 0.99)], (0.6, 0.7), launch_bound=True),
    "by rounds": slow_at_last(blocks([(0.98, 0.99)], (0.98, 0.99))),
}


@pytest.fixture(scope="module")
def about(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AskAbout]:
    folder: Path = tmp_path_factory.mktemp("freezes")
    with cells_together(folder, CELLS) as ask:
        yield ask


def _row(about: AskAbout, cell: str) -> dict[str, Any]:
    (row,) = about(cell, "freezes")
    return row


def test_ratios_are_those_of_the_rounds_as_in_any_contrast(about: AskAbout) -> None:
    row = _row(about, "by rounds")
    assert row["off_ms"] == 12.0, "the medians of processes say 18% less"
    assert row["on_ratio"] == pytest.approx(0.98, abs=1e-6)
    assert row["frozen_ratio"] == pytest.approx(0.99, abs=1e-6)


def test_an_interval_stands_beside_each_ratio_and_narrows_with_blocks(about: AskAbout) -> None:
    one, three = _row(about, "one"), _row(about, "gains")
    for name in ("on_ratio", "frozen_ratio", "kept"):
        assert one[f"{name}_low"] < three[f"{name}_low"] < three[name]
        assert three[name] < three[f"{name}_high"] < one[f"{name}_high"]
    assert three["kept"] == pytest.approx(0.9, abs=0.01)
    (verdict,) = about("gains", "helps_or_hurts")
    assert three["on_ratio_low"] == pytest.approx(verdict["ratio_low"])
    assert three["on_ratio_high"] == pytest.approx(verdict["ratio_high"])


@pytest.mark.parametrize("cell", ["small", "none"])
def test_nothing_is_kept_of_a_gain_that_may_be_none(about: AskAbout, cell: str) -> None:
    row = _row(about, cell)
    assert row["on_ratio"] <= 1 < row["on_ratio_high"]
    assert [row[name] for name in ("kept", "kept_low", "kept_high")] == [None] * 3


def test_a_loop_that_waits_for_the_cpu_keeps_what_the_gpu_saves(about: AskAbout) -> None:
    row = _row(about, "waits")
    assert row["kept_by"] == "device"
    assert row["on_ratio_low"] < 1 < row["on_ratio_high"], "the wall tells no gain"
    assert row["on_device_ratio_high"] < 1
    assert row["kept"] == pytest.approx((1 - 0.7) / (1 - 0.6), abs=0.001)
    assert _row(about, "gains")["kept_by"] == "wall"


def test_noise_of_off_widens_no_share_that_is_kept(tmp_path: Path) -> None:
    """On and frozen are compared with the same process of off."""
    noise = np.exp(np.random.default_rng(0).normal(0, 0.01, (5, 2)))
    shared = [(0.8 * off, 0.8 * off) for off, _ in noise]
    apart = [(0.8 * one, 0.8 * other) for one, other in noise]
    cells = {"shared": blocks(shared, (0.8, 0.8)), "apart": blocks(apart, (0.8, 0.8))}
    with cells_together(tmp_path, cells) as ask:
        widths = [
            row["kept_high"] - row["kept_low"] for cell in cells for row in ask(cell, "freezes")
        ]
    assert widths[0] < 0.5 * widths[1]
