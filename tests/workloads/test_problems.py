"""The convolution problems that files name."""

from dataclasses import replace

import pytest

from cudnn_sweep.workloads.errors import WorkloadError
from cudnn_sweep.workloads.problem import PROBLEMS, find_problem, load_problems


def test_every_problem_file_names_its_source() -> None:
    for file in PROBLEMS.iterdir():
        assert file.read_text().startswith("# "), f"{file.name} says nothing of its source"


def test_tutorial_problem_is_the_one_that_tutorials_time() -> None:
    """Conv2d(3, 64, 3, stride=1, padding=1, bias=False) on 64x3x256x256."""
    import torch

    problem = find_problem("tutorials/rgb256")
    assert problem.input_shape == (64, 3, 256, 256)
    layer = torch.nn.Conv2d(3, 64, 3, stride=1, padding=1, bias=False)
    assert layer.weight.shape == (problem.out_channels, 3, *problem.kernel_size)
    assert (layer.stride, layer.padding) == (problem.stride, problem.padding)
    assert not problem.bias


@pytest.mark.parametrize("name", sorted(load_problems()))
def test_problem_is_a_convolution_that_exists(name: str) -> None:
    import torch
    from torch.nn import functional

    problem = load_problems()[name]
    convolve = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}
    channels = problem.input_shape[1] // problem.groups
    output = convolve[len(problem.kernel_size)](
        torch.empty(problem.input_shape, device="meta"),
        torch.empty(problem.out_channels, channels, *problem.kernel_size, device="meta"),
        None,
        problem.stride,
        problem.padding,
        problem.dilation,
        problem.groups,
    )
    assert output.shape[:2] == (problem.input_shape[0], problem.out_channels)


def test_sizes_that_do_not_fit_each_other_are_refused() -> None:
    problem = find_problem("tutorials/rgb256")
    with pytest.raises(WorkloadError, match="kernel_size .* has not one number"):
        replace(problem, kernel_size=(3,))
    with pytest.raises(WorkloadError, match="2 groups do not divide"):
        replace(problem, groups=2)
    with pytest.raises(
        WorkloadError, match="unknown problem 'rgb'; allowed: convnet_benchmarks/L1, "
    ):
        find_problem("rgb")
