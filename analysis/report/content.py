"""What a report says, gathered from one snapshot of a store: each table is a question's answer."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import accumulate

import pyarrow as pa

from cudnn_sweep.analysis.answering.contrast import Contrast
from cudnn_sweep.analysis.answering.verdicts import BreakEven, TimeShare, Verdict
from cudnn_sweep.analysis.asking.database import Database
from cudnn_sweep.analysis.asking.queries import Value, parse_query
from cudnn_sweep.analysis.report.cells import ReportCell, named, verdict_labels

MOST_TRIALS = 4000  # in the file: 1 MB; of the other cells' trials it shows the query


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """A cell's verdict, and what is shown beside it."""

    verdict: Verdict
    cell: ReportCell
    label: str
    """Tells it from the contrast's others."""
    paybacks: Mapping[str, BreakEven]
    """By the state of the compute cache; none for A/A pairs, which are asked about times alone."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Compared:
    """A contrast's answers, the cell with the largest gain first."""

    contrast: Contrast
    cells: Sequence[Judged]

    @property
    def verdicts(self) -> list[Verdict]:
        return [each.verdict for each in self.cells]


@dataclass(frozen=True, kw_only=True, slots=True)
class Content:
    """All of a report but its words and pictures."""

    locations: Sequence[str]
    """Results locations as they were typed, for commands that ask again."""
    min_effect: float
    torn_files: tuple[str, ...]
    cells: Sequence[ReportCell]
    compared: Sequence[Compared]
    """Only contrasts of which there are two configs to compare."""
    time_shares: Sequence[TimeShare]
    sweeps: pa.Table
    failures: pa.Table
    choices: pa.Table
    environments: pa.Table
    trials: pa.Table
    """The trials of whole cells, those with the largest effects first, up to MOST_TRIALS."""


def gather(
    database: Database,
    locations: Sequence[str],
    contrasts: Iterable[Contrast],
    min_effect: float,
) -> Content:
    database.hold_rows()
    cells = named(_own(database, "cells"))
    answers = [_compared(database, contrast, min_effect, cells) for contrast in contrasts]
    compared = [answer for answer in answers if answer.cells]
    return Content(
        locations=locations,
        min_effect=min_effect,
        cells=cells,
        compared=compared,
        time_shares=TimeShare.among(database),
        sweeps=database.ask("sweeps"),
        failures=database.ask("failures").drop_columns(["last_output"]),
        choices=database.ask("choice_stability"),
        environments=database.ask("environment"),
        trials=_own(database, "trials", cell_ids=",".join(_shown(cells, compared))),
        torn_files=database.torn_files,  # those too that these questions came upon
    )


def _compared(
    database: Database, contrast: Contrast, min_effect: float, cells: Sequence[ReportCell]
) -> Compared:
    values = contrast.values()
    verdicts = Verdict.among(database, min_effect=min_effect, **values)
    verdicts.sort(key=lambda verdict: verdict.ratio or float("inf"))
    rows = [] if contrast.is_twins else BreakEven.among(database, **values)
    paybacks: dict[object, dict[str, BreakEven]] = {}
    for row in rows:
        paybacks.setdefault(row.identity, {})[row.compute_cache] = row
    by_key = {cell.key: cell for cell in cells}
    labels = verdict_labels(verdicts, by_key) if verdicts else []
    return Compared(
        contrast=contrast,
        cells=[
            Judged(
                verdict=verdict,
                cell=by_key[verdict.key],
                label=label,
                paybacks=paybacks.get(verdict.identity, {}),
            )
            for verdict, label in zip(verdicts, labels, strict=True)
        ],
    )


def _shown(cells: Sequence[ReportCell], compared: Sequence[Compared]) -> list[str]:
    trials = Counter[str]()
    for cell in cells:
        trials[cell.cell_id] += cell.trials
    verdicts = [verdict for each in compared for verdict in each.verdicts]
    ordered = sorted(verdicts, key=lambda verdict: -effect(verdict.ratio))
    cell_ids = list(dict.fromkeys([*(verdict.cell_id for verdict in ordered), *trials]))
    totals = accumulate(trials[cell_id] for cell_id in cell_ids)
    return [each for each, total in zip(cell_ids, totals, strict=True) if total <= MOST_TRIALS]


def effect(ratio: float | None) -> float:
    """How far a ratio is from 1, alike in both directions."""
    return max(ratio, 1 / ratio) if ratio else 0.0


def _own(database: Database, name: str, **values: Value) -> pa.Table:
    text = files("cudnn_sweep.analysis.report").joinpath("questions", f"{name}.sql").read_text()
    return database.ask(parse_query(name, text), **values)
