"""Every state: what it changes, what it leaves alike, and that a whole trial survives it."""

from pathlib import Path

import pytest
import torch

from cudnn_sweep.workloads.cells.config import Config
from cudnn_sweep.workloads.errors import WorkloadError
from cudnn_sweep.workloads.find_state import make_state, state_types
from cudnn_sweep.workloads.find_workload import find_workload
from cudnn_sweep.workloads.measuring.step_watch import StepWatch
from cudnn_sweep.workloads.problem import Shape
from cudnn_sweep.workloads.workload import TimedStep
from tests.workloads.made_up_cells import CPU, GENERATOR, MeasureCell, context_of, one_cell

TRIALS: list[tuple[str, str, object, int]] = [  # the last number: a step's convolutions
    ("conv", "forward", "fixed", 1),
    ("conv", "forward_backward", {"cycle": {"sizes": 2, "step": 4}}, 1),
    ("mnist", "training", "fixed", 2),
    (GENERATOR, "training", "fixed", 5),
]


RECOMPUTABLE = {("conv", "forward_backward"), (GENERATOR, "training")}


SEES_THE_CACHE = """
import os
import torch
from cudnn_sweep.workloads.workload import TimedStep, workload

@workload(directions=("forward",), input_shape=(1,))
def sees_the_cache(context):
    disabled = torch.tensor(float(os.environ.get("CUDA_CACHE_DISABLE", "0")))
    return TimedStep(prepare=context.random, run=lambda inputs: disabled)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("state", "workload", "direction", "regime", "convolutions"),
    [
        (state, *trial)
        for state in sorted(state_types())
        for trial in TRIALS
        if trial[:2] in RECOMPUTABLE or not state_types()[state].recomputes
    ],
)
def test_state_survives_a_trial(
    measured: MeasureCell,
    state: str,
    workload: str,
    direction: str,
    regime: object,
    convolutions: int,
) -> None:
    found = measured(one_cell(workload, direction=direction, regime=regime, state=state))
    assert found.loop_kind == "closed" and found.distinct_shapes == found.regime_shapes
    runs = 2 if state_types()[state].recomputes else 1
    assert found.choice.convolutions == runs * convolutions
    assert found.computed.relative_l2_error is not None
    assert found.computed.relative_l2_error < 0.1, "with other inputs it is about 1"


def test_disabled_compute_cache_is_seen_by_the_process_and_in_its_record(
    measured: MeasureCell, tmp_path: Path
) -> None:
    (tmp_path / "own.py").write_text(SEES_THE_CACHE)
    cell = one_cell(f"{tmp_path}/own.py:sees_the_cache", input_shape=(1,))
    for disabled, state in ((True, "disabled"), (False, "warm")):
        config = Config(compute_cache_disabled=disabled)
        found = measured(cell, config=config, compute_cache=str(tmp_path / "cache"))
        assert found.loss_first == float(disabled)
        assert found.config == config
        assert found.compute_cache == state
        assert (found.compute_cache_entries_before, found.compute_cache_entries_added) == (0, 0)
    found = measured(cell, config=Config(compute_cache_disabled=True))
    assert (found.loss_first, found.compute_cache) == (1.0, None), "without CUDA there is no cache"


@pytest.mark.parametrize("precision", ["fp32", "amp_bf16"])
def test_checkpoint_recomputes_the_forward_pass_to_the_same_bits(precision: str) -> None:
    found, convolutions = {}, {}
    for state in ("plain", "checkpoint"):
        torch.manual_seed(5)
        context = context_of(state, precision=precision, device=CPU)
        step = find_workload("conv").step(context)
        assert context.problem is not None and step.examine is not None
        inputs = step.prepare(context.problem.input_shape)
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
    context = context_of("checkpoint", precision="bf16")
    step = find_workload("conv").step(context)
    assert context.problem is not None
    inputs = step.prepare(context.problem.input_shape)
    step.run(inputs)
    with StepWatch() as watch:
        step.run(inputs)
    assert (len(watch.routes), len(watch.backward_routes)) == (2, 1)
    assert {"Cudnn"} == set(watch.routes)


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
    context = context_of("plain", precision=precision, layout=layout)
    aligned = context.random(shape).requires_grad_()
    step = TimedStep(prepare=lambda shape: aligned, run=lambda inputs: None)
    moved = make_state("misaligned", {"offset": offset}).surround(step, context).prepare(shape)
    assert moved.data_ptr() % 16 == offset * moved.element_size()
    assert (moved.shape, moved.stride(), moved.dtype) == (shape, aligned.stride(), aligned.dtype)
    assert torch.equal(moved, aligned)
    assert moved.is_leaf and moved.requires_grad
    assert moved.untyped_storage().data_ptr() != aligned.untyped_storage().data_ptr()


def test_all_floating_tensors_that_a_step_gets_are_misaligned() -> None:
    labels = torch.arange(4)
    made = ([torch.ones(4), {"expanded": torch.ones(1, 4).expand(3, 4)}], labels, 7)
    step = TimedStep(prepare=lambda shape: made, run=lambda inputs: None)
    surrounded = make_state("misaligned", {}).surround(step, context_of("plain"))
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
            context = context_of(state, precision="bf16", layout=layout, direction="forward")
            step = find_workload("conv").step(context)
            assert context.problem is not None and step.examine is not None
            inputs = step.prepare(context.problem.input_shape)
            assert inputs.data_ptr() % 16 == (0 if state == "plain" else 2)
            outputs.append(step.examine(inputs)["output"].float())
        torch.testing.assert_close(*outputs, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize(
    ("state", "parameter", "usual", "allowed", "refused"),
    [
        ("misaligned", "offset", 1, [1, 3], [0, 4]),
        ("little_memory", "free_mib", 1024, [1], [0]),
        ("benchmark_later", "calls", 1, [1, 9], [0]),
    ],
)
def test_a_states_number_has_its_limits(
    state: str, parameter: str, usual: int, allowed: list[int], refused: list[int]
) -> None:
    assert make_state(state, {}).parameters() == {parameter: usual}
    for number in allowed:
        assert make_state(state, {parameter: number}).parameters() == {parameter: number}
    for number in refused:
        with pytest.raises(WorkloadError, match=f"state {state}: {parameter} must be at"):
            make_state(state, {parameter: number})


def test_states_are_known_by_their_names() -> None:
    plain = {"plain", "checkpoint", "misaligned", "little_memory"}
    assert plain < set(state_types())
    assert [name for name in sorted(plain) if state_types()[name].recomputes] == ["checkpoint"]
    assert [name for name in sorted(plain) if state_types()[name].alone] == ["little_memory"]
    with pytest.raises(WorkloadError, match="unknown state 'plan' .did you mean plain"):
        make_state("plan", {})
