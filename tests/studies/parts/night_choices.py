"""Made-up nights whose processes choose between two kernels: today's alerts, and alerts that tell choices apart.

Told apart, times are compared given the kernel, and the share of the slower kernel is tested on its own. Today pairs
of the same kernel confirm too. All is in log time, as in simulated_nights.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from cudnn_sweep.analysis.nights.detect import (
    FEWEST_NIGHTS,
    LOOKS,
    MONTH,
    NO_CANDIDATE,
    WRONGLY_REFUTED,
    confirm,
    judge_pairs,
)
from cudnn_sweep.analysis.nights.series import Array, Mask, Places, t_quantile
from tests.studies.parts.detection import MIN_EFFECT, Alerts, by_nights, screened
from tests.studies.parts.simulated_nights import (
    FIRST_CHANGE,
    FRESH,
    LAST_CHANGE,
    PROCESSES,
    Histories,
    NightNoise,
)

LEAST = float(np.log1p(MIN_EFFECT))
LEAST_SHARE = 0.2  # by which the share of a kernel has to have grown, as times by 3%
FEWEST_MIXED = (
    3  # nights of a month with both kernels, from which on it is known how far they are apart
)
FEWEST_ALIKE = 3  # pairs of one kernel that are judged
SHARE_NIGHTS = 3  # of which a share makes a candidate
SHARE_SCREEN = 2.0  # standard errors by which it has to have grown for that
SHARE_WINDOWS = (3, 5, 7, 14)  # nights of which a share is an alert where no pairs settle it
SHARE_Z = 4.0  # standard errors over LEAST_SHARE for that
MANY = 1000  # degrees of freedom of what is about normal
WITHIN, WITHIN_WAITING = 3, 30  # nights in which a change is to be found

Judge: TypeAlias = Callable[[Array, Mask, int], tuple[Mask, Mask]]
"""Which series are confirmed and refuted, from the log ratios of their pairs, what each process chose, and the
error that this look may spend.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """What scatters, and what changes in the midst of a series."""

    meaning: str
    in_all: float
    slower: float
    """By how much the second kernel is slower."""
    share: float
    """Of processes that take it, before the change."""
    share_after: float
    step: float = 0.0
    """By how much both kernels become slower."""

    @property
    def is_still(self) -> bool:
        return self.step == 0 and self.share == self.share_after


@dataclass(frozen=True, kw_only=True, slots=True)
class ChoiceNights:
    """Histories of which it is known what each process chose."""

    change: Change
    histories: Histories
    share: Array
    """Series × nights: the probability of the slower kernel."""
    times: Array
    """Series × nights × processes; the last FRESH are those of a night in doubt."""
    is_slow: Mask
    """The same: which took the slower kernel."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Arm:
    """What one way to alert brings."""

    false_alerts: int
    """Before the change, over all series."""
    found: int
    """Series with an alert in time."""
    fresh_pairs: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class ChoiceFigures:
    """Today's alerts, and those that tell choices apart."""

    change: Change
    series: int
    pairs_unknown: Arm
    """Whose kernels are not known."""
    pairs: Arm
    pairs_apart: Arm
    """Candidates that are told apart, and so are their pairs."""
    waiting: Arm
    waiting_apart: Arm

    @property
    def arms(self) -> tuple[Arm, ...]:
        return (self.pairs_unknown, self.pairs, self.pairs_apart, self.waiting, self.waiting_apart)


def simulate_choices(series: int, nights: int, seed: int) -> Iterator[ChoiceFigures]:
    for place, change in enumerate(CHANGES):
        generator = np.random.default_rng([seed, place])
        yield try_change(make_nights(change, series, nights, generator), generator)


def try_change(nights: ChoiceNights, generator: np.random.Generator) -> ChoiceFigures:
    usual, apart = screened(nights.histories), screened(told_apart(nights))
    today = usual.since != NO_CANDIDATE
    told = (apart.since != NO_CANDIDATE) | share_candidates(nights)
    found = by_nights(apart)
    pairs_unknown, pairs_told, pairs = (
        _arm(nights, by_fresh_pairs(nights, candidates, judge, generator), WITHIN)
        for candidates, judge in ((today, all_pairs), (told, pairs_apart), (today, todays_pairs))
    )
    return ChoiceFigures(
        change=nights.change,
        series=len(nights.share),
        pairs_unknown=pairs_unknown,
        pairs=pairs,
        pairs_apart=pairs_told,
        waiting=_arm(nights, by_nights(usual), WITHIN_WAITING),
        waiting_apart=_arm(
            nights, Alerts(raised=found.raised | share_alerts(nights)), WITHIN_WAITING
        ),
    )


def make_nights(
    change: Change, series: int, nights: int, generator: np.random.Generator
) -> ChoiceNights:
    """As `make_histories` draws them, with every process kept."""
    noise = NightNoise(name=change.meaning, meaning="half common", in_all=change.in_all)
    shape = (series, nights)
    changed_at = generator.integers(FIRST_CHANGE, min(LAST_CHANGE, nights), series)
    is_after = np.arange(nights) >= changed_at[:, None]
    effect = np.where(is_after, np.log1p(change.step), 0.0)
    share = np.where(is_after, change.share_after, change.share)
    is_slow = generator.random((*shape, PROCESSES + FRESH)) < share[..., None]
    times = noise.processes(is_slow.shape, generator) + np.log1p(change.slower) * is_slow
    times += np.expand_dims(noise.common * noise.scatter(shape, generator) + effect, -1)
    histories = Histories(
        noise=noise,
        values=np.median(times[..., :PROCESSES], axis=-1),
        with_fresh=np.median(times, axis=-1),
        effect=effect,
        changed_at=changed_at,
    )
    return ChoiceNights(
        change=change, histories=histories, share=share, times=times, is_slow=is_slow
    )


def told_apart(nights: ChoiceNights) -> Histories:
    """Each process's time less what its kernel cost, beside others of its night, in the month before."""
    times, is_slow = nights.times[..., :PROCESSES], nights.is_slow[..., :PROCESSES].astype(float)
    slow = is_slow - is_slow.mean(axis=-1, keepdims=True)
    products, squares = (slow * times).sum(axis=-1), (slow**2).sum(axis=-1)
    slower: Array = np.zeros(nights.share.shape)
    for night in range(1, slower.shape[1]):
        past = (slice(None), slice(max(0, night - MONTH), night))
        is_known = (squares[past] > 0).sum(axis=1) >= FEWEST_MIXED
        cost = products[past].sum(axis=1) / np.where(is_known, squares[past].sum(axis=1), 1.0)
        slower[:, night] = np.where(is_known, cost, 0.0)
    given = nights.times - slower[..., None] * nights.is_slow
    return replace(
        nights.histories,
        values=np.median(given[..., :PROCESSES], axis=-1),
        with_fresh=np.median(given, axis=-1),
    )


def share_candidates(nights: ChoiceNights) -> Mask:
    """Series × nights: where the slower kernel was more frequent lately than in the month before."""
    return _grown(nights, SHARE_NIGHTS, 0.0) >= SHARE_SCREEN


def share_alerts(nights: ChoiceNights) -> Mask:
    """The first nights of alerts about the share, where no pairs settle it."""
    beyond = [_grown(nights, window, LEAST_SHARE) >= SHARE_Z for window in SHARE_WINDOWS]
    return _begins(np.any(beyond, axis=0))


def by_fresh_pairs(
    nights: ChoiceNights, is_candidate: Mask, judge: Judge, generator: np.random.Generator
) -> Alerts:
    """Each candidate confirmed by pairs of last good and current, as many as it takes."""
    confirmed = np.zeros(is_candidate.shape, dtype=bool)
    taken = 0
    for tonight in range(is_candidate.shape[1]):
        unsettled = np.flatnonzero(is_candidate[:, tonight])
        times, slow = np.empty((len(unsettled), 0, 2)), np.empty((len(unsettled), 0, 2), bool)
        for look in LOOKS:
            fresh = _fresh(nights, unsettled, tonight, look - times.shape[1], generator)
            taken += fresh[0].size // 2
            times, slow = (
                np.concatenate(each, axis=1) for each in zip((times, slow), fresh, strict=True)
            )
            is_confirmed, is_refuted = judge(times[..., 1] - times[..., 0], slow, look)
            confirmed[unsettled[is_confirmed], tonight] = True
            more = ~is_confirmed & ~is_refuted
            unsettled, times, slow = unsettled[more], times[more], slow[more]
    return Alerts(raised=_begins(confirmed), candidates=int(is_candidate.sum()), pairs=taken)


def all_pairs(ratios: Array, slow: Mask, look: int) -> tuple[Mask, Mask]:
    """Whatever the two processes chose."""
    judged = judge_pairs(ratios, MIN_EFFECT)
    return judged.is_confirmed, judged.is_refuted


def todays_pairs(ratios: Array, slow: Mask, look: int) -> tuple[Mask, Mask]:
    are_alike = slow[..., 0] == slow[..., 1]
    states = np.array(
        [
            confirm(mine.tolist(), MIN_EFFECT, alike.tolist()).state
            for mine, alike in zip(ratios, are_alike, strict=True)
        ]
    )
    return states == "confirmed", states == "refuted"


def pairs_apart(ratios: Array, slow: Mask, look: int) -> tuple[Mask, Mask]:
    """The times of pairs of one kernel, and the share of each kernel; refuted is what neither shows."""
    alike = slow[..., 0] == slow[..., 1]
    is_slower, is_not = np.zeros(len(ratios), bool), np.zeros(len(ratios), bool)
    for series in np.flatnonzero(alike.sum(axis=1) >= FEWEST_ALIKE):
        kept = ratios[series, alike[series]]
        se, df = kept.std(ddof=1) / np.sqrt(len(kept)), len(kept) - 1
        is_slower[series] = kept.mean() - t_quantile(LOOKS[look], df) * se > LEAST
        is_not[series] = kept.mean() + t_quantile(WRONGLY_REFUTED, df) * se < LEAST
    counts = slow.sum(axis=1)
    grown = _standard_errors(counts[:, 1], look, counts[:, 0], look, LEAST_SHARE)
    is_grown = grown > t_quantile(LOOKS[look], MANY)
    has_not = grown < -t_quantile(WRONGLY_REFUTED, MANY)
    return is_slower | is_grown, is_not & has_not


def _arm(nights: ChoiceNights, alerts: Alerts, within: int) -> Arm:
    changed_at = nights.histories.changed_at
    raised = alerts.raised
    if not nights.change.is_still:
        raised = raised & (np.arange(raised.shape[1]) < changed_at[:, None])
    return Arm(
        false_alerts=int(raised.sum()),
        found=alerts.found_within(within, changed_at),
        fresh_pairs=alerts.pairs,
    )


def _fresh(
    nights: ChoiceNights, series: Places, tonight: int, pairs: int, generator: np.random.Generator
) -> tuple[Array, Mask]:
    """Series × pairs × (last good, current): times without the night, which cancels, and choices."""
    change, effect = nights.change, nights.histories.effect[series, tonight]
    last_good = np.full(len(series), change.share)
    shares = np.stack([last_good, nights.share[series, tonight]], axis=-1)
    slow = generator.random((len(series), pairs, 2)) < shares[:, None]
    times = nights.histories.noise.processes(slow.shape, generator)
    times += np.log1p(change.slower) * slow
    times[..., 1] += effect[:, None]
    return times, slow


def _grown(nights: ChoiceNights, window: int, least: float) -> Array:
    """Series × nights: by how many standard errors the share of so many nights exceeds the month's before."""
    slow = nights.is_slow[..., :PROCESSES].sum(axis=-1)
    found = np.full(slow.shape, -np.inf)
    for night in range(FEWEST_NIGHTS - 1 + window, slow.shape[1]):
        first = night + 1 - window
        new, old = slow[:, first : night + 1], slow[:, max(0, first - MONTH) : first]
        counts = (new.sum(axis=1), new.shape[1] * PROCESSES, old.sum(axis=1))
        found[:, night] = _standard_errors(*counts, old.shape[1] * PROCESSES, least)
    return found


def _standard_errors(
    new: Places, of_new: int, old: Places, of_old: int, least: float = 0.0
) -> Array:
    """By which a share grew by more than `least`; each with one success and one failure more (Agresti, Caffo)."""
    after, before = (new + 1) / (of_new + 2), (old + 1) / (of_old + 2)
    variance = after * (1 - after) / (of_new + 2) + before * (1 - before) / (of_old + 2)
    found: Array = (after - before - least) / np.sqrt(variance)
    return found


def _begins(alerts: Mask) -> Mask:
    begins = alerts.copy()
    begins[:, 1:] &= ~alerts[:, :-1]
    return begins


def _changes(in_all: float) -> Iterator[Change]:
    for slower, share, step in ((0.1, 0.2, 0.0), (0.1, 0.2, 0.05), (0.05, 1 / 6, 0.05)):
        meaning = f"both {step:.0%} slower" if step else "nothing changes"
        yield Change(
            meaning=meaning,
            in_all=in_all,
            slower=slower,
            share=share,
            share_after=share,
            step=step,
        )
    for slower in (0.05, 0.1):
        yield Change(
            meaning="1 in 6 becomes 5 in 6",
            in_all=in_all,
            slower=slower,
            share=1 / 6,
            share_after=5 / 6,
        )


CHANGES = (*_changes(0.02), *_changes(0.005))
