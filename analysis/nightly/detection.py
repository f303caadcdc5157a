"""Screen and confirmation tried on made-up histories, as `sweep nightly` uses them, and plainer rules.

Nights are alerts from the first one on that has FEWEST_NIGHTS behind it.
"""

from dataclasses import dataclass

import numpy as np

from cudnn_sweep.analysis.nightly import gate
from cudnn_sweep.analysis.nightly.confirmation import (
    LOOKS,
    MOST_NIGHTS,
    WAITING_Z,
    judge_nights,
    judge_pairs,
)
from cudnn_sweep.analysis.nightly.gate import FEWEST_NIGHTS, MONTH, Array, Mask, Places
from cudnn_sweep.analysis.nightly.metric import STEADY_WALL
from cudnn_sweep.analysis.nightly.simulated_nights import Histories, NightNoise

MIN_EFFECT = STEADY_WALL.min_effect
SEVEN_PERCENT = float(np.log(1.07))


@dataclass(frozen=True, kw_only=True, slots=True)
class Alerts:
    """Of a rule, over all series."""

    raised: Mask
    """Series × nights: the first night of each alert."""
    candidates: int = 0
    pairs: int = 0
    """Fresh pairs that all candidates took."""

    @property
    def count(self) -> int:
        return int(self.raised.sum())

    def found_within(self, nights: int, changed_at: Places) -> int:
        """Series with an alert in that many nights from the change on."""
        since = np.arange(self.raised.shape[1]) - changed_at[:, None]
        found = self.raised & (since >= 0) & (since < nights)
        return int(found.any(axis=1).sum())


def screened(histories: Histories) -> Places:
    """Series × nights: since when a candidate is worse, or NO_CANDIDATE."""
    nights = histories.values.shape[1]
    since = np.full(histories.values.shape, gate.NO_CANDIDATE)
    for tonight in range(FEWEST_NIGHTS - 1, nights):
        so_far = histories.values[:, : tonight + 1]
        for past in gate.compared_with(so_far, MIN_EFFECT):
            found = gate.candidate_since(so_far, past)
            since[:, tonight] = np.where(since[:, tonight] < 0, found, since[:, tonight])
    return since


def by_pairs(histories: Histories, since: Places, generator: np.random.Generator) -> Alerts:
    """Each candidate confirmed by interleaved pairs of last good and current, as many as it takes."""
    confirmed = np.zeros(since.shape, dtype=bool)
    pairs = 0
    for tonight in range(since.shape[1]):
        open_series = np.flatnonzero(since[:, tonight] != gate.NO_CANDIDATE)
        ratios: Array = np.empty((len(open_series), 0))
        for look in LOOKS:
            effects = histories.effect[open_series, tonight]
            fresh = pair_ratios(histories.noise, effects, look - ratios.shape[1], generator)
            ratios = np.concatenate([ratios, fresh], axis=1)
            pairs += fresh.size
            judged = judge_pairs(ratios, MIN_EFFECT)
            confirmed[open_series[judged.is_confirmed], tonight] = True
            is_open = ~judged.is_confirmed & ~judged.is_refuted
            open_series, ratios = open_series[is_open], ratios[is_open]
    candidates = int((since != gate.NO_CANDIDATE).sum())
    return Alerts(raised=_begins(confirmed), candidates=candidates, pairs=pairs)


def pair_ratios(
    noise: NightNoise, effects: Array, pairs: int, generator: np.random.Generator
) -> Array:
    """Two processes of one night, whose common part cancels."""
    scatter = noise.scatter((len(effects), pairs, 2), generator)
    ratios: Array = effects[:, None] + noise.process * (scatter[..., 1] - scatter[..., 0])
    return ratios


def by_waiting(histories: Histories, since: Places, z: float = WAITING_Z) -> Alerts:
    """Each candidate confirmed by further nights, whose values take in fresh processes."""
    values = histories.values.copy()
    raised = np.zeros(since.shape, dtype=bool)
    waits_since = np.full(len(since), gate.NO_CANDIDATE)
    candidates = 0
    for tonight in range(since.shape[1]):
        is_new = (waits_since < 0) & (since[:, tonight] >= 0)
        waits_since[is_new] = since[is_new, tonight]
        candidates += int(is_new.sum())
        waiting = waits_since >= 0
        values[waiting, tonight] = histories.with_fresh[waiting, tonight]
        for first in np.unique(waits_since[waiting]):
            series = np.flatnonzero(waits_since == first)
            before, new = (
                values[series, max(0, first - MONTH) : first],
                values[series, first : tonight + 1],
            )
            judged = judge_nights(before, new, MIN_EFFECT, z)
            raised[series[judged.is_confirmed], tonight] = True
            is_over = judged.is_confirmed | judged.is_refuted | (new.shape[1] >= MOST_NIGHTS)
            waits_since[series[is_over]] = gate.NO_CANDIDATE
    return Alerts(raised=raised, candidates=candidates, pairs=0)


def over_last_night(histories: Histories) -> Alerts:
    """The fixed rule: 7% slower than the night before."""
    raised = np.zeros(histories.values.shape, dtype=bool)
    raised[:, 1:] = np.diff(histories.values, axis=1) > SEVEN_PERCENT
    return _of_all(raised)


def over_last_month(histories: Histories) -> Alerts:
    """7% slower than the median of the month before."""
    raised = np.zeros(histories.values.shape, dtype=bool)
    for tonight in range(FEWEST_NIGHTS - 1, histories.values.shape[1]):
        level = np.median(histories.values[:, max(0, tonight - MONTH) : tonight], axis=1)
        raised[:, tonight] = histories.values[:, tonight] - level > SEVEN_PERCENT
    return _of_all(raised)


def all_knowing(histories: Histories, z: float) -> Alerts:
    """What no rule beats that waits for a step: it knows the level, and the normal noise's size.

    An alert where the sum of the last nights, of whichever number, is so many standard errors over it.
    """
    sums = np.cumsum(np.pad(histories.values, ((0, 0), (1, 0))), axis=1) / histories.noise.in_all
    highest = np.full(histories.values.shape, -np.inf)
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
