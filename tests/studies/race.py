"""Races of made-up configs whose truth is known, decided by the SQL that decides real ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import typer
from rich.console import Console

from cudnn_sweep.analysis.engine.queries import load_query
from cudnn_sweep.analysis.store.schema import arrow_schema, settings
from cudnn_sweep.workloads.cells.suite import UntilDecided
from tests.studies.parts.command import SEED, Seed, run
from tests.studies.parts.made_rows import EVERY_TRIAL, open_rows
from tests.studies.parts.steps import counted

RACES = 200
AT_MOST = 12
GAIN = 0.01
TARGET = 0.95
ROUNDS = 15
APART = 0.03  # share of blocks whose processes ran one after another
SECONDS = (9, 31)  # a fresh process: a small network, a large one (H200s and H100s)
CONFIGS = [
    {"benchmark": b, "deterministic": d, "enabled": e}
    for e in (True, False)
    for b in (False, True)
    for d in (False, True)
]


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """Races of one kind. `scatter`: standard deviations of log ratios of two processes, between these two."""

    name: str
    times: Sequence[float]
    """True times of the configs, over that of the first."""
    scatter: tuple[float, float]
    turn: float
    """Standard deviation of one round's log time."""
    waits_for_cpu: bool = False


FULL, CPU = (0.001, 0.006), (0.005, 0.02)
KINDS = [
    Kind(name="full GPU, clear", times=[1, 0.98, 0.72, 0.70, 0.71, 0.99], scatter=FULL, turn=0.004),
    Kind(name="full GPU, near ties", times=[1, 0.995, 0.985, 0.98, 0.978, 0.976], scatter=FULL, turn=0.004),
    Kind(name="full GPU, all equal", times=[1] * 6, scatter=FULL, turn=0.004),
    Kind(name="waits for the CPU, a graph wins", times=[1, 0.99, 1.05, 1.08, 0.43, 0.425], scatter=CPU, turn=0.02, waits_for_cpu=True),
    Kind(name="waits for the CPU, near ties", times=[1, 0.99, 0.97, 1.02, 1.01, 0.98], scatter=CPU, turn=0.02, waits_for_cpu=True),
    Kind(name="waits for the CPU, all equal", times=[1] * 6, scatter=CPU, turn=0.02, waits_for_cpu=True),
]  # fmt: skip


class Races:
    """Races side by side, each a sweep of one cell."""

    def __init__(self, kind: Kind, races: int, seed: int) -> None:
        self._kind = kind
        self._random = np.random.default_rng(seed)
        order = np.array([self._random.permutation(len(kind.times)) for _ in range(races)])
        self._true = np.log(np.array(kind.times))[order]
        low, high = np.log(kind.scatter)
        self._scatter = np.exp(self._random.uniform(low, high, races))
        self._rows: list[dict[str, Any]] = []
        self._out: list[set[int]] = [set() for _ in range(races)]
        self._open = set(range(races))
        self.chosen: dict[int, int] = {}
        self.processes = np.zeros(races, int)
        self.blocks = np.zeros(races, int)

    def run(self) -> None:
        looks = UntilDecided(until="best", at_most=AT_MOST).looks
        for before, look in zip((0, *looks), looks, strict=False):
            for race in sorted(self._open):
                for block in range(before, look):
                    self._run_block(race, block, looks)
            self._look()

    @property
    def losses(self) -> "np.ndarray[Any, Any]":
        """By how much the named config is slower than the true best."""
        return np.array([np.exp(self._true[race, named] - self._true[race].min()) - 1 for race, named in self.chosen.items()])  # fmt: skip

    def _run_block(self, race: int, block: int, looks: Sequence[int]) -> None:
        in_turns = bool(self._random.random() > APART)
        process = self._scatter[race] / np.sqrt(2)
        self.blocks[race] += 1
        for config in range(self._true.shape[1]):
            row = {**CONFIGS[config], "block": block, "sweep_id": f"race-{race}", "cell_id": str(race), "trial_id": f"{race}-{block}-{config}", "looks": list(looks)}  # fmt: skip
            if config in self._out[race]:
                self._rows.append(row | {"status": "raced_out"})
                continue
            log = self._true[race, config] + process * self._random.standard_t(5) / np.sqrt(5 / 3)
            samples = np.exp(log + self._kind.turn * self._random.standard_normal(ROUNDS))
            row |= {"steady_wall_ms": float(np.median(samples)), "in_turns": in_turns, "launch_bound": self._kind.waits_for_cpu}  # fmt: skip
            if in_turns:
                row |= {"steady_wall_samples_ms": samples.tolist(), "steady_wall_rounds": list(range(ROUNDS))}  # fmt: skip
            self._rows.append(row)
            self.processes[race] += 1

    def _look(self) -> None:
        """Ask the question `race`, as a launch does, about the races that are open."""
        rows = [row for row in self._rows if int(row["cell_id"]) in self._open]
        if not rows:
            return
        with open_rows(table_of(rows)) as database:
            question = load_query("race")
            answer = database.query(question.sql, question.values({"is_over": False})).to_pylist()
        by_race: dict[int, dict[str, dict[str, Any]]] = {}
        for row in answer:
            by_race.setdefault(int(row["cell_id"]), {}).setdefault(row["other"], row)
        for race, states in by_race.items():
            self.chosen[race] = NAMES[next(iter(states.values()))["best"]]
            self._out[race] |= {
                NAMES[name] for name, row in states.items() if row["state"] == "raced_out"
            }
            if not any(row["state"] == "open" for row in states.values()):
                self._open.discard(race)


def name_of(config: dict[str, bool]) -> str:
    parts = [f"benchmark={str(config['benchmark']).lower()}"]
    parts += ["enabled=false"] * (not config["enabled"])
    parts += ["deterministic=true"] * config["deterministic"]
    return " ".join(parts)


NAMES = {name_of(config): number for number, config in enumerate(CONFIGS)}


def table_of(rows: Sequence[dict[str, Any]]) -> pa.Table:
    usual = {name: setting.usual for name, setting in settings().items()} | EVERY_TRIAL
    names = dict.fromkeys([*usual, *(name for row in rows for name in row)])
    return pa.table(
        {
            name: pa.array(
                [row.get(name, usual.get(name)) for row in rows], arrow_schema().field(name).type
            )
            for name in names
        }
    )


def race(
    races: Annotated[int, typer.Option(min=10, help="Made-up races of a kind.")] = RACES,
    seed: Seed = SEED,
) -> None:
    """Run made-up races, and report how far the named config is from the true best (some minutes).

    Exit code 1: in a kind of race, fewer than 95% end within 1% of the true best, by more than three Monte-Carlo
    standard errors.
    """
    typer.echo(
        f"Seed {seed}, {races} races of 6 configs a kind, looks up to {AT_MOST} blocks. Processes and blocks: median "
        f"(90%). Minutes: of so many processes at {SECONDS[0]} to {SECONDS[1]} s each.\n\n"
        f"{'kind':34}{'within 1%':>10}{'mean loss':>11}{'processes':>12}{'blocks':>9}{'minutes':>12}"
    )
    missed = False
    for kind in counted(Console(), KINDS, "kinds of race"):
        made = Races(kind, races, seed)
        made.run()
        within = float(np.mean(made.losses <= GAIN))
        middle, most = np.median(made.processes), np.quantile(made.processes, 0.9)
        minutes = "–".join(f"{middle * seconds / 60:.0f}" for seconds in SECONDS)
        typer.echo(
            f"{kind.name:34}{within:10.1%}{made.losses.mean():11.2%}{f'{middle:.0f} ({most:.0f})':>12}"
            f"{f'{np.median(made.blocks):.0f} ({np.quantile(made.blocks, 0.9):.0f})':>9}{minutes:>12}"
        )
        missed |= within < TARGET - 3 * np.sqrt(TARGET * (1 - TARGET) / races)
    if missed:
        raise typer.Exit(1)


if __name__ == "__main__":
    run(race)
