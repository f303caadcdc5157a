"""SQL macros about a cell's axes, the columns marked as axes in workloads/records/row.py."""

import pyarrow as pa

from cudnn_sweep.analysis.engine.queries import literal
from cudnn_sweep.analysis.store.schema import arrow_schema, axes, columns_of

OF_MODELS = ("model_arguments", "loss", "optimiser")
NAMED = (
    *(
        name
        for name in columns_of("cell")
        if name in axes() or name in OF_MODELS or name.endswith("_parameters")
    ),
    "gpu",
)
"""Columns that a cell's name is made from."""


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
-- A cell's axes, for `columns(axis_names())`.
create or replace macro axis_names() as [{names}];

-- One row for each cell: what its name is made of. Answers list cells by `cell_order`.
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

-- One row for each cell: its axes and GPU.
create or replace macro cell_labels() as table
select cell_id, columns(axis_names()), gpu, cell_order
from named_cells();

-- One row for each cell: value on `axis`, whether it is usual, and a hash of the rest except GPU.
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

-- The cells with the usual value on each axis that has one; axes in `named` are not checked.
create or replace macro usual_cells(named) as table
select distinct cell_id
from records
where
    true
    {usual};
"""


def _shown(name: str) -> str:
    """Return SQL for a cell's value in one column; a list of sizes becomes 8x3x224x224."""
    is_list = pa.types.is_list(arrow_schema().field(name).type)
    return f"array_to_string(any_value({name}), 'x')" if is_list else f"any_value({name})"


def _unless_compared(name: str) -> str:
    axis = name.removesuffix("_parameters")
    value = f"any_value({name})"
    if pa.types.is_map(arrow_schema().field(name).type):
        value = f"coalesce({value}, map())"  # rows older than the column have null
    return f"if(axis is not distinct from '{axis}', null, {value})" if axis in axes() else value
