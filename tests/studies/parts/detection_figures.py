"""How often alerts are false and changes are found, over made-up histories: what docs state."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from cudnn_sweep.analysis.nights.detect import MOST_NIGHTS, NO_CANDIDATE
from tests.studies.parts import detection
from tests.studies.parts.detection import Alerts, ScreenedHistories
from tests.studies.parts.realities import real_values
from tests.studies.parts.simulated_nights import (
    HELD_TO_TARGETS,
    OTHERS,
    Histories,
    NightNoise,
    make_histories,
)
from tests.studies.parts.simulation import LEEWAY, Share

STEP = 0.05  # that the targets are about
OTHER_STEPS = (0.03, 0.04, 0.07, 0.1)
WITHIN = 3  # nights
WAITS = (3, 5, 7, 14, 30)  # nights
CURVES_OF = ("2%", "1%_common", "2%_common", "4%_common")
CURVE = (2.5, 3.0, 3.5, 4.0, 4.5, 5.0)  # standard errors at which a waiting alert is raised
ALL_KNOWING = (2.5, 3.0, 3.5, 4.0, 4.5)

Alert: TypeAlias = Callable[[ScreenedHistories], Alerts]
PLAIN: dict[str, Alert] = {
    "7% over last night": detection.over_last_night,
    "7% over the month": detection.over_last_month,
}

MOST_FALSE = 0.002  # alerts a series, over all nights
LEAST_FOUND = 0.9


@dataclass(frozen=True, kw_only=True, slots=True)
class Rate:
    """False alerts, and the series that they are of."""

    alerts: int
    series: int

    @property
    def value(self) -> float:
        return self.alerts / self.series

    @property
    def error(self) -> float:
        """Its Monte-Carlo standard error: above zero even where there is none."""
        return float(np.sqrt(self.alerts + 0.5)) / self.series


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """What one way to alert brings."""

    name: str
    pairs_a_candidate: float
    """Fresh pairs per candidate where nothing changes."""
    false_alerts: Rate
    """False alerts where nothing changes; for drifting hardware, those before it drifts."""
    found: dict[int, Share]
    """Share of the changes with an alert within so many nights from the change on."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NightFigures:
    """All figures for one kind of noise."""

    noise: NightNoise
    is_promised: bool
    candidates: Share
    """Share of nights, over all series, that are candidates where nothing changes."""
    software: Rule
    """The rule for software, tried on a step of 5%."""
    found_by_step: dict[float, Share]
    """Share of software changes of other sizes that are found within three nights, by size."""
    by_nights_alone: dict[float, Share]
    """Of the software changes with an alert within MOST_NIGHTS, those that no pairs confirm, by size."""
    hardware: Rule
    """The rule for hardware, tried on a step of 5%; for drifting hardware on the drift."""
    curve: list[Rule]
    """As `hardware`, for stricter and laxer alerts, and beside it a detector that knows all."""
    all_knowing: list[Rule]
    plain: list[Rule]

    def missed(self) -> list[str]:
        """The targets for changes of software that are missed by more than chance."""
        false, found = self.software.false_alerts, self.software.found[WITHIN]
        misses = {
            "false alerts": false.value - LEEWAY * false.error > MOST_FALSE,
            "steps found": found.misses(LEAST_FOUND, 1.0),
        }
        return [name for name, is_missed in misses.items() if is_missed]


def simulate_nights(series: int, nights: int, seed: int) -> Iterator[NightFigures]:
    for noise in HELD_TO_TARGETS + OTHERS:
        yield try_noise(noise, series, nights, seed)


def try_noise(noise: NightNoise, series: int, nights: int, seed: int) -> NightFigures:
    """Histories without a change, and with one of each size."""

    def made(step: float) -> ScreenedHistories:
        return detection.screened(histories(noise, step, series, nights, seed))

    still, stepped = made(0.0), made(STEP)
    software, hardware = (still, stepped), (still, still if noise.is_drifting else stepped)
    generator = np.random.default_rng([seed, *noise.name.encode()])
    by_pairs = partial(detection.by_pairs, generator=generator)
    has_curve = noise.name in CURVES_OF
    changes = {step: made(step) for step in OTHER_STEPS}
    pairs_of = {step: by_pairs(changed) for step, changed in changes.items()}
    every = {STEP: stepped, **changes}
    return NightFigures(
        noise=noise,
        is_promised=noise in HELD_TO_TARGETS,
        candidates=Share(hits=int((still.since != NO_CANDIDATE).sum()), cells=still.since.size),
        software=_rule("by pairs", by_pairs, software),
        found_by_step={
            step: _found(changed, pairs_of[step], WITHIN) for step, changed in changes.items()
        },
        by_nights_alone={
            step: _by_nights_alone(changed, pairs_of.get(step) or by_pairs(changed))
            for step, changed in every.items()
        },
        hardware=_rule("by nights", detection.by_nights, hardware),
        curve=[
            _rule(f"{z:g}", partial(detection.by_nights, z=z), hardware) for z in CURVE if has_curve
        ],
        all_knowing=[
            _rule(f"{z:g}", partial(detection.all_knowing, z=z), hardware)
            for z in ALL_KNOWING
            if has_curve
        ],
        plain=[_rule(name, alert, hardware) for name, alert in PLAIN.items()],
    )


def histories(noise: NightNoise, step: float, series: int, nights: int, seed: int) -> Histories:
    """The same for the same arguments; another noise on the list changes none of this one."""
    generator = np.random.default_rng([seed, round(1000 * step), *noise.name.encode()])
    return make_histories(noise, step, series, nights, generator)


def save_histories(path: Path, series: int, nights: int, seed: int) -> None:
    """For other programs: NAME/still, NAME/stepped (values of series × nights), NAME/changed_at; and those
    of realities.py.
    """
    arrays: dict[str, Any] = {**real_values(series, seed)}
    for noise in HELD_TO_TARGETS + OTHERS:
        still, stepped = (histories(noise, step, series, nights, seed) for step in (0.0, STEP))
        arrays[f"{noise.name}/still"] = np.exp(still.values)
        arrays[f"{noise.name}/stepped"] = np.exp(stepped.values)
        arrays[f"{noise.name}/changed_at"] = stepped.changed_at
    with path.open("wb") as file:
        np.savez_compressed(file, **arrays)


def _rule(name: str, alert: Alert, tried: tuple[ScreenedHistories, ScreenedHistories]) -> Rule:
    """The rule's figures, from `tried`: histories without a change, and with one."""
    still, changed = tried
    still_alerts, changed_alerts = (alert(each) for each in tried)
    raised = still_alerts.raised
    if changed is still:
        raised = raised & (np.arange(raised.shape[1]) < still.histories.changed_at[:, None])
    return Rule(
        name=name,
        pairs_a_candidate=still_alerts.pairs / max(still_alerts.candidates, 1),
        false_alerts=Rate(alerts=int(raised.sum()), series=len(raised)),
        found={nights: _found(changed, changed_alerts, nights) for nights in WAITS},
    )


def _by_nights_alone(changed: ScreenedHistories, pairs: Alerts) -> Share:
    nights, changed_at = detection.by_nights(changed), changed.histories.changed_at
    either = Alerts(raised=pairs.raised | nights.raised)
    found = either.found_within(MOST_NIGHTS, changed_at)
    return Share(hits=found - pairs.found_within(MOST_NIGHTS, changed_at), cells=found)


def _found(changed: ScreenedHistories, alerts: Alerts, nights: int) -> Share:
    changed_at = changed.histories.changed_at
    return Share(hits=alerts.found_within(nights, changed_at), cells=len(changed_at))
