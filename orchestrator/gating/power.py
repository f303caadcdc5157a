"""Computes the slowdown that a gate can find, from simulated pairs."""

import math
from collections.abc import Mapping

import numpy as np

GATES = 4000  # simulated gates, enough to know a rate of 1% within 0.3%
FOUND = 0.8  # share of simulated gates that find the reported slowdown


def power(
    scatter: float, prior: float | None, threshold: float, quantiles: Mapping[int, float]
) -> tuple[float, float]:
    """Return the rate of false alarms, and the slowdown that four of five gates find.

    `scatter` is the standard deviation of a pair's log ratio. If `prior` is given, it adds prior**2
    to the sum of squares and 1 to the degrees of freedom. `quantiles` has a quantile of Student's t
    for each interim analysis, by the number of pairs.
    """
    noise = scatter * np.random.default_rng(0).standard_normal((GATES, max(quantiles)))
    slowdowns = []
    for pairs, quantile in quantiles.items():
        seen = noise[:, :pairs]
        squares, df = pairs * seen.var(axis=1), pairs - 1
        if prior is not None:
            squares, df = squares + prior**2, pairs
        error = np.sqrt(squares / df / pairs)
        slowdowns.append(math.log1p(threshold) + quantile * error - seen.mean(axis=1))
    least = np.min(slowdowns, axis=0)  # smallest slowdown that any interim analysis finds
    return float(np.mean(least <= 0)), math.expm1(np.quantile(least, FOUND))
