"""The detector of a night: which series are not what they were, and what each finding has become.

1. **Screen.** A number is a candidate if tonight and one more of the last three nights lie beyond a line around the
   median of the nights before: a control chart with a two-of-three run rule (Western Electric, Statistical Quality
   Control Handbook, 1956), on median and median absolute deviation (Hampel 1974), which odd nights hardly move. The
   screen is to miss little. It may be wrong, as nobody hears of a candidate that is not confirmed.
2. **Screen words.** A word is a candidate if it is seldom among the nights before. In a search that keeps choosing anew
   it is none: the share of words seen once is about the chance of one never seen (Good 1953).
3. **Confirm.** Fresh trials, or the nights that follow (confirm.py).
4. **Settle.** Whether a finding is confirmed, refuted or waits, by the rules of memory.py, and its cause.

Amounts are in logarithms: a step of 5% is as large at any level. Arrays hold a series a row, its nights along the
last axis; NaN stands for a night that a series is not compared with.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from math import log
from typing import Literal, TypeAlias

import numpy as np

from cudnn_sweep.analysis.nightly.confirm import MONTH, NORMAL, RECENT, smallest_step
from cudnn_sweep.analysis.nightly.history import SOFTWARE, History, differences
from cudnn_sweep.analysis.nightly.memory import FINE_NIGHTS, FindingState, Memory, stays
from cudnn_sweep.analysis.nightly.outcome import Direction, Finding
from cudnn_sweep.analysis.nightly.series import (
    METRIC_OF,
    Amount,
    Array,
    Category,
    Mask,
    Places,
    Series,
    SeriesKey,
    medians,
    nights_in,
    typical,
)

State: TypeAlias = Literal["fine", "worse", "better", "different", "insufficient_data"]

FEWEST_NIGHTS = 7  # RECENT and four before: of fewer, one odd night moves the median
LATELY = 10  # compared with as well: a month would hide that what was just won is lost again
LINE_IN_NOISE = 1.2  # standard deviations: at 2% noise, 19 of 20 steps of 5% are then seen
LINE_IN_EFFECT = 2 / 3  # of the least effect: at no noise a step of just that one is surely seen
NO_CANDIDATE = -1
# Of the nights compared with: a word that is seen as often is no news.
SELDOM = 0.1  # cuDNN's searches choose among a few kernels, each time anew
OFTEN = 0.5  # a failure is news for as long as most nights had none
DIRECTIONS: dict[str, Direction] = {"worse": "worse", "better": "better", "different": "other"}


# --- The screen of many series ---


@dataclass(frozen=True, kw_only=True, slots=True)
class Past:
    """The nights that series are compared with."""

    logs: Array
    """NaN for every other night."""
    level: Array
    line: Array
    """How far from the level a night is beyond it."""

    def beyond(self, logs: Array, sign: float) -> Mask:
        """Whether each night is beyond the line; `sign` is 1 for what is worse, -1 for what is better."""
        return np.asarray(sign * (logs - self.level[..., None]) > self.line[..., None])


def compared_with(
    logs: Array, min_effect: float, *, left_out: Mask | None = None, is_pinned: bool = False
) -> list[Past]:
    """A month, and where it is longer than that what came lately. Of a pinned baseline, its first month."""
    earlier = (logs if left_out is None else np.where(left_out, np.nan, logs))[..., :-RECENT]
    if is_pinned:
        return [_past(last_measured(earlier[..., ::-1], MONTH)[..., ::-1], min_effect)]
    lengths = [MONTH, LATELY] if earlier.shape[-1] > LATELY else [MONTH]
    return [_past(last_measured(earlier, length), min_effect) for length in lengths]


def _past(logs: Array, min_effect: float) -> Past:
    level = medians(logs)
    noise = NORMAL * medians(abs(logs - level[..., None]))
    line = np.maximum(LINE_IN_NOISE * noise, LINE_IN_EFFECT * np.log1p(min_effect))
    return Past(logs=logs, level=level, line=line)


def last_measured(logs: Array, length: int) -> Array:
    """NaN in place of all but so many of the last ones that are no NaN."""
    from_the_end = np.cumsum(~np.isnan(logs[..., ::-1]), axis=-1)[..., ::-1]
    return np.where(from_the_end <= length, logs, np.nan)


def can_tell(pasts: Sequence[Past]) -> Mask:
    """Whether each series has the nights that a comparison needs."""
    return np.asarray(nights_in(pasts[0].logs) >= FEWEST_NIGHTS - RECENT)


def first_shown(logs: Array, pasts: Sequence[Past], sign: float = 1.0) -> tuple[Places, Places]:
    """Where each series' nights beyond the line begin, or NO_CANDIDATE, and by which past: the first that shows it."""
    each = np.array([_candidate_since(past.beyond(logs, sign)) for past in pasts])
    by = (each != NO_CANDIDATE).argmax(axis=0)
    return each[by, np.arange(len(logs))], by


def mended(logs: Array, pasts: Sequence[Past]) -> Mask:
    """Whether the last nights of each series are fine."""
    beyond = np.any([past.beyond(logs[..., -FINE_NIGHTS:], 1.0) for past in pasts], axis=0)
    return np.asarray(~beyond.any(axis=-1))


def _candidate_since(beyond: Mask) -> Places:
    """They reach back from tonight over single nights that are not beyond the line, and leave the first ones
    to be compared with.
    """
    is_candidate = beyond[:, -1] & (beyond[:, -RECENT:].sum(axis=-1) >= 2)
    since = np.full(len(beyond), NO_CANDIDATE)
    nights_off = np.where(is_candidate, 0, 2)
    for night in reversed(range(FEWEST_NIGHTS - RECENT, beyond.shape[-1])):
        nights_off = np.where(beyond[:, night] & (nights_off < 2), 0, nights_off + 1)
        since[nights_off == 0] = night
        if (nights_off >= 2).all():
            break
    return since


# --- The screen of one series ---


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
    is_mended: bool = False
    """The last FINE_NIGHTS are not beyond the line of what is worse, or have usual words."""
    could_show: bool = True
    """Another word would be news: not so where new words keep coming."""


def screen(
    values: Sequence[float | None],
    metric: Amount,
    *,
    left_out: Collection[int] = (),
    is_pinned: bool = False,
) -> Screening:
    """Judge the last of `values`: one a night, oldest first, None where a night has none.

    Only nights of one env_hash, from the baseline's first on, belong here. Of those `left_out` holds
    the places that nothing is compared with.
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
    values: Sequence[str | None], metric: Category, *, left_out: Collection[int] = ()
) -> Screening:
    """As `screen`. Unless one night is enough, one of the two nights before has to be unusual too."""
    words = [
        (place, value)
        for place, value in enumerate(values)
        if value is not None and value != metric.no_answer
    ]
    recent, fewest, usual = (1, 2, OFTEN) if metric.at_once else (RECENT, FEWEST_NIGHTS, SELDOM)
    past = Counter([value for place, value in words[:-recent] if place not in left_out][-MONTH:])
    is_enough = len(words) >= fewest and past.total() >= fewest - recent
    if not is_enough or words[-1][0] != len(values) - 1:
        return Screening(state="insufficient_data", nights=len(words))
    before, now = past.most_common(1)[0][0], words[-1][1]
    fine = Screening(state="fine", nights=past.total(), before=before, now=now)
    if metric.is_drawn and [*past.values()].count(1) > SELDOM * past.total():
        return replace(fine, is_mended=True, could_show=False)
    unusual = [place for place, value in words if past[value] < usual * past.total()]
    is_mended = not {place for place, _ in words[-FINE_NIGHTS:]}.intersection(unusual)
    lately = [place for place, _ in words[-recent:] if place in unusual]
    if len(lately) < min(recent, 2) or lately[-1] != words[-1][0]:
        return replace(fine, is_mended=is_mended)
    state: State = "better" if now == metric.good else "worse"
    state = "different" if metric.good is None else state
    return replace(fine, state=state, first_bad_night_index=lately[0])


# --- Candidates: what the screen shows, and what earlier nights left open ---


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """A series that is not what it was, or that was so on an earlier night."""

    series: Series
    direction: Direction
    since: int
    """The first night that shows it, among the series' points."""
    screening: Screening
    """Tonight's, with the value before of the night that showed it."""
    is_seen: bool
    """Tonight's screen shows it; else it waits since an earlier night."""
    earlier: Finding | None
    """The finding of the night before."""
    left_out: frozenset[int]
    """Indices of the series' points that it is not compared with."""

    @property
    def key(self) -> SeriesKey:
        return self.series.key

    @property
    def is_new(self) -> bool:
        """Worth fresh trials: nothing is settled yet, and it is no gain."""
        return self.is_seen and self.direction != "better" and self.earlier is None


@dataclass(frozen=True, kw_only=True, slots=True)
class Screened:
    candidates: tuple[Candidate, ...]
    series: tuple[Series, ...]
    """Each with whether it was judged, and what it could show."""

    @property
    def unchanged(self) -> list[Series]:
        changed = {candidate.key for candidate in self.candidates}
        return [each for each in self.series if each.is_judged and each.key not in changed]


def screen_all(history: History, memory: Memory) -> Screened:
    """A finding of the night before that was refuted stays so, as long as the software does: it needs
    no fresh trials every night.
    """
    earlier = {finding.key.series_id: finding for finding in memory.findings}
    candidates: list[Candidate | None] = []
    judged: list[Series] = []
    for series in history.series:
        left_out, finding = memory.nights_left_out(series), earlier.get(series.key.series_id)
        if finding and finding.state == "refuted" and _is_other_software(history, finding.key):
            finding = None
        screening, seen = _screened(series, left_out, history.is_pinned)
        judged.append(seen)
        candidates.append(_candidate(seen, screening, finding, left_out))
    return Screened(candidates=tuple(filter(None, candidates)), series=tuple(judged))


def _is_other_software(history: History, key: SeriesKey) -> bool:
    """Than the night before, the user's own code behind the cell included."""
    if len(history.nights) < 2:
        return False
    before, tonight = history.nights[-2:]
    is_edited = bool(history.edited(key, len(history.comparable(key.env_hash)) - 1))
    return is_edited or bool(differences(before.parts, tonight.parts, SOFTWARE))


def _screened(
    series: Series, left_out: frozenset[int], is_pinned: bool
) -> tuple[Screening, Series]:
    """And the series with whether it was judged, and what it could show."""
    metric, numbers, step = METRIC_OF[series.key.metric], series.numbers, None
    if isinstance(metric, Amount):
        screening = screen(numbers, metric, left_out=left_out, is_pinned=is_pinned)
        step = smallest_step(numbers, metric, left_out=left_out, is_pinned=is_pinned)
        could_show = step is not None and step <= metric.min_effect
    else:
        screening = screen_words(series.words, metric, left_out=left_out)
        could_show = screening.could_show
    if screening.state == "insufficient_data":
        return screening, replace(series, is_judged=False)
    return screening, replace(series, smallest_step=step, could_show=could_show)


def _candidate(
    series: Series, screening: Screening, earlier: Finding | None, left_out: frozenset[int]
) -> Candidate | None:
    shown = DIRECTIONS.get(screening.state)
    is_seen = shown is not None
    if earlier is not None and shown != earlier.direction:
        is_seen, earlier = (False, earlier) if _stays(earlier, screening) else (is_seen, None)
    direction = earlier.direction if earlier is not None else shown
    first = series.place_of(earlier.since) if earlier is not None else None  # as it was compared
    since = screening.first_bad_night_index if first is None else first
    if direction is None or since is None:
        return None
    if not is_seen and earlier is not None:
        screening = replace(screening, before=earlier.before, now=series.points[-1].value)
    is_open = is_seen and (earlier is None or earlier.state == "waiting")
    if is_open and isinstance(screening.before, float):
        anew = _with_new_software(series, screening.before, since)
        earlier, since = (earlier if anew == since else None), anew
    return Candidate(
        series=series,
        direction=direction,
        since=since,
        screening=screening,
        is_seen=is_seen,
        earlier=earlier,
        left_out=left_out,
    )


def _stays(earlier: Finding, screening: Screening) -> bool:
    """Though tonight's screen does not show it. What was better does not."""
    stays_on = stays(
        FindingState.of(earlier),
        can_tell=screening.state != "insufficient_data",
        is_mended=screening.is_mended,
        is_opposite=screening.state in DIRECTIONS,
    )
    return earlier.direction != "better" and bool(stays_on)


def _with_new_software(series: Series, before: float, since: int) -> int:
    """Where a suspicion begins: with new software, where the nights that were suspect before it are nearer
    to what was usual than to what came with it.
    """
    points, numbers = series.points, series.numbers
    for at in range(since + 1, len(points)):
        suspect, now = typical(numbers[since:at]), typical(numbers[at:])
        is_new = points[at].software_hash != points[at - 1].software_hash
        if is_new and suspect and now and abs(log(suspect / before)) < abs(log(suspect / now)):
            since = at
    return since
