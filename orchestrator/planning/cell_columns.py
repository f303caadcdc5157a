"""The columns of a record that say which cell it is of."""

import json
from collections.abc import Mapping
from typing import Any

from cudnn_sweep.analysis.storing.schema import ListedShape
from cudnn_sweep.workloads.cells.cell import Cell


def cell_columns(cell: Cell) -> Mapping[str, Any]:
    problem, model = cell.problem, cell.model
    trained = model if cell.direction == "training" else None
    return {
        "cell_id": cell.cell_id,
        "workload": cell.workload,
        "problem": problem.name if problem else None,
        "direction": cell.direction,
        "input_shape": list(cell.input_shape),
        "out_channels": problem.out_channels if problem else None,
        "kernel_size": list(problem.kernel_size) if problem else None,
        "stride": list(problem.stride) if problem else None,
        "padding": list(problem.padding) if problem else None,
        "dilation": list(problem.dilation) if problem else None,
        "groups": problem.groups if problem else None,
        "bias": problem.bias if problem else None,
        "transposed": problem.transposed if problem else None,
        "output_padding": list(problem.output_padding) if problem else None,
        "occurrences": problem.occurrences if problem else None,
        "model_arguments": model
        and {name: json.dumps(value) for name, value in model.arguments.items()},
        "model_inputs": None
        if model is None or model.inputs is None
        else json.dumps(model.inputs, sort_keys=True),
        "loss": trained and trained.loss,
        "optimiser": trained and trained.optimiser,
        "optimiser_parameters": trained and trained.optimiser_parameters,
        "regime": cell.regime,
        "regime_parameters": cell.regime_parameters,
        "listed_shapes": [
            ListedShape(shape=list(each.shape), count=each.count) for each in cell.listed_shapes
        ]
        or None,
        "state": cell.state,
        "state_parameters": cell.state_parameters,
        "precision": cell.precision,
        "layout": cell.layout,
    }
