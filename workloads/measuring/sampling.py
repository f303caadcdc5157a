"""Samples the time of a step, and computes the median, quantiles and error of the samples."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median

import numpy as np

from cudnn_sweep.workloads.measuring.ranks import now

MIN_SAMPLES = 5  # fewer samples do not show how much they vary
# Shorter sampling is biased, because a GPU's clock may oscillate with a period of 0.1 s.
LEAST_S = 0.3


@dataclass(frozen=True, kw_only=True, slots=True)
class Sampled:
    """Times of steps. A sample is the time of one step, or the mean over a group of steps."""

    samples_ms: list[float]
    iterations: int
    stop: str
    """Reason why sampling ended: `precision`, `budget` or `horizon`."""

    @property
    def median_ms(self) -> float:
        return median(self.samples_ms)

    def quantile_ms(self, share: float) -> float:
        last = len(self.samples_ms) - 1  # np.quantile would import numpy.ma
        return float(np.interp(share * last, range(last + 1), sorted(self.samples_ms)))

    @property
    def error(self) -> float | None:
        return median_error(self.samples_ms) if len(self.samples_ms) > 1 else None


def sample(
    take: Callable[[], list[float]], *, iterations: int, budget_s: float, error: float
) -> Sampled:
    """Take samples of `iterations` steps until the median is precise or `budget_s` has passed."""
    samples_ms: list[float] = []
    began = now()
    while True:
        samples_ms += take()
        if stop := stop_reason(samples_ms, now() - began, budget_s=budget_s, error=error):
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
    """Return the standard error of the median, divided by the median."""
    middle_value = median(samples)
    return _median_deviation(samples) / middle_value if middle_value else 0.0


def paired_error(by_process: Sequence[Sequence[float]]) -> float:
    """Return the largest relative error of the ratio between the times of any two processes.

    `by_process` has a list of times for each process, with one time for each round.
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

    It is half the distance between the samples with the ranks (n + √n)/2 and (n - √n)/2, if there
    are n samples. See H. A. David, H. N. Nagaraja, Order Statistics, section 7.1.
    """
    ordered = sorted(samples)
    middle, deviation = (len(ordered) - 1) / 2, math.sqrt(len(ordered)) / 2
    ends = np.interp([middle - deviation, middle + deviation], range(len(ordered)), ordered)
    return float(ends[1] - ends[0]) / 2
