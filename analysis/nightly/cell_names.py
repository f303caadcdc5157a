"""What a cell is called from night to night: all that tells it from other cells but the GPU."""

from collections.abc import Iterable
from typing import Any

COLUMNS = (
    "workload",
    "problem",
    "model_arguments",
    "loss",
    "optimiser",
    "optimiser_parameters",
    "direction",
    "regime",
    "regime_parameters",
    "state",
    "state_parameters",
    "precision",
    "layout",
    "gpu",
)
CELLS = f"""
select
    cell_id,
    array_to_string(any_value(input_shape), 'x') as input_shape,
    {", ".join(f"any_value({name}) as {name}" for name in COLUMNS)}
from records
group by cell_id
"""
# What goes without saying: a state, a layout, a loss and an optimiser.
USUAL = ("plain", "contiguous", "mean_square", "sgd", None)


def cell_name(row: dict[str, Any]) -> str:
    """Of a row of CELLS. It depends on no other cell: it stays where a suite gets more of them."""
    words = [
        row["problem"] or _with(row["workload"], row["model_arguments"]),
        row["direction"],
        row["input_shape"],
        _with(row["regime"], row["regime_parameters"]),
        _with(row["state"], row["state_parameters"]),
        row["precision"],
        row["layout"],
        row["loss"],
        _with(row["optimiser"], row["optimiser_parameters"]),
    ]
    return " ".join(word for word in words if word not in USUAL)


def _with(name: str | None, numbers: Iterable[tuple[str, float | str]] | None) -> str | None:
    """`cycle(sizes=4,step=16)`. A model's arguments are text, as JSON."""
    told = ",".join(f"{key}={_text(value)}" for key, value in sorted(numbers or ()))
    return f"{name}({told})" if told else name


def _text(value: float | str) -> str:
    return f"{value:.15g}" if isinstance(value, float) else value.replace(" ", "")
