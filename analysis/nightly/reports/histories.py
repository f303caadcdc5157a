"""Series as the page draws them: each on the nights of its hardware, with levels and versions."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from math import isfinite
from statistics import median
from typing import TypeAlias

from cudnn_sweep.analysis.nightly.changes import change_points
from cudnn_sweep.analysis.nightly.metric import METRIC_OF, Amount, Metric
from cudnn_sweep.analysis.nightly.outcome import NightOutcome, Series
from cudnn_sweep.analysis.nightly.reports.words import (
    meaning,
    moves,
    smallest_step,
    unit,
)
from cudnn_sweep.analysis.words import GIB, MIB

Night: TypeAlias = tuple[str, str]  # its date and its sweep_id
Value: TypeAlias = float | str | None
Level: TypeAlias = tuple[int, int, float | str]  # first and last night, and what it is

DIGITS = 6  # of a number in the file: more than any measurement has
FEWEST = 3  # nights that have a level
UNNAMED = "other software"


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark:
    """From this night on the software was another."""

    place: int
    version: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Hardware:
    """What series of one env_hash share."""

    nights: list[Night]
    marks: list[Mark]


def hardwares(outcome: NightOutcome, series: Sequence[Series]) -> dict[str, Hardware]:
    """By env_hash."""
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


def _marks(outcome: NightOutcome, nights: Mapping[Night, str]) -> list[Mark]:
    """Where the software's hash changes, in the outcome's words where it has any."""
    named = {str(version.date): moves(version.changes) for version in outcome.versions}
    ordered = sorted(nights)
    changed = [after for before, after in pairwise(ordered) if nights[before] != nights[after]]
    return [
        Mark(place=place, version=named.get(night[0]) or UNNAMED)
        for place, night in enumerate(ordered)
        if night in changed or night[0] in named
    ]


def _levels(values: Sequence[Value], metric: Metric | None) -> Iterable[Level]:
    if not isinstance(metric, Amount):
        return _runs(values)
    numbers = [value if isinstance(value, float | int) else None for value in values]
    known = [value for value in numbers if value is not None]
    if len(known) < FEWEST:
        return []
    found = change_points(numbers, metric)
    starts = [0, *(point.night_index for point in found), len(values)]
    levels = [found[0].before, *(point.after for point in found)] if found else [median(known)]
    return [
        (start, end - 1, level)
        for (start, end), level in zip(pairwise(starts), levels, strict=True)
    ]


def _runs(values: Sequence[Value]) -> Iterable[Level]:
    """Nights in a row with one word."""
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
