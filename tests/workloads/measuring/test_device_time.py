"""What only a GPU can show of one process."""

from collections.abc import Callable
from functools import partial
from statistics import median

import pytest
import torch
from torch.nn import functional

from cudnn_sweep.workloads.cells.measurement import MeasureSpec
from cudnn_sweep.workloads.find_workload import find_workload
from cudnn_sweep.workloads.measuring.calibration import calibrate
from cudnn_sweep.workloads.measuring.choice import read_choice
from cudnn_sweep.workloads.measuring.device import Device
from cudnn_sweep.workloads.measuring.device_time import (
    CannotCapture,
    Replays,
    capture,
    check_capturable,
    profiled_kernels,
    queued_ms,
    time_profiled,
    time_replays,
)
from cudnn_sweep.workloads.measuring.steady import Loop
from cudnn_sweep.workloads.measuring.step_watch import StepWatch
from cudnn_sweep.workloads.measuring.telemetry import Telemetry
from cudnn_sweep.workloads.precision import find_precision
from cudnn_sweep.workloads.problem import load_problems
from cudnn_sweep.workloads.workload import TimedStep
from tests.workloads.made_up_cells import plain_context

pytestmark = pytest.mark.gpu

SPEC = MeasureSpec(device_budget_s=0.2, steady_error=0.001)
NOBODY = Telemetry(None)


@pytest.fixture
def gpu() -> Device:
    return Device(torch=torch.device("cuda"))


def conv_step(device: Device, problem: str, precision: str = "bf16") -> TimedStep:
    wanted = load_problems()[problem]
    context = plain_context("forward_backward", wanted, precision=precision, device=device)
    return find_workload("conv").build(context)


def test_device_time_has_no_launch_gaps(gpu: Device) -> None:
    """Twenty additions of one number: the CPU takes far longer to launch than the GPU to run them."""
    number = torch.ones(1, device=gpu.torch)

    def step() -> None:
        for _ in range(20):
            number.add_(1)

    replayed = time_replays(Replays([step]), SPEC, NOBODY)
    profiled = time_profiled([step])
    assert profiled is not None
    summed, waited_ms = profiled[0].median_ms, profiled[1]
    assert waited_ms == 0.0, "none of its kernels is NCCL's"
    assert replayed.error is not None and replayed.error < 0.02
    between_kernels_ms = 0.002  # within a graph, one that depends on the one before
    assert summed < replayed.median_ms < summed + 20 * between_kernels_ms
    loop = Loop(TimedStep(prepare=lambda shape: None, run=lambda _: step()), ((1,),), 1, gpu)
    assert loop.run(100) * 1e3 / 100 > 1.5 * replayed.median_ms


def test_replays_and_kernel_times_agree(gpu: Device) -> None:
    problem = "tutorials/vgg16_conv3_2"
    step = conv_step(gpu, problem)
    run = partial(step.run, step.prepare(load_problems()[problem].input_shape))
    run()
    replayed, profiled = time_replays(Replays([run]), SPEC, NOBODY), time_profiled([run])
    assert profiled is not None
    assert replayed.median_ms == pytest.approx(profiled[0].median_ms, rel=0.06)


def test_kernels_of_the_graph_are_those_that_the_profiler_sees(gpu: Device) -> None:
    problem = "tutorials/vgg16_conv3_2"
    step = conv_step(gpu, problem)
    shape = load_problems()[problem].input_shape
    choice, work = read_choice(step, shape, gpu)
    seen = profiled_kernels([partial(step.run, step.prepare(shape))])
    assert choice.kernels is not None and choice.kernels_source == "graph"
    mine = [kernel for kernel in choice.kernels if kernel.grid is not None]
    theirs = [name for name, _ in seen if not name.startswith("Mem")]
    assert len(mine) == len(theirs)
    operations = {kernel.operation for kernel in mine}
    assert operations == {"convolution", "convolution_backward"}
    plain = [kernel.name for kernel in mine if not kernel.name.startswith("_Z")]  # not mangled
    assert plain == [name for name in theirs if name in set(plain)] and plain
    assert len(work) == 3


def test_layout_conversions_take_the_time_that_the_profiler_gives_them(gpu: Device) -> None:
    problem = "tutorials/vgg16_conv3_2"
    step = conv_step(gpu, problem)
    shape = load_problems()[problem].input_shape
    choice, _ = read_choice(step, shape, gpu)
    run = partial(step.run, step.prepare(shape))
    rounds = [sum(ms for name, ms in profiled_kernels([run]) if "ToN" in name) for _ in range(10)]
    assert choice.layout_conversions and choice.layout_conversion_ms is not None
    assert choice.layout_conversion_ms == pytest.approx(median(rounds), rel=0.15)


def test_step_that_launches_nothing_is_no_error(gpu: Device) -> None:
    step = TimedStep(prepare=lambda shape: None, run=lambda inputs: None)
    choice, _ = read_choice(step, (1,), gpu)
    assert choice.kernels == []


@pytest.mark.parametrize("cause", ["item", "synchronize", "nonzero"])
def test_step_that_does_not_capture_leaves_the_process_as_it_was(gpu: Device, cause: str) -> None:
    numbers = torch.randn(1000, device=gpu.torch)
    causes: dict[str, Callable[[], object]] = {
        "item": lambda: numbers.sum().item(),
        "synchronize": torch.cuda.synchronize,
        "nonzero": lambda: torch.nonzero(numbers > 0),
    }
    with pytest.raises(CannotCapture):
        capture(causes[cause], after=causes[cause])
    assert torch.randn(1000, device=gpu.torch).std() > 0.5
    assert 0 < (functional.dropout(numbers) == 0).sum() < 1000
    graph = capture(lambda: numbers * 2, after=lambda: numbers * 2)
    assert queued_ms(graph.replay, 1)[0] < 1.0


def test_waiting_for_the_device_is_found_before_a_capture(gpu: Device) -> None:
    numbers = torch.randn(10, device=gpu.torch)
    step = TimedStep(prepare=torch.randn, run=torch.relu)
    with pytest.raises(CannotCapture, match="waits for the device"):
        check_capturable(step, lambda: numbers.sum().item())
    check_capturable(step, lambda: numbers * 2)


def test_calibration_is_plausible_and_gives_its_memory_back(gpu: Device) -> None:
    calibrate(gpu, find_precision("bf16"))  # cuBLAS takes a workspace that it keeps
    before = torch.cuda.memory_reserved()
    fast, slow = (calibrate(gpu, find_precision(name)) for name in ("bf16", "fp32"))
    assert torch.cuda.memory_reserved() == before
    assert fast.calibration_matmul_tflops and slow.calibration_matmul_tflops
    assert fast.calibration_matmul_tflops > 2 * slow.calibration_matmul_tflops
    assert fast.calibration_copy_gbps and slow.calibration_copy_gbps
    assert fast.calibration_copy_gbps == pytest.approx(slow.calibration_copy_gbps, rel=0.1)


def test_operations_in_cudnn_that_are_no_convolutions_are_seen(gpu: Device) -> None:
    images = torch.randn(4, 16, 8, 8, device=gpu.torch)
    with StepWatch() as watch:
        torch.nn.LSTM(8, 8).to(gpu.torch)(torch.randn(5, 2, 8, device=gpu.torch))
        torch.nn.BatchNorm2d(16).to(gpu.torch)(images)
    assert watch.routes == []
    assert {"_cudnn_rnn", "cudnn_batch_norm"} <= watch.cudnn_operations
