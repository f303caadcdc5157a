"""Made-up nights as they come in labs: what stays, comes again, comes and goes, or is all series' at once.

Each reality says what its alerts are held to. All is in log time, as in simulated_nights.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from cudnn_sweep.analysis.nights.detect import NO_CANDIDATE
from cudnn_sweep.analysis.nights.findings import are_alike, are_most, begun_with_most
from cudnn_sweep.analysis.nights.series import FINE_NIGHTS, STEADY_WALL, Array, Mask, Places
from tests.studies.parts.detection import Alerts, Known, ScreenedHistories, by_nights
from tests.studies.parts.simulated_nights import (
    FRESH,
    PROCESSES,
    Histories,
    NightNoise,
)
from tests.studies.parts.simulation import LEEWAY

NIGHTS = 90  # of a reality in which something changes
STILL_NIGHTS = 60  # of one in which nothing does: false alerts are counted over as many
GROUP = 100  # series of one GPU, whose nights have all in common that is not their own
CHANGE = 30  # the night on which something changes
MENDED = 45
AGAIN = 55
LATE = slice(NIGHTS - 30, NIGHTS)  # nights long after the change
IN_TIME = 14  # nights for a second change to be told in
STAY = 0.95  # of the late nights of all series with an alert
LEAST_FOUND = 0.9  # of the series
TWICE_TOLD = 1.05  # alerts a series, where one would do
Effect: TypeAlias = Callable[[int, np.random.Generator], Array]
"""Log times by group and night, of so many groups."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reality:
    name: str
    meaning: str
    noise: NightNoise
    effect: Effect | None = None
    """What all series of a group have; None: nothing changes."""
    correlation: float = 0.0
    """Correlation of a night's own noise with that of the night before."""
    weekend: float = 0.0
    """Log time that two nights of seven are slower by."""
    common_shift: float = 0.0
    """Standard deviation of what all series of a group share in a night."""
    most_false: float | None = None
    """The most false alerts per series that are allowed over STILL_NIGHTS; None: no target."""
    stays: bool = False
    """Whether each series is to have one alert that lasts: see LEAST_FOUND, STAY and TWICE_TOLD."""
    comes_again: bool = False
    """Whether a second alert is to come, in a share STAY of the series."""
    most_findings: int | None = None
    """The most findings that a group whose series move alike may have in one night; None: no target."""

    @property
    def nights(self) -> int:
        return NIGHTS if self.effect else STILL_NIGHTS


@dataclass(frozen=True, kw_only=True, slots=True)
class RealityFigures:
    reality: Reality
    series: int
    told: float
    """Alerts per series; one that lasts several nights counts once."""
    found: float
    """Share of the series with an alert."""
    late: float
    """Share of the LATE nights, over all series with an alert, on which the alert lasts."""
    again: float
    """Share of the series with a new alert within IN_TIME nights from AGAIN on."""
    most_findings: int
    """The most findings of a group in one night; one that stands for most of its series counts once."""
    nights_told: float
    """Share of the nights, over all groups, with a finding that is an alert."""

    def missed(self) -> list[str]:
        """The targets that are missed by more than chance."""
        held = self.reality
        error = float(np.sqrt(self.told * self.series + 0.5)) / self.series
        misses = {
            "false alerts": held.most_false is not None
            and self.told - LEEWAY * error > held.most_false,
            "alerts that stay": held.stays and self.late < STAY,
            "a single alert": held.stays and self.told > TWICE_TOLD * self.found,
            "found": held.stays and self.found < LEAST_FOUND,
            "a second alert": held.comes_again and self.again < STAY,
            "one finding a night": held.most_findings is not None
            and self.most_findings > held.most_findings,
        }
        return [name for name, is_missed in misses.items() if is_missed]


def try_realities(series: int, seed: int) -> Iterator[RealityFigures]:
    for reality in REALITIES:
        yield try_reality(reality, series, seed)


def real_values(series: int, seed: int) -> dict[str, Array]:
    """For other programs: reality/NAME, times of series × nights."""
    return {
        f"reality/{each.name}": np.exp(real_histories(each, series, seed).values)
        for each in REALITIES
    }


def try_reality(reality: Reality, series: int, seed: int) -> RealityFigures:
    histories = real_histories(reality, series, seed)
    since = np.full(histories.values.shape, NO_CANDIDATE)
    alerts = by_nights(ScreenedHistories(histories=histories, since=since))
    assert alerts.known is not None
    alerting = alerts.known == Known.CONFIRMED
    again = alerts.raised[:, AGAIN : AGAIN + IN_TIME].any(axis=1)
    findings = np.array(
        [
            findings_of(alerts, slice(start, start + GROUP))
            for start in range(0, len(alerting), GROUP)
        ]
    )
    is_found = alerts.raised.any(axis=1)
    late = alerting[is_found, LATE] if reality.effect and is_found.any() else np.zeros(1)
    return RealityFigures(
        reality=reality,
        series=len(alerting),
        told=float(alerts.raised.sum()) / len(alerting),
        found=float(is_found.mean()),
        late=float(late.mean()),
        again=float(again.mean()),
        most_findings=int(findings.max()),
        nights_told=float((findings > 0).mean()),
    )


def real_histories(reality: Reality, series: int, seed: int) -> Histories:
    """The same for the same arguments, in whole groups."""
    generator = np.random.default_rng([seed, *reality.name.encode()])
    groups, nights, noise = -(-series // GROUP), reality.nights, reality.noise
    shape = (groups * GROUP, nights)
    own = _correlated(noise.scatter(shape, generator), reality.correlation)
    common = reality.common_shift * generator.standard_normal((groups, nights))
    common += reality.weekend * (np.arange(nights) % 7 >= 5)
    effect = np.zeros((groups, nights))
    if reality.effect is not None:
        effect += reality.effect(groups, generator)
    night = noise.common * own + np.repeat(common + effect, GROUP, axis=0)
    processes = noise.process * noise.scatter((*shape, PROCESSES + FRESH), generator)
    return Histories(
        noise=noise,
        values=night + np.median(processes[..., :PROCESSES], axis=-1),
        with_fresh=night + np.median(processes, axis=-1),
        effect=np.repeat(effect, GROUP, axis=0),
        changed_at=np.full(len(night), CHANGE),
    )


def findings_of(alerts: Alerts, group: slice) -> list[int]:
    """Night by night the alerts that a report shows of a group: most that move alike are one.

    As `shared.share`, whose one metric is that of all series here.
    """
    assert alerts.known is not None and alerts.sizes is not None
    assert alerts.beyond is not None and alerts.since is not None
    known, sizes, beyond = alerts.known[group], alerts.sizes[group], alerts.beyond[group]
    is_shared = alone = np.zeros(len(known), dtype=bool)
    is_confirmed, found = False, []
    for night in range(known.shape[1]):
        alerting = known[:, night] == Known.CONFIRMED
        lasting = beyond[:, max(0, night + 1 - FINE_NIGHTS) : night + 1].all(axis=1)
        since = alerts.since[group, night]
        alike = _alike(known[:, night], sizes[:, night], since, alone)
        told = is_shared & alerting & is_confirmed
        is_shared = alike | (is_shared & alerting & ~lasting)
        confirmed = alerting & is_shared
        is_confirmed = bool((told & confirmed).any() or 2 * confirmed.sum() > is_shared.sum())
        is_shared = is_shared & (is_confirmed | ~alone)
        alone = alerting & ~is_shared
        found.append(int(alone.sum()) + int(is_confirmed))
    return found


def _alike(known: Places, sizes: Array, since: Places, alone: Mask) -> Mask:
    """Which series wait or alert with alike sizes since one time; none where those are not most."""
    moved: Mask = np.isin(known, (Known.WAITING, Known.CONFIRMED)) & ~np.isnan(sizes)
    alike = np.zeros_like(moved)
    if moved.any():
        most = int(np.bincount(since[moved]).argmax())
        moved[moved] = begun_with_most(since[moved], most, alone[moved], may_creep=True)
        alike[moved] = are_alike(sizes[moved], STEADY_WALL.min_effect)
    return alike if are_most(int(alike.sum()), len(known)) else np.zeros_like(moved)


def _correlated(noise: Array, correlation: float) -> Array:
    """As large as it was, each night's a share of the night before."""
    found = noise.copy()
    rest = np.sqrt(1 - correlation**2)
    for night in range(1, noise.shape[1]):
        found[:, night] = correlation * found[:, night - 1] + rest * noise[:, night]
    return found


def _by_night(log_times: Array) -> Effect:
    return lambda groups, generator: np.tile(log_times, (groups, 1))


def _slower(step: float, *spans: tuple[int, int]) -> Effect:
    """In the nights of these spans."""
    found = np.zeros(NIGHTS)
    for first, last in spans:
        found[first:last] = np.log1p(step)
    return _by_night(found)


def _on_a_bad_node(step: float, share: float) -> Effect:
    return lambda groups, generator: np.log1p(step) * (generator.random((groups, NIGHTS)) < share)


def _half_common(in_all: float) -> NightNoise:
    return NightNoise(name=f"{in_all:.1%}", meaning="half common", in_all=in_all)


QUIET, ONE, TWO = (_half_common(in_all) for in_all in (0.005, 0.01, 0.02))
ONE_COMMON = NightNoise(name="1%", meaning="all common", in_all=0.01, common_share=1.0)
MOST_FALSE, MOST_FALSE_TOGETHER = 0.002, 0.02
FOREVER = (CHANGE, NIGHTS)
SINCE_THE_CHANGE = np.arange(NIGHTS) - CHANGE

REALITIES = (
    Reality(name="independent_0.5%", meaning="nothing changes", noise=QUIET, most_false=MOST_FALSE),
    Reality(name="independent_1%", meaning="nothing changes", noise=ONE, most_false=MOST_FALSE),
    Reality(name="independent_2%", meaning="nothing changes", noise=TWO, most_false=MOST_FALSE),
    Reality(
        name="autocorrelation",
        meaning="1%, each night 0.7 of the one before",
        noise=ONE_COMMON,
        correlation=0.7,
        most_false=MOST_FALSE_TOGETHER,
    ),
    Reality(
        name="weekends",
        meaning="1%, two nights of seven 1.5% slower",
        noise=ONE,
        weekend=0.015,
        most_false=MOST_FALSE_TOGETHER,
    ),
    Reality(
        name="common_shift",
        meaning="1%, and 1% that all series share in a night",
        noise=ONE,
        common_shift=0.01,
        most_false=MOST_FALSE_TOGETHER,
    ),
    Reality(
        name="never_mended_0.5%",
        meaning="5% slower from night 30 on",
        noise=QUIET,
        effect=_slower(0.05, FOREVER),
        stays=True,
    ),
    Reality(
        name="never_mended_1%",
        meaning="5% slower from night 30 on",
        noise=ONE,
        effect=_slower(0.05, FOREVER),
        stays=True,
    ),
    Reality(
        name="never_mended_2%",
        meaning="10% slower from night 30 on",
        noise=TWO,
        effect=_slower(0.1, FOREVER),
        stays=True,
    ),
    Reality(
        name="small_in_noise",
        meaning="5% slower from night 30 on, at 2% noise: no target",
        noise=TWO,
        effect=_slower(0.05, FOREVER),
    ),
    Reality(
        name="again",
        meaning="1%: 5% slower in nights 30 to 44, and again from 55 on",
        noise=ONE,
        effect=_slower(0.05, (CHANGE, MENDED), (AGAIN, NIGHTS)),
        comes_again=True,
    ),
    Reality(
        name="creep",
        meaning="0.5%: 0.2% slower each night from 30 on",
        noise=QUIET,
        effect=_by_night(np.log1p(0.002) * np.maximum(SINCE_THE_CHANGE, 0)),
        stays=True,
    ),
    Reality(
        name="flapping",
        meaning="0.5%: 5% slower every other night from 30 on",
        noise=QUIET,
        effect=_by_night(np.log1p(0.05) * ((SINCE_THE_CHANGE >= 0) & (SINCE_THE_CHANGE % 2 == 0))),
        stays=True,
    ),
    Reality(
        name="fix",
        meaning="1%: 5% faster from night 30 on",
        noise=ONE,
        effect=_slower(-0.05, FOREVER),
        most_false=MOST_FALSE,
    ),
    Reality(
        name="bad_node",
        meaning="0.5%: all series of a GPU 6% slower, in 15% of nights",
        noise=QUIET,
        effect=_on_a_bad_node(0.06, 0.15),
        most_findings=1,
    ),
    Reality(
        name="bad_node_2%",
        meaning="the same at 2%: no target",
        noise=TWO,
        effect=_on_a_bad_node(0.06, 0.15),
    ),
)
