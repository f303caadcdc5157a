"""A month of a few series, night after night, through the judge that real nights use.

`python -m tests.analysis.nights.test_kept_month` writes what each night finds now.
"""

import json
import lzma
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from cudnn_sweep.analysis.nights.candidates import Candidate, Remeasured
from cudnn_sweep.analysis.nights.detect import confirm, confirm_words
from cudnn_sweep.analysis.nights.findings import remembered
from cudnn_sweep.analysis.nights.history import HARDWARE, MACHINE, SOFTWARE_AND_COMMIT, History
from cudnn_sweep.analysis.nights.history import Night as NightInHistory
from cudnn_sweep.analysis.nights.outcome import Acceptance, NightOutcome
from cudnn_sweep.analysis.nights.reports.report import to_json
from cudnn_sweep.analysis.nights.series import (
    METRIC_OF,
    Category,
    Change,
    NightPoint,
    Series,
    SeriesKey,
)
from cudnn_sweep.analysis.nights.settle import compare_night
from tests.made_up_night import key_of, made_up_night

KEPT = Path(__file__).with_name("kept_month.json.xz")
FIRST = date(2026, 1, 1)
NIGHTS, NEW_TORCH, BAD_GPU, NEW_DRIVER, TURNED = 34, 10, 17, 24, 29
CELLS = 6
TWO = (Change(part="torch", before="2.11", now="2.12"),)


def value(metric: str, cell: int, night: int, noise: float) -> float | str | None:
    """Return a night's value: of each cell something else happens, to some metrics."""
    if (night * 7 + cell) % 29 == 3 and cell < 5:
        return None
    match metric:
        case "engine":
            return "new" if cell in (0, 3) and night >= NEW_TORCH else "old"
        case "failure":
            return "crash" if cell == 4 and 13 <= night < 16 else "ok"
        case "error":
            return 1e-3 * (2.0 if cell == 2 and night >= NEW_DRIVER else 1.0)
    factor = 1.0
    if cell == 0 and NEW_TORCH <= night < 20:
        factor = 1.07
    if cell == 1 and night >= NEW_TORCH:
        factor = 0.9
    if cell == 2 and night >= NEW_DRIVER:
        factor = 1.04 if night < 28 else 1.12
    if BAD_GPU <= night < 23:
        factor *= 1.1
    if cell == 5:
        factor *= 1.003**night
    device = 0.8 if cell == 5 else 0.97
    return float(10 * factor * (device if metric == "steady_device" else 1.0) * noise)


def month() -> tuple[History, dict[SeriesKey, list[float]]]:
    """Return every night's history, and the fresh log ratios by series."""
    generator = np.random.default_rng(5)
    torch = ["2.11" if night < NEW_TORCH else "2.12" for night in range(NIGHTS)]
    driver = ["580" if night < NEW_DRIVER else "590" for night in range(NIGHTS)]
    uuids = ["GPU-b" if BAD_GPU <= night < 23 else "GPU-a" for night in range(NIGHTS)]
    same = dict.fromkeys((*HARDWARE, *SOFTWARE_AND_COMMIT, *MACHINE), "same")
    nights = tuple(
        NightInHistory(
            sweep_id=f"night-{FIRST + timedelta(days=night)}-lab",
            date=FIRST + timedelta(days=night),
            planned=10,
            reached=7 if night == 26 else 10,
            recorded=7 if night == 26 else 10,
            softwares={"lab": torch[night] + driver[night]},
            parts=same | {"torch": torch[night], "driver": driver[night], "gpu_uuid": uuids[night]},
            in_turns=night >= TURNED,
        )
        for night in range(NIGHTS)
    )
    series, fresh = [], {}
    for metric in ("steady_wall", "steady_device", "engine", "failure", "error"):
        for cell in range(CELLS):
            noise = np.exp(0.004 * generator.standard_normal(NIGHTS))
            key = key_of(metric, f"cell {cell}", cell_id=f"{cell}")
            points = tuple(
                NightPoint(
                    date=nights[night].date,
                    value=value(metric, cell, night, float(noise[night])),
                    software_hash=torch[night] + driver[night],
                    gpu_uuid=uuids[night],
                    host=f"host-{night % 3}" if cell == 5 else "host",
                )
                for night in range(NIGHTS)
            )
            series.append(Series(key=key, points=points))
            step = 0.07 if cell == 0 else 0.0
            fresh[key] = (step + 0.005 * generator.standard_normal(6)).tolist()
    codes = {
        (night.sweep_id, "lab", "1"): "edited" if place >= 20 else "code"
        for place, night in enumerate(nights)
        if place % 4
    }
    return History(nights=nights, series=tuple(series), workloads=codes), fresh


def until(whole: History, night: int) -> History:
    """Return the history up to a night, with the points of nights that have its `in_turns`."""
    nights = whole.nights[: night + 1]
    like = [place for place, each in enumerate(nights) if each.in_turns == nights[-1].in_turns]
    series = [
        replace(entry, points=tuple(entry.points[place] for place in like))
        for entry in whole.series
    ]
    return replace(whole, nights=nights, series=tuple(series))


def outcomes() -> Iterator[NightOutcome]:
    whole, ratios = month()
    before: NightOutcome | None = None
    accepted: list[Acceptance] = []

    def measure(candidates: Sequence[Candidate]) -> dict[SeriesKey, Remeasured]:
        return {each.key: again(each) for each in candidates if each.key.cell_id != "3"}

    def again(candidate: Candidate) -> Remeasured:
        metric = METRIC_OF[candidate.key.metric]
        if isinstance(metric, Category):
            words = [str(candidate.series.points[-1].value)] * 6
            said = confirm_words(words, str(candidate.screening.before))
            return Remeasured(confirmation=said, of_two=TWO)
        log_ratios = ratios[candidate.key]
        wall = confirm(ratios[replace(candidate.key, metric="steady_wall")], 0.03)
        judged = confirm(log_ratios, metric.min_effect)
        return Remeasured(confirmation=judged, of_two=TWO, wall=wall)

    for night in range(NIGHTS):
        tonight = until(whole, night)
        blank = replace(made_up_night()[0], night="tonight", date=tonight.tonight.date)
        memory = remembered(before, accepted, tonight)
        before, _ = compare_night(
            blank, tonight, memory, measure, partial(until, whole, night), lambda _: "again"
        )
        if night == 20:
            accepted = [
                Acceptance(
                    key=finding.key,
                    first=finding.since,
                    reason="as meant",
                    told_on=tonight.tonight.date,
                )
                for finding in before.findings
                if finding.is_alert
            ]
        yield replace(before, ended_at=datetime(2026, 2, 1, tzinfo=UTC))


def found() -> list[Any]:
    return [rounded(json.loads(to_json(outcome))) for outcome in outcomes()]


def rounded(value: Any) -> Any:
    """Keep six digits: CPUs differ in the last ones of a double."""
    if isinstance(value, dict):
        return {name: rounded(part) for name, part in value.items()}
    if isinstance(value, list):
        return [rounded(part) for part in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def test_each_night_finds_what_is_kept() -> None:
    kept, now = json.loads(lzma.decompress(KEPT.read_bytes())), found()
    for before, outcome in zip(kept, now, strict=True):
        changed = {name for name in {*before, *outcome} if before.get(name) != outcome.get(name)}
        assert not changed, (outcome["date"], changed)


if __name__ == "__main__":
    KEPT.write_bytes(lzma.compress(json.dumps(found()).encode(), preset=9))
