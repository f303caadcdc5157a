"""The convolution problems that files name."""

from typing import Any

import pytest

from cudnn_sweep.workloads.errors import WorkloadError
from cudnn_sweep.workloads.problem import (
    PROBLEMS,
    ConvProblem,
    Shape,
    load_problems,
    named_sizes,
    parse_sizes,
    problem_of,
    space_names,
)

ROW = {
    "input": "2x4x9x9",
    "out_channels": "6",
    "kernel": "3",
    "stride": "1",
    "padding": "0",
    "dilation": "1",
    "groups": "1",
    "bias": "no",
}


@pytest.mark.parametrize("added", [0, 1])
def test_transposed_problem_has_the_output_that_torch_gives_it(added: int) -> None:
    problem = ConvProblem(
        name="up",
        input_shape=(2, 6, 9, 10),
        out_channels=4,
        kernel_size=(3, 4),
        stride=(2, 3),
        padding=(1, 0),
        dilation=(1, 2),
        groups=2,
        bias=False,
        transposed=True,
        output_padding=(added, added),
    )
    assert computed_shape(problem) == problem.output_shape(problem.input_shape)


def computed_shape(problem: ConvProblem) -> tuple[int, ...]:
    import torch

    output = torch.convolution(
        torch.empty(problem.input_shape, device="meta"),
        torch.empty(problem.weight_shape, device="meta"),
        None,
        problem.stride,
        problem.padding,
        problem.dilation,
        problem.transposed,
        problem.output_padding,
        problem.groups,
    )
    return tuple(output.shape)


def row(**changes: str) -> ConvProblem:
    return problem_of("own", ROW | changes)


@pytest.mark.parametrize("dimensions", [1, 2, 3])
@pytest.mark.parametrize("transposed", ["no", "yes"])
def test_outputs_and_weights_have_the_sizes_that_torch_needs(
    dimensions: int, transposed: str
) -> None:
    space = "x".join(["9", "10", "12"][:dimensions])
    for changes in (
        {},
        {"kernel": "4"},
        {"stride": "2"},
        {"padding": "2"},
        {"dilation": "2"},
        {"groups": "2"},
        {"stride": "3", "kernel": "2", "padding": "1", "dilation": "3", "groups": "2"},
    ):
        problem = row(input=f"2x4x{space}", transposed=transposed, **changes)
        assert computed_shape(problem) == problem.output_shape(problem.input_shape)


def test_a_row_says_what_the_convolution_is() -> None:
    plain = row()
    assert (plain.bias, plain.transposed, plain.occurrences) == (False, False, 1)
    assert plain.output_padding == (0, 0) and plain.kernel_size == (3, 3)
    full = row(bias="yes", transposed="yes", output_padding="0x1", stride="2", occurrences="7")
    assert (full.bias, full.transposed, full.occurrences) == (True, True, 7)
    assert full.output_padding == (0, 1) and full.stride == (2, 2)
    blank = row(transposed="", output_padding="", occurrences="")
    assert blank == plain, "columns may be empty"


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"kernel": "3x3"}, None),
        ({"kernel": "3x3x3"}, r"problem own: kernel_size needs 2 values, one per dimension"),
        (
            {"input": "2x4x9", "stride": "1x1"},
            r"stride needs 1 values, one per dimension; found \(1, 1\)",
        ),
        ({"output_padding": "1"}, "output_padding requires `transposed`"),
        ({"output_padding": "0x1"}, "output_padding requires `transposed`"),
        ({"output_padding": "1", "transposed": "yes", "stride": "2"}, None),
        ({"groups": "2"}, None),
        ({"groups": "4"}, "4 groups do not divide the channels"),
        ({"groups": "3"}, "3 groups do not divide the channels"),
        ({"groups": "6"}, "6 groups do not divide the channels"),
    ],
)
def test_a_convolution_that_cannot_be_is_refused(
    changes: dict[str, Any], fault: str | None
) -> None:
    if fault is None:
        assert row(**changes)
        return
    with pytest.raises(WorkloadError, match=fault):
        row(**changes)


def test_bundled_problems_have_the_name_of_their_file_and_all_rows_are_read() -> None:
    bundled = load_problems()
    lines = [line for file in PROBLEMS.iterdir() for line in file.read_text().splitlines()]
    tables = len([*PROBLEMS.iterdir()])
    assert len(bundled) == sum(not line.startswith("#") for line in lines) - tables
    assert bundled["tutorials/rgb256"].name == "tutorials/rgb256"
    assert {name.partition("/")[0] for name in bundled} >= {
        "deepbench_training",
        "resnet50",
        "unet",
    }


@pytest.mark.parametrize(
    ("shape", "names"),
    [
        ((16, 128), {"batch": 16, "length": 128}),
        ((8, 64, 128), {"batch": 8, "channels": 64, "length": 128}),
        ((8, 3, 5, 6), {"batch": 8, "channels": 3, "height": 5, "width": 6}),
        ((8, 3, 4, 5, 6), {"batch": 8, "channels": 3, "depth": 4, "height": 5, "width": 6}),
        ((1, 2, 3, 4, 5, 6), None),
    ],
)
def test_sizes_have_names_from_two_to_five(shape: Shape, names: dict[str, int] | None) -> None:
    if names is None:
        with pytest.raises(
            WorkloadError, match="the input 1x2x3x4x5x6 has 6 sizes; allowed are at most 5"
        ):
            named_sizes(shape)
        return
    assert named_sizes(shape) == names and list(named_sizes(shape)) == list(names)
    assert space_names(shape) == tuple(name for name in names if name not in ("batch", "channels"))


def test_sizes_are_whole_numbers_with_an_x_between() -> None:
    assert (parse_sizes("8x3x224"), parse_sizes("0")) == ((8, 3, 224), (0,))
    for wrong in ("", "8x", "x8", "8 x 3", "-1", "8x3.0", "8X3"):
        with pytest.raises(ValueError, match="expected sizes such as 8x3x224x224, found"):
            parse_sizes(wrong)
