"""The columns of a record that say which cell it is of."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from cudnn_sweep.analysis.storing.schema import ListedShape, columns_of
from cudnn_sweep.workloads.cells.cell import Cell


def cell_columns(cell: Cell) -> Mapping[str, Any]:
    """Each is called as the field of the cell, or of its problem or model, that it shows."""
    problem, model = cell.problem, cell.model
    inputs = model and model.inputs
    listed = [ListedShape(shape=list(each.shape), count=each.count) for each in cell.listed_shapes]
    known = {
        **(asdict(problem) if problem else {}),
        **(asdict(model) if model and cell.direction == "training" else {}),
        **vars(cell),
        "problem": problem and problem.name,
        "model_arguments": model and {name: json.dumps(x) for name, x in model.arguments.items()},
        "model_inputs": None if inputs is None else json.dumps(inputs, sort_keys=True),
        "listed_shapes": listed or None,
    }
    columns = {name: known.get(name) for name in (*columns_of("cell"), "occurrences")}
    listed_sizes = {
        name: list(value) for name, value in columns.items() if isinstance(value, tuple)
    }
    return {"cell_id": cell.cell_id, **columns, **listed_sizes}
