"""Checkpointing."""

import pytest
import torch

from cudnn_sweep.workloads.find_workload import find_workload
from cudnn_sweep.workloads.measuring.step_watch import StepWatch
from tests.workloads.made_up_cells import CPU, setting_of


@pytest.mark.parametrize("precision", ["fp32", "amp_bf16"])
def test_checkpoint_recomputes_the_forward_pass_to_the_same_bits(precision: str) -> None:
    found, convolutions = {}, {}
    for state in ("plain", "checkpoint"):
        torch.manual_seed(5)
        setting = setting_of(state, precision=precision, device=CPU)
        step = find_workload("conv").step(setting)
        assert setting.problem is not None and step.examine is not None
        inputs = step.prepare(setting.problem.input_shape)
        with StepWatch() as watch:
            step.run(inputs)
        convolutions[state] = (len(watch.routes), len(watch.backward_routes))
        found[state] = step.examine(inputs)
    assert convolutions == {"plain": (1, 1), "checkpoint": (2, 1)}
    assert set(found["plain"]) == {"output", "input_gradient", "weight_gradient"}
    for name, tensor in found["plain"].items():
        assert torch.equal(tensor, found["checkpoint"][name])


@pytest.mark.gpu
def test_gpu_checkpoint_runs_the_forward_convolution_twice() -> None:
    setting = setting_of("checkpoint", precision="bf16")
    step = find_workload("conv").step(setting)
    assert setting.problem is not None
    inputs = step.prepare(setting.problem.input_shape)
    step.run(inputs)
    with StepWatch() as watch:
        step.run(inputs)
    assert (len(watch.routes), len(watch.backward_routes)) == (2, 1)
    assert {"Cudnn"} == set(watch.routes)
