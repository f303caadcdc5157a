"""The convolution problems that files name."""

from collections import Counter
from dataclasses import replace

import pytest

from cudnn_sweep.workloads.errors import WorkloadError
from cudnn_sweep.workloads.problem import PROBLEMS, ConvProblem, find_problem, load_problems


def test_every_problem_file_names_its_source() -> None:
    for file in PROBLEMS.iterdir():
        assert file.read_text().startswith("# "), f"{file.name} says nothing of its source"


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


def test_bundled_sets_are_whole() -> None:
    """Rows of DeepBench's three lists, and convnet-benchmarks' five layers."""
    files = Counter(name.partition("/")[0] for name in load_problems())
    assert files["deepbench_training"] == 94
    assert files["deepbench_server"] == 107
    assert files["deepbench_device"] == 16
    assert files["convnet_benchmarks"] == 5


def test_sizes_that_do_not_fit_each_other_are_refused() -> None:
    problem = find_problem("tutorials/rgb256")
    with pytest.raises(WorkloadError, match="kernel_size .* has not one number"):
        replace(problem, kernel_size=(3,))
    with pytest.raises(WorkloadError, match="2 groups do not divide"):
        replace(problem, groups=2)
    with pytest.raises(WorkloadError, match="only a transposed one has output padding"):
        replace(problem, output_padding=(1, 1))
    with pytest.raises(
        WorkloadError, match="unknown problem 'rgb'; allowed: .* like .*tutorials/rgb"
    ):
        find_problem("rgb")
