"""What wall time did where device time changed: a loop that waits for the CPU may hide it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isclose

from cudnn_sweep.analysis.nightly.confirmation import Confirmation, confirm_by_waiting
from cudnn_sweep.analysis.nightly.judge import Remeasured, numbers_of
from cudnn_sweep.analysis.nightly.memory import Memory
from cudnn_sweep.analysis.nightly.metric import STEADY_DEVICE, STEADY_WALL, Amount
from cudnn_sweep.analysis.nightly.outcome import Finding, Series, SeriesKey

LAUNCH_BOUND = 1.1  # wall time over device time, as in records


def with_walls(
    findings: Sequence[Finding],
    series: Sequence[Series],
    fresh: Mapping[SeriesKey, Remeasured],
    memory: Memory,
    *,
    is_pinned: bool,
) -> list[Finding]:
    """Findings of device time with wall time's ratio, where the loop waits for the CPU and wall time has
    no confirmed change. Both are from the same pairs or nights.
    """
    known = {one.key: one for one in series}
    changed = {each.key for each in findings if each.state == "confirmed"}
    return [
        _with_wall(each, known, fresh.get(each.key), memory, is_pinned)
        if each.key.metric == STEADY_DEVICE.name and wall_of(each.key) not in changed
        else replace(each, wall_ratio=None, wall_ratio_low=None, wall_ratio_high=None)
        for each in findings
    ]


def wall_of(key: SeriesKey) -> SeriesKey:
    return replace(key, metric=STEADY_WALL.name)


def _with_wall(
    finding: Finding,
    known: Mapping[SeriesKey, Series],
    fresh: Remeasured | None,
    memory: Memory,
    is_pinned: bool,
) -> Finding:
    device, wall = known.get(finding.key), known.get(wall_of(finding.key))
    if device is None or wall is None or not _waits_for_cpu(wall, device):
        return finding
    if finding.blocks:
        beside = fresh.wall if fresh is not None else None
    else:
        beside = _by_nights(finding, device, wall, memory, is_pinned)
    if beside is None or beside.low is None:  # of an earlier night, which said what it knew
        return finding
    return replace(
        finding, wall_ratio=beside.ratio, wall_ratio_low=beside.low, wall_ratio_high=beside.high
    )


def _waits_for_cpu(wall: Series, device: Series) -> bool:
    """On the last night that has both."""
    both = [
        (one, other)
        for one, other in zip(_numbers(wall), _numbers(device), strict=True)
        if one is not None and other is not None
    ]
    return bool(both) and both[-1][0] > LAUNCH_BOUND * both[-1][1]


def _by_nights(
    finding: Finding, device: Series, wall: Series, memory: Memory, is_pinned: bool
) -> Confirmation | None:
    """None where the finding's own ratio is not from the nights until tonight."""
    dates = [point.date for point in device.points]
    since = next((at for at, day in enumerate(dates) if day >= finding.since), None)
    if since is None or finding.ratio is None:
        return None
    left_out = memory.nights_left_out(device)

    def judged(values: Sequence[float | None], metric: Amount) -> Confirmation:
        return confirm_by_waiting(values, since, metric, left_out=left_out, is_pinned=is_pinned)

    its = _numbers(device)
    beside = [
        None if other is None else one for one, other in zip(_numbers(wall), its, strict=True)
    ]
    ratio = judged(its, STEADY_DEVICE).ratio
    is_tonights = ratio is not None and isclose(ratio, finding.ratio)
    return judged(beside, STEADY_WALL) if is_tonights else None


def _numbers(series: Series) -> list[float | None]:
    return numbers_of([point.value for point in series.points])
