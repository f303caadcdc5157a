"""What a report shows, from one snapshot of a store."""

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

DIGITS = 6  # of a number in the file: more than any measurement has
MOST_JOBS = 3000  # cells of a contrast whose jobs are computed: thrice as many take 20 s of CPU
MOST_TRIALS = 4000  # in the file, 1 MB; for further cells the page shows a query that lists trials
OWN = ("cells", "jobs", "kernels", "trials")  # questions in the folder beside
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
    """Name that is unique among the verdicts of the contrast."""
    line: str
    """`label` without GPU and versions. Cells that differ only in these share a line of a chart."""
    paybacks: Mapping[str, BreakEven]
    """Break-even points by state of the compute cache: `empty` or `warm`. A/A pairs have none."""
    jobs: Sequence[Mapping[str, Any]] = ()
    """Rows of questions/jobs.sql, one for each start. Empty for A/A pairs and large contrasts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Compared:
    contrast: Contrast
    cells: Sequence[JudgedCell]
    """Judged cells, the largest gain first."""

    @property
    def verdicts(self) -> list[Verdict]:
        return [cell.verdict for cell in self.cells]


@dataclass(frozen=True, kw_only=True, slots=True)
class Content:
    locations: Sequence[str]
    """Locations as the user typed them. The commands in the report repeat them."""
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
    """All trials of the cells with the largest effects, MOST_TRIALS at most."""


def asked() -> str:
    """Return the SQL of all questions that a report asks."""
    own = (text_of(f"questions/{name}.sql") for name in OWN)
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
        torn_files=database.torn_files,  # with those that the questions above found
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
    # a gate's pairs have no workload_hash, as its sides differ in it
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
    """Return the ratio or its inverse, whichever is larger; 0 if unknown."""
    return rounded(max(ratio, 1 / ratio)) or 0.0 if ratio else 0.0


def rounded(value: float | None) -> float | None:
    """Return `value` with DIGITS digits, or None if it is not finite. Further digits depend on the
    order in which threads add numbers, and would change the order of equal rows."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.{DIGITS}g}")


def _own(database: Database, name: str, **values: Value) -> pa.Table:
    question = parse_query(name, text_of(f"questions/{name}.sql"))
    return database.ask(question, **values)
