"""Whether a change is there, judged by fresh pairs, by the nights that follow, or by fresh words.

Fresh pairs of two softwares are interleaved, so that the night that both share cancels (`confirm`). Their log ratios
get one-sided t tests against the least effect, after 6, 12, 24 and 48 pairs. Each look may spend a share of the error,
as in group-sequential tests (Lan and DeMets 1983). Pairs whose processes took the same kernels are tested by
themselves too: between kernels times differ by more than a change of software does.

Of unchanged software it is the night that is in doubt, and no trial of the same night can settle that: its fresh
replicates join the night's value, and the nights that follow are judged (`confirm_by_waiting`). Their mean, with odd
nights cut off (winsorised, as by Huber 1964), is compared with a robust deviation of the nights before.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import compress
from math import atan, cos, pi, sin, sqrt
from typing import Literal, TypeAlias

import numpy as np

from cudnn_sweep.analysis.nightly.series import Amount, Array, Mask, medians, nights_in

State: TypeAlias = Literal["confirmed", "refuted", "undecided"]

# The numbers of pairs to look at, and each look's chance of a wrong confirmation at just the least effect,
# together 0.05: most candidates that are none end at the first, so that there it is hardest.
LOOKS = {6: 0.002, 12: 0.008, 24: 0.015, 48: 0.025}
WRONGLY_REFUTED = 0.05  # the same of a refutation, each time
FEWEST_ALIKE = (
    5  # pairs of the same kernels that are judged by themselves: fewer may agree by chance
)
LEAST_DEVIATION = 1e-9  # of log ratios: those of memory are all equal

RECENT = 3  # nights that are screened: tonight and one more of them must be beyond the line
MONTH = 30  # nights compared with: older ones are another season of the machine
MOST_NIGHTS = 14  # that a candidate waits
WAITING_Z = 4.5  # standard errors: at 2% noise a false alert in 300 series of 60 nights, or rarer
NIGHT_COUNTS = 3  # standard deviations at most, so that one odd night settles nothing
# Nights since × the least of their excesses, in the oddest night before: two nights of five times that
# are believed at once, and so are five of twice that. Of few nights before the oddest counts for more.
OVERWHELMING = 10
FEW_NIGHTS = 6
LEAST_NOISE = 0.003  # from night to night: a few nights may agree by chance
NOISE_IN_DOUBT = 1.5  # nights: of few nights the noise is taken for 1 + this / nights of itself
NORMAL = 1.4826  # the standard deviation of normal noise, in median absolute deviations
MEDIAN_VARIANCE = np.pi / 2  # of normal noise, in those of a mean
ONE_SIDED = 1.645  # standard errors: one time in twenty
TWO_SIDED = 1.96


@dataclass(frozen=True, kw_only=True, slots=True)
class Confirmation:
    """The judgement of a candidate so far."""

    state: State
    ratio: float | None = None
    """Over 1 is worse."""
    low: float | None = None
    """With `high` the ratio's 95% interval; None for fewer than two pairs or nights."""
    high: float | None = None
    blocks: int = 0
    """Pairs behind it; for a candidate that waits, nights since the change."""
    more_blocks: int = 0
    """Pairs (or nights) to add before the next look; 0 where it is settled or is given up."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """The judgement of each series; where neither mask is true, more pairs or nights are needed."""

    is_confirmed: Mask
    is_refuted: Mask
    ratio_log: Array
    half_width: Array
    """Half the width of the 95% interval of `ratio_log`."""

    def one(self, blocks: int, more_blocks: int) -> Confirmation:
        """The judgement as a Confirmation, where there is only one series."""
        settled = bool(self.is_confirmed | self.is_refuted)
        state: State = "confirmed" if self.is_confirmed else "refuted"
        ratio, half = float(self.ratio_log), float(self.half_width)
        return Confirmation(
            state=state if settled else "undecided",
            ratio=float(np.exp(ratio)),
            low=float(np.exp(ratio - half)),
            high=float(np.exp(ratio + half)),
            blocks=blocks,
            more_blocks=0 if settled else more_blocks,
        )


def confirm(
    log_ratios: Sequence[float], min_effect: float, are_alike: Sequence[bool] = ()
) -> Confirmation:
    """Judge fresh pairs: log(current / last good) of each block that has both.

    Look after 6, 12, 24 and 48 pairs, as `more_blocks` says; who looks more often is wrong more often.
    `are_alike`: which pairs are of the same kernels. Where they confirm, the ratio is theirs.
    """
    blocks, alike = len(log_ratios), list(compress(log_ratios, are_alike))
    more = next((look - blocks for look in LOOKS if look > blocks), 0)
    if blocks < 2:
        return Confirmation(state="undecided", blocks=blocks, more_blocks=more)
    if FEWEST_ALIKE <= len(alike) < blocks:
        of_alike = judge_pairs(np.array(alike), min_effect, looked_at=blocks)
        if of_alike.is_confirmed:
            return of_alike.one(len(alike), more)
    return judge_pairs(np.array(log_ratios), min_effect).one(blocks, more)


def judge_pairs(ratios: Array, min_effect: float, looked_at: int | None = None) -> Judged:
    """The log ratios of pairs, two or more, along the last axis; `looked_at`: of how many they are a part."""
    blocks = ratios.shape[-1]
    least, mean = np.log1p(min_effect), ratios.mean(axis=-1)
    se = np.maximum(ratios.std(axis=-1, ddof=1), LEAST_DEVIATION) / np.sqrt(blocks)
    level = LOOKS[
        max((look for look in LOOKS if look <= (looked_at or blocks)), default=min(LOOKS))
    ]
    return Judged(
        is_confirmed=mean - t_quantile(level, blocks - 1) * se > least,
        is_refuted=mean + t_quantile(WRONGLY_REFUTED, blocks - 1) * se < least,
        ratio_log=mean,
        half_width=t_quantile(0.025, blocks - 1) * se,
    )


def confirm_by_waiting(
    values: Sequence[float | None],
    first_bad_night_index: int,
    metric: Amount,
    *,
    left_out: Collection[int] = (),
    is_pinned: bool = False,
) -> Confirmation:
    """Judge the nights from the first bad one on by those before it; look again each night.

    `values` and `left_out` are as a screen has them; a night's fresh replicates belong to its value.
    Keep the index of the first screen that showed it, so that what is compared with stays.
    """
    before = _compared_with(values[:first_bad_night_index], left_out, is_pinned)
    since = [value for value in values[first_bad_night_index:] if value is not None]
    more = int(len(since) < MOST_NIGHTS)
    if len(before) < 2 or len(since) < 2:
        return Confirmation(state="undecided", blocks=len(since), more_blocks=more)
    judged = judge_nights(metric.logs(before), metric.logs(since), metric.min_effect)
    return judged.one(len(since), more)


def judge_nights(before: Array, since: Array, min_effect: float, z: float = WAITING_Z) -> Judged:
    """Logarithms of the nights before a change and since, two or more each, along the last axis; of those
    before NaN counts for none.

    Against zero, not against the least effect: at 2% noise from night to night a step of 5% would
    else take a month. But the middle night since has to show as much as the least effect.
    """
    level = medians(before)[..., None]
    noise = _noise(before - level)
    excess = since - level
    counted = np.clip(excess, -NIGHT_COUNTS * noise, NIGHT_COUNTS * noise).mean(axis=-1)
    old, new, noise = nights_in(before), since.shape[-1], noise[..., 0]
    se = noise * np.sqrt(1 / new + MEDIAN_VARIANCE / old)
    ratio_log = np.median(excess, axis=-1)
    oddest = np.fmax(np.fmax.reduce(abs(before - level), axis=-1), LEAST_NOISE)
    oddest = oddest * np.maximum(1.0, FEW_NIGHTS / old) ** 2
    is_overwhelming = new * excess.min(axis=-1) >= OVERWHELMING * oddest
    believed = (counted >= z * se) | is_overwhelming
    least = np.log1p(min_effect)
    is_confirmed = believed & (ratio_log >= least)
    return Judged(
        is_confirmed=is_confirmed,
        is_refuted=~is_confirmed & (np.maximum(counted, ratio_log) + ONE_SIDED * se < least),
        ratio_log=ratio_log,
        half_width=TWO_SIDED * noise * np.sqrt(MEDIAN_VARIANCE * (1 / new + 1 / old)),
    )


def smallest_step(
    values: Sequence[float | None],
    metric: Amount,
    *,
    left_out: Collection[int] = (),
    is_pinned: bool = False,
) -> float | None:
    """As a share: the step that these nights would confirm in MOST_NIGHTS more, one time in two.

    WAITING_Z standard errors, and no less than the least effect. None of fewer than two nights.
    """
    measured = [place for place, value in enumerate(values) if value is not None][:-RECENT]
    before = _compared_with(values[: max(measured, default=0) + 1], left_out, is_pinned)
    if len(before) < 2:
        return None
    logs = metric.logs(before)
    noise = float(_noise(logs - np.median(logs))[0])
    se = noise * np.sqrt(1 / MOST_NIGHTS + MEDIAN_VARIANCE / len(before))
    return max(float(np.expm1(WAITING_Z * se)), metric.min_effect)


def confirm_words(fresh: Sequence[str], before: str) -> Confirmation:
    """Judge the words of fresh trials by the one that was usual: most of them have to differ."""
    different = len(fresh) - Counter(fresh)[before]
    state: State = "undecided" if different or not fresh else "refuted"
    if 2 * different > len(fresh):
        state = "confirmed"
    return Confirmation(state=state, blocks=len(fresh))


def _compared_with(
    earlier: Sequence[float | None], left_out: Collection[int], is_pinned: bool
) -> list[float]:
    before = [
        value for place, value in enumerate(earlier) if value is not None and place not in left_out
    ]
    return before[:MONTH] if is_pinned else before[-MONTH:]


def _noise(deviations: Array) -> Array:
    """From night to night: a standard deviation in which odd nights count little. NaN counts for none."""
    nights = nights_in(deviations)[..., None]
    robust = NORMAL * medians(abs(deviations))[..., None]
    most = np.maximum(3 * robust, LEAST_NOISE)
    squares = np.clip(deviations, -most, most) ** 2
    deviation = np.sqrt(np.nansum(squares, axis=-1, keepdims=True) / (nights - 1))
    return np.asarray(np.maximum(deviation, LEAST_NOISE) * (1 + NOISE_IN_DOUBT / nights))


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
