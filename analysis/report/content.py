"""What a report says, gathered from one snapshot of a store: each table is a question's answer."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

import pyarrow as pa

from cudnn_sweep.analysis.answering.answers import answer_of
from cudnn_sweep.analysis.answering.contrast import Contrast
from cudnn_sweep.analysis.answering.verdicts import BreakEven, CellKey, TimeShare, Verdict
from cudnn_sweep.analysis.asking.database import Database, open_database
from cudnn_sweep.analysis.asking.queries import Value, parse_query
from cudnn_sweep.analysis.report.cells import ReportCell, named
from cudnn_sweep.analysis.storing.stored import Stored

MOST_TRIALS = 4000  # in the file: 1 MB; of the other cells' trials it shows the query


@dataclass(frozen=True, kw_only=True, slots=True)
class Compared:
    """A contrast's answers, the cell with the largest gain first."""

    contrast: Contrast
    verdicts: Sequence[Verdict]
    break_evens: Mapping[tuple[str | bool | None, ...], Mapping[str, BreakEven]]
    """By their `identity`, then by the state of the compute cache."""

    def paybacks(self, verdict: Verdict) -> Mapping[str, BreakEven]:
        """By the state of the compute cache."""
        return self.break_evens.get(verdict.identity, {})


@dataclass(frozen=True, kw_only=True, slots=True)
class Content:
    """All of a report but its words and pictures."""

    locations: Sequence[str]
    """Results locations as they were typed, for commands that ask again."""
    sweep_id: str | None
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

    @property
    def numbers(self) -> Mapping[CellKey, int]:
        """Each cell's place in `cells`, by its key."""
        return {cell.stored.key: number for number, cell in enumerate(self.cells)}


def gather(
    store: Stored,
    locations: Sequence[str],
    sweep_id: str | None,
    contrasts: Iterable[Contrast],
    min_effect: float,
) -> Content:
    with open_database(store, sweep_id) as database:
        cells = named(_own(database, "cells"))
        answers = [_compared(database, contrast, min_effect) for contrast in contrasts]
        compared = [answer for answer in answers if answer.verdicts]
        return Content(
            locations=locations,
            sweep_id=sweep_id,
            min_effect=min_effect,
            cells=cells,
            compared=compared,
            time_shares=answer_of(TimeShare, database, "where_time_goes", {}),
            sweeps=database.ask("sweeps"),
            failures=database.ask("failures"),
            choices=database.ask("choice_stability"),
            environments=database.ask("environment"),
            trials=_own(database, "trials", cell_ids=",".join(_shown(cells, compared))),
            torn_files=database.torn_files,  # those too that these questions came upon
        )


def _compared(database: Database, contrast: Contrast, min_effect: float) -> Compared:
    values = contrast.values()
    verdicts = answer_of(Verdict, database, "helps_or_hurts", {"min_effect": min_effect, **values})
    rows = [] if contrast.is_twins else answer_of(BreakEven, database, "break_even", values)
    break_evens: dict[tuple[str | bool | None, ...], dict[str, BreakEven]] = {}
    for row in rows:
        break_evens.setdefault(row.identity, {})[row.compute_cache] = row
    return Compared(
        contrast=contrast,
        verdicts=sorted(verdicts, key=lambda verdict: verdict.ratio or float("inf")),
        break_evens=break_evens,
    )


def _shown(cells: Sequence[ReportCell], compared: Sequence[Compared]) -> list[str]:
    trials = {cell.stored.cell_id: 0 for cell in cells}
    for cell in cells:
        trials[cell.stored.cell_id] += cell.stored.trials
    verdicts = [verdict for each in compared for verdict in each.verdicts]
    ordered = sorted(verdicts, key=lambda verdict: -effect(verdict.ratio))
    shown: list[str] = []
    room = MOST_TRIALS
    for cell_id in dict.fromkeys([*(verdict.cell_id for verdict in ordered), *trials]):
        room -= trials[cell_id]
        if room < 0:
            break
        shown.append(cell_id)
    return shown


def effect(ratio: float | None) -> float:
    """How far a ratio is from 1, alike in both directions."""
    return max(ratio, 1 / ratio) if ratio else 0.0


def _own(database: Database, name: str, **values: Value) -> pa.Table:
    text = files("cudnn_sweep.analysis.report").joinpath("questions", f"{name}.sql").read_text()
    return database.ask(parse_query(name, text), **values)
