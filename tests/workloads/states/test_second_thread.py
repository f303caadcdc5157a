"""A second thread, in which every other step runs."""

import gc
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch

from cudnn_sweep.workloads.cells.config import CudnnConfig
from cudnn_sweep.workloads.cells.measurement import SteadyDevice
from cudnn_sweep.workloads.find_state import make_state
from cudnn_sweep.workloads.find_workload import find_workload
from cudnn_sweep.workloads.measuring import choice, steady
from cudnn_sweep.workloads.measuring.cold import time_cold
from cudnn_sweep.workloads.measuring.sampling import Sampled
from cudnn_sweep.workloads.measuring.steady import Loop
from cudnn_sweep.workloads.measuring.step_watch import StepWatch
from cudnn_sweep.workloads.measuring.telemetry import Telemetry
from cudnn_sweep.workloads.problem import Shape
from cudnn_sweep.workloads.workload import TimedStep
from tests.workloads.made_up_cells import CPU, GPU, QUICK, MeasureCell, one_cell, setting_of


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
    steady.measure_device(Loop(step, (shape,), 1, GPU), QUICK, Telemetry(None), found)

    note = "the step launches from several threads"
    assert (chosen.kernels_source, chosen.kernels_note) == ("profiler", note)
    assert (chosen.convolutions, len(work)) == (1, 3), "seen in whichever thread"
    assert (found.steady_device_source, found.steady_device_note) == ("profiler", note)
    assert found.steady_device_ms == 2.0


@pytest.mark.gpu
def test_gpu_second_thread_searches_again(measured: MeasureCell) -> None:
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


def in_second_thread(run: Callable[[Any], Any]) -> TimedStep:
    step = TimedStep(prepare=torch.ones, run=run)
    return make_state("second_thread", {}).surround(step, setting_of("plain", device=CPU))
