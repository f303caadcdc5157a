"""A slot: where its processes run, and that it is the device that the plan is for."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cudnn_sweep.orchestrator.errors import ServerError
from cudnn_sweep.orchestrator.gpus.cpu_pinning import Pinning
from cudnn_sweep.orchestrator.planning.session import session_of
from cudnn_sweep.orchestrator.process.client import ForkServer
from cudnn_sweep.orchestrator.slots import slot
from cudnn_sweep.workloads.cells.config import CudnnConfig
from tests.makers import MakePlan

pytestmark = pytest.mark.usefixtures("one_server_for_slots")


def test_trials_run_where_their_slot_is_pinned(
    tmp_path: Path, plan_of: MakePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = max(os.sched_getaffinity(0))
    there = Pinning(cpus=frozenset({last}), node=0)
    monkeypatch.setattr(slot, "pinning_of", lambda gpu_uuid, gpus: there)
    plan = plan_of("noop")
    record = slot.ForkedSlot.open(session_of(plan, "pinned", tmp_path), "0").run(plan.trials[0], 1)
    assert (record.pinned_cpus, record.numa_node) == (str(last), 0)
    assert (record.cpu_cores, record.threads) == (1, 1)


def test_another_device_than_the_plans_is_refused(tmp_path: Path, plan_of: MakePlan) -> None:
    plan = plan_of("noop")
    trials = [replace(trial, cell=replace(trial.cell, gpu="NVIDIA H200")) for trial in plan.trials]
    session = session_of(replace(plan, trials=tuple(trials)), "other", tmp_path)
    with pytest.raises(ServerError, match="the plan is for NVIDIA H200, this slot finds"):
        slot.ForkedSlot.open(session, "0")


def test_what_torch_reads_at_its_import_has_a_fork_server_of_its_own(
    plan_of: MakePlan, server: ForkServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "PYTORCH_NO_CUDA_MEMORY_CACHING"
    configs = (CudnnConfig(), CudnnConfig(environment={name: "1", "CUDNN_LOGLEVEL_DBG": "0"}))
    session = session_of(plan_of("noop", configs=configs), "allocators", tmp_path)
    started = []

    def start(**options: Any) -> ForkServer:
        started.append(options["variables"])
        return server

    monkeypatch.setattr("cudnn_sweep.orchestrator.slots.slot.ForkServer", start)
    monkeypatch.setattr(server, "close", lambda: None)
    opened = slot.ForkedSlot.open(session, "0")
    assert started == [{}, {name: "1"}]
    (trial,) = (each for each in session.plan.trials if each.config == configs[1] and not each.twin)
    assert opened.run(trial, 1).environment == configs[1].environment


def test_a_fork_server_has_the_variables_that_it_is_given() -> None:
    with ForkServer(survey_only=True, variables={"GIVEN": "yes"}) as server:
        assert b"GIVEN=yes" in Path(f"/proc/{server.pid}/environ").read_bytes().split(b"\0")
