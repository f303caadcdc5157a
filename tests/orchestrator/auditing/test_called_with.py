"""What a model was called with, in a suite's words."""

from typing import Any

import pytest

from cudnn_sweep.orchestrator.auditing.called_with import called_with
from cudnn_sweep.workloads.auditing.findings import Called, Given, Sizes
from cudnn_sweep.workloads.models.inputs import INPUTS, as_json
from tests.orchestrator.auditing.test_input_shapes import NET, replace


def given(name: str | int, kind: str, shape: Sizes | None, **more: Any) -> Given:
    return Given(name=name, kind=kind, shape=shape, **({"key": None} | more))


def described(
    *calls: tuple[Given, ...], parameters: dict[str, str] | None = None
) -> tuple[object, list[str]]:
    """As a suite reads it."""
    called = [Called(training=True, own_loss=None, given=each) for each in calls]
    found, obstacles = called_with(replace(NET, parameters=parameters or {}), called)
    return as_json(None if found is None else INPUTS.validate_python(found)), obstacles


IMAGE = given("x", "float32", (8, 3, 64, 32))
LATER = given("x", "float32", (4, 3, 32, 32))


def test_one_tensor_of_floats_needs_no_description() -> None:
    assert described((given(0, "bfloat16", (8, 3, 64, 32)),)) == (None, [])


def test_sizes_are_named_as_the_input_s_if_they_follow_it_in_each_call() -> None:
    first = (
        IMAGE,
        given("mask", "bool", (8, 64, 32), low=0, high=1),
        given("ids", "int64", (8, 32), low=3, high=99),
        given("weights", "float16", (5,)),
        given("one", "int64", (8,), low=1, high=1),
    )
    later = (
        LATER,
        given("mask", "bool", (4, 32, 32), low=0, high=1),
        given("ids", "int64", (4, 32), low=0, high=9),
        given("weights", "float16", (5,)),
        given("one", "int64", (4,), low=1, high=1),
    )
    assert described(first, later) == (
        {
            "x": {"shape": ["batch", 3, "height", "width"]},
            "mask": {"shape": ["batch", "height", "width"], "dtype": "bool"},
            "ids": {"shape": ["batch", 32], "dtype": "int64", "below": 100},
            "weights": {"shape": [5]},
            "one": {"shape": ["batch"], "dtype": "int64", "value": 1},
        },
        [],
    )


def test_arguments_without_names_are_a_list_and_a_dict_stays_one() -> None:
    label = given(0, "uint8", (8,), key="label", low=0, high=255)
    image = given(0, "float32", (8, 3, 64, 32), key="image")
    assert described((image, label)) == (
        [
            {
                "image": {"shape": ["batch", 3, "height", "width"]},
                "label": {"shape": ["batch"], "dtype": "uint8", "below": 256},
            }
        ],
        [],
    )


def test_beside_named_ones_an_argument_gets_the_name_of_its_parameter() -> None:
    place = given(0, "float32", (8, 3, 64, 32))
    named = given("date", "int64", (8,), low=0, high=11)
    text = given("mode", "'fast'", None)
    found, obstacles = described(
        (place, named, text), parameters={"image": "", "date": "", "mode": "'fast'"}
    )
    assert obstacles == [], "what has its default need not be given"
    assert found == {
        "image": {"shape": ["batch", 3, "height", "width"]},
        "date": {"shape": ["batch"], "dtype": "int64", "below": 12},
    }


@pytest.mark.parametrize(
    ("other", "obstacle"),
    [
        ([given("graphs", "list", None)] * 2, "graphs (list)"),
        ([given("mode", "'slow'", None)] * 2, "mode ('slow')"),
        ([given("z", "complex64", (8, 2))] * 2, "z (complex64)"),
        (
            [given("z", "float32", (7, 3)), given("z", "float32", (9, 3))],
            "z (its sizes do not follow from those of the first tensor)",
        ),
        ([given("batch", "float32", (8,), key="y")] * 2, "batch['y'] (in a dict)"),
    ],
)
def test_what_no_suite_can_describe_is_named(other: list[Given], obstacle: str) -> None:
    calls = ((IMAGE, other[0]), (LATER, other[1]))
    assert described(*calls, parameters={"mode": "'fast'"}) == (None, [obstacle])
