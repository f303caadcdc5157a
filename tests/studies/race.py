"""Whole races of made-up steps whose truth is known: the product chooses each stage's configs, its SQL decides."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import typer
from rich.console import Console

from cudnn_sweep.analysis.results.advice import UNDECIDED, Advice, ConfigTrials
from cudnn_sweep.analysis.results.contrast import USUAL
from cudnn_sweep.analysis.results.verdicts import RaceState
from cudnn_sweep.analysis.store.schema import arrow_schema, settings
from cudnn_sweep.orchestrator.planning.decided import OUT, Standing, name_of
from cudnn_sweep.orchestrator.steps import levers
from cudnn_sweep.orchestrator.steps.levers import OWN, Changes
from cudnn_sweep.orchestrator.steps.racing import MOST_STAGES, UNTIL, Raced, race_of
from cudnn_sweep.orchestrator.steps.step_options import AdviseOptions
from cudnn_sweep.workloads.cells.config import Config
from tests.studies.parts.command import SEED, Seed, run
from tests.studies.parts.made_rows import EVERY_TRIAL, open_rows
from tests.studies.parts.noise import Array, Counts, Mask
from tests.studies.parts.steps import steps

RACES = 85
GAIN = 0.01
MOST_WRONG = 0.05
ROUNDS = 15
STEPS = 50_000
OPTIONS = AdviseOptions(workload="made.py:Up", steps=STEPS)
OFFERED = levers.named_changes(OPTIONS)
CONFIGS: list[Changes] = [
    tuple(sorted(change for change in changes if change))
    for changes in product(
        *([None, *(each for each in OFFERED if each[0] == lever)] for lever in levers.LEVERS)
    )
]
SECONDS = ((5, 19), (31, 66))
"""A process, and one that compiles: of the small networks of docs/results/h200-2026-11-29/race, and of a large one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """Steps of one kind. Pairs are the ends of a range from which each step has a value of its own."""

    name: str
    cpu: tuple[float, float]
    """The CPU's time over the GPU's, as written."""
    effect: float
    """Standard deviation of the log effect of a lever on the GPU's time; 0: no lever changes anything."""


# Standard deviations of logarithms, by the rows of docs/results/h200-2026-11-29/race and h200-2026-11-28/executions.
FULL, CPU = (0.001, 0.012), (0.005, 0.04)
"""Of the ratio of two processes of a block, if the GPU is full, and if the CPU holds it back."""
PACE = (0.01, 0.2)
"""Of the ratio of a loop that waits for the CPU to one that does not, from block to block."""
ROUND = {False: 0.004, True: 0.02}
"""Of a round's time; True: the CPU holds the loop back."""
START = 0.11
COLD = arrow_schema().field("cold").type
KINDS = [
    Kind(name="full GPU", cpu=(0.2, 0.8), effect=0.1),
    Kind(name="full GPU, near ties", cpu=(0.2, 0.8), effect=0.01),
    Kind(name="full GPU, all equal", cpu=(0.5, 0.5), effect=0),
    Kind(name="CPU-bound", cpu=(1.5, 6), effect=0.1),
    Kind(name="either", cpu=(0.8, 1.3), effect=0.05),
    Kind(name="CPU-bound, all equal", cpu=(3, 3), effect=0),
]


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """A race's answer beside the truth."""

    loss: float
    """By how much the job with the named config is longer than the shortest."""
    sets: bool
    """Whether the answer sets a config, as surely faster than the user's own."""
    sets_by_means: bool
    """The same by the interval of means, as with very many `--runs`."""
    is_faster: bool
    is_held: bool
    """Whether the true ratio is in the answer's interval."""
    stages: int
    plain: int
    """Processes without a compiler."""
    compiled: int


class Races:
    """Races side by side: each step is a cell, each stage a sweep."""

    def __init__(self, kinds: Sequence[Kind], seed: int) -> None:
        """Make up a race for each of `kinds`."""
        self._dice = np.random.default_rng(seed)
        self._races = races = len(kinds)
        cpu = self._drawn(*np.array([kind.cpu for kind in kinds]).T)
        effect = np.array([kind.effect for kind in kinds])
        self._step_ms, self._start_ms, self._waits = self._truths(cpu, effect)
        self.job_s = (self._start_ms + (STEPS - 1) * self._step_ms) / 1000
        self._process = {waits: self._drawn(*ends) for waits, ends in ((False, FULL), (True, CPU))}
        self._pace = self._drawn(*PACE)
        self._tables: list[pa.Table] = []
        self._times: list[dict[Changes, list[float]]] = [{} for _ in range(races)]
        self.answers: dict[int, Raced] = {}
        self.stages = np.zeros(races, int)
        self.processes = np.zeros((races, 2), int)
        """By race: processes, and those among them that compile."""

    def run(self, begins: Callable[[str], None] = lambda _: None) -> None:
        for stage in range(1, MOST_STAGES + 1):
            configs = {
                race: levers.next_configs(answer.rows if (answer := self.answers.get(race)) else {}, OFFERED)
                for race in range(self._races)
            }  # fmt: skip
            racing = {race: each for race, each in configs.items() if each}
            if not racing:
                return
            begins(f"stage {stage}, {len(racing)} races")
            self._run_stage(stage, racing)
            self._advise(racing)

    def _drawn(self, low: float | Array, high: float | Array) -> Array:
        """Return a value for each race, on a scale of logarithms."""
        return np.exp(self._dice.uniform(np.log(low), np.log(high), self._races))

    def _truths(self, cpu: Array, effect: Array) -> tuple[Array, Array, Mask]:
        """Return, by race and config: milliseconds of a step and of a start, and if the CPU holds the loop back."""
        own_ms, size, differs = self._drawn(1, 30), self._drawn(1, 8), effect > 0
        gpu = {change: effect * self._dice.standard_normal(self._races) for change in OFFERED}
        step, start = (np.zeros((self._races, len(CONFIGS))) for _ in range(2))
        waits = np.zeros(step.shape, bool)
        for number, changes in enumerate(CONFIGS):
            how = levers.config_of(changes).how
            together = effect / 4 * self._dice.standard_normal(self._races) * (len(changes) > 1)
            gpu_log = sum((gpu[change] for change in changes), together)
            cpu_log = np.log(cpu) + differs * (0.2 * how.compiles - 6 * how.captured)
            searches = levers.BENCHMARK[0] in changes
            start[:, number] = 1000 * size * differs * (2 * searches + 7 * how.compiles)
            waits[:, number] = cpu_log > gpu_log
            step[:, number] = own_ms * np.exp(np.maximum(cpu_log, gpu_log))
        return step, start + 200, waits

    def _run_stage(self, stage: int, racing: Mapping[int, Sequence[Changes]]) -> None:
        """Run blocks of each race until no other config can be faster, as a launch does."""
        is_open, out = sorted(racing), dict.fromkeys(racing, frozenset[Changes]())
        rows: list[pa.Table] = []
        for before, look in pairwise((0, *UNTIL.looks)):
            trials = [
                (race, block, CONFIGS.index(changes), changes in out[race])
                for race in is_open
                for block in range(before, look)
                for changes in racing[race]
            ]
            rows.append(self._rows(stage, *map(np.array, zip(*trials, strict=True))))
            with open_rows(pa.concat_tables(rows)) as database:
                states = RaceState.among(database, is_over=False)
            by_race: dict[int, list[RaceState]] = {}
            for state in states:
                by_race.setdefault(int(state.cell_id), []).append(state)
            standings = {
                race: Standing(states=by_race[race], stays=name_of(Config())) for race in is_open
            }
            out |= {
                race: frozenset(map(levers.changes_of, standing.out))
                for race, standing in standings.items()
            }
            is_open = [race for race in is_open if standings[race].is_open]
            if not is_open:
                break
        self._tables += rows
        self.stages[[*racing]] += 1

    def _rows(
        self, stage: int, race: Counts, block: Counts, config: Counts, is_out: Mask
    ) -> pa.Table:
        """Make up one stage's trials. The arguments have a value for each trial."""
        waits = self._waits[race, config]
        _, place = np.unique(np.stack([race, block]), axis=1, return_inverse=True)
        pace = self._dice.standard_normal(place.max() + 1)[place] * self._pace[race]
        process = np.where(waits, self._process[True][race], self._process[False][race]) / 2**0.5
        tails = self._dice.standard_t(5, len(race)) / (5 / 3) ** 0.5
        log = np.log(self._step_ms[race, config]) + process * tails + waits * pace
        turn = np.where(waits, ROUND[True], ROUND[False])[:, np.newaxis]
        samples = np.exp(
            log[:, np.newaxis] + turn * self._dice.standard_normal((len(race), ROUNDS))
        )
        first_ms = self._start_ms[race, config] * np.exp(
            START * self._dice.standard_normal(len(race))
        )
        ms = np.median(samples, axis=1)
        for at in np.flatnonzero(~is_out):
            self._times[race[at]].setdefault(CONFIGS[config[at]], []).append(float(ms[at]))
            self.processes[race[at], int(levers.config_of(CONFIGS[config[at]]).how.compiles)] += 1
        of_config = [config_of.columns() for config_of in map(levers.config_of, CONFIGS)]
        usual = {name: setting.usual for name, setting in settings().items()} | EVERY_TRIAL
        columns: dict[str, Any] = {
            **{name: [value] * len(race) for name, value in usual.items()},
            **{name: [of_config[each][name] for each in config] for name in of_config[0]},
            "sweep_id": [f"{each}-{stage}" for each in race],
            "cell_id": [str(each) for each in race],
            "trial_id": [
                f"{'-'.join(map(str, each))}" for each in zip(race, block, config, strict=True)
            ],
            "block": block,
            "looks": [list(UNTIL.looks)] * len(race),
            "status": np.where(is_out, OUT, "ok"),
            "in_turns": [True] * len(race),
            "launch_bound": waits,
            "compute_cache": np.where(block % 2, "warm", "empty"),
            "steady_wall_ms": pa.array(ms, mask=is_out),
            "steady_wall_samples_ms": pa.array(list(samples), mask=is_out),
            "steady_wall_rounds": pa.array([list(range(ROUNDS))] * len(race), mask=is_out),
            "cold": pa.array([[{"first_ms": each}] for each in first_ms], COLD, mask=is_out),
        }
        return pa.table(
            {
                name: pa.array(values, arrow_schema().field(name).type)
                for name, values in columns.items()
            }
        )

    def _advise(self, racing: Iterable[int]) -> None:
        """Answer each race by all its stages."""
        rows = pa.concat_tables(self._tables)
        racing_rows = rows.filter(pc.is_in(rows["cell_id"], pa.array(map(str, racing))))
        with open_rows(racing_rows) as database:
            rows = Advice.among(database, **USUAL.values(), **OPTIONS.job.values())
        by_race: dict[int, list[Advice]] = {}
        for row in rows:
            by_race.setdefault(int(row.cell_id), []).append(row)
        for race in racing:
            trials = [
                ConfigTrials(
                    settings=" ".join("=".join(change) for change in changes),
                    times_ms=times, busy=None, l2_error=None, failures=None, warnings=None,
                )
                for changes, times in self._times[race].items()
            ]  # fmt: skip
            self.answers[race] = race_of(OPTIONS, "made-up", trials, by_race[race])

    def found(self, race: int) -> Found:
        """Compare a race's answer with the truth."""
        answer, job_s = self.answers[race], self.job_s[race]
        own_s, best_s = (job_s[CONFIGS.index(each)] for each in (OWN, answer.best))
        row, ratio = answer.advice, best_s / own_s
        return Found(
            loss=best_s / job_s.min() - 1,
            sets=answer.said not in (UNDECIDED, levers.name_of(OWN)),
            sets_by_means=row is not None and row.mean_ratio_high < 1,
            is_faster=ratio < 1,
            is_held=row is None or row.ratio_low <= ratio <= row.ratio_high,
            stages=self.stages[race],
            plain=self.processes[race, 0],
            compiled=self.processes[race, 1],
        )


def race(
    races: Annotated[int, typer.Option(min=1, help="Made-up races of a kind.")] = RACES,
    seed: Seed = SEED,
) -> None:
    """Run made-up races, and report how far the named config is from the true best (a quarter of an hour).

    Exit code 1: by more than three Monte-Carlo standard errors, fewer than 95% of a kind name a config within 1%
    of the true best, or more than 5% set one that is no faster than the user's own.
    """
    typer.echo(
        f"Seed {seed}, {races} races a kind, of {len(CONFIGS)} configs, in a job of {STEPS:,} steps. Wrong: sets what "
        "is no faster (of\nmeans: by the interval of very many runs). Held: the answer's interval has the true ratio. "
        f"Processes: median (90%).\nMinutes: the median of a small and of a large network.\n\n{'kind':22}{'within 1%':>10}{'mean loss':>11}{'sets':>8}"
        f"{'wrong':>8}{'of means':>10}{'held':>8}{'stages':>8}{'processes':>12}{'minutes':>10}"
    )
    made = Races([kind for kind in KINDS for _ in range(races)], seed)
    with steps(Console(), MOST_STAGES) as begins:
        made.run(begins)
    noise = 3 * np.sqrt(MOST_WRONG * (1 - MOST_WRONG) / races)
    missed = False
    for place, kind in enumerate(KINDS):
        found = [made.found(race) for race in range(place * races, (place + 1) * races)]
        within = np.mean([each.loss <= GAIN for each in found])
        wrong = np.mean([each.sets and not each.is_faster for each in found])
        processes = [each.plain + each.compiled for each in found]
        minutes = [
            np.median([each.plain * plain_s + each.compiled * compiled_s for each in found]) / 60
            for plain_s, compiled_s in SECONDS
        ]
        typer.echo(
            f"{kind.name:22}{within:10.1%}{np.mean([each.loss for each in found]):11.2%}"
            f"{np.mean([each.sets for each in found]):8.1%}{wrong:8.1%}"
            f"{np.mean([each.sets_by_means and not each.is_faster for each in found]):10.1%}"
            f"{np.mean([each.is_held for each in found]):8.1%}"
            f"{np.median([each.stages for each in found]):8.0f}"
            f"{f'{np.median(processes):.0f} ({np.quantile(processes, 0.9):.0f})':>12}"
            f"{'–'.join(f'{each:.0f}' for each in minutes):>10}"
        )
        missed |= bool(within < 1 - MOST_WRONG - noise or wrong > MOST_WRONG + noise)
    if missed:
        raise typer.Exit(1)


if __name__ == "__main__":
    run(race)
