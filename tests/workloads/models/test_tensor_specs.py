"""Which numbers a model's input may be made of."""

from typing import Any

import pytest
from pydantic import ValidationError

from cudnn_sweep.workloads.models.inputs import TensorSpec


def fault(**columns: Any) -> str | None:
    try:
        TensorSpec(shape=[1], **columns)
    except ValidationError as error:
        return error.errors()[0]["msg"].removeprefix("Value error, ")
    return None


@pytest.mark.parametrize("columns", [
    {},
    {"value": 0.5},
    {"dtype": "float32"},
    {"dtype": "int64", "below": 1000},
    {"dtype": "int32", "value": 7},
    {"dtype": "uint8", "below": 256},
    {"dtype": "uint8", "value": 255},
    {"dtype": "bool", "value": True},
])  # fmt: skip
def test_a_tensor_is_made_of_what_its_type_holds(columns: dict[str, Any]) -> None:
    assert fault(**columns) is None


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"dtype": "int64"}, "int64 takes either `below` or `value`, found neither"),
        (
            {"dtype": "int64", "below": 2, "value": 1},
            "int64 takes either `below` or `value`, found both",
        ),
        ({"below": 2}, "`below` needs a dtype of int64, int32, uint8; found no dtype"),
        (
            {"dtype": "float32", "below": 2},
            "`below` needs a dtype of int64, int32, uint8; found float32",
        ),
        ({"dtype": "uint8", "below": 257}, "uint8 holds 0 to 255, found more"),
        ({"dtype": "uint8", "value": 256}, "uint8 holds 0 to 255, found more"),
        ({"dtype": "int64", "value": 0.5}, "int64 takes a whole number, found 0.5"),
    ],
)
def test_other_numbers_are_refused(columns: dict[str, Any], told: str) -> None:
    assert fault(**columns) == told
