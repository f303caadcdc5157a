"""Made-up histories whose truth is known: what scatters from night to night, and what changed when.

All of it is in log time, so that 0.02 is about 2%. A night's value is the median of its processes.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from cudnn_sweep.analysis.nights.series import Array, Places
from tests.studies.parts.noise import STUDENT_DEVIATION, STUDENT_DF

PROCESSES = 3  # of a night: replicates of the suite `nightly`
MEDIAN_OF_THREE = 0.4487  # its variance, in those of one process (normal noise)
FRESH = 6  # more processes of a night in doubt: the first look of a confirmation
DRAWN = 11  # of a night, however many are used: a seed keeps its histories
FIRST_CHANGE = 14  # nights: before, a history has hardly begun
LAST_CHANGE = 46  # a fortnight is left to find it in
SPIKE = (0.1, 0.3)  # slower, for one night: another program ran beside it
DRIFT = 0.05  # in all
DRIFT_NIGHTS = 20
OTHER_CHOICE = float(np.log1p(0.1))  # slower: as in the noise `other_choices` of verdicts


@dataclass(frozen=True, kw_only=True, slots=True)
class NightNoise:
    """What scatters. Shares of the time, as standard deviations where nothing else is said."""

    name: str
    meaning: str
    in_all: float = 0.02
    """Standard deviation of a night's value, from all noise together."""
    common_share: float = 0.5
    """Share of the variance in all that the processes of a night have in common; the rest is each one's."""
    tails: Literal["normal", "student"] = "normal"
    spike_share: float = 0.0
    """Share of nights that are slower throughout, on top of the noise in all."""
    is_drifting: bool = False
    """The hardware gets slower by DRIFT, within DRIFT_NIGHTS."""
    other_choice_share: float = 0.0
    """Share of processes, of any night and software, that choose a kernel OTHER_CHOICE slower, on top of
    the noise in all.
    """

    @property
    def common(self) -> float:
        return float(self.in_all * np.sqrt(self.common_share))

    @property
    def process(self) -> float:
        return float(self.in_all * np.sqrt((1 - self.common_share) / MEDIAN_OF_THREE))

    def scatter(self, shape: tuple[int, ...], generator: np.random.Generator) -> Array:
        """Random numbers with a standard deviation of 1."""
        if self.tails == "normal":
            return generator.standard_normal(shape)
        student: Array = generator.standard_t(STUDENT_DF, shape) / STUDENT_DEVIATION
        return student

    def processes(self, shape: tuple[int, ...], generator: np.random.Generator) -> Array:
        """What each process has of its own."""
        own: Array = self.process * self.scatter(shape, generator)
        if self.other_choice_share:
            own += OTHER_CHOICE * (generator.random(shape) < self.other_choice_share)
        return own


@dataclass(frozen=True, kw_only=True, slots=True)
class Histories:
    """Log times, series × nights."""

    noise: NightNoise
    values: Array
    with_fresh: Array
    """The same nights with their fresh processes."""
    effect: Array
    """Log effect of what is under test, by night: 0 before its change."""
    changed_at: Places
    """The night of the change, or of the drift's begin."""


def make_histories(
    noise: NightNoise, step: float, series: int, nights: int, generator: np.random.Generator
) -> Histories:
    """Each series has its own nights: what is common to a night is common to its processes alone."""
    shape = (series, nights)
    changed_at = generator.integers(FIRST_CHANGE, min(LAST_CHANGE, nights), series)
    since = np.arange(nights) - changed_at[:, None]
    effect = np.where(since >= 0, np.log1p(step), 0.0)
    spikes = generator.random(shape) < noise.spike_share
    night = noise.common * noise.scatter(shape, generator) + effect
    night += spikes * np.log1p(generator.uniform(*SPIKE, shape))
    if noise.is_drifting:
        night += np.log1p(DRIFT) * np.clip((since + 1) / DRIFT_NIGHTS, 0, 1)
    processes = noise.processes((*shape, DRAWN), generator)
    return Histories(
        noise=noise,
        values=night + np.median(processes[..., :PROCESSES], axis=-1),
        with_fresh=night + np.median(processes[..., : PROCESSES + FRESH], axis=-1),
        effect=effect,
        changed_at=changed_at,
    )


HELD_TO_TARGETS = (
    NightNoise(name="2%_common", meaning="all of it common to a night", common_share=1.0),
    NightNoise(name="2%", meaning="half of its variance common to a night"),
    NightNoise(name="2%_process", meaning="all of it each process's own", common_share=0.0),
)
OTHERS = (
    NightNoise(name="0.5%", meaning="half common: device times of an H200", in_all=0.005),
    NightNoise(name="1%", meaning="half common", in_all=0.01),
    NightNoise(name="1%_common", meaning="all common", in_all=0.01, common_share=1.0),
    NightNoise(name="4%", meaning="half common", in_all=0.04),
    NightNoise(name="4%_common", meaning="all common", in_all=0.04, common_share=1.0),
    NightNoise(
        name="heavy_tails",
        meaning="2%, half common; Student t, 3 degrees of freedom",
        tails="student",
    ),
    NightNoise(
        name="spikes",
        meaning="2%, half common; 1 night in 50 is 10 to 30% slower",
        spike_share=0.02,
    ),
    NightNoise(
        name="other_choices",
        meaning="2%, half common; 1 process in 5 takes a kernel 10% slower",
        other_choice_share=0.2,
    ),
    NightNoise(
        name="other_choices_0.5%",
        meaning="0.5%, half common; the same choices",
        in_all=0.005,
        other_choice_share=0.2,
    ),
    NightNoise(
        name="drift",
        meaning="2%, half common; the hardware loses 5% in 20 nights",
        is_drifting=True,
    ),
)
