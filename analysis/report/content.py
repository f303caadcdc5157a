"""Collects the data of a report from a database."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import pyarrow as pa

from cudnn_sweep.analysis.engine.database import PAIRS, Database
from cudnn_sweep.analysis.engine.queries import Value, load_query, parse_query
from cudnn_sweep.analysis.report.cells import ReportCell, named, verdict_labels
from cudnn_sweep.analysis.report.pages.formats import text_of
from cudnn_sweep.analysis.results.contrast import Contrast
from cudnn_sweep.analysis.results.verdicts import BreakEven, OfContrast, TimeShare, Verdict

DIGITS = 6  # significant digits of numbers in a report
MOST_JOBS = 3000  # largest number of cells of a contrast for which jobs are computed
MOST_TRIALS = 4000  # largest number of trials in a report, about 1 MB
ASKED = (
    Verdict.question,
    BreakEven.question,
    TimeShare.question,
    "sweeps",
    "failures",
    "environment",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgedCell:
    verdict: Verdict
    cell: ReportCell
    label: str
    """Unique name of the verdict within the contrast."""
    line: str
    """Name without GPU and versions. A chart shows all cells with the same `line` together."""
    paybacks: Mapping[str, BreakEven]
    """Break-even points by the state of the compute cache, which is `empty` or `warm`."""
    jobs: Sequence[Mapping[str, Any]] = ()
    """Rows of questions/jobs.sql. Empty for A/A pairs and large contrasts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Compared:
    contrast: Contrast
    cells: Sequence[JudgedCell]
    """Cells of the contrast, the largest gain first."""

    @property
    def verdicts(self) -> list[Verdict]:
        return [cell.verdict for cell in self.cells]


@dataclass(frozen=True, kw_only=True, slots=True)
class Content:
    locations: Sequence[str]
    """Locations as the user typed them, for the commands in the report."""
    min_effect: float
    torn_files: tuple[str, ...]
    cells: Sequence[ReportCell]
    compared: Sequence[Compared]
    time_shares: Sequence[TimeShare]
    sweeps: pa.Table
    failures: pa.Table
    environments: pa.Table
    kernels: pa.Table
    """Convolution kernels of the cells in `trials`."""
    trials: pa.Table
    """Trials of the cells with the largest effects, at most MOST_TRIALS."""


def asked() -> str:
    """Return the SQL of all questions that a report needs."""
    own = (text_of(f"questions/{name}.sql") for name in ("cells", "jobs", "kernels", "trials"))
    return "\n".join([PAIRS, *own, *(load_query(name).sql for name in ASKED)])


def gather(
    database: Database,
    locations: Sequence[str],
    contrasts: Iterable[Contrast],
    min_effect: float,
) -> Content:
    cells = named(_own(database, "cells"))
    answers = [_compared(database, contrast, min_effect, cells) for contrast in contrasts]
    compared = [answer for answer in answers if answer.cells]
    shown = ",".join(_shown(cells, compared))
    return Content(
        locations=locations,
        min_effect=min_effect,
        cells=cells,
        compared=compared,
        time_shares=TimeShare.among(database),
        sweeps=database.ask("sweeps"),
        failures=database.ask("failures").drop_columns(["last_output"]),
        environments=database.ask("environment"),
        kernels=_own(database, "kernels", cell_ids=shown),
        trials=_own(database, "trials", cell_ids=shown),
        torn_files=database.torn_files,  # last, because queries may find damaged files
    )


def _compared(
    database: Database, contrast: Contrast, min_effect: float, cells: Sequence[ReportCell]
) -> Compared:
    paybacks = defaultdict[object, dict[str, BreakEven]](dict)
    jobs = defaultdict[object, list[dict[str, Any]]](list)
    values = contrast.values()
    with database.pairs_held(**values):
        verdicts = Verdict.among(database, min_effect=min_effect, **values)
        verdicts.sort(key=lambda verdict: rounded(verdict.ratio) or float("inf"))
        if not contrast.is_twins:
            for row in BreakEven.among(database, **values):
                paybacks[row.identity][row.compute_cache] = row
        if not contrast.is_twins and len(verdicts) <= MOST_JOBS:
            for job in _own(database, "jobs", **values).to_pylist():
                jobs[OfContrast(**job).identity].append(job)
    # pairs of a gate have no workload_hash, because its two sides differ in it
    by_key = {(*cell.key[:3], each): cell for cell in cells for each in (cell.key[3], None)}
    labels = verdict_labels(verdicts, by_key) if verdicts else []
    return Compared(
        contrast=contrast,
        cells=[
            JudgedCell(
                verdict=verdict,
                cell=by_key[verdict.key],
                label=label,
                line=line,
                paybacks=paybacks[verdict.identity],
                jobs=jobs[verdict.identity],
            )
            for verdict, (label, line) in zip(verdicts, labels, strict=True)
        ],
    )


def _shown(cells: Sequence[ReportCell], compared: Sequence[Compared]) -> list[str]:
    trials = Counter[str]()
    for cell in cells:
        trials[cell.cell_id] += cell.trials
    verdicts = [verdict for contrast in compared for verdict in contrast.verdicts]
    ordered = sorted(verdicts, key=lambda verdict: -effect(verdict.ratio))
    ids = list(dict.fromkeys([*(verdict.cell_id for verdict in ordered), *trials]))
    totals = accumulate(trials[cell_id] for cell_id in ids)
    return [cell_id for cell_id, total in zip(ids, totals, strict=True) if total <= MOST_TRIALS]


def effect(ratio: float | None) -> float:
    """Return the larger of the ratio and its inverse, or 0 if the ratio is unknown."""
    return rounded(max(ratio, 1 / ratio)) or 0.0 if ratio else 0.0


def rounded(value: float | None) -> float | None:
    """Round to DIGITS significant digits. Return None if the value is not finite."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.{DIGITS}g}")


def _own(database: Database, name: str, **values: Value) -> pa.Table:
    question = parse_query(name, text_of(f"questions/{name}.sql"))
    return database.ask(question, **values)
