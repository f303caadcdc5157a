"""One question, asked by a process that does nothing else and prints what it took: for `scale.py`.

python -m tests.studies.parts.question_timing LOCATION QUESTION
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from cudnn_sweep.analysis.engine.queries import load_query
from cudnn_sweep.analysis.results.results import open_results

if TYPE_CHECKING:
    import pandas as pd

ALL_COLUMNS = "pandas, all columns"
SOME_COLUMNS = "pandas, columns it needs"
CELL = ["cell_id", "env_hash", "software_hash"]
SAME = ["sweep_id", "block", *CELL, "launch_id", "slot"]
NEEDED = [*SAME, "status", "loop_kind", "twin", "benchmark", "benchmark_limit", "deterministic"]
NEEDED += ["warnings", "steady_wall_ms"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """What one question took. Imports count for the memory, not for the times."""

    name: str
    rows: int
    wall_s: float
    cpu_s: float
    peak_bytes: int
    ratios: dict[str, float] | None
    """pandas' answer, by cell."""


def ask_alone(location: str, name: str) -> Asked:
    if name in (ALL_COLUMNS, SOME_COLUMNS):
        import numpy  # noqa: F401
        import pandas  # noqa: F401

        return _timed(name, lambda: _pandas_ratios(location, name == ALL_COLUMNS))
    import cudnn_sweep.analysis.engine.database  # noqa: F401

    load_query(name)
    return _timed(name, lambda: len(open_results(location).query(name)))


def _timed(name: str, read: Callable[[], int | dict[str, float]]) -> Asked:
    started_s, cpu_started_s = time.perf_counter(), time.process_time()
    found = read()
    return Asked(
        name=name,
        rows=found if isinstance(found, int) else len(found),
        wall_s=time.perf_counter() - started_s,
        cpu_s=time.process_time() - cpu_started_s,
        peak_bytes=1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        ratios=None if isinstance(found, int) else found,
    )


def _pandas_ratios(location: str, all_columns: bool) -> dict[str, float]:
    """The wall ratio of benchmark mode in each closed cell, as `helps_or_hurts` has it; no more."""
    import numpy as np
    import pandas as pd

    trials = pd.read_parquet(location, columns=None if all_columns else NEEDED)
    doubtful = trials["warnings"].map(lambda seen: bool({"throttled", "shared_gpu"} & set(seen)))
    trials = trials[
        (trials["status"] == "ok")
        & (trials["loop_kind"] == "closed")
        & (trials["twin"] == 0)
        & (trials["benchmark_limit"] == 10)
        & ~trials["deterministic"]
        & ~doubtful
    ]
    baseline, candidate = trials[~trials["benchmark"]], trials[trials["benchmark"]]
    pairs = baseline.merge(candidate, on=SAME, suffixes=("", "_candidate"))
    pairs["log_ratio"] = np.log(pairs["steady_wall_ms_candidate"] / pairs["steady_wall_ms"])
    ratios: pd.Series[float] = np.exp(pairs.groupby(CELL)["log_ratio"].mean())
    return {"|".join(cell): ratio for cell, ratio in ratios.items()}


if __name__ == "__main__":
    print(json.dumps(asdict(ask_alone(*sys.argv[1:]))))
