"""How steady times scatter between processes: the noise that the verdicts are tried on.

All of it is in log time, so that 0.01 is about 1%. A trial's value is the median of its iterations,
as in a measured one; where processes take turns, that of the times of its turns.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]
Counts: TypeAlias = NDArray[np.int_]

ITERATIONS = 31  # samples of a process; odd: their median is one of them
STUDENT_DF = 3  # the heaviest tails whose variance is finite
STUDENT_DEVIATION = (STUDENT_DF / (STUDENT_DF - 2)) ** 0.5
DRIFT_PERIOD = 60  # trials: a room or a clock that goes up and down within minutes
HOST_CORRELATION = 0.9  # of the host's pace, from one round to the next


@dataclass(frozen=True, kw_only=True, slots=True)
class Noise:
    """A kind of scatter. Shares of the time, as standard deviations where nothing else is said."""

    name: str
    meaning: str
    pair: tuple[float, float]
    """Standard deviation of the log ratio of two processes; each cell has its own, between these two."""
    tails: Literal["normal", "student"] = "normal"
    drift: float = 0.0
    """Drift from the sweep's first trial to its last; on top, a third of it up and down."""
    block: float = 0.0
    """What both processes of a block share: its GPU, its hour."""
    iteration: float = 0.0
    """Standard deviation between iterations of a process."""
    correlation: float = 0.0
    """Correlation between one iteration and the next."""
    slow_share: float = 0.0
    """Share of processes, of either config, that are slower throughout."""
    slow_by: float = 0.0
    """How much slower at most."""
    other_choice_share: float = 0.0
    """Processes of the candidate that chose a slower kernel: of its mean, not beside it."""
    other_choice_by: float = 0.0
    rounds: int = 0
    """Turns that each process of a block takes; 0: they run one after another."""
    turn: tuple[float, float] = (0.0, 0.0)
    """Standard deviation of one round's log ratio, Student t; each cell has its own, between these two."""
    host: float = 0.0
    """What both turns of a round share, the host's pace: the loop waits for the CPU."""
    resemblance: float = 0.0
    """Correlation between a cell's block and the next."""
    origin: float = 0.0
    """Standard deviation of a cell's effect between launches, or hosts."""
    launch_blocks: int = 0
    """Blocks of a cell in each launch; 0: one launch on two hosts, a block on either."""


def log_times(noise: Noise, effects: Array, blocks: int, generator: np.random.Generator) -> Array:
    """Log times of cells × blocks × (baseline, candidate) whose log ratios have these means."""
    return times_and_choices(noise, effects, blocks, generator)[0]


def times_and_choices(
    noise: Noise, effects: Array, blocks: int, generator: np.random.Generator
) -> tuple[Array, Mask]:
    """`log_times`, and of cells × blocks whether the candidate's process made the other choice.

    Blocks of all cells run in random order, and so do the two configs of a block.
    """
    shape = (len(effects), blocks, 2)
    low, high = np.log(noise.pair)
    process = np.exp(generator.uniform(low, high, (len(effects), 1, 1))) / np.sqrt(2)
    times: Array = process * _tails(noise, shape, generator)
    times += noise.drift * _drift(_positions(shape, generator) / (times.size - 1), times.size)
    times += noise.block * generator.standard_normal((len(effects), blocks, 1))
    times += noise.iteration * _medians(noise.correlation, shape, generator)
    slow = generator.random(shape) < noise.slow_share
    times += slow * np.log1p(generator.uniform(0, noise.slow_by, shape))
    other = generator.random(shape[:2]) < noise.other_choice_share
    times[:, :, 1] += (other - noise.other_choice_share) * np.log1p(noise.other_choice_by)
    times[:, :, 1] += effects[:, None]
    return times, other


def origins_of(
    noise: Noise, shape: tuple[int, int], generator: np.random.Generator
) -> tuple[Counts, Array]:
    """Which launch or host each of cells × blocks has, and how far its cell's effect is off there."""
    cells, blocks = shape
    if noise.launch_blocks:
        numbers = np.tile(np.arange(blocks) // noise.launch_blocks, (cells, 1))
    else:
        numbers = generator.integers(0, 2, shape)
    off = noise.origin * generator.standard_normal((cells, numbers.max() + 1))
    return numbers, np.take_along_axis(off, numbers, axis=1)


def log_turns(noise: Noise, times: Array, generator: np.random.Generator) -> Array:
    """Log times of each turn, cells × blocks × (baseline, candidate) × rounds, around those of `times`."""
    cells, blocks, _ = times.shape
    pace = noise.host * _alike(HOST_CORRELATION, noise.rounds, (cells, blocks, 1), generator)
    low, high = np.log(noise.turn)
    turn = np.exp(generator.uniform(low, high, (cells, 1, 1, 1))) / np.sqrt(2) / STUDENT_DEVIATION
    turns: Array = turn * generator.standard_t(STUDENT_DF, (*times.shape, noise.rounds))
    turns += times[..., np.newaxis]
    turns += np.moveaxis(pace, 0, -1)
    return turns


def _tails(noise: Noise, shape: tuple[int, ...], generator: np.random.Generator) -> Array:
    if noise.resemblance:
        cells, blocks, configs = shape
        alike = _alike(noise.resemblance, blocks, (cells, configs), generator)
        return np.moveaxis(alike, 0, 1)
    if noise.tails == "normal":
        return generator.standard_normal(shape)
    student: Array = generator.standard_t(STUDENT_DF, shape) / STUDENT_DEVIATION
    return student


def _positions(shape: tuple[int, int, int], generator: np.random.Generator) -> Array:
    """Each trial's place in the sweep."""
    cells, blocks, configs = shape
    places = generator.permutation(cells * blocks).reshape(cells, blocks, 1)
    first = generator.integers(0, 2, (cells, blocks, 1))
    return configs * places + (first + np.arange(configs)) % configs


def _drift(elapsed: Array, trials: int) -> Array:
    return elapsed - 0.5 + np.sin(2 * np.pi * elapsed * trials / DRIFT_PERIOD) / 3


def _medians(correlation: float, shape: tuple[int, ...], generator: np.random.Generator) -> Array:
    """Medians of iterations that resemble the one before them, with a standard deviation of 1."""
    medians: Array = np.median(_alike(correlation, ITERATIONS, shape, generator), axis=0)
    return medians


def _alike(
    correlation: float, count: int, shape: tuple[int, ...], generator: np.random.Generator
) -> Array:
    """So many, each of which resembles the one before it, with a standard deviation of 1."""
    samples = generator.standard_normal((count, *shape))
    for before, sample in pairwise(samples):
        sample *= np.sqrt(1 - correlation**2)
        sample += correlation * before
    return samples


QUIET = (0.001, 0.009)  # device times of device-bound cells on an H200
# Wall times of loops that wait for the CPU of an H200's host: what is left between two processes that
# take turns, and what there is between two that run one after another.
IN_TURNS = (0.001, 0.005)
CONTRASTS = (0.001, 0.02)  # closed cells in turns on H200s, 223 of them: quartiles 0.25 and 1.3%
ONE_AFTER_ANOTHER = (0.02, 0.28)
BETWEEN_THEM = (0.01, 0.05)

PROMISED = (
    Noise(name="device_bound", meaning="normal, 0.1 to 0.9%", pair=QUIET),
    Noise(
        name="launch_bound",
        meaning="in turns: a round's ratio scatters by 2 to 11%, the host's pace by 10%",
        pair=IN_TURNS,
        drift=0.1,
        block=0.2,
        rounds=61,
        turn=(0.02, 0.11),
        host=0.1,
    ),
    Noise(
        name="contrasts",
        meaning="in turns, as ratios of stored cells scatter between blocks: 0.1 to 2%",
        pair=CONTRASTS,
        rounds=61,
        turn=(0.005, 0.03),
    ),
    Noise(
        name="hosts",
        meaning="as contrasts, launch-bound; the effect differs by 1.5% between two hosts",
        pair=CONTRASTS,
        rounds=61,
        turn=(0.005, 0.03),
        host=0.1,
        origin=0.015,
    ),
    Noise(
        name="launches",
        meaning="the same between launches of three blocks each",
        pair=CONTRASTS,
        rounds=61,
        turn=(0.005, 0.03),
        host=0.1,
        origin=0.015,
        launch_blocks=3,
    ),
    Noise(
        name="one_after_another",
        meaning="launch-bound loops not in turns: normal, 2 to 28%",
        pair=ONE_AFTER_ANOTHER,
    ),
    Noise(
        name="drift",
        meaning="10% over the sweep, 3% up and down within minutes",
        pair=QUIET,
        drift=0.1,
    ),
    Noise(name="unequal_blocks", meaning="blocks differ by 10%", pair=QUIET, block=0.1),
    Noise(
        name="autocorrelated",
        meaning="iterations scatter by 3%, each 0.9 like the one before",
        pair=QUIET,
        iteration=0.03,
        correlation=0.9,
    ),
    Noise(
        name="heavy_tails",
        meaning="Student t with 3 degrees of freedom, 1 to 5%",
        pair=BETWEEN_THEM,
        tails="student",
    ),
    Noise(
        name="everything",
        meaning="the four above at once",
        pair=BETWEEN_THEM,
        tails="student",
        drift=0.1,
        block=0.1,
        iteration=0.03,
        correlation=0.9,
    ),
    Noise(
        name="other_choices",
        meaning="one candidate process in five runs a kernel 10% slower",
        pair=QUIET,
        other_choice_share=0.2,
        other_choice_by=0.1,
    ),
)

NOT_PROMISED = (
    Noise(
        name="resembling",
        meaning="as contrasts, each block 0.6 like the cell's one before",
        pair=CONTRASTS,
        rounds=61,
        turn=(0.005, 0.03),
        resemblance=0.6,
    ),
    Noise(
        name="slow_processes",
        meaning="one process in twenty is up to 50% slower",
        pair=QUIET,
        slow_share=0.05,
        slow_by=0.5,
    ),
)
