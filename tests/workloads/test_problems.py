"""The convolution problems that files name."""

from collections import Counter

import pytest

from cudnn_sweep.workloads.problem import ConvProblem, load_problems


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
