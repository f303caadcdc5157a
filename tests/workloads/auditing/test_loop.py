"""How much of a loop's time its model takes on the GPU: here on a fake GPU, whose clock the script sets."""

from pathlib import Path

import pytest
import torch._dynamo  # noqa: F401  # an optimiser imports it: once, not in each fork

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
