"""Misaligned inputs."""

import pytest
import torch

from cudnn_sweep.workloads.find_state import make_state
from cudnn_sweep.workloads.find_workload import find_workload
from cudnn_sweep.workloads.problem import Shape
from cudnn_sweep.workloads.workload import TimedStep
from tests.workloads.made_up_cells import setting_of


@pytest.mark.parametrize("offset", [1, 2, 3])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize(
    ("shape", "layout"),
    [
        ((3, 4, 50), "contiguous"),
        ((2, 4, 6, 5), "contiguous"),
        ((2, 4, 6, 5), "channels_last"),
        ((2, 4, 3, 6, 5), "contiguous"),
        ((2, 4, 3, 6, 5), "channels_last"),
        ((1, 1, 1, 1), "contiguous"),
    ],
)
def test_misaligned_inputs_are_the_same_elsewhere(
    offset: int, precision: str, shape: Shape, layout: str
) -> None:
    setting = setting_of("plain", precision=precision, layout=layout)
    aligned = setting.random(shape).requires_grad_()
    step = TimedStep(prepare=lambda shape: aligned, run=lambda inputs: None)
    moved = make_state("misaligned", {"offset": offset}).surround(step, setting).prepare(shape)
    assert moved.data_ptr() % 16 == offset * moved.element_size()
    assert (moved.shape, moved.stride(), moved.dtype) == (shape, aligned.stride(), aligned.dtype)
    assert torch.equal(moved, aligned)
    assert moved.is_leaf and moved.requires_grad
    assert moved.untyped_storage().data_ptr() != aligned.untyped_storage().data_ptr()


def test_all_floating_tensors_that_a_step_gets_are_misaligned() -> None:
    labels = torch.arange(4)
    made = ([torch.ones(4), {"expanded": torch.ones(1, 4).expand(3, 4)}], labels, 7)
    step = TimedStep(prepare=lambda shape: made, run=lambda inputs: None)
    surrounded = make_state("misaligned", {}).surround(step, setting_of("plain"))
    (ones, named), same, seven = surrounded.prepare((1,))
    assert same is labels and seven == 7
    assert ones.data_ptr() % 16 == named["expanded"].data_ptr() % 16 == 4
    assert named["expanded"].stride() == (0, 1) and named["expanded"].shape == (3, 4)
    assert not ones.requires_grad


@pytest.mark.gpu
def test_gpu_misaligned_convolution_computes_the_same() -> None:
    for layout in ("contiguous", "channels_last"):
        outputs = []
        for state in ("plain", "misaligned"):
            torch.manual_seed(5)
            setting = setting_of(state, precision="bf16", layout=layout, direction="forward")
            step = find_workload("conv").step(setting)
            assert setting.problem is not None and step.examine is not None
            inputs = step.prepare(setting.problem.input_shape)
            assert inputs.data_ptr() % 16 == (0 if state == "plain" else 2)
            outputs.append(step.examine(inputs)["output"].float())
        torch.testing.assert_close(*outputs, rtol=2e-2, atol=2e-2)
