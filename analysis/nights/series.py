"""Types for metrics, for series of a metric over many nights, and for judgements of series."""

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

LARGEST = 1e100  # in place of infinity and NaN: an error of NaN counts as huge
ID_CHARACTERS = 12
LAUNCH_BOUND = 1.1  # wall time over device time, as in records
# Fine nights in a row that end an alert: one night may be chance, or the fault may come and go.
FINE_NIGHTS = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Amount:
    """A metric whose value each night is a number; more is worse. Nights are compared by ratio."""

    name: str
    meaning: str
    unit: Literal["ms", "bytes", "share"]
    min_effect: float
    """The least effect: smallest relative change that counts, such as 0.03."""
    least: float
    """Smallest value that counts, in `unit`; smaller values are raised to this value."""

    def logs(self, values: Sequence[float]) -> Array:
        finite = np.nan_to_num(values, nan=LARGEST, posinf=LARGEST)
        return np.asarray(np.log(np.maximum(finite, self.least)))

    def of_nights(self, values: Sequence[float | None], left_out: Collection[int] = ()) -> Array:
        """Return the logarithm of each night's value; NaN for nights left out or without a value."""
        logs = self.logs([0.0 if value is None else value for value in values])
        gaps = [value is None or place in left_out for place, value in enumerate(values)]
        return np.where(gaps, np.nan, logs)


@dataclass(frozen=True, kw_only=True, slots=True)
class Category:
    """A metric whose value each night is a word, such as `ok`, not a number."""

    name: str
    meaning: str
    good: str | None = None
    """The best value, such as `ok`; None if no value is better than the others."""
    no_answer: str | None = None
    """The value of an undecided night; nights with this value are skipped."""
    at_once: bool = False
    """Whether one night can show a change; if not, two of the last three nights must."""
    is_drawn: bool = False
    """Whether the value depends on chance. If new values keep coming, no value is a change."""
    is_strict: bool = False
    """Whether a change counts only if all earlier nights have the value `good`. One fresh trial
    with a different value then confirms the change."""
    is_news: bool = False
    """Whether a changed value on new software's first night is reported once, without an alert."""
    only_as_news: bool = False
    """Whether a changed value counts only on the first night of new software."""


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
    min_effect=0.5,  # less: another order of summation; another precision: tenfold or more
    least=1e-8,
)
LAYOUT = Category(
    name="layout_losses", meaning="layers that lose channels_last", good="none", at_once=True
)
ENGINE = Category(name="engine", meaning="kernels or engine chosen", is_drawn=True, is_news=True)
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
"""Metrics by name. A night's JSON may also name SHARED, and metrics of other versions."""
OF_EVERY_CONFIG = (SIGN.name, MISSING.name)  # metrics of a contrast or a cell, not of a config


@dataclass(frozen=True, kw_only=True, slots=True)
class SeriesKey:
    """Identifies a series: a metric of a cell and config, on one kind of hardware."""

    metric: str
    """Name of a Metric, or SHARED."""
    env_hash: str
    gpu: str
    cell_id: str
    cell: str
    """The cell in words: workload, problem, direction, shape, regime, state, precision, layout."""
    settings: str
    """The config in words; a contrast if `metric` is `sign`, `every config` if it is `missing`."""

    @property
    def series_id(self) -> str:
        """An id that stays the same if the name of the cell changes."""
        parts = (self.metric, self.env_hash, self.cell_id, self.settings)
        return sha256("\n".join(parts).encode()).hexdigest()[:ID_CHARACTERS]

    def of(self, metric: Metric) -> "SeriesKey":
        return replace(self, metric=metric.name)


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    part: str
    """Column of the record, such as torch, or `workload` if a user's own code changed."""
    before: str
    now: str


@dataclass(frozen=True, kw_only=True, slots=True)
class NightPoint:
    date: date
    value: float | str | None
    """A number in the metric's unit, or a word for a Category. None if not measured."""
    software_hash: str
    gpu_uuid: str | None = None
    """The GPU on which most of the point's processes ran."""
    host: str | None = None
    cpu_model: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    key: SeriesKey
    points: tuple[NightPoint, ...]
    """One point for each comparable night on the series' env_hash, oldest first."""
    is_judged: bool = True
    """Whether tonight has a value, and enough nights before to compare it with."""
    smallest_step: float | None = None
    """Least relative change that two weeks of nights confirm half the time; None for a Category."""
    could_show: bool = True
    """Whether a change as small as the least effect would show or, for a Category, any change."""

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
    """Result of screening one series. Values are in the metric's unit; None if data are too few."""

    state: State
    nights: int
    """Number of nights compared with tonight. If these are too few, the number with a value."""
    before: float | str | None = None
    """Median of the nights compared with tonight. For a Category, the most frequent value of
    these nights or, if the Screening is news, the previous value."""
    now: float | str | None = None
    """Median of the changed nights or, if nothing changed, of the last three nights. For a
    Category, tonight's value."""
    ratio: float | None = None
    first_bad_night_index: int | None = None
    is_mended: bool = False
    """Whether the last FINE_NIGHTS nights are all usual or better."""
    could_show: bool = True
    """For a Category, whether a different value is a change; False if new values keep coming."""
    is_news: bool = False
    """Whether a metric with `is_news` has a new value on the first night of new software."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Confirmation:
    state: Settled
    ratio: float | None = None
    """Ratio of values: current / last good software, or now / before. A ratio over 1 is worse."""
    low: float | None = None
    """Lower end of the ratio's 95% interval; None if too few pairs or nights were judged."""
    high: float | None = None
    blocks: int = 0
    """Number of judged fresh pairs, fresh trials, or nights since the change."""
    more_blocks: int = 0
    """Number of further pairs to measure before the next look; 0 if there is no next look."""


def typical(numbers: Sequence[float | None]) -> float | None:
    measured = [number for number in numbers if number is not None]
    return median(measured) if measured else None


def nights_in(logs: Array) -> Places:
    return np.asarray((~np.isnan(logs)).sum(axis=-1))


def medians(logs: Array) -> Array:
    """Return medians along the last axis, ignoring NaN; NaN where there are no numbers."""
    ordered = np.sort(logs, axis=-1)  # NaN last
    nights = nights_in(logs)[..., None]
    low, high = np.maximum(nights - 1, 0) // 2, np.minimum(nights // 2, logs.shape[-1] - 1)
    middle = [np.take_along_axis(ordered, place, axis=-1)[..., 0] for place in (low, high)]
    return np.asarray((middle[0] + middle[1]) / 2)


def last_measured(logs: Array, length: int) -> Array:
    """Keep the last `length` numbers of each row, and replace all earlier ones by NaN."""
    from_the_end = np.cumsum(~np.isnan(logs[..., ::-1]), axis=-1)[..., ::-1]
    return np.where(from_the_end <= length, logs, np.nan)


def first_measured(logs: Array, length: int) -> Array:
    """Keep the first `length` numbers of each row, and replace all later ones by NaN."""
    return last_measured(logs[..., ::-1], length)[..., ::-1]


def t_above(t: float, df: int) -> float:
    """Return the probability that Student's t is above `t` (Abramowitz and Stegun, 26.7.3, 26.7.4)."""
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
    """Return the value that Student's t exceeds with probability `above`, which is at most 0.5."""
    low, high = 0.0, 1.0
    while t_above(high, df) > above:
        high *= 2
    while high - low > 1e-10 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if t_above(middle, df) > above else (low, middle)
    return high
