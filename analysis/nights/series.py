"""Types for metrics, for series of their values over many nights, and for judgements of series."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cache
from hashlib import sha256
from math import atan, cos, pi, sin, sqrt
from statistics import median
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cudnn_sweep.analysis.results.min_effect import MIN_EFFECT

Array: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]
Places: TypeAlias = NDArray[np.int64]
State: TypeAlias = Literal["fine", "worse", "better", "different", "insufficient_data"]
Settled: TypeAlias = Literal["confirmed", "refuted", "undecided"]

LARGEST = 1e100  # replaces infinity and NaN
ID_CHARACTERS = 12
LAUNCH_BOUND = 1.1  # a loop with more wall time per device time is CPU-bound
FINE_NIGHTS = 2  # number of fine nights in a row that end an alert


@dataclass(frozen=True, kw_only=True, slots=True)
class Amount:
    """A metric whose values are numbers. Larger values are worse."""

    name: str
    meaning: str
    unit: Literal["ms", "bytes", "share"]
    min_effect: float
    """The least effect. This is the smallest relative change that is reported, such as 0.03."""
    least: float
    """Lower limit of the values, in `unit`. Smaller values are raised to it."""

    def logs(self, values: Sequence[float]) -> Array:
        finite = np.nan_to_num(values, nan=LARGEST, posinf=LARGEST)
        return np.asarray(np.log(np.maximum(finite, self.least)))

    def of_nights(self, values: Sequence[float | None], left_out: Collection[int] = ()) -> Array:
        """Return the logarithms of the values. Missing and left-out values are NaN."""
        logs = self.logs([0.0 if value is None else value for value in values])
        gaps = [value is None or place in left_out for place, value in enumerate(values)]
        return np.where(gaps, np.nan, logs)


@dataclass(frozen=True, kw_only=True, slots=True)
class Category:
    """A metric whose values are words, such as `ok`."""

    name: str
    meaning: str
    good: str | None = None
    """Best value, such as `ok`. None if no value is better than the others."""
    no_answer: str | None = None
    """Value of an undecided night. Nights with this value are skipped."""
    at_once: bool = False
    """Whether one night can show a change. Otherwise it takes two of the last three nights."""
    is_drawn: bool = False
    """Whether chance decides. On the first night of new software, a change is then only news."""
    is_strict: bool = False
    """Whether changes are reported only if all earlier nights have the value `good`."""
    only_as_news: bool = False
    """Whether a change is reported only on the first night of new software."""


STEADY_WALL = Amount(
    name="steady_wall",
    meaning="wall time of an iteration",
    unit="ms",
    min_effect=MIN_EFFECT,  # as in every verdict
    least=1e-3,
)
STEADY_DEVICE = replace(STEADY_WALL, name="steady_device", meaning="device time of an iteration")
COLD_EMPTY = Amount(
    name="cold_empty",
    meaning="first calls, compute cache empty",
    unit="ms",
    min_effect=0.1,  # processes of one night differ by 4 to 10%
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
    min_effect=0.5,  # another order of summation changes the error by less
    least=1e-8,
)
LAYOUT = Category(
    name="layout_losses", meaning="layers that lose channels_last", good="none", at_once=True
)
ENGINE = Category(name="engine", meaning="kernels or engine chosen", is_drawn=True)
BITS = replace(ENGINE, name="bits", meaning="bits of a step", only_as_news=True)
REPEATS = Category(
    name="repeats", meaning="whether bits repeat", good="repeat", at_once=True, is_strict=True
)
SIGN = Category(name="sign", meaning="whether the setting helps or hurts", no_answer="inconclusive")
FAILURE = Category(name="failure", meaning="outcome of the trials", good="ok", at_once=True)
MISSING = Category(name="missing", meaning="whether it was measured", good="present", at_once=True)

Metric: TypeAlias = Amount | Category
AMOUNTS = (STEADY_WALL, STEADY_DEVICE, COLD_EMPTY, COLD_WARM, PEAK_MEMORY, ERROR)
METRIC_OF: dict[str, Metric] = {
    metric.name: metric
    for metric in (*AMOUNTS, LAYOUT, ENGINE, BITS, REPEATS, SIGN, FAILURE, MISSING)
}
OF_EVERY_CONFIG = (SIGN.name, MISSING.name)  # metrics of a contrast or a cell, not of a config


@dataclass(frozen=True, kw_only=True, slots=True)
class SeriesKey:
    """Key of a series. A series is a metric of a cell and config on one kind of hardware."""

    metric: str
    """Name of a Metric, or SHARED."""
    env_hash: str
    gpu: str
    cell_id: str
    cell: str
    """Full name of the cell."""
    settings: str
    """Name of the config. It is a contrast for the metric `sign`."""

    @property
    def series_id(self) -> str:
        """Id of the series. It does not depend on the name of the cell."""
        parts = (self.metric, self.env_hash, self.cell_id, self.settings)
        return sha256("\n".join(parts).encode()).hexdigest()[:ID_CHARACTERS]

    def of(self, metric: Metric) -> "SeriesKey":
        return replace(self, metric=metric.name)


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    part: str
    """Column of the records, such as `torch`, or `workload` for a user's code."""
    before: str
    now: str


@dataclass(frozen=True, kw_only=True, slots=True)
class NightPoint:
    date: date
    value: float | str | None
    """Number in the metric's unit, or word of a Category. None if it was not measured."""
    software_hash: str
    gpu_uuid: str | None = None
    """GPU on which most of the night's processes ran."""
    host: str | None = None
    cpu_model: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    key: SeriesKey
    points: tuple[NightPoint, ...]
    """One point for each comparable night, oldest first."""
    is_judged: bool = True
    """Whether tonight has a value, and enough earlier nights have one."""
    smallest_step: float | None = None
    """Smallest relative change that 14 nights confirm in half of all cases. None for a Category."""
    could_show: bool = True
    """Whether the nights are precise enough to show a change."""

    @property
    def numbers(self) -> list[float | None]:
        return [point.value if isinstance(point.value, float) else None for point in self.points]

    @property
    def words(self) -> list[str | None]:
        return [point.value if isinstance(point.value, str) else None for point in self.points]

    def place_of(self, first: date) -> int | None:
        return next((at for at, point in enumerate(self.points) if point.date >= first), None)


@dataclass(frozen=True, kw_only=True, slots=True)
class Screening:
    """Result of screening one series. Its values are in the unit of the metric."""

    state: State
    nights: int
    """Number of nights that the screening used."""
    before: float | str | None = None
    """Median of the earlier nights. For a Category, this is usually the most frequent value."""
    now: float | str | None = None
    """Median of the latest nights. For a Category, this is tonight's value."""
    ratio: float | None = None
    first_bad_night_index: int | None = None
    is_mended: bool = False
    """Whether the last FINE_NIGHTS nights were usual or better."""
    could_show: bool = True
    """Whether a different value of a Category would be a change."""
    is_news: bool = False
    """Whether tonight's value is news, see `Category.is_drawn`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Confirmation:
    state: Settled
    ratio: float | None = None
    """New value divided by old value. A ratio over 1 is worse."""
    low: float | None = None
    """Lower end of the ratio's 95% interval. None if there are too few data."""
    high: float | None = None
    blocks: int = 0
    """Number of fresh pairs, fresh trials or nights that were judged."""
    more_blocks: int = 0
    """Number of pairs to measure before the next interim analysis, or 0 if there is none."""


def typical(numbers: Sequence[float | None]) -> float | None:
    measured = [number for number in numbers if number is not None]
    return median(measured) if measured else None


def nights_in(logs: Array) -> Places:
    return np.asarray((~np.isnan(logs)).sum(axis=-1))


def medians(logs: Array) -> Array:
    """Return the medians along the last axis, and ignore NaN."""
    ordered = np.sort(logs, axis=-1)  # NaN sorts last
    nights = nights_in(logs)[..., None]
    low, high = np.maximum(nights - 1, 0) // 2, np.minimum(nights // 2, logs.shape[-1] - 1)
    middle = [np.take_along_axis(ordered, place, axis=-1)[..., 0] for place in (low, high)]
    return np.asarray((middle[0] + middle[1]) / 2)


def last_measured(logs: Array, length: int) -> Array:
    """Keep the last `length` numbers of each row, and replace earlier numbers by NaN."""
    from_the_end = np.cumsum(~np.isnan(logs[..., ::-1]), axis=-1)[..., ::-1]
    return np.where(from_the_end <= length, logs, np.nan)


def first_measured(logs: Array, length: int) -> Array:
    """Keep the first `length` numbers of each row, and replace later numbers by NaN."""
    return last_measured(logs[..., ::-1], length)[..., ::-1]


def t_above(t: float, df: int) -> float:
    """Return the chance that Student's t exceeds `t` (Abramowitz and Stegun, 26.7.3, 26.7.4)."""
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
    """Return the value that Student's t exceeds with probability `above` (at most 0.5)."""
    low, high = 0.0, 1.0
    while t_above(high, df) > above:
        high *= 2
    while high - low > 1e-10 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if t_above(middle, df) > above else (low, middle)
    return high
