"""What a model's inputs must name, and how they are written in a suite."""

from typing import Any

import pytest
import torch

from cudnn_sweep.workloads.errors import WorkloadError
from cudnn_sweep.workloads.models.inputs import INPUTS, TensorSpec, as_json, check_inputs

IMAGE = (2, 3, 8, 8)


@pytest.mark.parametrize(
    ("inputs", "written"),
    [
        (None, None),
        ("net.py:inputs", "net.py:inputs"),
        ([{"shape": ["batch", 3]}], [{"shape": ["batch", 3]}]),
        (
            {"ids": {"shape": [1], "dtype": "int64", "below": 9}},
            {"ids": {"shape": [1], "dtype": "int64", "below": 9}},
        ),
    ],
)
def test_inputs_are_written_without_keys_that_are_not_set(inputs: Any, written: Any) -> None:
    read = None if inputs is None else INPUTS.validate_python(inputs)
    assert as_json(read) == written


def test_a_function_of_inputs_has_a_file_and_a_name() -> None:
    with pytest.raises(ValueError, match="expected FILE.py:NAME .*, found 'inputs'"):
        INPUTS.validate_python("inputs")


@pytest.mark.parametrize(
    ("inputs", "varies", "message"),
    [
        (None, {"batch"}, None),
        ("net.py:inputs", {"batch", "space"}, None),
        ([{"shape": ["batch", 3, 8, 8]}], set(), None),
        ([{"shape": ["batch", 3, "height", 8]}], {"space"}, None),
        ([{"shape": [2, 3, 8, 8]}], set(), "found no shape with batch; write"),
        (
            [{"shape": [2, 3, 8, 8]}],
            {"batch"},
            "found no shape with batch, which regime cycle varies; write",
        ),
        (
            [{"shape": ["batch", 3, 8, 8]}],
            {"space"},
            "found no shape with height or width, which regime",
        ),
        ([{"shape": ["batch"]}, {"shape": ["width"]}], {"space"}, None),
        (
            [{"shape": ["batch", "depth"]}],
            set(),
            "found the size 'depth', but the input 2x3x8x8 has",
        ),
    ],
)
def test_inputs_name_the_batch_and_what_a_regime_varies(
    inputs: Any, varies: set[str], message: str | None
) -> None:
    read = None if inputs is None else INPUTS.validate_python(inputs)
    if message is None:
        check_inputs(read, "Net", IMAGE, "cycle", varies)
        return
    with pytest.raises(WorkloadError, match=message):
        check_inputs(read, "Net", IMAGE, "cycle", varies)


class Context:
    """A context that notes what it makes."""

    device = torch.device("cpu")

    def __init__(self) -> None:
        self.made: list[str] = []

    def random(self, sizes: tuple[int, ...]) -> torch.Tensor:
        self.made.append("random")
        return torch.rand(sizes)

    def like_inputs(self, tensor: torch.Tensor) -> torch.Tensor:
        self.made.append("like inputs")
        return tensor


@pytest.mark.parametrize(
    ("columns", "made", "values"),
    [
        ({}, ["random"], None),
        ({"value": 0.5}, ["like inputs"], {0.5}),
        ({"dtype": "int32", "value": 7}, [], {7}),
        ({"dtype": "int64", "below": 1}, [], {0}),
        ({"dtype": "int64", "below": 3}, [], {0, 1, 2}),
        ({"dtype": "bool"}, [], {False, True}),
        ({"dtype": "float32"}, [], None),
    ],
)
def test_a_tensor_has_the_values_that_it_is_to_have(
    columns: dict[str, Any], made: list[str], values: set[Any] | None
) -> None:
    context: Any = Context()
    tensor = TensorSpec(shape=["batch", 40], **columns).make(IMAGE, context)
    assert tuple(tensor.shape) == (2, 40)
    assert context.made == made
    found = set(tensor.flatten().tolist())
    assert found == values if values is not None else len(found) > 20
    assert str(tensor.dtype) == f"torch.{columns.get('dtype') or 'float32'}"
