"""`sweep doctor`: what it looks at, what it says, and that it leaves nothing behind."""

import json
import re
from collections import namedtuple
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from cudnn_sweep.cluster.errors import LocalRayError
from cudnn_sweep.cluster.local import local_ray
from cudnn_sweep.orchestrator.doctor import checks
from cudnn_sweep.orchestrator.doctor import examine as self_test
from cudnn_sweep.orchestrator.doctor.checks import Check, check_gpus, check_storage
from cudnn_sweep.orchestrator.doctor.examine import (
    check_pair,
    check_pairs,
    examine,
)
from cudnn_sweep.orchestrator.errors import ServerError
from cudnn_sweep.orchestrator.gpus.cpu_pinning import Pinning
from cudnn_sweep.orchestrator.locks import sweep_lock as locks
from cudnn_sweep.orchestrator.locks.sweep_lock import measuring_lock
from cudnn_sweep.orchestrator.process.client import ForkServer, survey
from cudnn_sweep.workloads.cells.expand import WorkloadFacts
from cudnn_sweep.workloads.cells.suite import CellAxes
from cudnn_sweep.workloads.survey import Survey
from tests.orchestrator.typed import Done, sweep


@pytest.fixture(scope="session")
def machine(server: ForkServer) -> Survey:
    return survey(server, [])


@pytest.fixture
def without_gpu(machine: Survey) -> Survey:
    where = replace(machine.environment, device="cpu", cuda=None, cudnn=None)
    return replace(machine, environment=where, gpus=[], gpu_uuids=[])


@pytest.fixture
def with_gpu(machine: Survey, monkeypatch: pytest.MonkeyPatch) -> Survey:
    pinned = {"GPU-0": Pinning(cpus=frozenset({1, 2, 3, 65, 66, 67}), node=0)}
    monkeypatch.setattr(checks, "pinning_of", lambda uuid, _: pinned.get(uuid))
    where = replace(
        machine.environment,
        device="cuda",
        cuda="13.0",
        cudnn=91900,
        driver="580.159.04",
        max_sm_clock_mhz=1980,
    )
    return replace(machine, environment=where, gpus=["NVIDIA H200"], gpu_uuids=["GPU-0"])


@pytest.fixture
def own_slot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one_server_for_slots: None) -> None:
    """A sweep that runs on this machine meanwhile is not in our way."""
    monkeypatch.setattr(locks, "PREFIX", f"test/{tmp_path}/")


def type_doctor(here: Path, *arguments: str) -> Done:
    """As on a machine without a GPU."""
    return sweep("doctor", *arguments, here=here, CUDA_VISIBLE_DEVICES="")


def states(checks: list[Check]) -> dict[str, str]:
    return {check.name: check.state for check in checks}


@pytest.mark.parametrize(
    ("nccl", "peer_access", "state"),
    [("2.27.5", True, "ok"), ("2.27.5", False, "warning"), (None, True, "problem")],
)
def test_two_gpus_are_examined_for_ranks(
    with_gpu: Survey, nccl: str | None, peer_access: bool, state: str
) -> None:
    uuids = [*with_gpu.gpu_uuids, "GPU-1"]
    pair = replace(with_gpu, gpus=2 * with_gpu.gpus, gpu_uuids=uuids)
    pair = replace(pair, nccl=nccl, peer_access=peer_access)
    assert "ranks" not in states([*check_gpus(with_gpu, "fake_calm")])
    assert states([*check_gpus(pair, "fake_calm")])["ranks"] == state


@pytest.mark.long
def test_quick_look_at_a_machine_without_a_gpu(tmp_path: Path) -> None:
    done = type_doctor(tmp_path, "--quick", "--json")
    found = json.loads(done.stdout)
    assert {check["name"]: check["state"] for check in found["checks"]} == {
        "CPU": "ok",
        "torch": "ok",
        "CUDA": "warning",
        "NVML": "warning",
        "compiler": "ok",
        "results": "ok",
        "temporary files": "ok",
        "compute caches": "ok",
        "Ray": "ok",
    }
    assert (done.returncode, found["state"], done.stderr) == (0, "warning", "")
    assert all(bool(check["advice"]) == (check["state"] != "ok") for check in found["checks"])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_output_says_what_was_found_and_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = type_doctor(
        tmp_path, "--quick", "--telemetry", "fake_shared", "--results", "file/results"
    )
    assert done.returncode == 1
    assert "warning  CUDA               no CUDA: settings have no effect here" in done.stdout
    assert "warning  GPU 0 users        other processes that work on this GPU: 1" in done.stdout
    assert "→ end the other process" in done.stdout
    assert "problem  results            results cannot be stored in" in done.stdout
    assert "1 problem, 3 warnings in 11 checks" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100


def test_the_cores_of_a_gpu_are_named(with_gpu: Survey) -> None:
    found = {check.name: check.found for check in check_gpus(with_gpu, "fake_calm")}
    assert (
        found["GPU 0 cores"]
        == "CPUs 1-3,65-67 run only this GPU's trials; the GPU's NUMA node is 0"
    )


def test_gpus_that_nvml_does_not_know_are_warned_of(with_gpu: Survey) -> None:
    unknown = replace(with_gpu, gpu_uuids=["GPU-1"])
    found = {check.name: check for check in check_gpus(unknown, "nvml")}
    assert found["NVML"].found == "no answer for 1 of 1 GPUs"
    assert found["GPU 0 cores"].state == "warning"
    assert "GPU 0 clocks" not in found


def test_gpus_of_several_models_are_a_problem(with_gpu: Survey) -> None:
    mixed = replace(with_gpu, gpus=["NVIDIA H200", "NVIDIA A2"], gpu_uuids=["GPU-0", "GPU-1"])
    assert next(check_gpus(mixed, "off")).state == "problem"


def test_a_server_that_does_not_come_up_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusal = ServerError("the fork server ended before its greeting, exit code 1")
    monkeypatch.setattr(self_test, "look_at_this_machine", Mock(side_effect=refusal))
    found = states(list(examine(str(tmp_path), 0.0, quick=True)))
    assert found["torch"] == "problem"
    assert "CUDA" not in found and found["results"] == "ok"


def test_ray_that_does_not_start_is_a_problem(
    tmp_path: Path, without_gpu: Survey, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusal = LocalRayError("Ray does not start on this machine: no port")
    monkeypatch.setattr(self_test, "look_at_this_machine", lambda: without_gpu)
    monkeypatch.setattr(self_test, "check_pairs", lambda *_: iter(()))
    monkeypatch.setattr(local_ray, "probe_ray", Mock(side_effect=refusal))
    found = {check.name: check for check in examine(str(tmp_path), 0.0)}
    assert found["Ray"].state == "problem"
    assert "no port" in found["Ray"].found


def test_a_full_disk_is_warned_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage(10**12, 10**12, 10**9))
    found = states(list(check_storage(str(tmp_path))))
    assert found == {"results": "warning", "temporary files": "warning", "compute caches": "ok"}


@pytest.mark.parametrize(
    ("compared", "state", "found", "advice"),
    [
        (
            (9, 1.004, 0.997, 1.011, "equivalent"),
            "ok",
            "differ by 0.4% (95% interval -0.3% to +1.1%) over 9 pairs: differences of 3% can be detected here",
            "",
        ),
        (
            (4, 0.98, 0.95, 1.011, "inconclusive"),
            "warning",
            "differences of 3% cannot be detected here",
            "about `replicates: 8`",
        ),
        ((9, 1.1, 1.08, 1.12, "hurts"), "problem", "although nothing differs", "trust no verdict"),
        ((1, 1.1, None, None, "inconclusive"), "warning", "too few to judge", "--seconds"),
    ],
)
def test_the_self_test_speaks_plainly(
    compared: tuple[Any, ...], state: str, found: str, advice: str
) -> None:
    names = ("blocks", "ratio", "ratio_low", "ratio_high", "wall_statistical_verdict")
    device = dict.fromkeys([f"device_{each}" for each in (*names[1:4], "statistical_verdict")])
    verdict = SimpleNamespace(**dict(zip(names, compared, strict=True)), **device)
    (check,) = check_pair(verdict)  # type: ignore[arg-type]  # of its fifty fields some
    assert (check.name, check.state) == ("self-test, wall", state)
    assert check.found.endswith(found)
    assert advice in check.advice


@pytest.mark.slow
@pytest.mark.usefixtures("own_slot")
def test_the_self_test_measures_pairs(machine: Survey) -> None:
    found = list(check_pairs(machine, "fake_power_capped", 2.0))
    assert found[0].name == "self-test, wall"
    # a busy machine measures a single pair in that time, of which it judges nothing
    assert re.match(
        r"two identical configs (read|differ by [\d.]+% in a single pair)", found[0].found
    )
    assert found[-1].name == "self-test, GPU"
    assert found[-1].found.startswith("power_capped in ")


@pytest.mark.long
@pytest.mark.usefixtures("own_slot")
def test_the_self_test_judges_no_pair_of_a_throttled_gpu(machine: Survey) -> None:
    first, second = check_pairs(machine, "fake_throttled", 0.0)
    assert first.found == "no pair can be judged: the GPU was shared or throttled in each"
    assert second.found.startswith("throttled in ")


@pytest.mark.slow
@pytest.mark.usefixtures("own_slot")
def test_the_self_test_names_a_trial_that_fails(
    machine: Survey, faulty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    workload = f"{faulty}:raises"
    facts = WorkloadFacts(directions=("forward",), varies=(), input_shape=(1, 1))
    monkeypatch.setattr(self_test, "CELL", CellAxes(workload=workload))
    monkeypatch.setattr(self_test, "FACTS", {workload: facts})
    (check,) = check_pairs(machine, "off", 0.0)
    assert check.state == "problem"
    assert check.found.startswith("a trial ended with error: ")


@pytest.mark.usefixtures("own_slot")
def test_the_self_test_disturbs_no_sweep(without_gpu: Survey) -> None:
    with measuring_lock(["cpu"]):
        (check,) = check_pairs(without_gpu, "off", 2.0)
    assert check.state == "warning"
    assert check.found.startswith("left out: another sweep is measuring on cpu")
