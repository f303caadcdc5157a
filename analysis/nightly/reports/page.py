"""A night as one HTML file: what was found on top, the history of each of it below, then the rest."""

from bisect import insort
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import groupby, pairwise
from math import isfinite
from statistics import median
from typing import TypeAlias

import numpy as np

from cudnn_sweep.analysis.nightly.confirm import LEAST_NOISE, NORMAL
from cudnn_sweep.analysis.nightly.outcome import NightOutcome
from cudnn_sweep.analysis.nightly.reports.grouped import OneChange, by_size, headline, one_by_one
from cudnn_sweep.analysis.nightly.reports.report import NightReport
from cudnn_sweep.analysis.nightly.reports.words import (
    TITLES,
    WHY,
    FindingText,
    facts,
    finding_texts,
    how_to_accept,
    meaning,
    moves,
    smallest_step,
    unit,
)
from cudnn_sweep.analysis.nightly.series import METRIC_OF, Amount, Metric, Series, SeriesKey
from cudnn_sweep.analysis.report.figures import history as figure
from cudnn_sweep.analysis.report.figures.palette import PAGE
from cudnn_sweep.analysis.report.single_file import single_file
from cudnn_sweep.analysis.words import GIB, MIB

Night: TypeAlias = tuple[str, str]  # its date and its sweep_id
Value: TypeAlias = float | str | None
Level: TypeAlias = tuple[int, int, float | str]  # first and last night, and what it is

DIGITS = 6  # of a number in the file: more than any measurement has
FEWEST_NIGHTS = 3  # of a level: fewer are spikes
FEWEST_LATELY = 2  # of the last one, as an alert needs
# Of one more level, in noise × log(nights): of 200 series without a change none shows one.
PENALTY = 3
UNNAMED = "other software"
FOLDER = "nightly/reports"


@dataclass(frozen=True, kw_only=True, slots=True)
class Hardware:
    """What series of one env_hash share."""

    nights: list[Night]
    marks: list[dict[str, object]]
    """From the night at this `place` on the software was another `version`."""


def hardwares(outcome: NightOutcome, series: Sequence[Series]) -> dict[str, Hardware]:
    found: dict[str, dict[Night, str]] = {}
    for one in series:
        nights = found.setdefault(one.key.env_hash, {})
        for point in one.points:
            nights[point.date.isoformat(), point.night] = point.software_hash
    return {
        env_hash: Hardware(nights=sorted(nights), marks=_marks(outcome, nights))
        for env_hash, nights in found.items()
    }


def history(one: Series, hardware: Hardware) -> dict[str, object]:
    """From its own first night on, a value a night; null where it was not measured."""
    key = one.key
    points = {point.night: point for point in one.points}
    places = [place for place, (_, night) in enumerate(hardware.nights) if night in points]
    first = places[0] if places else len(hardware.nights)
    mine = [points.get(night) for _, night in hardware.nights[first:]]
    values = [point.value if point else None for point in mine]
    size, shown_unit = _scale(values, unit(key))
    return {
        "cell": key.cell,
        "settings": key.settings,
        "metric": meaning(key),
        "gpu": key.gpu,
        "env": key.env_hash,
        "smallest_step": smallest_step(one),
        "unit": shown_unit,
        "first": first,
        "values": [_shown(value, size) for value in values],
        "processes": [point.processes if point else 0 for point in mine],
        "levels": [
            (start + first, end + first, _shown(level, size))
            for start, end, level in _levels(values, METRIC_OF.get(key.metric))
        ],
    }


def _marks(outcome: NightOutcome, nights: Mapping[Night, str]) -> list[dict[str, object]]:
    """Where the software's hash changes, in the outcome's words where it has any."""
    named = {str(version.date): moves(version.changes) for version in outcome.versions}
    ordered = sorted(nights)
    changed = [after for before, after in pairwise(ordered) if nights[before] != nights[after]]
    return [
        {"place": place, "version": named.get(night[0]) or UNNAMED}
        for place, night in enumerate(ordered)
        if night in changed or night[0] in named
    ]


def _levels(values: Sequence[Value], metric: Metric | None) -> Iterable[Level]:
    if not isinstance(metric, Amount):
        return _runs(values)
    return levels([value if isinstance(value, float | int) else None for value in values], metric)


def _runs(values: Sequence[Value]) -> Iterable[Level]:
    for word, places in groupby(range(len(values)), lambda place: values[place]):
        if word is not None:
            nights = list(places)
            yield nights[0], nights[-1], str(word)


def _scale(values: Sequence[Value], unit: str | None) -> tuple[float, str]:
    """What values are divided by, and the unit that they then have."""
    if unit != "bytes":
        return 1.0, "ms" if unit == "ms" else ""
    largest = max((value for value in values if isinstance(value, float | int)), default=0.0)
    return (GIB, "GiB") if largest >= GIB else (MIB, "MiB")


def _shown(value: Value, size: float) -> Value:
    """What is infinite or no number has no place in a picture."""
    if value is None or isinstance(value, str):
        return value
    return float(f"{value / size:.{DIGITS}g}") if isfinite(value) else None


def levels(values: Sequence[float | None], metric: Amount) -> list[Level]:
    """The levels of `values`, one a night, oldest first, None where a night has none.

    Those whose distances from the nights, and a penalty each, sum to least (a median has the least
    distances, so that spikes count little); then without changes below the least effect. Alerts do not
    rest on them.
    """
    places = [place for place, value in enumerate(values) if value is not None]
    known = [value for value in values if value is not None]
    if len(known) < FEWEST_NIGHTS:
        return []
    logs = metric.logs(known).tolist()
    bounds = _without_trifles(logs, _bounds(logs), float(np.log1p(metric.min_effect)))
    if len(bounds) == 2:
        return [(0, len(values) - 1, median(known))]
    starts = [0, *(places[start] for start in bounds[1:-1]), len(values)]
    return [
        (start, end - 1, float(np.exp(level)))
        for (start, end), level in zip(pairwise(starts), _medians(logs, bounds), strict=True)
    ]


def _bounds(logs: list[float]) -> list[int]:
    """Where levels start, and the end: the best partition of the first nights, then of more."""
    nights = len(logs)
    if nights < 2 * FEWEST_NIGHTS:
        return [0, nights]
    penalty = PENALTY * _noise(logs) * np.log(nights)
    total = [0.0] + [np.inf] * nights
    start_of_last = [0] * (nights + 1)
    for start in range(nights):
        for end, distance in enumerate(_distances(logs[start:]), start + 1):
            found = total[start] + distance + penalty
            fewest = FEWEST_LATELY if end == nights else FEWEST_NIGHTS
            if end - start >= fewest and found < total[end]:
                total[end], start_of_last[end] = found, start
    bounds = [nights]
    while bounds[0] > 0:
        bounds.insert(0, start_of_last[bounds[0]])
    return bounds


def _distances(logs: list[float]) -> Iterator[float]:
    """The summed distances of the first one, two, ... logs from their median."""
    ordered: list[float] = []
    distance = 0.0
    for log in logs:
        if ordered:
            low, high = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
            distance += max(low - log, log - high, 0.0)
        insort(ordered, log)
        yield distance


def _noise(logs: list[float]) -> float:
    """From night to night: a change of level is one difference of many."""
    differences = np.diff(logs)
    return max(NORMAL * float(np.median(abs(differences)) / np.sqrt(2)), LEAST_NOISE)


def _without_trifles(logs: list[float], bounds: list[int], least: float) -> list[int]:
    while len(bounds) > 2:
        sizes = abs(np.diff(_medians(logs, bounds)))
        if sizes.min() >= least:
            break
        bounds = bounds[: sizes.argmin() + 1] + bounds[sizes.argmin() + 2 :]
    return bounds


def _medians(logs: list[float], bounds: list[int]) -> list[float]:
    return [float(np.median(logs[start:end])) for start, end in pairwise(bounds)]


def to_html(outcome: NightOutcome, series: Sequence[Series]) -> str:
    return single_file(
        f"{FOLDER}/night.html",
        script=f"{FOLDER}/night.js",
        looks=(f"{FOLDER}/night.css",),
        data=_data(outcome, series),
    )


def _data(outcome: NightOutcome, series: Sequence[Series]) -> dict[str, object]:
    changes = one_by_one(finding_texts(outcome))
    drawn = [one for one in series if one.points]
    places = {one.key: place for place, one in enumerate(drawn)}
    known = hardwares(outcome, drawn)
    return {
        "headline": headline(outcome),
        "state": outcome.state,
        "reasons": outcome.reasons,
        "why": WHY.get(outcome.state, ""),
        "facts": facts(outcome),
        "titles": TITLES,
        "counts": Counter(change.group for change in changes),
        "fine": outcome.fine_series,
        "blunt": outcome.blunt_series,
        "insufficient": outcome.insufficient_series,
        "new_baseline": outcome.new_baseline,
        "accept": how_to_accept(outcome),
        "changes": [asdict(change) for change in outcome.changes],
        "findings": [_change(change, outcome, places) for change in changes],
        "hardware": {env_hash: asdict(each) for env_hash, each in known.items()},
        "series": [history(one, known[one.key.env_hash]) for one in drawn],
        "columns": [{"field": name, "title": title} for name, title in figure.COLUMNS.items()],
        "drawings": _drawings(),
    }


@cache
def _drawings() -> dict[str, dict[str, object]]:
    """The same for all nights, and half of the time that a page takes."""
    return {
        values: {layout: drawing.to_dict() for layout, drawing in layouts.items()}
        for values, layouts in figure.drawings(PAGE).items()
    }


def _change(
    change: OneChange, outcome: NightOutcome, places: Mapping[SeriesKey, int]
) -> dict[str, object]:
    """With the series that show it: of a finding that stands for many, those."""
    ids = {each.series_id for each in change.findings}
    members = tuple(each for each in outcome.members if each.shared in ids)
    texts = finding_texts(replace(outcome, findings=members))
    return _finding(change.findings[0]) | {
        "told": change.told,
        "details": change.details,
        "command": change.command,
        "series": [
            _finding(each) | {"place": places.get(each.finding.key)}
            for each in sorted(texts, key=by_size) or change.findings
        ],
    }


def _finding(each: FindingText) -> dict[str, object]:
    return {
        "group": each.group,
        "direction": each.finding.direction,
        "name": f"{each.series}, {each.metric}",
        "size": each.size,
        "before": each.before,
        "since": str(each.finding.since),
        "series_id": each.series_id,
    }


REPORT = NightReport(file="night.html", render=to_html)
