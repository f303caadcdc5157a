"""Which numbers a model's input may be made of."""

from typing import Any

import pytest
from pydantic import ValidationError

from cudnn_sweep.workloads.models.inputs import INPUTS, TensorSpec, _tensors


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
        ({"dtype": "int64"}, "int64 needs either `below` or `value`, found neither"),
        (
            {"dtype": "int64", "below": 2, "value": 1},
            "int64 needs either `below` or `value`, found both",
        ),
        ({"below": 2}, "`below` needs a dtype of int64, int32, uint8; found no dtype"),
        (
            {"dtype": "float32", "below": 2},
            "`below` needs a dtype of int64, int32, uint8; found float32",
        ),
        ({"dtype": "uint8", "below": 257}, "uint8 allows numbers up to 255, found a larger number"),
        ({"dtype": "uint8", "value": 256}, "uint8 allows numbers up to 255, found a larger number"),
        ({"dtype": "int64", "value": 0.5}, "int64 takes a whole number, found 0.5"),
    ],
)
def test_other_numbers_are_refused(columns: dict[str, Any], told: str) -> None:
    assert fault(**columns) == told


@pytest.mark.parametrize(("key", "value"), [("shape", [1]), ("below", 1)])
def test_sizes_and_bounds_are_of_31_bits(key: str, value: Any) -> None:
    usual: dict[str, Any] = {"shape": [4], "dtype": "int64", "below": 9}

    def made(number: int) -> TensorSpec:
        return TensorSpec(**usual | {key: [number] if key == "shape" else number})

    for allowed in (1, 2**31 - 1):
        assert made(allowed)
    for refused in (0, 2**31):
        with pytest.raises(ValidationError):
            made(refused)


@pytest.mark.parametrize(
    ("given", "tensors"),
    [
        ([{"shape": ["batch"]}], 1),
        ([{"ids": {"shape": [1]}, "mask": {"shape": [1]}}, {"shape": [2]}], 3),
        ({"ids": {"shape": [1]}}, 1),
        ([{"shape": [1], "value": 0}], 1),
        ([{}], None),
        ([{"shape": {"shape": [1]}, "dtype": "int64"}], None),
        ([{"ids": {"sizes": [1]}}], None),
        ({"ids": {"more": {"shape": [1]}}}, None),
        ([], 0),
    ],
)
def test_an_argument_is_a_tensor_or_a_mapping_of_tensors(given: Any, tensors: int | None) -> None:
    if tensors is None:
        with pytest.raises(ValidationError):
            INPUTS.validate_python(given)
        return
    assert len([*_tensors(INPUTS.validate_python(given))]) == tensors  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({"shape": {"shape": [1]}, "dtype": "int64"}, "tensor"),
        ({"ids": {"sizes": [1]}}, "named"),
        ({}, "tensor"),
        (5, "tensor"),
    ],
)
def test_a_mistake_is_one_of_a_tensor_unless_all_values_are_mappings(
    given: object, kind: str
) -> None:
    with pytest.raises(ValidationError) as found:
        INPUTS.validate_python([given])
    assert kind in {part for error in found.value.errors() for part in error["loc"]}
