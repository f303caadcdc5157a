"""The screen of one series over its nights: is tonight worse than the nights before?

It is meant to miss little and to be cheap where it is wrong: what it calls worse is a candidate, which
fresh trials confirm or refute (confirmation.py) before anyone hears of it. Amounts are in logarithms: a
step of 5% is as large at any level. Arrays hold a series a row, its nights along the last axis; NaN stands
for a night that a series is not compared with. A series of words has those that are usual.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cudnn_sweep.analysis.nightly.metric import Amount, Category

Array: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]
Places: TypeAlias = NDArray[np.int64]
State: TypeAlias = Literal["fine", "worse", "better", "different", "insufficient_data"]

RECENT = 3  # nights that are judged: tonight and one more of them must be beyond the line
FEWEST_NIGHTS = 7  # those and four before: of fewer, one odd night moves the median
MONTH = 30  # nights compared with: older ones are another season of the machine
LATELY = 10  # compared with as well: a month would hide that what was just won is lost again
NORMAL = 1.4826  # the standard deviation of normal noise, in median absolute deviations
LINE_IN_NOISE = 1.2  # standard deviations: at 2% noise, 19 of 20 steps of 5% are then seen
LINE_IN_EFFECT = 2 / 3  # of the least effect: at no noise a step of just that one is surely seen
# In a row that end an alert: one alone may be chance, or a fault that comes and goes.
FINE_NIGHTS = 2
NO_CANDIDATE = -1

# Of the nights compared with: a word that is seen as often is no news.
SELDOM = 0.1  # cuDNN's searches choose among a few kernels, each time anew
OFTEN = 0.5  # a failure is news for as long as most nights had none


@dataclass(frozen=True, kw_only=True, slots=True)
class Screening:
    """What one series shows; amounts in the metric's unit, None where there is no night for them."""

    state: State
    nights: int
    """Nights compared with; where data are insufficient, nights that there are."""
    before: float | str | None = None
    """Median of the nights compared with, or their most frequent word."""
    now: float | str | None = None
    """Tonight's word, or the median since the first bad (or better) night; of the last three where fine."""
    ratio: float | None = None
    """now / before."""
    first_bad_night_index: int | None = None
    """Into the values: where the nights beyond the line, or of unusual words, begin; None where fine."""
    noise: float | None = None
    """From night to night, as a share: a robust standard deviation."""
    is_mended: bool = False
    """The last FINE_NIGHTS are not beyond the line of what is worse, or have usual words."""
    could_show: bool = True
    """Another word would be news: not so where new words keep coming."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Past:
    """The nights that series are compared with."""

    logs: Array
    """Logs of the nights compared with; NaN for every other night."""
    level: Array
    noise: Array
    line: Array
    """How far from the level a night is beyond it."""

    def beyond(self, logs: Array, sign: float) -> Mask:
        """Whether each night is beyond the line; `sign` is 1 for what is worse, -1 for what is better."""
        found: Mask = sign * (logs - self.level[..., None]) > self.line[..., None]
        return found

    @property
    def nights(self) -> Places:
        """How many nights each series is compared with."""
        return known_count(self.logs)


def screen(
    values: Sequence[float | None],
    metric: Amount,
    *,
    left_out: Collection[int] = (),
    is_pinned: bool = False,
) -> Screening:
    """Judge the last of `values`: one a night, oldest first, None where a night has none.

    Only nights of one env_hash, from the baseline's first on, belong here. Of those `left_out` holds
    the places that nothing is compared with. Where the baseline is pinned its first month stays what
    every later night is compared with.
    """
    places = [place for place, value in enumerate(values) if value is not None]
    if len(places) < FEWEST_NIGHTS or values[-1] is None:
        return Screening(state="insufficient_data", nights=len(places))
    logs = metric.logs([value for value in values if value is not None])[None]
    is_left_out = np.array([[place in left_out for place in places]])
    pasts = compared_with(logs, metric.min_effect, left_out=is_left_out, is_pinned=is_pinned)
    if not can_tell(pasts)[0]:
        return Screening(state="insufficient_data", nights=int((~is_left_out).sum()))
    is_mended = bool(mended(logs, pasts)[0])
    states: tuple[tuple[State, float], ...] = (("worse", 1.0), ("better", -1.0))
    for state, sign in states:
        since, by = (int(found[0]) for found in first_shown(logs, pasts, sign))
        if since != NO_CANDIDATE:
            return _screening(state, pasts[by], logs, since, places[since], is_mended)
    return _screening("fine", pasts[0], logs, len(places) - RECENT, None, is_mended)


def compared_with(
    logs: Array, min_effect: float, *, left_out: Mask | None = None, is_pinned: bool = False
) -> list[Past]:
    """A month, and where it is longer than that what came lately."""
    kept = logs if left_out is None else np.where(left_out, np.nan, logs)
    earlier = kept[..., :-RECENT]
    if is_pinned:
        return [_past(first_known(earlier, MONTH), min_effect)]
    nights = [MONTH, LATELY] if earlier.shape[-1] > LATELY else [MONTH]
    return [_past(last_known(earlier, count), min_effect) for count in nights]


def can_tell(pasts: Sequence[Past]) -> Mask:
    """Whether each series has the nights that a comparison needs."""
    found: Mask = pasts[0].nights >= FEWEST_NIGHTS - RECENT
    return found


def first_shown(logs: Array, pasts: Sequence[Past], sign: float = 1.0) -> tuple[Places, Places]:
    """Where each series' nights beyond the line begin, or NO_CANDIDATE, and by which past: the first that shows it."""
    each = np.array([candidate_since(logs, past, sign) for past in pasts])
    by = (each != NO_CANDIDATE).argmax(axis=0)
    return each[by, np.arange(len(logs))], by


def mended(logs: Array, pasts: Sequence[Past]) -> Mask:
    """Whether the last nights of each series are fine."""
    beyond = np.any([past.beyond(logs[..., -FINE_NIGHTS:], 1.0) for past in pasts], axis=0)
    found: Mask = ~beyond.any(axis=-1)
    return found


def candidate_since(logs: Array, past: Past, sign: float = 1.0) -> Places:
    """Where each series' nights beyond the line begin, or NO_CANDIDATE.

    They reach back from tonight over single nights that are not beyond it, and leave the first ones
    to be compared with.
    """
    beyond = past.beyond(logs, sign)
    is_candidate = beyond[:, -1] & (beyond[:, -RECENT:].sum(axis=-1) >= 2)
    since = np.full(len(beyond), NO_CANDIDATE)
    nights_off = np.where(is_candidate, 0, 2)
    for night in reversed(range(FEWEST_NIGHTS - RECENT, beyond.shape[-1])):
        nights_off = np.where(beyond[:, night] & (nights_off < 2), 0, nights_off + 1)
        since[nights_off == 0] = night
        if (nights_off >= 2).all():
            break
    return since


def last_known(logs: Array, count: int) -> Array:
    """NaN in place of all but so many of the last ones that are known."""
    from_the_end = np.cumsum(~np.isnan(logs[..., ::-1]), axis=-1)[..., ::-1]
    found: Array = np.where(from_the_end <= count, logs, np.nan)
    return found


def first_known(logs: Array, count: int) -> Array:
    """The same of the first ones."""
    found: Array = last_known(logs[..., ::-1], count)[..., ::-1]
    return found


def known_count(logs: Array) -> Places:
    found: Places = (~np.isnan(logs)).sum(axis=-1)
    return found


def known_median(logs: Array) -> Array:
    """Along the last axis, of what is no NaN; NaN where there is nothing."""
    ordered = np.sort(logs, axis=-1)  # NaN last
    count = known_count(logs)[..., None]
    low, high = np.maximum(count - 1, 0) // 2, np.minimum(count // 2, logs.shape[-1] - 1)
    middle = [np.take_along_axis(ordered, place, axis=-1)[..., 0] for place in (low, high)]
    found: Array = (middle[0] + middle[1]) / 2
    return found


def _past(logs: Array, min_effect: float) -> Past:
    level = known_median(logs)
    noise = NORMAL * known_median(abs(logs - level[..., None]))
    line = np.maximum(LINE_IN_NOISE * noise, LINE_IN_EFFECT * np.log1p(min_effect))
    return Past(logs=logs, level=level, noise=noise, line=line)


def _screening(
    state: State, past: Past, logs: Array, since: int, first_bad: int | None, is_mended: bool
) -> Screening:
    before, now = float(past.level[0]), float(np.median(logs[0, since:]))
    return Screening(
        state=state,
        before=float(np.exp(before)),
        now=float(np.exp(now)),
        ratio=float(np.exp(now - before)),
        nights=int(past.nights[0]),
        first_bad_night_index=first_bad,
        noise=float(past.noise[0]),
        is_mended=is_mended,
    )


def screen_category(
    values: Sequence[str | None], metric: Category, *, left_out: Collection[int] = ()
) -> Screening:
    """Judge the last of `values`: one a night, oldest first, None where a night has none.

    Nothing is compared with the nights at the places `left_out`.
    Tonight's word is news where it is unusual and, unless one night is enough, that of one of the two
    nights before is unusual too. Of a search that keeps choosing anew it is not: the share of words seen
    once is about the chance of one never seen (Good and Turing).
    """
    nights = [
        (place, value)
        for place, value in enumerate(values)
        if value is not None and value != metric.no_answer
    ]
    recent, fewest, usual = (1, 2, OFTEN) if metric.at_once else (RECENT, FEWEST_NIGHTS, SELDOM)
    past = Counter([value for place, value in nights[:-recent] if place not in left_out][-MONTH:])
    is_known = len(nights) >= fewest and past.total() >= fewest - recent
    if not is_known or nights[-1][0] != len(values) - 1:
        return Screening(state="insufficient_data", nights=len(nights))
    before, now = past.most_common(1)[0][0], nights[-1][1]
    found = Screening(state="fine", nights=past.total(), before=before, now=now)
    if metric.is_drawn and [*past.values()].count(1) > SELDOM * past.total():
        return replace(found, is_mended=True, could_show=False)
    unusual = [place for place, value in nights if past[value] < usual * past.total()]
    is_mended = not {place for place, _ in nights[-FINE_NIGHTS:]}.intersection(unusual)
    lately = [place for place, _ in nights[-recent:] if place in unusual]
    if len(lately) < min(recent, 2) or lately[-1] != nights[-1][0]:
        return replace(found, is_mended=is_mended)
    return replace(found, state=_news(now, metric), first_bad_night_index=lately[0])


def _news(now: str, metric: Category) -> State:
    if metric.good is None:
        return "different"
    return "better" if now == metric.good else "worse"
