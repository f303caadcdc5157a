"""The convolution problems that files name."""

import pytest

from cudnn_sweep.workloads.problem import ConvProblem


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
