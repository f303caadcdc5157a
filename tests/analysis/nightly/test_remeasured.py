"""Device time that changed where wall time did not: both are told, of the same nights or pairs."""

from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pytest

from cudnn_sweep.analysis.nightly.confirm import confirm, confirm_by_waiting
from cudnn_sweep.analysis.nightly.memory import Memory
from cudnn_sweep.analysis.nightly.outcome import Finding
from cudnn_sweep.analysis.nightly.series import STEADY_DEVICE, STEADY_WALL, Series, SeriesKey
from cudnn_sweep.analysis.nightly.settle import Remeasured, wall_of, with_walls
from tests.made_up_night import finding_of, key_of, points_of

KEY = key_of("steady_device")
FIRST = date(2026, 11, 1)
WALL: list[float | None] = [20.0, 20.2, 19.8, 20.1, 19.9, 20.0, 20.2, 19.8, 20.1, 20.3]
DEVICE: list[float | None] = [10.0, 10.1, 9.9, 10.05, 9.95, 10.0, 10.1, 9.9, 11.5, 11.6]
SINCE = 8


def series(key: SeriesKey, values: list[float | None]) -> Series:
    return Series(key=key, points=points_of(values, FIRST))


def found(ratio: float | None, blocks: int = 0) -> Finding:
    said: dict[str, Any] = {"ratio": ratio, "ratio_low": 1.14, "ratio_high": 1.17, "blocks": blocks}
    return finding_of(KEY, FIRST + timedelta(days=SINCE), before=10.0, now=11.5, **said)


def beside(
    *findings: Finding, wall: list[float | None], fresh: Remeasured | None = None
) -> Finding:
    nights = [series(KEY, DEVICE), series(wall_of(KEY), wall)]
    remeasured = {KEY: fresh} if fresh else {}
    return with_walls(findings, nights, remeasured, Memory(), is_pinned=False)[0]


def test_wall_time_of_the_same_nights_stands_beside_device_time() -> None:
    device = confirm_by_waiting(DEVICE, SINCE, STEADY_DEVICE)
    told = beside(found(device.ratio), wall=WALL)
    wall = confirm_by_waiting(WALL, SINCE, STEADY_WALL)
    assert (told.wall_ratio, told.wall_ratio_low) == (wall.ratio, wall.low)
    assert told.ratio == device.ratio
    assert wall.low is not None and wall.high is not None and wall.low < 1 < wall.high
    holes = [None, *DEVICE[1:]]
    nights = [series(KEY, holes), series(wall_of(KEY), WALL)]
    fewer = confirm_by_waiting(holes, SINCE, STEADY_DEVICE)
    (alike,) = with_walls([found(fewer.ratio)], nights, {}, Memory(), is_pinned=False)
    assert alike.wall_ratio == confirm_by_waiting([None, *WALL[1:]], SINCE, STEADY_WALL).ratio


def test_wall_time_of_the_same_pairs_stands_beside_device_time() -> None:
    wall = confirm([0.01, -0.01, 0.0, 0.005, 0.01, 0.0], STEADY_WALL.min_effect)
    fresh = Remeasured(
        confirmation=confirm([0.14, 0.15, 0.14, 0.15, 0.14, 0.15], 0.03), of_two=(), wall=wall
    )
    told = beside(found(1.156, blocks=6), wall=WALL, fresh=fresh)
    assert (told.wall_ratio, told.wall_ratio_high) == (wall.ratio, wall.high)
    later = beside(told, wall=WALL)
    assert later == told, "an alert that lasts keeps what its pairs said"


@pytest.mark.parametrize("share", [1.0, 1.05])
def test_nothing_stands_beside_it_where_the_loop_waits_for_the_gpu(share: float) -> None:
    ratio = confirm_by_waiting(DEVICE, SINCE, STEADY_DEVICE).ratio
    wall = [None if value is None else share * value for value in DEVICE]
    assert beside(found(ratio), wall=wall).wall_ratio is None


def test_nothing_stands_beside_it_where_wall_time_changed_or_the_nights_differ() -> None:
    ratio = confirm_by_waiting(DEVICE, SINCE, STEADY_DEVICE).ratio
    slower = replace(found(1.1), key=wall_of(KEY))
    assert beside(found(ratio), slower, wall=WALL).wall_ratio is None
    was_told = replace(found(ratio), wall_ratio=1.0, wall_ratio_low=0.9, wall_ratio_high=1.1)
    assert beside(was_told, slower, wall=WALL).wall_ratio is None
    assert beside(found(1.3), wall=WALL).wall_ratio is None, "of other nights"
