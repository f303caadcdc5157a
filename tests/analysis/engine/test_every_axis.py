"""No axis of a cell is forgotten anywhere: cells that differ in one alone are never merged, and every answer says it.

One store has a cell and, for each axis, one that differs in it alone. A test runs this file again over a
copy of the package that has a further axis.
"""

from collections.abc import Iterator
from dataclasses import fields, replace
from itertools import chain
from typing import Any

import pyarrow as pa
import pytest

from cudnn_sweep.analysis.compare.comparison import compare
from cudnn_sweep.analysis.engine.database import Database, open_database
from cudnn_sweep.analysis.engine.queries import load_query, query_names
from cudnn_sweep.analysis.report.content import gather
from cudnn_sweep.analysis.report.sheets import sheets
from cudnn_sweep.analysis.results.contrast import Contrast
from cudnn_sweep.analysis.store.schema import arrow_schema, axes, to_table
from cudnn_sweep.analysis.store.store import Store, open_store
from cudnn_sweep.orchestrator.recording.record import cell_columns
from cudnn_sweep.orchestrator.terminal.plan_text import cell_labels
from cudnn_sweep.workloads.cells.cell import Cell
from cudnn_sweep.workloads.cells.expand import WorkloadFacts, expand_cells
from cudnn_sweep.workloads.cells.suite import SuiteSpec
from tests.analysis.conftest import RECORD, in_cell, make_pair

BLOCKS = 3
SWEEPS = ("night-1", "night-2")
BENCHMARK = Contrast(field="benchmark", baseline="false", candidate="true")
FACTS = {"noop": WorkloadFacts(directions=("forward",), varies=(), input_shape=(8, 3, 8, 8))}
ALLOWED = {"state": "benchmark_toggled", "layout": "channels_last", "ranks": "2_ranks"}
WITH_USUAL = [name for name, axis in axes().items() if axis.usual is not None]


def another(name: str) -> Any:
    """A value that the usual cell has not, nor another cell on another axis."""
    return [8, 3, 7, 7] if pa.types.is_list(arrow_schema().field(name).type) else f"other_{name}"


def shown(name: str) -> str:
    value = another(name)
    return value if isinstance(value, str) else "x".join(map(str, value))


@pytest.fixture(scope="module")
def every_cell(tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = open_store(str(tmp_path_factory.mktemp("axes")))
    pairs = list(chain(*(make_pair(block, 10 + block / 1000, 9.0) for block in range(BLOCKS))))
    others = [
        in_cell(record, f"other-{name}", **{name: another(name)})
        for name in axes()
        for record in pairs
    ]
    for sweep_id in SWEEPS:
        found = [replace(record, sweep_id=sweep_id) for record in (*pairs, *others)]
        store.write_part(sweep_id, to_table(found))
    return store


@pytest.fixture(scope="module")
def database(every_cell: Store) -> Iterator[Database]:
    with open_database(every_cell) as opened:
        yield opened


def test_every_axis_is_a_field_of_a_cell() -> None:
    assert axes().keys() <= {field.name for field in fields(Cell)}


@pytest.mark.slow
@pytest.mark.parametrize("name", query_names())
def test_an_answer_about_cells_says_every_axis(database: Database, name: str) -> None:
    question = load_query(name)
    rows = database.query(question.sql, question.values({})).to_pylist()
    if rows and rows[0].keys() >= {"workload", "input_shape"}:
        others = (
            {"state"} if name in ("decided", "race") else set()
        )  # a column of its own of that name
        for axis in axes().keys() - others:
            assert len({row["cell_id"] for row in rows}) == 1 or shown(axis) in {
                row[axis] for row in rows
            }


@pytest.mark.slow
@pytest.mark.parametrize("name", axes())
def test_two_values_of_an_axis_can_be_compared(database: Database, name: str) -> None:
    rows = database.ask("axis_effect", axis=name, candidate=shown(name)).to_pylist()
    assert {row["cell_id"] for row in rows} == {f"other-{name}"}
    assert {row["baseline_cell_id"] for row in rows} == {RECORD.cell_id}
    assert len(rows) == 2, "a row for each config"


@pytest.mark.slow
def test_a_report_tells_every_cell_apart(every_cell: Store) -> None:
    with open_database(every_cell, SWEEPS[0]) as database:
        tables = sheets(gather(database, "here", [BENCHMARK], 0.03))
    for name in ("cells", "verdicts"):
        label = tables[name].columns.index("label")
        labels = {row[label] for row in tables[name].rows}
        assert len(labels) == len(tables[name].rows) == 1 + len(axes()), name
    assert axes().keys() <= set(tables["cells"].columns)


@pytest.mark.slow
def test_two_sides_compare_cell_by_cell(database: Database) -> None:
    found = compare(database, "sweep=night-1", "sweep=night-2", 0.03)
    cells = [row["cell_id"] for row in found.rows.to_pylist()]
    assert len(cells) == 2 * len(set(cells)) == 2 * (1 + len(axes()))


@pytest.mark.parametrize("name", WITH_USUAL)
def test_a_suite_plans_a_cell_for_each_value(name: str) -> None:
    usual, other = axes()[name].usual, ALLOWED.get(name, "another")
    (plain,) = planned(workload="noop")
    same, changed = planned(workload="noop", **{name: [usual, other]})
    assert same == plain
    assert same.cell_id == plain.cell_id != changed.cell_id
    assert cell_columns(changed)[name] == other
    assert other in cell_labels([same, changed])[changed.cell_id]
    assert other not in cell_labels([same, changed])[same.cell_id]


def planned(**keys: object) -> list[Cell]:
    suite = SuiteSpec.model_validate({"cells": [keys]})
    return expand_cells(suite, FACTS, device="cpu", gpu="any")
