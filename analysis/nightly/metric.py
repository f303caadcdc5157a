"""What a night is compared by: each series' unit, which way is worse, and the least change that counts."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cudnn_sweep.analysis.answering.min_effect import MIN_EFFECT

MOST = 1e100  # what is infinite, or no number, is taken for it: an error of NaN is no small one


@dataclass(frozen=True, kw_only=True, slots=True)
class Amount:
    """A number a night, of which more is worse; compared as a ratio."""

    name: str
    meaning: str
    unit: Literal["ms", "bytes", "share"]
    min_effect: float
    """The least change that counts, as a share."""
    least: float
    """In `unit`: what is smaller is taken for it, so that zero has a ratio and trifles have none."""

    def logs(self, values: Sequence[float]) -> NDArray[np.float64]:
        known = np.nan_to_num(values, nan=MOST, posinf=MOST)
        found: NDArray[np.float64] = np.log(np.maximum(known, self.least))
        return found


@dataclass(frozen=True, kw_only=True, slots=True)
class Category:
    """A word a night, which differs from the usual one or does not."""

    name: str
    meaning: str
    good: str | None = None
    """The word beside which every other is worse; None where none is."""
    no_answer: str | None = None
    """The word of a night that could not tell: such a night does not count."""
    at_once: bool = False
    """One night is enough; else two of the last three."""
    is_drawn: bool = False
    """Chance has a part in it: where new words keep coming, one more is no news."""


STEADY_WALL = Amount(
    name="steady_wall",
    meaning="wall time of an iteration",
    unit="ms",
    min_effect=MIN_EFFECT,  # as in every verdict: less does not survive a change of driver
    least=1e-3,
)
STEADY_DEVICE = replace(STEADY_WALL, name="steady_device", meaning="device time of an iteration")
COLD_EMPTY = Amount(
    name="cold_empty",
    meaning="first calls, compute cache empty",
    unit="ms",
    min_effect=0.1,  # paid once a process or a machine, and processes of one night differ by 4 to 10%
    least=1.0,
)
COLD_WARM = replace(COLD_EMPTY, name="cold_warm", meaning="first calls, compute cache warm")
PEAK_MEMORY = Amount(
    name="peak_memory",
    meaning="peak of the device memory reserved",
    unit="bytes",
    min_effect=MIN_EFFECT,
    least=2.0 * 2**20,  # PyTorch's allocator takes memory in steps of 2 and 20 MiB
)
ERROR = Amount(
    name="error",
    meaning="relative error against float64",
    unit="share",
    min_effect=0.5,  # less is another order of summation; another precision is tenfold and more
    least=1e-8,
)
ENGINE = Category(name="engine", meaning="kernels or engine chosen", is_drawn=True)
SIGN = Category(name="sign", meaning="whether the setting helps or hurts", no_answer="inconclusive")
FAILURE = Category(name="failure", meaning="outcome of the trials", good="ok", at_once=True)
MISSING = Category(name="missing", meaning="whether it was measured", good="present", at_once=True)

Metric: TypeAlias = Amount | Category
AMOUNTS = (STEADY_WALL, STEADY_DEVICE, COLD_EMPTY, COLD_WARM, PEAK_MEMORY, ERROR)
CATEGORIES = (ENGINE, SIGN, FAILURE, MISSING)
METRIC_OF: dict[str, Metric] = {metric.name: metric for metric in (*AMOUNTS, *CATEGORIES)}
"""By name. A night's JSON may have names that other versions of ours know."""
