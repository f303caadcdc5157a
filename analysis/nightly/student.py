"""Student's t distribution for whole degrees of freedom, as macros/statistics.sql has it."""

from functools import cache
from math import atan, cos, pi, sin, sqrt


def t_above(t: float, df: int) -> float:
    """Pr(T > t), by the finite sums of Abramowitz and Stegun, 26.7.3 and 26.7.4."""
    theta = atan(t / sqrt(df))
    square = cos(theta) ** 2
    bracket = 1.0
    for k in reversed(range(2 + df % 2, df, 2)):
        bracket = 1 + bracket * square * (k - 1) / k
    if df == 1:
        within = 2 / pi * theta
    elif df % 2:
        within = 2 / pi * (theta + sin(theta) * cos(theta) * bracket)
    else:
        within = sin(theta) * bracket
    return max(0.5 - within / 2, 0.0)


@cache
def t_quantile(above: float, df: int) -> float:
    """The t that is exceeded with this probability, of at most one half."""
    low, high = 0.0, 1.0
    while t_above(high, df) > above:
        high *= 2
    while high - low > 1e-10 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if t_above(middle, df) > above else (low, middle)
    return high
