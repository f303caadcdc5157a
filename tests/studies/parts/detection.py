"""Screen and confirmation tried on made-up histories, as `sweep nightly` uses them, and plainer rules.

Nights are alerts from the first one on that has FEWEST_NIGHTS behind it.
"""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from cudnn_sweep.analysis.nights.detect import (
    FEWEST_NIGHTS,
    LOOKS,
    MONTH,
    MOST_NIGHTS,
    NIGHTS_Z,
    NO_CANDIDATE,
    can_tell,
    compared_with,
    first_shown,
    judge_nights,
    judge_pairs,
    mended,
)
from cudnn_sweep.analysis.nights.outcome import Finding
from cudnn_sweep.analysis.nights.series import (
    FINE_NIGHTS,
    STEADY_WALL,
    Array,
    Mask,
    Places,
    first_measured,
    last_measured,
)
from tests.studies.parts.simulated_nights import Histories, NightNoise

MIN_EFFECT = STEADY_WALL.min_effect
SEVEN_PERCENT = float(np.log(1.07))


class Known(IntEnum):
    """What is known of a series after a night: the state of its finding."""

    NONE = 0
    WAITING = 1
    REFUTED = 2
    CONFIRMED = 3

    @classmethod
    def of(cls, finding: Finding | None) -> "Known":
        return cls.NONE if finding is None else cls[finding.state.upper()]


@dataclass(frozen=True, kw_only=True, slots=True)
class ScreenedHistories:
    """Histories, and since when (series × nights) a candidate is worse, or NO_CANDIDATE."""

    histories: Histories
    since: Places


@dataclass(frozen=True, kw_only=True, slots=True)
class Alerts:
    """What a rule raises, over all series."""

    raised: Mask
    """Series × nights: the first night of each alert."""
    candidates: int = 0
    pairs: int = 0
    """Fresh pairs that all candidates took."""
    known: Places | None = None
    """Series × nights, as Known; None for rules that know nothing of nights before."""
    sizes: Array | None = None
    """Series × nights: the log ratio of what waits or alerts; None as for `known`."""
    beyond: Mask | None = None
    """Series × nights: whether the night is beyond the line; None as for `known`."""
    since: Places | None = None
    """Series × nights: where what waits or alerts began; None as for `known`."""

    def found_within(self, nights: int, changed_at: Places) -> int:
        """Series with an alert in that many nights from the change on."""
        since = np.arange(self.raised.shape[1]) - changed_at[:, None]
        found = self.raised & (since >= 0) & (since < nights)
        return int(found.any(axis=1).sum())


def screened(histories: Histories) -> ScreenedHistories:
    since = np.full(histories.values.shape, NO_CANDIDATE)
    for tonight in range(FEWEST_NIGHTS - 1, histories.values.shape[1]):
        since[:, tonight] = _screen(histories.values[:, : tonight + 1]).since
    return ScreenedHistories(histories=histories, since=since)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Screen:
    """What the last night shows, one value per series."""

    since: Places
    """The first of the nights that show the series to be worse, or NO_CANDIDATE."""
    can_tell: Mask
    is_mended: Mask
    is_beyond: Mask


def _screen(so_far: Array, left_out: Mask | None = None) -> _Screen:
    pasts = compared_with(so_far, MIN_EFFECT, left_out=left_out)
    tells, (since, _) = can_tell(pasts), first_shown(so_far, pasts)
    return _Screen(
        since=np.where(tells, since, NO_CANDIDATE),
        can_tell=tells,
        is_mended=mended(so_far, pasts),
        is_beyond=np.any([past.beyond(so_far[:, -1:], 1.0)[:, 0] for past in pasts], axis=0),
    )


def by_pairs(tried: ScreenedHistories, generator: np.random.Generator) -> Alerts:
    """Each candidate confirmed by interleaved pairs of last good and current, as many as it takes."""
    histories, is_candidate = tried.histories, tried.since != NO_CANDIDATE
    confirmed = np.zeros(is_candidate.shape, dtype=bool)
    pairs = 0
    for tonight in range(is_candidate.shape[1]):
        unsettled = np.flatnonzero(is_candidate[:, tonight])
        ratios: Array = np.empty((len(unsettled), 0))
        for look in LOOKS:
            effects = histories.effect[unsettled, tonight]
            fresh = pair_ratios(histories.noise, effects, look - ratios.shape[1], generator)
            ratios = np.concatenate([ratios, fresh], axis=1)
            pairs += fresh.size
            judged = judge_pairs(ratios, MIN_EFFECT)
            confirmed[unsettled[judged.is_confirmed], tonight] = True
            more = ~judged.is_confirmed & ~judged.is_refuted
            unsettled, ratios = unsettled[more], ratios[more]
    return Alerts(raised=_begins(confirmed), candidates=int(is_candidate.sum()), pairs=pairs)


def pair_ratios(
    noise: NightNoise, effects: Array, pairs: int, generator: np.random.Generator
) -> Array:
    """Two processes of one night, whose common part cancels."""
    processes = noise.processes((len(effects), pairs, 2), generator)
    ratios: Array = effects[:, None] + (processes[..., 1] - processes[..., 0])
    return ratios


def by_nights(tried: ScreenedHistories, z: float = NIGHTS_Z) -> Alerts:
    """Each candidate confirmed by nights; its first night's value takes in fresh processes."""
    following = _Following(tried.histories, z)
    nights = tried.histories.values.shape[1]
    raised = np.zeros(tried.histories.values.shape, dtype=bool)
    known = np.full(raised.shape, Known.NONE)
    sizes = np.full(raised.shape, np.nan)
    beyond = np.zeros(raised.shape, dtype=bool)
    since = np.full(raised.shape, NO_CANDIDATE)
    for tonight in range(FEWEST_NIGHTS - 1, nights):
        raised[:, tonight] = following.night(tonight)
        known[:, tonight], sizes[:, tonight] = following.known, following.sizes
        beyond[:, tonight], since[:, tonight] = following.is_beyond, following.first
    return Alerts(raised=raised, known=known, sizes=sizes, beyond=beyond, since=since)


class _Following:
    """All series from night to night, with what is known of them."""

    def __init__(self, histories: Histories, z: float) -> None:
        self._histories, self._z = histories, z
        self._values = histories.values.copy()
        self._left_out = np.zeros(self._values.shape, dtype=bool)
        self.first = np.full(len(self._values), NO_CANDIDATE)
        self.known = np.full(len(self._values), Known.NONE)
        self.sizes = np.full(len(self._values), np.nan)
        self.is_beyond = np.zeros(len(self._values), dtype=bool)

    def night(self, tonight: int) -> Mask:
        """Which series alert anew."""
        found, before = self._screen(tonight), self.known.copy()
        self.is_beyond = found.is_beyond
        is_over = (before == Known.CONFIRMED) & found.can_tell & found.is_mended
        self._left_out[is_over, tonight + 1 - FINE_NIGHTS :] = False
        lasts = (before == Known.CONFIRMED) & ~is_over
        is_asked, since = ~lasts & (found.since != NO_CANDIDATE), found.since.copy()
        new = np.flatnonzero(is_asked & np.isin(before, (Known.NONE, Known.CONFIRMED)))
        self._values[new, tonight] = self._histories.with_fresh[new, tonight]
        since[new] = self._screen(tonight, new).since
        is_cleared = is_asked & (since == NO_CANDIDATE)
        is_asked &= ~is_cleared
        self.known = np.where(lasts, Known.CONFIRMED, Known.NONE)
        self.known[is_cleared & ~self._show_better(tonight, is_cleared)] = Known.REFUTED
        self.first[is_asked] = since[is_asked]
        self._judge(tonight, is_asked, before == Known.REFUTED)
        self._remember(tonight)
        raised: Mask = is_asked & (self.known == Known.CONFIRMED)
        return raised

    def _remember(self, tonight: int) -> None:
        """No later night is compared with those of an alert."""
        for series in np.flatnonzero(self.known == Known.CONFIRMED):
            self._left_out[series, self.first[series] : tonight + 1] = True

    def _screen(self, tonight: int, series: Places | slice = slice(None)) -> _Screen:
        nights = (series, slice(tonight + 1))
        return _screen(self._values[nights], self._left_out[nights])

    def _show_better(self, tonight: int, of: Mask) -> Mask:
        """Which of these series are better tonight, as no worse one is."""
        found, series = np.zeros(len(of), dtype=bool), np.flatnonzero(of)
        so_far = self._values[series, : tonight + 1]
        pasts = compared_with(so_far, MIN_EFFECT, left_out=self._left_out[series, : tonight + 1])
        is_shown = first_shown(so_far, pasts, -1.0)[0] != NO_CANDIDATE
        found[series] = is_shown & can_tell(pasts)
        return found

    def _judge(self, tonight: int, is_asked: Mask, was_refuted: Mask) -> None:
        """As `confirm_by_nights` and `settle` do."""
        kept = np.where(self._left_out, np.nan, self._values)
        for night in np.unique(self.first[is_asked]):
            series = np.flatnonzero(is_asked & (self.first == night))
            since, earlier = self._values[series, night : tonight + 1], kept[series, :night]
            month, first = last_measured(earlier, MONTH), first_measured(earlier, MONTH)
            judged, by_first = (
                judge_nights(before, since, MIN_EFFECT, self._z) for before in (month, first)
            )
            is_by_first = by_first.is_confirmed & (since.shape[1] >= FEWEST_NIGHTS)
            is_of_first = is_by_first & ~judged.is_confirmed
            self.sizes[series] = np.where(is_of_first, by_first.ratio_log, judged.ratio_log)
            is_refuted = was_refuted[series] | (judged.is_refuted & (since.shape[1] > 1))
            known = np.where(is_refuted, Known.REFUTED, Known.WAITING)
            is_confirmed = judged.is_confirmed | is_by_first
            self.known[series] = np.where(is_confirmed, Known.CONFIRMED, known)


def over_last_night(tried: ScreenedHistories) -> Alerts:
    """The fixed rule: 7% slower than the night before."""
    values = tried.histories.values
    return _of_all(np.diff(values, axis=1, prepend=values[:, :1]) > SEVEN_PERCENT)


def over_last_month(tried: ScreenedHistories) -> Alerts:
    """7% slower than the median of the month before."""
    values = tried.histories.values
    raised = np.zeros(values.shape, dtype=bool)
    for tonight in range(FEWEST_NIGHTS - 1, values.shape[1]):
        level = np.median(values[:, max(0, tonight - MONTH) : tonight], axis=1)
        raised[:, tonight] = values[:, tonight] - level > SEVEN_PERCENT
    return _of_all(raised)


def all_knowing(tried: ScreenedHistories, z: float) -> Alerts:
    """What no rule beats that waits for a step: it knows the level, and the normal noise's size.

    An alert where the sum of the last nights, of whichever number, is so many standard errors over it.
    """
    values, in_all = tried.histories.values, tried.histories.noise.in_all
    sums = np.cumsum(np.pad(values, ((0, 0), (1, 0))), axis=1) / in_all
    highest = np.full(values.shape, -np.inf)
    for nights in range(1, MOST_NIGHTS + 1):
        found = (sums[:, nights:] - sums[:, :-nights]) / np.sqrt(nights)
        highest[:, nights - 1 :] = np.maximum(highest[:, nights - 1 :], found)
    return _of_all(highest >= z)


def _of_all(raised: Mask) -> Alerts:
    raised[:, : FEWEST_NIGHTS - 1] = False
    return Alerts(raised=_begins(raised))


def _begins(alerts: Mask) -> Mask:
    """Where an alert is that was none the night before."""
    begins = alerts.copy()
    begins[:, 1:] &= ~alerts[:, :-1]
    return begins
