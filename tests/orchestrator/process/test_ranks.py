"""Trials over two ranks, through NCCL on GPUs, else gloo: they train one model; a failed rank ends it, by name."""

import json
import os
from pathlib import Path

import pytest
import torch

from cudnn_sweep.orchestrator.process.client import ForkServer
from cudnn_sweep.orchestrator.process.protocol import Request, TrialJob
from cudnn_sweep.workloads.cells.measurement import TrialRequest
from tests import processes
from tests.makers import MakePlan, RunTrial
from tests.orchestrator.process.test_process import UNHURRIED, measured_well

GPUS = torch.cuda.device_count()
pytestmark = [
    pytest.mark.measuring,
    pytest.mark.skipif(GPUS == 1, reason="needs two GPUs, or none"),
]
GIVEN = {
    "NCCL_NVLS_ENABLE": "0",
    "NVSHMEM_DISABLE_NVLS": "1",
    "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
}
REACHES_S = 25.0 if GPUS else 8.0  # in which a trial reaches its third step, on a busy machine too

NET = """
import json, os, signal, time
from pathlib import Path
import torch
from torch import nn

steps = 0

def fault(kind):
    if kind == "raises":
        raise ValueError("the model is wrong")
    if kind == "lacks_memory":
        raise torch.OutOfMemoryError("no room")
    if kind == "is_killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "segfaults":
        os.kill(os.getpid(), signal.SIGSEGV)
    if kind == "leaves":
        os._exit(3)
    if kind == "hangs":
        time.sleep(1000)

class Net(nn.Sequential):
    def __init__(self, kind="none", rank=1, at=3):
        super().__init__(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(144, 2))
        self.fault = kind, rank, at
        if kind == "writes" and torch.distributed.is_initialized():
            seen = {name: os.environ[name] for name in os.environ if "NVLS" in name or "SYMM" in name}
            Path(f"{__file__}-{torch.distributed.get_rank()}.json").write_text(json.dumps(seen))

    def forward(self, images):
        global steps
        steps += 1
        kind, rank, at = self.fault
        if steps == at and torch.distributed.is_initialized() and torch.distributed.get_rank() == rank:
            fault(kind)
        return super().forward(images)
"""


@pytest.fixture
def net(tmp_path: Path) -> str:
    file = tmp_path / "net.py"
    file.write_text(NET)
    return f"{file}:Net"


def test_ranks_train_one_model_and_report_for_themselves(run_trial: RunTrial, net: str) -> None:
    outcome = run_trial(net, input="4x3x8x8", ranks=2, measure=UNHURRIED)
    measured = measured_well(outcome)
    assert measured.rank_results is not None and measured.checks_error is None
    assert [each.rank for each in measured.rank_results] == [0, 1]
    first, second = measured.rank_results
    assert first.fingerprint == second.fingerprint == measured.computed.fingerprint is not None
    assert measured.wall.steady_wall_samples_ms and measured.loss_last is not None


@pytest.mark.slow
def test_variables_of_the_server_reach_each_rank_and_are_in_the_record(
    plan_of: MakePlan, net: str
) -> None:
    model = {"arguments": {"kind": "writes"}}
    (trial, *_) = plan_of(net, input="4x3x8x8", ranks=2, model=model).trials
    request = TrialRequest(
        cell=trial.cell, config=trial.config, measure=UNHURRIED, seed=0, compute_cache=None
    )
    with ForkServer(survey_only=True, variables=GIVEN) as server:
        outcome = server.run(Request(job=TrialJob(trial=request), timeout_s=100))
    others = {name: text for name, text in os.environ.items() if name.startswith("NCCL_")}
    assert measured_well(outcome).rank_variables == others | GIVEN
    file = net.removesuffix(":Net")
    for rank in (0, 1):
        assert json.loads(Path(f"{file}-{rank}.json").read_text()) == GIVEN


FAULTS = {
    "raises": ("error", "ValueError: the model is wrong (net.py:"),
    "lacks_memory": ("out_of_memory", "OutOfMemoryError: no room"),
    "is_killed": ("killed", "SIGKILL"),
    "segfaults": ("crash", "SIGSEGV"),
    "leaves": ("crash", "ended without a result, exit code 3"),
}


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("fault", FAULTS)
def test_rank_that_fails_ends_the_trial_with_its_name(
    run_trial: RunTrial, net: str, fault: str, rank: int
) -> None:
    model = {"arguments": {"kind": fault, "rank": rank}}
    outcome = run_trial(net, input="4x3x8x8", ranks=2, model=model, measure=UNHURRIED)
    status, message = FAULTS[fault]
    assert (outcome.status, str(outcome.message)[:13]) == (status, f"rank {rank} of 2: ")
    assert message in str(outcome.message)
    assert outcome.process_s < 30


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, pytest.param(1, marks=pytest.mark.long)])
def test_rank_that_hangs_is_named_when_time_is_up(
    run_trial: RunTrial, net: str, rank: int, server: ForkServer
) -> None:
    model = {"arguments": {"kind": "hangs", "rank": rank}}
    short = UNHURRIED.model_copy(update={"timeout_s": REACHES_S})
    outcome = run_trial(net, input="4x3x8x8", ranks=2, model=model, measure=short)
    assert outcome.status == "timeout"
    assert f"the others wait for rank {rank}" in str(outcome.message)
    assert not processes.children(server.pid), "no rank runs on"


@pytest.mark.gpu
def test_each_rank_has_a_gpu_and_its_wait_is_apart(run_trial: RunTrial, net: str) -> None:
    measured = measured_well(run_trial(net, input="64x3x8x8", ranks=2, measure=UNHURRIED))
    steady_ms = measured.wall.steady_wall_ms
    assert measured.rank_results is not None and steady_ms is not None
    first, second = measured.rank_results
    assert first.gpu_uuid != second.gpu_uuid
    for rank in (first, second):
        assert rank.device_ms and rank.wait_ms and rank.kernels_hash
        assert rank.wait_ms < 2 * steady_ms, "the profiler starts in all at once"
    assert measured.device.steady_device_source == "profiler"
    assert (measured.device.steady_device_ms, measured.device.launch_bound) == (
        first.device_ms,
        None,
    )
    assert measured.choice.kernels_source == "graph", "of the step without the others"
    assert measured.rank_variables == {
        name: text
        for name, text in os.environ.items()
        if name.startswith(("NCCL_", "TORCH_SYMM_MEM_", "NVSHMEM_"))
    }
    assert not [file for file in os.listdir("/dev/shm") if file.startswith("nccl")]
