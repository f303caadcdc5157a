"""Samples of a step's time: when they suffice, and their median, quantiles and error."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median

import numpy as np

from cudnn_sweep.workloads.measuring.ranks import now

MIN_SAMPLES = 5  # the spread of fewer is unknown
# Under a power cap the clock oscillates with a period of 0.1 s: shorter sampling is biased.
LEAST_S = 0.3


@dataclass(frozen=True, kw_only=True, slots=True)
class Sampled:
    """Samples of a step's time: means over groups of steps or, in an open loop, single steps."""

    samples_ms: list[float]
    iterations: int
    stop: str
    """Why sampling ended: `precision`, `budget` or `horizon`."""

    @property
    def median_ms(self) -> float:
        return median(self.samples_ms)

    def quantile_ms(self, share: float) -> float:
        last = len(self.samples_ms) - 1  # np.quantile imports numpy.ma, within a trial
        return float(np.interp(share * last, range(last + 1), sorted(self.samples_ms)))

    @property
    def error(self) -> float | None:
        return median_error(self.samples_ms) if len(self.samples_ms) > 1 else None


def sample(
    take: Callable[[], list[float]], *, iterations: int, budget_s: float, error: float
) -> Sampled:
    """Take samples of `iterations` steps each until the median's error is at most `error` or time is up."""
    samples_ms: list[float] = []
    began = now()
    while True:
        samples_ms += take()
        elapsed_s = now() - began
        stop = stop_reason(samples_ms, elapsed_s, budget_s=budget_s, error=error)
        if stop:
            return Sampled(
                samples_ms=samples_ms, iterations=iterations * len(samples_ms), stop=stop
            )


def stop_reason(
    samples_ms: list[float], elapsed_s: float, *, budget_s: float, error: float
) -> str | None:
    if elapsed_s >= budget_s:
        return "budget"
    if len(samples_ms) < MIN_SAMPLES or elapsed_s < LEAST_S:
        return None
    return "precision" if median_error(samples_ms) <= error else None


def median_error(samples: list[float]) -> float:
    """Estimate the median's standard error, as a share of the median, for any distribution."""
    middle_value = median(samples)
    return _median_deviation(samples) / middle_value if middle_value else 0.0


def paired_error(by_process: Sequence[Sequence[float]]) -> float:
    """Return the largest relative standard error of the median time ratio of any two processes.

    `by_process`: each process's times by round. For one process, return its `median_error`.
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

    Of n samples, the number below the true median varies like the heads of n coins: n/2 on average,
    with a standard deviation of (√n)/2. A standard error is thus half the distance between the
    samples ranked (n ± √n)/2, which no outlier changes (David and Nagaraja, Order Statistics, 7.1).
    """
    ordered = sorted(samples)
    middle, deviation = (len(ordered) - 1) / 2, math.sqrt(len(ordered)) / 2
    ends = np.interp([middle - deviation, middle + deviation], range(len(ordered)), ordered)
    return float(ends[1] - ends[0]) / 2
