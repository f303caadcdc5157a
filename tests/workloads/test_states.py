"""Every state: what it changes, what it leaves alike, and that a whole trial survives it."""

import gc
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from cudnn_sweep.orchestrator.process.client import ForkServer
from cudnn_sweep.orchestrator.process.protocol import Request, TrialJob
from cudnn_sweep.workloads.cell import Cell
from cudnn_sweep.workloads.config import CudnnConfig
from cudnn_sweep.workloads.errors import WorkloadError
from cudnn_sweep.workloads.expand import WorkloadFacts, expand_cells
from cudnn_sweep.workloads.measurement import (
    Measurement,
    MeasureSpec,
    SteadyDevice,
    TrialRequest,
)
from cudnn_sweep.workloads.measuring import choice, cuda_driver, steady
from cudnn_sweep.workloads.measuring.cold import time_cold
from cudnn_sweep.workloads.measuring.device import Device, find_device
from cudnn_sweep.workloads.measuring.loops import Loop
from cudnn_sweep.workloads.measuring.sampling import Sampled
from cudnn_sweep.workloads.measuring.step_watch import StepWatch
from cudnn_sweep.workloads.measuring.telemetry import Telemetry
from cudnn_sweep.workloads.precision import find_precision
from cudnn_sweep.workloads.problem import Shape
from cudnn_sweep.workloads.state import make_state, state_types
from cudnn_sweep.workloads.suite import SuiteSpec
from cudnn_sweep.workloads.workload import Setting, TimedStep, find_workload

QUICK = MeasureSpec(warmup_s=0.0, steady_budget_s=0.02, calibrate=False, timeout_s=100)
DEFAULT = CudnnConfig()
CPU, GPU = Device(torch=torch.device("cpu")), Device(torch=torch.device("cuda"))

PROBLEM = {"input": "2x4x20x24", "out_channels": 8, "kernel": 3, "padding": 1}
GENERATOR = "cudnn_sweep.workloads.nets.dcgan:Generator"
NEEDED: dict[str, dict[str, object]] = {
    "conv": {"problem": "small"},
    GENERATOR: {"input": "2x100x1x1", "model": {"arguments": {"width": 16}}},
}

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
def sees_the_cache(setting):
    disabled = torch.tensor(float(os.environ.get("CUDA_CACHE_DISABLE", "0")))
    return TimedStep(prepare=setting.random, run=lambda inputs: disabled)
"""


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    with ForkServer() as server:
        yield server


@pytest.fixture
def measured(server: ForkServer) -> Callable[..., Measurement]:
    """What a fresh process measured of a cell, with nothing gone wrong."""

    def run(
        cell: Cell, config: CudnnConfig = DEFAULT, compute_cache: str | None = None
    ) -> Measurement:
        trial = TrialRequest(
            cell=cell,
            config=config,
            measure=QUICK,
            seed=1,
            compute_cache=compute_cache,
            reference=True,
        )
        outcome = server.run(Request(job=TrialJob(trial=trial), timeout_s=QUICK.timeout_s))
        assert (outcome.status, outcome.message) == ("ok", None)
        assert outcome.reply is not None and outcome.reply.measured is not None
        assert outcome.reply.measured.checks_error is None
        return outcome.reply.measured

    return run


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
    measured: Callable[..., Measurement],
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
    measured: Callable[..., Measurement], tmp_path: Path
) -> None:
    (tmp_path / "own.py").write_text(SEES_THE_CACHE)
    cell = one_cell(f"{tmp_path}/own.py:sees_the_cache", input_shape=(1,))
    for disabled, state in ((True, "disabled"), (False, "warm")):
        config = CudnnConfig(compute_cache_disabled=disabled)
        found = measured(cell, config=config, compute_cache=str(tmp_path / "cache"))
        assert found.loss_first == float(disabled)
        assert found.config == config
        assert found.compute_cache == state
        assert (found.compute_cache_entries_before, found.compute_cache_entries_added) == (0, 0)
    found = measured(cell, config=CudnnConfig(compute_cache_disabled=True))
    assert (found.loss_first, found.compute_cache) == (1.0, None), "without CUDA there is no cache"


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


@pytest.mark.parametrize(
    ("state", "parameters", "message"),
    [
        ("misaligned", {"offset": 4}, "offset must be 1 to 3 elements, found 4"),
        ("little_memory", {"free_mib": 0}, "free_mib must be at least 1, found 0"),
        ("second_thread", {"threads": 3}, "unknown parameter 'threads'; allowed: it takes none"),
    ],
)
def test_state_says_what_a_number_may_be(
    state: str, parameters: dict[str, float], message: str
) -> None:
    with pytest.raises(WorkloadError, match=message):
        make_state(state, parameters)


class FakeMemory:
    """A GPU's memory as CUDA's driver sees it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, free_mib: float) -> None:
        self.free_mib = free_mib
        self.taken: dict[int, float] = {}
        monkeypatch.setattr(cuda_driver, "allocate", self.allocate)
        monkeypatch.setattr(cuda_driver, "free", self.free)
        monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (int(self.free_mib * 2**20), 0))

    def allocate(self, size_bytes: int) -> int:
        address = len(self.taken) + 1
        self.taken[address] = size_bytes / 2**20
        self.free_mib -= self.taken[address]
        return address

    def free(self, address: int) -> None:
        self.free_mib += self.taken.pop(address)


def test_little_memory_is_left_beside_the_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = FakeMemory(monkeypatch, free_mib=100_000.5)
    seen: list[float] = []

    def prepare(shape: Shape) -> None:
        seen.append(memory.free_mib)
        memory.free_mib -= 5000

    def look(inputs: None) -> dict[str, torch.Tensor]:
        seen.append(memory.free_mib)
        return {}

    step = TimedStep(prepare=prepare, run=look, examine=look, accuracy=lambda: memory.free_mib)
    state = make_state("little_memory", {"free_mib": 3000})
    surrounded = state.surround(step, replace(setting_of("plain"), device=GPU.torch))
    for _ in range(2):
        surrounded.run(surrounded.prepare((1,)))
    assert seen == [100_000.5, 3000.5, 95_000.5, 3000.5]
    assert surrounded.examine is not None and surrounded.accuracy is not None
    surrounded.examine(surrounded.prepare((1,)))
    assert seen[4:] == [90_000.5, 85_000.5] and surrounded.accuracy() == 85_000.5
    surrounded.prepare((1,))
    assert 3000 <= memory.free_mib < 3002
    del surrounded
    assert memory.free_mib == 80_000.5 and not memory.taken


def test_less_memory_than_is_to_be_left_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeMemory(monkeypatch, free_mib=800)
    step = TimedStep(prepare=lambda shape: None, run=lambda inputs: None)
    state = make_state("little_memory", {})
    surrounded = state.surround(step, replace(setting_of("plain"), device=GPU.torch))
    with pytest.raises(WorkloadError, match="free_mib is 1024, and .* only 800 MiB are free"):
        surrounded.prepare((1,))


def test_little_memory_leaves_a_cpu_alone() -> None:
    step = TimedStep(prepare=lambda shape: None, run=lambda inputs: None)
    setting = setting_of("plain", device=CPU)
    assert make_state("little_memory", {}).surround(step, setting) is step


def test_every_second_step_runs_in_another_thread() -> None:
    grad_modes: list[bool] = []

    def run(thread_of: dict[str, str]) -> int:
        grad_modes.append(torch.is_grad_enabled())
        torch.ones(1).add(1)
        return threading.get_ident()

    step = in_second_thread(run)
    assert not step.capturable
    with StepWatch(lambda: 0) as watch, torch.no_grad():
        idents = [step.run(None) for _ in range(6)]
    here, there = idents[:2]
    assert here == threading.get_ident() != there
    assert idents == [here, there] * 3
    assert grad_modes == [False] * 6, "a thread's own default is True"
    assert [name for name, _ in watch.launches] == ["ones", "add"] * 6


def test_both_calls_of_the_cold_part_are_a_threads_first() -> None:
    calls: dict[int, list[Shape]] = {}

    def run(inputs: torch.Tensor) -> None:
        calls.setdefault(threading.get_ident(), []).append(tuple(inputs.shape))

    shapes: list[Shape] = [(1, 2), (3, 4), (5, 6)]
    list(time_cold(in_second_thread(run), shapes, CPU))
    assert list(calls.values()) == [shapes, shapes]
    assert next(iter(calls)) == threading.get_ident()


def test_exception_of_the_second_thread_comes_through_and_the_next_step_runs() -> None:
    def run(number: int) -> float:
        return 1 / number

    step = in_second_thread(run)
    step.run(1)
    with pytest.raises(ZeroDivisionError):
        step.run(0)
    assert [step.run(2), step.run(4)] == [0.5, 0.25]


def test_second_thread_ends_with_its_step() -> None:
    before = set(threading.enumerate())
    step = in_second_thread(lambda inputs: None)
    step.run(None)
    (worker,) = set(threading.enumerate()) - before
    del step
    gc.collect()
    worker.join()
    assert not worker.is_alive()


def test_second_thread_draws_no_random_numbers_of_the_workload() -> None:
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    in_second_thread(lambda inputs: None)
    assert torch.equal(torch.rand(4), expected)


def test_step_of_several_threads_is_left_to_the_profiler(monkeypatch: pytest.MonkeyPatch) -> None:
    def captures(*_: object) -> None:
        raise AssertionError("a graph would miss what the other thread launches")

    profiled = Sampled(samples_ms=[2.0, 2.0], iterations=2, stop="budget")
    monkeypatch.setattr(choice, "check_capturable", captures)
    monkeypatch.setattr(choice, "profiled_kernels", lambda steps: [("conv_kernel", 1.0)])
    monkeypatch.setattr(steady, "check_capturable", captures)
    monkeypatch.setattr(steady, "time_profiled", lambda steps: profiled)

    setting = setting_of("second_thread")
    step = find_workload("conv").step(setting)
    assert setting.problem is not None
    shape = setting.problem.input_shape
    chosen, work = choice.read_choice(step, shape, GPU)
    found = SteadyDevice()
    steady._measure_device(Loop(step, (shape,), 1, GPU), QUICK, Telemetry(None), found)

    note = "the step launches from several threads"
    assert (chosen.kernels_source, chosen.kernels_note) == ("profiler", note)
    assert (chosen.convolutions, len(work)) == (1, 3), "seen in whichever thread"
    assert (found.steady_device_source, found.steady_device_note) == ("profiler", note)
    assert found.steady_device_ms == 2.0


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


@pytest.mark.parametrize(
    ("workload", "direction", "message"),
    [
        ("conv", "forward", "state checkpoint needs a backward pass; direction forward has none"),
        ("conv", "backward_data", "direction backward_data has none"),
        ("mnist", "training", "runs the forward pass again; workload mnist cannot do that"),
    ],
)
def test_planning_refuses_a_recomputation_that_cannot_be(
    workload: str, direction: str, message: str
) -> None:
    with pytest.raises(WorkloadError, match=message):
        one_cell(workload, direction=direction, state="checkpoint")


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


@pytest.mark.gpu
def test_gpu_has_little_memory_left_until_the_step_is_gone() -> None:
    slack = 64 * 2**20  # what CUDA itself takes beside it
    setting = setting_of("little_memory", free_mib=512)
    torch.ones(1, device="cuda")
    torch.cuda.empty_cache()
    before, _ = torch.cuda.mem_get_info()
    torch.cuda.reset_peak_memory_stats()
    step = find_workload("conv").step(setting)
    assert setting.problem is not None
    inputs = step.prepare(setting.problem.input_shape)
    left, _ = torch.cuda.mem_get_info()
    assert abs(left - 512 * 2**20) < slack
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(2**30, dtype=torch.uint8, device="cuda")
    step.run(inputs)
    torch.cuda.synchronize()
    assert torch.cuda.max_memory_reserved() < 512 * 2**20, "what was taken is not the step's"
    del step
    assert torch.cuda.mem_get_info()[0] > before - 512 * 2**20 - slack


@pytest.mark.gpu
def test_gpu_second_thread_searches_again(measured: Callable[..., Measurement]) -> None:
    """Of a forward pass; in one thread only the first call of a shape searches."""
    plain, second = (
        measured(
            one_cell("conv", direction="forward", state=state, precision="bf16"),
            config=CudnnConfig(benchmark=True),
        )
        for state in ("plain", "second_thread")
    )
    assert plain.cold and second.cold and second.wall.steady_wall_ms
    assert second.cold[0].second_ms > 5 * plain.cold[0].second_ms
    assert second.cold[0].second_ms > 5 * second.wall.steady_wall_ms
    timed, note = second.device, "the step launches from several threads"
    assert (timed.steady_device_source, timed.steady_device_note) == ("profiler", note)
    assert timed.steady_device_ms and second.choice.kernels
    assert (second.choice.kernels_source, second.choice.kernels_note) == ("profiler", note)


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


def in_second_thread(run: Callable[[Any], Any]) -> TimedStep:
    step = TimedStep(prepare=torch.ones, run=run)
    return make_state("second_thread", {}).surround(step, setting_of("plain", device=CPU))


def setting_of(
    state: str,
    *,
    precision: str = "fp32",
    layout: str = "contiguous",
    direction: str = "forward_backward",
    device: Device | None = None,
    **parameters: float,
) -> Setting:
    """Of a small convolution, on a GPU where there is one."""
    return Setting(
        device=(device or find_device()).torch,
        precision=find_precision(precision),
        layout=layout,
        direction=direction,
        problem=suite_of(workload="conv").problems["small"].problem("small"),
        state=make_state(state, parameters),
    )


def one_cell(workload: str, input_shape: Shape | None = None, **axes: object) -> Cell:
    """A cell as planning makes it; `input_shape` of a workload that is not bundled."""
    if input_shape is None:
        known = find_workload(workload)
        facts = WorkloadFacts(
            directions=known.directions,
            varies=known.varies,
            input_shape=known.input_shape,
            recomputes=known.recomputes,
            is_model=known.is_model,
        )
    else:
        facts = WorkloadFacts(directions=("forward",), varies=(), input_shape=input_shape)
    needed = NEEDED.get(workload, {})
    suite = suite_of(workload=workload, **{"precision": "fp32"} | needed | axes)
    (cell,) = expand_cells(suite, {workload: facts}, device="cpu", gpu="some processor")
    return cell


def suite_of(**axes: object) -> SuiteSpec:
    return SuiteSpec.model_validate({"cells": [axes], "problems": {"small": PROBLEM}})
