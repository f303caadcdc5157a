"""Makes SQL macros about the axes of cells, which workloads/records/row.py defines."""

import pyarrow as pa

from cudnn_sweep.analysis.engine.queries import literal
from cudnn_sweep.analysis.store.schema import arrow_schema, axes, columns_of

NAMED = (
    *(
        name
        for name in columns_of("cell")
        if name in (*axes(), "model_arguments", "loss", "optimiser") or name.endswith("_parameters")
    ),
    "gpu",
)
"""Columns that make up the name of a cell."""


def axes_macros() -> str:
    labels = ",\n        ".join(f"{_shown(name)} as {name}" for name in NAMED)
    order = ", ".join(("gpu", *axes()))
    others = ",\n        ".join(map(_unless_compared, columns_of("cell")))
    values = "\n        ".join(f"when '{name}' then {_shown(name)}" for name in axes())
    usuals = [
        (name, literal(axis.usual)) for name, axis in axes().items() if axis.usual is not None
    ]
    is_usual = "\n        ".join(
        f"when '{name}' then {_shown(name)} = {value}" for name, value in usuals
    )
    usual = "\n    ".join(
        f"and ({name} = {value} or list_contains(named, '{name}'))" for name, value in usuals
    )
    names = ", ".join(map(literal, axes()))
    return f"""\
-- Names of all axes, for use in `columns(axis_names())`.
create or replace macro axis_names() as [{names}];

-- One row for each cell, with the columns of its name. Answers are sorted by `cell_order`.
create or replace macro named_cells() as table
with labels as (
    select
        cell_id,
        {labels}
    from records
    group by cell_id
)

select *, row({order}) as cell_order
from labels;

-- One row for each cell, with its axes and GPU.
create or replace macro cell_labels() as table
select cell_id, columns(axis_names()), gpu, cell_order
from named_cells();

-- One row for each cell, with its value on `axis` and a hash of its other columns except the GPU.
create or replace macro cell_tasks(axis) as table
select
    cell_id,
    case axis
        {values}
        else if(axis is null, null, error('axis ' || axis || ' is none of {", ".join(axes())}'))
    end as axis_value,
    case axis
        {is_usual}
        else false
    end as is_usual,
    hash(row(
        {others}
    )) as task
from records
group by cell_id;

-- Cells that have the default value on each axis with a default, except on the axes in `named`.
create or replace macro usual_cells(named) as table
select distinct cell_id
from records
where
    true
    {usual};
"""


def _shown(name: str) -> str:
    """Return SQL for a cell's value of a column. A list of sizes becomes text like 8x3x224x224."""
    is_list = pa.types.is_list(arrow_schema().field(name).type)
    return f"array_to_string(any_value({name}), 'x')" if is_list else f"any_value({name})"


def _unless_compared(name: str) -> str:
    axis = name.removesuffix("_parameters")
    value = f"any_value({name})"
    if pa.types.is_map(arrow_schema().field(name).type):
        value = f"coalesce({value}, map())"  # old rows have null in this column
    return f"if(axis is not distinct from '{axis}', null, {value})" if axis in axes() else value
