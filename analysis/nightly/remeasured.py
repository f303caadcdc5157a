"""What a night's confirmation measured: fresh trials of the current software, and of the last good one
beside it where there are two. And what wall time did where device time changed: a loop that waits for the CPU
may hide it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isclose
from typing import Any

from cudnn_sweep.analysis.answering.contrast import Contrast
from cudnn_sweep.analysis.asking.database import open_database
from cudnn_sweep.analysis.asking.settings import config_name, texts_in
from cudnn_sweep.analysis.nightly.confirmation import Confirmation, confirm_by_waiting
from cudnn_sweep.analysis.nightly.history import SOFTWARE_AND_COMMIT, ask, series_signs
from cudnn_sweep.analysis.nightly.judge import Remeasured
from cudnn_sweep.analysis.nightly.machines import differences
from cudnn_sweep.analysis.nightly.memory import Memory
from cudnn_sweep.analysis.nightly.metric import METRIC_OF, SIGN, STEADY_DEVICE, STEADY_WALL, Amount
from cudnn_sweep.analysis.nightly.outcome import Change, Finding, Series, SeriesKey
from cudnn_sweep.analysis.storing.store import Store

LAUNCH_BOUND = 1.1  # wall time over device time, as in records
PROCESSES = """
select * from night_processes($launch, $until)
where is_fresh and sweep_id = $sweep_id
order by block
"""
SOFTWARES = f"""
select software, {", ".join(f"any_value({name}) as {name}" for name in SOFTWARE_AND_COMMIT)}
from records
where sweep_id = $sweep_id
group by software
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class FreshTrials:
    _processes: tuple[dict[str, Any], ...]
    _signs: tuple[dict[str, Any], ...]
    _pairs: tuple[dict[str, Any], ...]
    _softwares: Mapping[str | None, Mapping[str, object]]

    def differences(self) -> tuple[Change, ...] | None:
        """In what the two softwares differ; None where there was one."""
        others = [parts for name, parts in self._softwares.items() if name is not None]
        if not others or None not in self._softwares:
            return None
        return differences(others[0], self._softwares[None], SOFTWARE_AND_COMMIT)

    def log_ratios(self, key: SeriesKey) -> list[float]:
        """log(current / last good) of each block that has both."""
        metric = METRIC_OF[key.metric]
        assert isinstance(metric, Amount)
        rows = [row for row in self._pairs if row["metric"] == key.metric and _is_of(row, key)]
        now, good = (metric.logs([row[of] for row in rows]) for of in ("candidate", "baseline"))
        ratios: list[float] = (now - good).tolist()
        return ratios

    def words(self, key: SeriesKey, software: str | None = None) -> list[str]:
        """One word per process; for the metric `sign` one for all processes."""
        rows = [row for row in self._processes if row["software"] == software]
        if key.metric == "sign":
            hashes = {row["software_hash"] for row in rows}
            rows = [row for row in self._signs if row["software_hash"] in hashes]
            found = [row["word"] for row in rows if _is_sign_of(row, key)]
            return [word for word in found if word != SIGN.no_answer]
        if key.metric == "missing":
            return ["present" for row in rows if row["cell_id"] == key.cell_id]
        found = [row[key.metric] for row in rows if _is_of(row, key)]
        return [word for word in found if word is not None]


def _is_sign_of(row: dict[str, Any], key: SeriesKey) -> bool:
    return (row["cell_id"], row["settings"]) == (key.cell_id, key.settings)


def _is_of(row: dict[str, Any], key: SeriesKey) -> bool:
    config = config_name(texts_in(row["settings"]))
    return (row["cell_id"], config) == (key.cell_id, key.settings)


def read_fresh(
    store: Store, launch: str, confirm_id: str, contrasts: Sequence[Contrast]
) -> FreshTrials:
    until = confirm_id.removeprefix("confirm-")[:10]
    with open_database(store, confirm_id) as database:
        asked = {"launch": launch, "until": until}
        processes = database.query(PROCESSES, asked | {"sweep_id": confirm_id}).to_pylist()
        signs = series_signs(database, asked, contrasts)
        of_two = ask(database, "software_pairs", {})
        softwares = database.query(SOFTWARES, {"sweep_id": confirm_id}).to_pylist()
    return FreshTrials(
        _processes=tuple(processes),
        _signs=tuple(signs),
        _pairs=tuple(of_two),
        _softwares={row["software"]: row for row in softwares},
    )


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
        for one, other in zip(wall.numbers, device.numbers, strict=True)
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

    its = device.numbers
    beside = [None if other is None else one for one, other in zip(wall.numbers, its, strict=True)]
    ratio = judged(its, STEADY_DEVICE).ratio
    is_tonights = ratio is not None and isclose(ratio, finding.ratio)
    return judged(beside, STEADY_WALL) if is_tonights else None
