"""Samples: when there are enough of them, and their statistics."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median
from time import perf_counter

MIN_SAMPLES = 5  # the spread of fewer is unknown
# Under a power cap the clock oscillates with a period of 0.1 s: shorter sampling is biased.
LEAST_S = 0.3


@dataclass(frozen=True, kw_only=True, slots=True)
class Sampled:
    """Times per iteration of the same work, each a mean over many iterations."""

    samples_ms: list[float]
    iterations: int
    stop: str
    """Why sampling ended."""

    @property
    def median_ms(self) -> float:
        return median(self.samples_ms)

    def quantile_ms(self, share: float) -> float:
        return _at(sorted(self.samples_ms), share * (len(self.samples_ms) - 1))

    @property
    def error(self) -> float | None:
        """The median's standard error as a share of the median; None for a single sample."""
        return median_error(self.samples_ms) if len(self.samples_ms) > 1 else None


def sample(
    take: Callable[[], list[float]], *, iterations: int, budget_s: float, error: float
) -> Sampled:
    """Take samples, each of so many iterations, until they are precise or the time is up."""
    samples_ms: list[float] = []
    began = perf_counter()
    while True:
        samples_ms += take()
        elapsed_s = perf_counter() - began
        stop = stop_reason(samples_ms, elapsed_s, budget_s=budget_s, error=error)
        if stop:
            return Sampled(
                samples_ms=samples_ms, iterations=iterations * len(samples_ms), stop=stop
            )


def stop_reason(
    samples_ms: list[float], elapsed_s: float, *, budget_s: float, error: float
) -> str | None:
    """Return `precision` or `budget` if sampling ends here, else None."""
    if elapsed_s >= budget_s:
        return "budget"
    if len(samples_ms) < MIN_SAMPLES or elapsed_s < LEAST_S:
        return None
    return "precision" if median_error(samples_ms) <= error else None


def median_error(samples: list[float]) -> float:
    """Return the median's standard error as a share of the median, for any distribution."""
    middle_value = median(samples)
    return _median_deviation(samples) / middle_value if middle_value else 0.0


def paired_error(by_process: Sequence[Sequence[float]]) -> float:
    """Return the standard error of two processes' median ratio; the largest over all pairs.

    `by_process`: times by round. A single process has the error of its own median.
    """
    if len(by_process) == 1:
        return median_error(list(by_process[0]))
    logs = [[math.log(sample) for sample in samples] for samples in by_process]
    return max(
        _median_deviation([b - a for a, b in zip(first, second, strict=True)])
        for first, second in combinations(logs, 2)
    )


def _median_deviation(samples: list[float]) -> float:
    """Return the standard error of the median.

    As many of n samples lie below the true median as n coins show heads: n/2, with a standard
    deviation of √n/2. Half the distance of samples at n/2 ± √n/2 is therefore one standard error.
    Outliers do not move it (David and Nagaraja, Order Statistics, section 7.1).
    """
    ordered = sorted(samples)
    middle, deviation = (len(ordered) - 1) / 2, math.sqrt(len(ordered)) / 2
    return (_at(ordered, middle + deviation) - _at(ordered, middle - deviation)) / 2


def _at(ordered: list[float], rank: float) -> float:
    rank = min(max(rank, 0.0), len(ordered) - 1.0)
    below = math.floor(rank)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (rank - below) * (ordered[above] - ordered[below])
