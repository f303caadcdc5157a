"""How long each question takes and how much memory, over a store of any size; pandas beside it."""

import json
import math
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from cudnn_sweep.analysis.answering.results import open_results
from cudnn_sweep.analysis.asking.queries import query_names
from cudnn_sweep.analysis.errors import AnalysisError
from cudnn_sweep.analysis.proving.question_timing import ALL_COLUMNS, CELL, SOME_COLUMNS, Asked


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
    command = [sys.executable, "-m", "cudnn_sweep.analysis.proving.question_timing", location, name]
    told = subprocess.run(command, check=False, capture_output=True, text=True)
    if told.returncode:
        reason = told.stderr.strip().rpartition("\n")[2]
        raise AnalysisError(f"{name} over {location} ended with {told.returncode}: {reason}")
    return Asked(**json.loads(told.stdout))


def _our_ratios(location: str) -> dict[str, float]:
    """Wall ratios by cell, of closed cells under PyTorch's other defaults."""
    answer = open_results(location).query("helps_or_hurts").arrow().to_pylist()
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
