"""Detects which series changed, and confirms changes.

1. `screen` finds candidates among numbers. Tonight and one more of the last three nights must be
   far from the median of the earlier nights. This is a control chart with a two-of-three run rule
   (Western Electric, Statistical Quality Control Handbook, 1956). It uses the median absolute
   deviation (Hampel 1974). On the first night of new software, one night far off is enough.
2. `screen_words` finds candidates among words. A word is a candidate if it was rare on the earlier
   nights. The share of words that occurred once estimates the chance of a new word (Good 1953).
3. `confirm` judges fresh pairs, in which the current and the last good software take turns.
   One-sided t tests compare the mean log ratio with the least effect. Each interim analysis uses
   a part of the error probability (Lan and DeMets 1983).
4. `confirm_by_nights` judges the nights since a change. It can confirm changes of the machine,
   which pairs cannot show. Outliers are cut to a limit (winsorised, Huber 1964).

Numbers are compared as logarithms. An array has one series in each row, and its nights along the
last axis. NaN marks a night that is left out.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import compress

import numpy as np

from cudnn_sweep.analysis.nights.series import (
    FINE_NIGHTS,
    Amount,
    Array,
    Category,
    Confirmation,
    Mask,
    Places,
    Screening,
    Settled,
    State,
    first_measured,
    last_measured,
    medians,
    nights_in,
    t_quantile,
)

RECENT = 3  # nights that are screened, including tonight
MONTH = 30  # most nights that tonight is compared with
NORMAL = 1.4826  # standard deviation of normal noise, divided by its median absolute deviation
FEWEST_NIGHTS = 7  # least number of nights for a judgement
LATELY = 10  # tonight is also compared with this number of recent nights
LINE_IN_NOISE = 1.2  # largest usual distance, in standard deviations
LINE_IN_EFFECT = 2 / 3  # lower limit of this distance, as a share of the least effect
NO_CANDIDATE = -1
# A word is usual if at least this share of the earlier nights has it.
SELDOM = 0.1  # for metrics without `at_once`
OFTEN = 0.5  # for metrics with `at_once`


# --- Screen ---


@dataclass(frozen=True, kw_only=True, slots=True)
class Past:
    """Earlier nights of each series, and the range of their values."""

    logs: Array
    """Logarithms of the values. NaN marks nights that are left out."""
    level: Array
    line: Array
    """Largest usual distance from `level`. A night with a larger distance is suspect."""

    def beyond(self, logs: Array, sign: float) -> Mask:
        """Return which nights are unusually bad, or unusually good if `sign` is -1."""
        return np.asarray(sign * (logs - self.level[..., None]) > self.line[..., None])


def compared_with(
    logs: Array, min_effect: float, *, left_out: Mask | None = None, is_pinned: bool = False
) -> list[Past]:
    """Return the earlier nights to compare with. If `is_pinned`, these are only the first month."""
    earlier = (logs if left_out is None else np.where(left_out, np.nan, logs))[..., :-RECENT]
    months = [_month(earlier, is_pinned=is_pinned)]
    if not is_pinned:
        months += [last_measured(earlier, LATELY), first_measured(earlier, MONTH)]
    return [_past(month, min_effect) for month in months]


def _month(logs: Array, *, is_pinned: bool) -> Array:
    return first_measured(logs, MONTH) if is_pinned else last_measured(logs, MONTH)


def _past(logs: Array, min_effect: float) -> Past:
    level = medians(logs)
    noise = NORMAL * medians(abs(logs - level[..., None]))
    line = np.maximum(LINE_IN_NOISE * noise, LINE_IN_EFFECT * np.log1p(min_effect))
    return Past(logs=logs, level=level, line=line)


def can_tell(pasts: Sequence[Past]) -> Mask:
    return np.asarray(nights_in(pasts[0].logs) >= FEWEST_NIGHTS - RECENT)


def first_shown(logs: Array, pasts: Sequence[Past], sign: float = 1.0) -> tuple[Places, Places]:
    """Return each series' first suspect night or NO_CANDIDATE, and the index of its Past."""
    compared = pasts if sign > 0 else pasts[:2]  # gains are not compared with the first month
    starts = np.array([_candidate_since(past.beyond(logs, sign)) for past in compared])
    by = (starts != NO_CANDIDATE).argmax(axis=0)
    return starts[by, np.arange(len(logs))], by


def mended(logs: Array, pasts: Sequence[Past]) -> Mask:
    beyond = np.any([past.beyond(logs[..., -FINE_NIGHTS:], 1.0) for past in pasts], axis=0)
    return np.asarray(~beyond.any(axis=-1))


def _candidate_since(beyond: Mask) -> Places:
    """Return the first night of each series' suspect run, which lasts until tonight."""
    is_candidate = beyond[:, -1] & (beyond[:, -RECENT:].sum(axis=-1) >= 2)
    since = np.full(len(beyond), NO_CANDIDATE)
    nights_off = np.where(is_candidate, 0, 2)
    for night in reversed(range(FEWEST_NIGHTS - RECENT, beyond.shape[-1])):
        nights_off = np.where(beyond[:, night] & (nights_off < 2), 0, nights_off + 1)
        since[nights_off == 0] = night
        if (nights_off >= 2).all():
            break
    return since


def screen(
    values: Sequence[float | None],
    metric: Amount,
    left_out: Collection[int] = (),
    *,
    is_pinned: bool = False,
    is_new: bool = False,
) -> Screening:
    """Judge the last of `values`, one for each night. `left_out` has the indices of nights that
    tonight is not compared with. `is_new` says whether tonight is the first night of new
    software. For times, it is the first night of new kernels."""
    measured = {place: value for place, value in enumerate(values) if value is not None}
    if len(measured) < FEWEST_NIGHTS or values[-1] is None:
        return Screening(state="insufficient_data", nights=len(measured))
    places, logs = list(measured), metric.logs(list(measured.values()))[None]
    is_left_out = np.array([[place in left_out for place in places]])
    pasts = compared_with(logs, metric.min_effect, left_out=is_left_out, is_pinned=is_pinned)
    if not can_tell(pasts)[0]:
        return Screening(state="insufficient_data", nights=int((~is_left_out).sum()))
    state: State = "fine"
    first, past = len(places) - RECENT, pasts[0]
    signs: tuple[tuple[State, float], ...] = (("better", -1.0), ("worse", 1.0))
    for shown, sign in signs:
        since, by = first_shown(logs, pasts, sign)
        if since[0] != NO_CANDIDATE:
            state, first, past = shown, int(since[0]), pasts[by[0]]
    if is_new and state == "fine":
        earlier = np.where(is_left_out, np.nan, logs)[:, :-1]
        month = _month(earlier, is_pinned=is_pinned)
        if judge_nights(month, logs[:, -1:], metric.min_effect).is_confirmed[0]:
            state, first = "worse", len(places) - 1
    before, now = float(past.level[0]), float(np.median(logs[0, first:]))
    return Screening(
        state=state,
        before=float(np.exp(before)),
        now=float(np.exp(now)),
        ratio=float(np.exp(now - before)),
        nights=int(nights_in(past.logs)[0]),
        first_bad_night_index=None if state == "fine" else places[first],
        is_mended=bool(mended(logs, pasts)[0]),
    )


def screen_words(
    values: Sequence[str | None],
    metric: Category,
    *,
    left_out: Collection[int] = (),
    softwares: Sequence[object] = (),
) -> Screening:
    """Judge the last of `values`, which has one for each night. `left_out` is as in `screen`.
    `softwares` has the software of each night, which is used if `metric.is_drawn`."""
    words = [
        (place, value)
        for place, value in enumerate(values)
        if value is not None and value != metric.no_answer
    ]
    recent, fewest, usual = (1, 2, OFTEN) if metric.at_once else (RECENT, FEWEST_NIGHTS, SELDOM)
    fewest = FEWEST_NIGHTS if metric.is_strict else fewest
    past = Counter([value for place, value in words[:-recent] if place not in left_out][-MONTH:])
    total, tonight = past.total(), len(values) - 1
    is_enough = len(words) >= fewest and total >= fewest - recent
    if not is_enough or words[-1][0] != tonight:
        return Screening(state="insufficient_data", nights=len(words))
    before, now = max(past, key=past.__getitem__), words[-1][1]
    fine = Screening(state="fine", nights=total, before=before, now=now)
    if metric.is_drawn and [*past.values()].count(1) > SELDOM * total:
        return replace(fine, is_mended=True, could_show=False)
    if metric.is_strict and past[str(metric.good)] < total:
        return replace(fine, is_mended=now == metric.good, could_show=False)
    renewed = newest(softwares)
    if metric.is_drawn and renewed is not None:
        of_software = [value for place, value in words if place >= renewed]
        chosen = words[-2][1] if len(of_software) == 1 else of_software[0]
        past[chosen] = max(past[chosen], total)
        if len(of_software) == 1 and past[now] < usual * total:
            news = replace(fine, state="different", is_news=True)
            return replace(news, before=chosen, first_bad_night_index=tonight)
    drawn = {
        (softwares[place] if softwares else None, value)
        for place, value in words[:-recent]
        if place not in left_out
    }
    has_two = len(drawn) > len({software for software, _ in drawn})
    if metric.only_as_news or (metric.is_drawn and (has_two or total < LATELY)):
        return replace(fine, is_mended=True)
    unusual = [place for place, value in words if past[value] < usual * total]
    is_mended = not {place for place, _ in words[-FINE_NIGHTS:]}.intersection(unusual)
    lately = [place for place, _ in words[-recent:] if place in unusual]
    if len(lately) < min(recent, 2) or lately[-1] != tonight:
        return replace(fine, is_mended=is_mended)
    state: State = "better" if now == metric.good else "worse"
    state = "different" if metric.good is None else state
    return replace(fine, state=state, first_bad_night_index=lately[0])


def newest(softwares: Sequence[object]) -> int | None:
    nights = range(len(softwares) - 1, 0, -1)
    return next((at for at in nights if softwares[at] != softwares[at - 1]), None)


# --- Confirmation ---

# Numbers of pairs that are tested, with the chance of a wrong confirmation in each test.
LOOKS = {6: 0.002, 12: 0.008, 24: 0.015, 48: 0.025}
WRONGLY_REFUTED = 0.05  # chance of a wrong refutation in each test
FEWEST_ALIKE = 5  # least number of pairs with equal kernels that are tested separately
LEAST_DEVIATION = 1e-9  # least deviation of log ratios
MOST_NIGHTS = 14  # nights after a step, in `smallest_step`
NIGHTS_Z = 4.5  # standard errors that a change must reach, unless it is overwhelming
NIGHT_COUNTS = 3  # a night's distance is cut to so many standard deviations
# A change is also confirmed if its number of nights, multiplied by their least distance, is at
# least this multiple of the largest distance of an earlier night.
OVERWHELMING = 10
FEW_NIGHTS = 6  # with fewer earlier nights, their largest distance is raised
LEAST_NOISE = 0.003  # least noise between nights
NOISE_IN_DOUBT = 1.5  # noise is multiplied by 1 + this / nights
MEDIAN_VARIANCE = np.pi / 2  # variance of a median, divided by that of a mean, for normal noise
ONE_SIDED = 1.645  # standard errors of a one-sided test with 5% error
TWO_SIDED = 1.96  # standard errors of a 95% interval


@dataclass(frozen=True, kw_only=True, slots=True)
class Judgement:
    """Judgement of each series. A series that is neither confirmed nor refuted needs more data."""

    is_confirmed: Mask
    is_refuted: Mask
    ratio_log: Array
    half_width: Array
    """Half the width of the 95% interval of `ratio_log`."""

    def one(self, blocks: int, more_blocks: int) -> Confirmation:
        state: Settled = "refuted" if self.is_refuted else "undecided"
        ratio, half = float(self.ratio_log), float(self.half_width)
        return Confirmation(
            state="confirmed" if self.is_confirmed else state,
            ratio=float(np.exp(ratio)),
            low=float(np.exp(ratio - half)),
            high=float(np.exp(ratio + half)),
            blocks=blocks,
            more_blocks=0 if self.is_confirmed or self.is_refuted else more_blocks,
        )


def confirm(
    log_ratios: Sequence[float], min_effect: float, are_alike: Sequence[bool] = ()
) -> Confirmation:
    """Judge fresh pairs by their log ratios of current to last good software. Call it only after 6,
    12, 24 and 48 pairs, because each further test adds false alarms. `are_alike` marks the pairs
    whose two processes ran the same kernels."""
    blocks, alike = len(log_ratios), list(compress(log_ratios, are_alike))
    more = next((look - blocks for look in LOOKS if look > blocks), 0)
    if blocks < 2:
        return Confirmation(state="undecided", blocks=blocks, more_blocks=more)
    if FEWEST_ALIKE <= len(alike) < blocks:
        of_alike = judge_pairs(np.array(alike), min_effect, looked_at=blocks)
        if of_alike.is_confirmed:
            return of_alike.one(len(alike), more)
    return judge_pairs(np.array(log_ratios), min_effect).one(blocks, more)


def judge_pairs(ratios: Array, min_effect: float, looked_at: int | None = None) -> Judgement:
    """Judge the log ratios of two or more pairs, along the last axis. `looked_at` is the number of
    all measured pairs, if `ratios` has only some of them."""
    blocks = ratios.shape[-1]
    least, mean = np.log1p(min_effect), ratios.mean(axis=-1)
    se = np.maximum(ratios.std(axis=-1, ddof=1), LEAST_DEVIATION) / np.sqrt(blocks)
    looks = [look for look in LOOKS if look <= (looked_at or blocks)]
    level = LOOKS[max(looks, default=min(LOOKS))]
    return Judgement(
        is_confirmed=mean - t_quantile(level, blocks - 1) * se > least,
        is_refuted=mean + t_quantile(WRONGLY_REFUTED, blocks - 1) * se < least,
        ratio_log=mean,
        half_width=t_quantile(0.025, blocks - 1) * se,
    )


def confirm_by_nights(
    values: Sequence[float | None],
    first_bad_night_index: int,
    metric: Amount,
    left_out: Collection[int] = (),
    *,
    is_pinned: bool = False,
) -> Confirmation:
    """Judge the nights since a change by comparing them with earlier nights. If `is_pinned`, these
    are the nights of the first month. `values` and `left_out` are as in `screen`."""
    earlier = metric.of_nights(values[:first_bad_night_index], left_out)
    since = metric.of_nights(values[first_bad_night_index:])
    since = since[~np.isnan(since)]
    if nights_in(earlier) < 2 or not len(since):
        return Confirmation(state="undecided", blocks=len(since))
    months = [_month(earlier, is_pinned=is_pinned)]
    if len(since) >= FEWEST_NIGHTS:  # fewer nights may be alike by chance
        months.append(first_measured(earlier, MONTH))
    judged = [judge_nights(month, since, metric.min_effect) for month in months]
    confirmed = next((judgement for judgement in judged if judgement.is_confirmed), judged[0])
    is_odd = len(since) == 1 and not confirmed.is_confirmed
    return Confirmation(state="undecided", blocks=1) if is_odd else confirmed.one(len(since), 0)


def judge_nights(before: Array, since: Array, min_effect: float, z: float = NIGHTS_Z) -> Judgement:
    """Compare the nights since a change with two or more earlier nights. `since` has no NaN. The
    null hypothesis is no change, but the median must also reach the least effect."""
    level = medians(before)[..., None]
    noise = _noise(before - level)
    excess = since - level
    counted = np.clip(excess, -NIGHT_COUNTS * noise, NIGHT_COUNTS * noise).mean(axis=-1)
    old, new, noise = nights_in(before), since.shape[-1], noise[..., 0]
    se = noise * np.sqrt(1 / new + MEDIAN_VARIANCE / old)
    oddest = np.fmax(np.fmax.reduce(abs(before - level), axis=-1), LEAST_NOISE)
    oddest = oddest * np.maximum(1.0, FEW_NIGHTS / old) ** 2
    is_overwhelming = new * excess.min(axis=-1) >= OVERWHELMING * oddest
    ratio_log, least = np.median(excess, axis=-1), np.log1p(min_effect)
    is_confirmed = ((counted >= z * se) | is_overwhelming) & (ratio_log >= least)
    return Judgement(
        is_confirmed=is_confirmed,
        is_refuted=~is_confirmed & (np.maximum(counted, ratio_log) + ONE_SIDED * se < least),
        ratio_log=ratio_log,
        half_width=TWO_SIDED * noise * np.sqrt(MEDIAN_VARIANCE * (1 / new + 1 / old)),
    )


def smallest_step(
    values: Sequence[float | None], metric: Amount, left_out: Collection[int], *, is_pinned: bool
) -> float | None:
    """Return `Series.smallest_step`, or None if there are fewer than two earlier nights."""
    measured = [place for place, value in enumerate(values) if value is not None][:-RECENT]
    earlier = metric.of_nights(values[: max(measured, default=0) + 1], left_out)
    before = _month(earlier, is_pinned=is_pinned)
    nights = nights_in(before)
    if nights < 2:
        return None
    noise = float(_noise(before - medians(before))[0])
    se = noise * np.sqrt(1 / MOST_NIGHTS + MEDIAN_VARIANCE / nights)
    return max(float(np.expm1(NIGHTS_Z * se)), metric.min_effect)


def confirm_words(fresh: Sequence[str], before: str, *, is_strict: bool = False) -> Confirmation:
    """Confirm a change if most words differ from `before`. If `is_strict`, one word is enough."""
    different = sum(word != before for word in fresh)
    state: Settled = "refuted" if fresh else "undecided"
    if different > (0 if is_strict else len(fresh) / 2):
        state = "confirmed"
    return Confirmation(state=state, blocks=len(fresh))


def _noise(deviations: Array) -> Array:
    """Return each row's robust standard deviation. It is larger if the row has few nights."""
    nights = nights_in(deviations)[..., None]
    robust = NORMAL * medians(abs(deviations))[..., None]
    most = np.maximum(3 * robust, LEAST_NOISE)
    squares = np.clip(deviations, -most, most) ** 2
    deviation = np.sqrt(np.nansum(squares, axis=-1, keepdims=True) / (nights - 1))
    return np.asarray(np.maximum(deviation, LEAST_NOISE) * (1 + NOISE_IN_DOUBT / nights))
