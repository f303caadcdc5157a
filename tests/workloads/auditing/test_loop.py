"""How much of a loop's time its model takes on the GPU: here on a fake GPU, whose clock the script sets."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch._dynamo  # an optimiser imports it: once, not in each fork

from cudnn_sweep.workloads.auditing.findings import GpuLoop, OwnErrors
from cudnn_sweep.workloads.auditing.loop import LoopTimes
from tests.workloads.auditing.test_watching import watched

GPU = """
import torch
from types import SimpleNamespace
cpu = gpu = 0.0  # ms: now, and when the GPU has done all its work
def wait(ms):
    global cpu
    cpu += ms
def work(ms):
    global gpu
    gpu = max(cpu, gpu) + ms
class Event:
    def __init__(self, enable_timing):
        assert enable_timing
    def record(self, stream):
        assert stream == "stream of cuda:0"
        self.at = max(cpu, gpu)
    def query(self):
        return self.at <= cpu
    def elapsed_time(self, later):
        assert self.query() and later.query()
        return later.at - self.at
torch.cuda.Event = Event
torch.cuda.current_stream = lambda device: f"stream of {device}"
torch.cuda.is_current_stream_capturing = lambda: False
class Net(torch.nn.Module):
    device = "cuda:0"
    def parameters(self):
        yield SimpleNamespace(device=torch.device(self.device))
    def forward(self):
        work(10)
class Optimiser(torch.optim.SGD):
    def step(self):
        work(5)
        return super().step()
net, optimiser = Net(), Optimiser([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
def train(load, passes=1, waits=True):
    for _ in range(passes):
        wait(load)
        net()
        torch.nn.MSELoss()(torch.zeros(2), torch.zeros(2))
        work(15)  # backward
    optimiser.step()
    if waits:
        wait(gpu - cpu)  # .item()
def predict(load):
    with torch.no_grad():
        wait(load)
        net()
        wait(gpu - cpu)
"""


@pytest.mark.parametrize(
    ("loop", "times"),
    [
        ("train(70)", (14, 14 * 30, 14 * 100)),
        (
            "train(10, waits=False); wait(gpu - cpu) if _ == 18 else None",
            (14, 14 * 30, 14 * 30 + 10),
        ),
        ("predict(40)", (14, 14 * 10, 14 * 50)),
        ("train(70, passes=2)", (14, 14 * 100, 14 * 170)),
        ("train(70); predict(40)", (34, 34 / 2 * 40, 34 / 2 * 150)),
        ("net()", None),
        ("Net.device = 'cpu'; train(70)", None),
        ("train(70) if _ < 6 else None", None),
    ],
)
def test_share_of_the_model_is_what_the_gpu_passes_between_its_call_and_its_optimiser(
    tmp_path: Path, loop: str, times: tuple[int, float, float] | None
) -> None:
    found = watched(tmp_path, f"{GPU}\nfor _ in range(20):\n    {loop}\n").gpu_loop
    assert (found and (found.steps, found.work_ms, found.loop_ms)) == times


def test_gpu_that_failed_costs_no_finding(tmp_path: Path) -> None:
    loop = "train(10, waits=False)\ndef query(event):\n    raise RuntimeError('device-side assert')\nEvent.query = query"
    with pytest.raises(AssertionError, match="device-side assert"):  # `watched` wants none
        watched(tmp_path, f"{GPU}\nfor _ in range(20):\n    {loop}\n")


class Clock:
    """A GPU that has passed each event at once, at the time that a test sets."""

    def __init__(self) -> None:
        self.ms, self.capturing, self.compiling, self.passed = 0.0, False, False, True

        class Event:
            def __init__(own, enable_timing: bool) -> None:
                assert enable_timing

            def record(own, stream: object) -> None:
                own.at = self.ms

            def query(own) -> bool:
                return self.passed

            def elapsed_time(own, later: "Event") -> float:
                return later.at - own.at

        self.torch: Any = SimpleNamespace(
            cuda=SimpleNamespace(
                Event=Event,
                current_stream=lambda device: device,
                is_current_stream_capturing=lambda: self.capturing,
            ),
            compiler=SimpleNamespace(is_dynamo_compiling=lambda: self.compiling),
        )


def net(device: str | None) -> Any:
    weights = [] if device is None else [SimpleNamespace(device=torch.device(device))]
    return SimpleNamespace(parameters=lambda: iter(weights))


def test_only_the_first_gpu_and_thread_is_timed_and_never_during_a_capture() -> None:
    clock = Clock()
    loop = LoopTimes(OwnErrors())
    loop._torch = clock.torch
    assert not loop.begin_call(net("cpu")) and not loop.begin_call(net(None))
    clock.capturing = True
    assert not loop.begin_call(net("cuda:0")), "nothing is begun while a graph is captured"
    clock.capturing = False
    assert loop.begin_call(net("cuda:0")) and not loop.begin_call(net("cuda:1"))
    clock.capturing = True
    assert not loop.begin_call(net("cuda:0"))


@pytest.mark.parametrize("hindrance", ["", "capturing", "compiling"])
def test_a_training_step_ends_at_its_optimiser_and_five_are_left_out(hindrance: str) -> None:
    clock = Clock()
    loop = LoopTimes(OwnErrors())
    loop._torch = clock.torch
    loop._optimised()
    for step in range(8):
        for accumulated in (0, 1):
            assert loop.begin_call(net("cuda:0"))
            clock.ms += 1
            loop.end_call(training=accumulated == 0)  # one pass with gradients is enough
        if hindrance:
            setattr(clock, hindrance, True)
            loop._optimised()
            setattr(clock, hindrance, False)
        clock.ms += 3
        loop._optimised()
        clock.ms += 5
        if step < 6:
            assert loop.summary() is None
    assert loop.summary() == GpuLoop(steps=2, work_ms=10.0, loop_ms=20.0)
    clock.passed = False
    assert loop.begin_call(net("cuda:0"))
    assert loop.summary() == GpuLoop(steps=2, work_ms=10.0, loop_ms=20.0), "not passed yet"
    clock.passed = True
    assert loop.summary() == GpuLoop(steps=3, work_ms=15.0, loop_ms=30.0)
