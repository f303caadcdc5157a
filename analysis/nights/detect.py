"""The detector of a night. It says which series changed, and whether the change is confirmed.
In the order of this file:

1. **Screen.** A number is a candidate if tonight and one more of the last three nights lie too far
   from the median of the nights before. This is a control chart with a two-of-three run rule
   (Western Electric, Statistical Quality Control Handbook, 1956). It uses the median and the median
   absolute deviation (Hampel 1974), which outliers hardly move. On the first night of new software
   (for times: of new kernels), a number is also a candidate if it is far beyond every night before.
   The screen should miss few changes. It may err, because only confirmed candidates are reported.
2. **Screen words**, the values of a Category. A word is a candidate if it was rare on the nights
   before. The chance of a new word is about the share of words seen once (Good 1953). If that share
   is high and the words depend on chance, no word is a candidate.
3. **Confirm by fresh pairs** (`confirm`). Current and last good software take turns, so that the
   night affects both alike. After 6, 12, 24 and 48 pairs, one-sided t tests compare the log ratios
   of the pairs with the least effect. Each look spends a share of the error, as in group-sequential
   tests (Lan and DeMets 1983). Pairs with equal kernels are also tested separately, because times
   differ more between kernels than between versions of software.
4. **Confirm by nights** (`confirm_by_nights`). This judges what pairs cannot show: changes of the
   machine, and changes without a second environment. Fresh replicates count in a night's value.
   The test uses the mean of the nights since the change. Odd nights are cut to a limit (winsorised,
   Huber 1964). The noise is a robust deviation of the month before, and of the first month.

settle.py makes findings of these judgements. Numbers are compared as logarithms, so that 5% more is
equally far at any level. An array has one series in each row and its nights along the last axis.
NaN marks a night that does not count.
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

RECENT = 3  # nights that are screened: tonight and one more of them must be beyond the line
MONTH = 30  # nights compared with: older ones are another season of the machine
NORMAL = 1.4826  # the standard deviation of normal noise, in median absolute deviations
FEWEST_NIGHTS = 7  # RECENT and four before: of fewer, one odd night moves the median
LATELY = 10  # the last nights, also compared with: a month would hide the loss of a fresh gain
LINE_IN_NOISE = 1.2  # standard deviations: at 2% noise, 19 of 20 steps of 5% are then seen
LINE_IN_EFFECT = 2 / 3  # of the least effect: without noise a step of that effect is always seen
NO_CANDIDATE = -1
# Shares of the nights compared with: a word on at least so many of them is usual.
SELDOM = 0.1  # cuDNN's searches choose among a few kernels, each time anew
OFTEN = 0.5  # a failure is news for as long as most nights had none


# --- Screen ---


@dataclass(frozen=True, kw_only=True, slots=True)
class Past:
    """Earlier nights with which each series is compared, and their range of usual values."""

    logs: Array
    """Logarithms of the values; NaN for nights that do not count."""
    level: Array
    line: Array
    """Largest usual distance from `level`; a night with a larger distance is suspect."""

    def beyond(self, logs: Array, sign: float) -> Mask:
        """Return which nights are unusual: worse if `sign` is 1, better if `sign` is -1."""
        return np.asarray(sign * (logs - self.level[..., None]) > self.line[..., None])


def compared_with(
    logs: Array, min_effect: float, *, left_out: Mask | None = None, is_pinned: bool = False
) -> list[Past]:
    """Return what the nights are compared with: the last month, the last LATELY nights, and the
    first month, which shows a slow creep. If `is_pinned`, return only the first month."""
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
    """Return each series' first suspect night, and the index of the Past that shows this night. The
    night is NO_CANDIDATE if a series has no suspect run."""
    compared = pasts if sign > 0 else pasts[:2]  # a gain over the first month would last for ever
    starts = np.array([_candidate_since(past.beyond(logs, sign)) for past in compared])
    by = (starts != NO_CANDIDATE).argmax(axis=0)
    return starts[by, np.arange(len(logs))], by


def mended(logs: Array, pasts: Sequence[Past]) -> Mask:
    beyond = np.any([past.beyond(logs[..., -FINE_NIGHTS:], 1.0) for past in pasts], axis=0)
    return np.asarray(~beyond.any(axis=-1))


def _candidate_since(beyond: Mask) -> Places:
    """Return the first night of each series' suspect run, which lasts until tonight. A single fine
    night does not end the run."""
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
    """Judge tonight's value, the last in `values`, which has a value or None for each night.

    `left_out`: indices of nights that tonight is not compared with. `is_new`: whether tonight is
    the first night of new software (for times: of new kernels).
    """
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
    """Judge tonight's value, a word, as `screen` judges a number. A change needs unusual words
    tonight and on one of the two nights before. If `metric.at_once`, tonight is enough.

    `softwares`: each night's software. If `metric.is_news`, the newest software's first word is
    not unusual. If `metric.is_drawn`, no word is a change in three cases: one software had two
    words, many words occurred only once, or there are fewer than LATELY earlier nights.
    """
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
    if metric.is_news and renewed is not None:
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

# The numbers of pairs to look at, and each look's chance of a wrong confirmation at just the least effect,
# together 0.05: the first look is hardest, as most false candidates end there.
LOOKS = {6: 0.002, 12: 0.008, 24: 0.015, 48: 0.025}
WRONGLY_REFUTED = 0.05  # the chance of a wrong refutation, at each look
FEWEST_ALIKE = 5  # fewest pairs of equal kernels judged apart: fewer may agree by chance
LEAST_DEVIATION = 1e-9  # of log ratios: ratios of memory are all equal, with a deviation of zero
MOST_NIGHTS = 14  # nights since a step, in `smallest_step`
NIGHTS_Z = 4.5  # standard errors: at 2% noise a false alert in 300 series of 60 nights, or rarer
NIGHT_COUNTS = 3  # most standard deviations that a night counts: one odd night decides nothing
# A change is believed if nights × their least excess reach so many times the oddest night before:
# two nights of 5 times, five of twice. Of fewer than FEW_NIGHTS before, the oddest counts more.
OVERWHELMING = 10
FEW_NIGHTS = 6
LEAST_NOISE = 0.003  # least noise between nights: a few nights may agree by chance
NOISE_IN_DOUBT = 1.5  # noise is multiplied by 1 + this / nights, as few nights show it badly
MEDIAN_VARIANCE = np.pi / 2  # variance of a median / of a mean, for normal noise
ONE_SIDED = 1.645  # standard errors: one time in twenty
TWO_SIDED = 1.96


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
    """Judge fresh pairs by `log_ratios`: log(current / last good software) of each block.

    Call it after 6, 12, 24 and 48 pairs (`more_blocks`). Other looks would add wrong answers.
    `are_alike`: pairs with equal kernels. If the alike pairs confirm a change, return their ratio.
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


def judge_pairs(ratios: Array, min_effect: float, looked_at: int | None = None) -> Judgement:
    """Judge log ratios of two or more pairs, which lie along the last axis.

    `looked_at`: number of all measured pairs, if `ratios` has only some of them.
    """
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
    """Judge the nights since a change. Compare them with the month before the change or, if
    `is_pinned`, with the first month. Compare FEWEST_NIGHTS or more nights with both months.

    `values`, `left_out`: as in `screen`."""
    earlier = metric.of_nights(values[:first_bad_night_index], left_out)
    since = metric.of_nights(values[first_bad_night_index:])
    since = since[~np.isnan(since)]
    if nights_in(earlier) < 2 or not len(since):
        return Confirmation(state="undecided", blocks=len(since))
    months = [_month(earlier, is_pinned=is_pinned)]
    if len(since) >= FEWEST_NIGHTS:  # fewer may only resemble each other
        months.append(first_measured(earlier, MONTH))
    judged = [judge_nights(month, since, metric.min_effect) for month in months]
    confirmed = next((judgement for judgement in judged if judgement.is_confirmed), judged[0])
    is_odd = len(since) == 1 and not confirmed.is_confirmed
    return Confirmation(state="undecided", blocks=1) if is_odd else confirmed.one(len(since), 0)


def judge_nights(before: Array, since: Array, min_effect: float, z: float = NIGHTS_Z) -> Judgement:
    """Judge the nights since a change against two or more nights before it. Both arrays are
    logarithms with nights along the last axis; `since` has no NaN.

    The null hypothesis is no change. A test against the least effect would need a month to confirm
    5% at 2% noise. The median must reach the least effect. A single night must be far off.
    """
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
    """Return the smallest relative change that MOST_NIGHTS nights confirm in half of all cases, but
    never less than `metric.min_effect`. Return None if fewer than two nights count."""
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
    """Judge fresh words. Most must differ from `before`; if `is_strict`, one word is enough."""
    different = sum(word != before for word in fresh)
    state: Settled = "refuted" if fresh else "undecided"
    if different > (0 if is_strict else len(fresh) / 2):
        state = "confirmed"
    return Confirmation(state=state, blocks=len(fresh))


def _noise(deviations: Array) -> Array:
    """Return each row's robust standard deviation, raised if nights are few."""
    nights = nights_in(deviations)[..., None]
    robust = NORMAL * medians(abs(deviations))[..., None]
    most = np.maximum(3 * robust, LEAST_NOISE)
    squares = np.clip(deviations, -most, most) ** 2
    deviation = np.sqrt(np.nansum(squares, axis=-1, keepdims=True) / (nights - 1))
    return np.asarray(np.maximum(deviation, LEAST_NOISE) * (1 + NOISE_IN_DOUBT / nights))
