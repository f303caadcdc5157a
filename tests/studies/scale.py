"""How long each question takes and how much memory, over a store of any size; pandas beside it."""

import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from cudnn_sweep.analysis.engine.queries import query_names
from cudnn_sweep.analysis.errors import AnalysisError
from cudnn_sweep.analysis.results.results import open_results
from cudnn_sweep.analysis.store.store import open_store
from cudnn_sweep.orchestrator.terminal.say import say
from tests.studies.parts.command import run
from tests.studies.parts.generated import write_generated
from tests.studies.parts.question_timing import ALL_COLUMNS, CELL, SOME_COLUMNS, Asked
from tests.studies.parts.steps import steps


@dataclass(frozen=True, kw_only=True, slots=True)
class Rival:
    """pandas, which finds the wall ratios of `helps_or_hurts` in closed cells, and nothing else."""

    asked: Asked
    difference: float
    """The largest relative one to our ratios; inf where the cells are not the same."""


def stored_bytes(folder: Path) -> int:
    """What the Parquet files of a store take on disk."""
    return sum(file.stat().st_size for file in folder.rglob("*.parquet"))


def measure_questions(location: str, repeats: int, begins: Callable[[str], None]) -> list[Asked]:
    """Every named question with its defaults, in a process each, one at a time; the quickest counts. `begins` is
    told each.
    """
    return _quickest(location, query_names(), repeats, begins)


def measure_rivals(location: str, repeats: int, begins: Callable[[str], None]) -> list[Rival]:
    """None without pandas. `begins` is told each name before it is asked."""
    if not find_spec("pandas"):
        return []
    ours = _our_ratios(location)
    found = _quickest(location, [ALL_COLUMNS, SOME_COLUMNS], repeats, begins)
    return [Rival(asked=each, difference=_difference(ours, each.ratios or {})) for each in found]


def _quickest(
    location: str, names: list[str], repeats: int, begins: Callable[[str], None]
) -> list[Asked]:
    """In rounds, so that something else that runs for a while does not slow every repeat of one."""

    def ask(name: str) -> Asked:
        begins(name)
        return _ask(location, name)

    rounds = [[ask(name) for name in names] for _ in range(repeats)]
    return [min(repeated, key=lambda asked: asked.wall_s) for repeated in zip(*rounds, strict=True)]


def _ask(location: str, name: str) -> Asked:
    command = [sys.executable, "-m", "tests.studies.parts.question_timing", location, name]
    told = subprocess.run(command, check=False, capture_output=True, text=True)
    if told.returncode:
        reason = told.stderr.strip().rpartition("\n")[2]
        raise AnalysisError(f"{name} over {location} ended with {told.returncode}: {reason}")
    return Asked(**json.loads(told.stdout))


def _our_ratios(location: str) -> dict[str, float]:
    """Wall ratios by cell, of closed cells under PyTorch's other defaults."""
    answer = open_results(location).query("helps_or_hurts").to_pylist()
    return {
        "|".join(row[name] for name in CELL): row["ratio"]
        for row in answer
        if row["loop_kind"] == "closed"
        and row["blocks"] > 0
        and "benchmark_limit=10, deterministic=false" in row["other_settings"]
    }


def _difference(ours: dict[str, float], theirs: dict[str, float]) -> float:
    if ours.keys() != theirs.keys():
        return math.inf
    return max((abs(theirs[cell] / ratio - 1) for cell, ratio in ours.items()), default=0.0)


def scale(
    trials: Annotated[int, typer.Option(min=100, help="Number of made-up trials.")] = 100_000,
    samples: Annotated[int, typer.Option(min=3, help="Samples per trial.")] = 300,
    repeats: Annotated[
        int, typer.Option(min=1, help="Repeats of each question; the best counts.")
    ] = 3,
    results: Annotated[
        Path | None,
        typer.Option(
            help="Folder for the made-up results; if it holds results, those are queried."
        ),
    ] = None,
) -> None:
    """Measure the time and memory that each question takes over many made-up trials.

    If pandas is installed, it is measured too: it reads the same files and computes the ratios of
    helps_or_hurts in closed loops.
    """
    with tempfile.TemporaryDirectory() as folder:
        _measure(results or Path(folder), trials, samples, repeats)


def _measure(folder: Path, trials: int, samples: int, repeats: int) -> None:
    store, console = open_store(str(folder)), Console()
    if not store.sweep_ids():
        with steps(console, total=1) as begins:
            begins(f"{trials} made-up trials are written")
            write_generated(store, trials=trials, samples=samples)
    (row,) = open_results(folder).sql("select count(*) as trials from records").to_pylist()
    trial_bytes = stored_bytes(folder) / row["trials"]
    typer.echo(f"{row['trials']} trials, {trial_bytes:.0f} bytes per trial on disk")
    with steps(console, total=repeats * len(query_names())) as begins:
        asked = measure_questions(str(folder), repeats, begins)
    with steps(console) as begins:
        rivals = measure_rivals(str(folder), repeats, begins)
    _print(asked, rivals)


def _print(questions: list[Asked], rivals: list[Rival]) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("question")
    for column in ("rows", "seconds", "CPU seconds", "peak MB"):
        table.add_column(column, justify="right")
    for asked in [*questions, *(rival.asked for rival in rivals)]:
        peak_mb = asked.peak_bytes / 1e6
        cells = [f"{asked.rows}", f"{asked.wall_s:.2f}", f"{asked.cpu_s:.2f}", f"{peak_mb:.0f}"]
        table.add_row(asked.name, *cells)
    console = Console(markup=False)
    console.print(table)
    if rivals:
        difference = max(rival.difference for rival in rivals)
        say(console, f"Largest relative difference of pandas' ratios to ours: {difference:.0e}")
    else:
        say(console, "pandas is not installed: pip install 'cudnn-sweep[notebook]'")


if __name__ == "__main__":
    run(scale)
