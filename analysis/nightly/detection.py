"""Screen and confirmation tried on made-up histories, as `sweep nightly` uses them, and plainer rules.

Nights are alerts from the first one on that has FEWEST_NIGHTS behind it.
"""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from cudnn_sweep.analysis.nightly.confirmation import (
    LOOKS,
    MOST_NIGHTS,
    WAITING_Z,
    judge_nights,
    judge_pairs,
)
from cudnn_sweep.analysis.nightly.gate import (
    FEWEST_NIGHTS,
    MONTH,
    NO_CANDIDATE,
    Array,
    Mask,
    Places,
    candidate_since,
    compared_with,
)
from cudnn_sweep.analysis.nightly.metric import STEADY_WALL
from cudnn_sweep.analysis.nightly.simulated_nights import Histories, NightNoise

MIN_EFFECT = STEADY_WALL.min_effect
SEVEN_PERCENT = float(np.log(1.07))


@dataclass(frozen=True, kw_only=True, slots=True)
class Screened:
    """Histories, and since when (series × nights) a candidate is worse, or NO_CANDIDATE."""

    histories: Histories
    since: Places


class Known(IntEnum):
    """What earlier nights made of a series."""

    NOTHING = 0
    WAITS = 1
    REFUTED = 2
    """So long as the screen shows it, it is not measured again."""
    ALERTS = 3
    """So long, it is no further alert."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Alerts:
    """Of a rule, over all series."""

    raised: Mask
    """Series × nights: the first night of each alert."""
    candidates: int = 0
    pairs: int = 0
    """Fresh pairs that all candidates took."""

    def found_within(self, nights: int, changed_at: Places) -> int:
        """Series with an alert in that many nights from the change on."""
        since = np.arange(self.raised.shape[1]) - changed_at[:, None]
        found = self.raised & (since >= 0) & (since < nights)
        return int(found.any(axis=1).sum())


def screened(histories: Histories) -> Screened:
    since = np.full(histories.values.shape, NO_CANDIDATE)
    for tonight in range(FEWEST_NIGHTS - 1, histories.values.shape[1]):
        since[:, tonight] = _candidates(histories.values[:, : tonight + 1])
    return Screened(histories=histories, since=since)


def _candidates(so_far: Array) -> Places:
    """Of each series, since when its last night shows that it is worse."""
    since = np.full(len(so_far), NO_CANDIDATE)
    for past in compared_with(so_far, MIN_EFFECT):
        since = np.where(since == NO_CANDIDATE, candidate_since(so_far, past), since)
    return since


def by_pairs(tried: Screened, generator: np.random.Generator) -> Alerts:
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
    scatter = noise.scatter((len(effects), pairs, 2), generator)
    ratios: Array = effects[:, None] + noise.process * (scatter[..., 1] - scatter[..., 0])
    return ratios


def by_waiting(tried: Screened, z: float = WAITING_Z) -> Alerts:
    """Each candidate confirmed by further nights; its first night's value takes in fresh processes."""
    histories, values = tried.histories, tried.histories.values.copy()
    raised = np.zeros(values.shape, dtype=bool)
    known = np.full(len(values), Known.NOTHING)
    first = np.full(len(values), NO_CANDIDATE)
    for tonight in range(FEWEST_NIGHTS - 1, values.shape[1]):
        since = _candidates(values[:, : tonight + 1])
        is_seen = since != NO_CANDIDATE
        known[(known != Known.WAITS) & ~is_seen] = Known.NOTHING
        new = np.flatnonzero((known == Known.NOTHING) & is_seen)
        values[new, tonight] = histories.with_fresh[new, tonight]
        first[new], known[new] = since[new], Known.WAITS
        cleared = new[_candidates(values[new, : tonight + 1]) == NO_CANDIDATE]
        is_asked = (known == Known.WAITS) | (known == Known.REFUTED)
        is_asked[cleared], known[cleared] = False, Known.REFUTED
        for night in np.unique(first[is_asked]):
            series = np.flatnonzero(is_asked & (first == night))
            nights_since = values[series, night : tonight + 1]
            before = values[series, max(0, night - MONTH) : night]
            judged = judge_nights(before, nights_since, MIN_EFFECT, z)
            raised[series[judged.is_confirmed], tonight] = True
            if nights_since.shape[1] >= MOST_NIGHTS:
                known[series[~judged.is_refuted]] = Known.NOTHING
            known[series[judged.is_refuted]] = Known.REFUTED
            known[series[judged.is_confirmed]] = Known.ALERTS
        known[(known == Known.REFUTED) & ~is_seen] = Known.NOTHING
    return Alerts(raised=raised)


def over_last_night(tried: Screened) -> Alerts:
    """The fixed rule: 7% slower than the night before."""
    values = tried.histories.values
    return _of_all(np.diff(values, axis=1, prepend=values[:, :1]) > SEVEN_PERCENT)


def over_last_month(tried: Screened) -> Alerts:
    """7% slower than the median of the month before."""
    values = tried.histories.values
    raised = np.zeros(values.shape, dtype=bool)
    for tonight in range(FEWEST_NIGHTS - 1, values.shape[1]):
        level = np.median(values[:, max(0, tonight - MONTH) : tonight], axis=1)
        raised[:, tonight] = values[:, tonight] - level > SEVEN_PERCENT
    return _of_all(raised)


def all_knowing(tried: Screened, z: float) -> Alerts:
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
