"""Where the level of a history changed: for the page that shows it; alerts do not rest on it."""

from bisect import insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from cudnn_sweep.analysis.nightly.confirmation import LEAST_NOISE
from cudnn_sweep.analysis.nightly.gate import NORMAL
from cudnn_sweep.analysis.nightly.metric import Amount

FEWEST_NIGHTS = 3  # of a level: fewer are spikes
FEWEST_LATELY = 2  # of the last one, as an alert needs
# Of one more level, in noise × log(nights): of 200 series without a change none shows one.
PENALTY = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangePoint:
    """From this night on another level; both are medians, in the metric's unit."""

    night_index: int
    before: float
    after: float
    ratio: float


def change_points(values: Sequence[float | None], metric: Amount) -> list[ChangePoint]:
    """The changes of level in `values`, one a night, oldest first, None where a night has none.

    The levels whose distances from the nights, and a penalty each, sum to least (a median has the
    least distances, so that spikes count little); then without changes below the least effect.
    """
    places = [place for place, value in enumerate(values) if value is not None]
    if len(places) < 2 * FEWEST_NIGHTS:
        return []
    logs = metric.logs([value for value in values if value is not None]).tolist()
    bounds = _without_trifles(logs, _levels(logs), float(np.log1p(metric.min_effect)))
    medians = _medians(logs, bounds)
    return [
        ChangePoint(
            night_index=places[start],
            before=float(np.exp(before)),
            after=float(np.exp(after)),
            ratio=float(np.exp(after - before)),
        )
        for start, (before, after) in zip(bounds[1:-1], pairwise(medians), strict=True)
    ]


def _levels(logs: list[float]) -> list[int]:
    """Where levels start, and the end: the best partition of the first nights, then of more."""
    nights = len(logs)
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
