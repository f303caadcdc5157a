"""On a GPU: compiled and replayed steps take the time that a script of ten lines measures, and fallbacks are named."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cudnn_sweep.orchestrator.process.client import ForkServer
from cudnn_sweep.orchestrator.process.protocol import Outcome, Request, TrialJob
from cudnn_sweep.workloads.cells.config import Config
from cudnn_sweep.workloads.cells.expand import expand_cells
from cudnn_sweep.workloads.cells.measurement import MeasureSpec, TrialRequest
from cudnn_sweep.workloads.execution import ExecutionName
from tests.workloads.made_up_cells import MODEL, suite_of

pytestmark = pytest.mark.gpu

MEASURE = MeasureSpec(logged_replicates=0, turn_cpus=None, timeout_s=200)
UNET = "cudnn_sweep.workloads.nets.unet:UNet"
SCRIPT = """
import statistics, sys, time, torch
from cudnn_sweep.workloads.nets.unet import UNet
torch.manual_seed(0)
x, net = torch.randn(2, 1, 96, 96, 96, device="cuda"), UNet(dims=3, width=32).cuda()
call = torch.compile(net) if sys.argv[1] == "compile" else net
sgd = torch.optim.SGD(net.parameters(), 0.01, momentum=0.9)
def step():
    sgd.zero_grad(); call(x).square().mean().backward(); sgd.step()
with torch.cuda.stream(torch.cuda.Stream()): [step() for _ in range(3)]
torch.cuda.synchronize(); graph = torch.cuda.CUDAGraph(); run = step
if sys.argv[1] == "cuda_graph":
    with torch.cuda.graph(graph): step()
    run = graph.replay
def timed(count):
    torch.cuda.synchronize(); began = time.perf_counter(); [run() for _ in range(count)]; torch.cuda.synchronize()
    return (time.perf_counter() - began) / count * 1e3
timed(20); print(statistics.median(timed(5) for _ in range(9)))
"""
MUTATING = """
from torch import nn
class Net(nn.Conv2d):
    def forward(self, x):
        x.add_(1)
        return super().forward(x)
"""


def outcome(server: ForkServer, config: Config, folder: Path, **axes: Any) -> Outcome:
    facts = {axes["workload"]: MODEL}
    (cell,) = expand_cells(suite_of(**axes), facts, device="cuda", gpu="this GPU")
    trial = TrialRequest(
        cell=cell, config=config, measure=MEASURE, seed=1, compute_cache=str(folder)
    )
    return server.run(Request(job=TrialJob(trial=trial), timeout_s=MEASURE.timeout_s))


@pytest.mark.slow
@pytest.mark.parametrize(
    "execution", [pytest.param("compile", marks=pytest.mark.long), "cuda_graph"]
)
def test_a_steps_time_is_that_of_a_script(
    server: ForkServer, tmp_path: Path, execution: ExecutionName
) -> None:
    """A step of 35 to 50 ms on an H200, which does not wait for the CPU."""
    ran = outcome(
        server,
        Config(execution=execution),
        tmp_path / "cache",
        workload=UNET,
        input="2x1x96x96x96",
        model={"arguments": {"dims": 3, "width": 32}},
    )
    assert (ran.status, ran.message) == ("ok", None) and ran.reply and ran.reply.measured
    measured = ran.reply.measured
    assert measured.checks_error is None
    script = [sys.executable, "-c", SCRIPT, execution]
    by_script = float(subprocess.run(script, capture_output=True, text=True, check=True).stdout)
    assert measured.wall.steady_wall_ms == pytest.approx(by_script, rel=0.05)
    device = measured.device
    assert device.steady_device_ms == pytest.approx(measured.wall.steady_wall_ms, rel=0.05)
    is_graph = execution == "cuda_graph"
    assert device.steady_device_source == ("own_graph" if is_graph else "graph")
    assert (measured.ran.graph_replays or 0) >= 20 * is_graph
    assert (measured.ran.compiled_graphs or 0) == (not is_graph)
    (start_ms,) = measured.ran.cold_compile_ms or []
    assert measured.cold and 0 < start_ms < measured.cold[0].first_ms
    choice = measured.choice
    assert choice.kernels_source == "profiler" and choice.kernels_hash
    assert choice.convolutions == 23 and choice.routes == ["Cudnn", "CudnnTranspose"]


def test_graphs_that_the_compiler_left_out_are_named(server: ForkServer, tmp_path: Path) -> None:
    file = tmp_path / "nets.py"
    file.write_text(MUTATING)
    ran = outcome(
        server,
        Config(execution="reduce_overhead"),
        tmp_path / "cache",
        workload=f"{file}:Net",
        input="2x3x16x16",
        model={"arguments": {"in_channels": 3, "out_channels": 4, "kernel_size": 3}},
        direction="inference",
    )
    assert ran.status == "error" and ran.reply and ran.reply.measured
    told = "execution reduce_overhead was not in force: the compiler left out CUDA graphs"
    assert (ran.message or "").startswith(told)
    assert ran.reply.measured.ran.fallbacks == ["the compiler left out CUDA graphs"]


def test_results_of_the_compilers_graphs_are_examined(server: ForkServer, tmp_path: Path) -> None:
    """Their memory is overwritten by the graph's next run."""
    ran = outcome(
        server,
        Config(execution="reduce_overhead"),
        tmp_path / "cache",
        workload="torch.nn:Conv2d",
        input="2x3x16x16",
        model={"arguments": {"in_channels": 3, "out_channels": 4, "kernel_size": 3}},
        direction="inference",
    )
    assert ran.status == "ok" and ran.reply and ran.reply.measured
    assert ran.reply.measured.checks_error is None
    assert ran.reply.measured.computed.bitwise_repeatable
