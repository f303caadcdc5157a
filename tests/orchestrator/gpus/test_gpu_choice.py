"""Which GPUs a sweep runs on; two models in one cluster are two sweeps."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import ray
from ray._private.node import Node
from ray._private.parameter import RayParams
from rich.console import Console

from cudnn_sweep.analysis.answering.verdicts import verdicts
from cudnn_sweep.analysis.asking.database import open_database
from cudnn_sweep.analysis.asking.queries import load_query
from cudnn_sweep.analysis.storing.store import open_store
from cudnn_sweep.cluster.launch_file import read_launch_file
from cudnn_sweep.cluster.local.local_ray import OBJECT_STORE_BYTES
from cudnn_sweep.orchestrator.errors import SpecError, UnfinishedError
from cudnn_sweep.orchestrator.gpus.choice import gpus_asked, models_asked, models_missing, share_of
from cudnn_sweep.orchestrator.planning.options import LaunchOptions
from cudnn_sweep.orchestrator.planning.plan import Shard
from cudnn_sweep.orchestrator.planning.request import request_of
from cudnn_sweep.orchestrator.planning.spec import SweepSpec
from cudnn_sweep.orchestrator.recording.recorder import Progress
from cudnn_sweep.orchestrator.remote.driver import a_process_each, models_of
from cudnn_sweep.orchestrator.remote.follow import Follower, MergedSweeps
from cudnn_sweep.orchestrator.remote.job import (
    VARIABLES,
    Ended,
    JobRequest,
    Recorded,
    Started,
    from_line,
    read_request,
    to_line,
    write_request,
)
from cudnn_sweep.workloads.cells.suite import CellAxes, GpuChoice, SuiteSpec
from tests.makers import Look, MakePlan
from tests.orchestrator.typed import python

pytestmark = pytest.mark.clustered

H100, H200 = "NVIDIA H100 80GB HBM3", "NVIDIA H200"
A100 = ["NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-80GB"]
SLICE = f"{A100[0]} MIG 1g.5gb"


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("all", [H100, *A100, H200]),
        ("H200", [H200]),
        (["h200", "A100"], [*A100, H200]),
        (A100[0], [A100[0]]),
        (["H100", "B200"], [H100]),
    ],
)
def test_models_are_asked_for_by_name_or_a_part_of_it(
    asked: str | list[str], found: list[str]
) -> None:
    choice = GpuChoice(models=asked)
    assert models_asked(choice, [H100, *A100, H200, H100]) == found
    assert models_missing(choice, [H100, *A100, H200]) == (["B200"] if "B200" in asked else [])


def test_exact_name_is_not_that_of_its_slices() -> None:
    assert models_asked(GpuChoice(models=A100[0]), [SLICE, A100[0]]) == [A100[0]]
    assert models_asked(GpuChoice(models="1g.5gb"), [SLICE, A100[0]]) == [SLICE]


@pytest.mark.parametrize(
    ("share", "of", "gpus"), [(1.0, 4, 4), (0.5, 4, 2), (0.5, 3, 1), (0.1, 4, 1), (0.29, 100, 29)]
)
def test_share_is_rounded_down_to_one_at_least(share: float, of: int, gpus: int) -> None:
    assert share_of(GpuChoice(share=share), of) == gpus


def test_a_launch_here_is_of_one_model(look: Look) -> None:
    here = replace(
        look(SuiteSpec(cells=[CellAxes(workload="noop")])),
        gpus=[H100, H200, H200, H200],
        gpu_uuids=["GPU-a", "GPU-b", "GPU-c", "GPU-d"],
    )
    with pytest.raises(SpecError, match=f"several models: {H100}, {H200}; ask for one of them by"):
        gpus_asked(GpuChoice(), here)
    asked = gpus_asked(GpuChoice(models="H200", share=0.7), here)
    assert (asked.gpus, asked.gpu_uuids) == ([H200, H200], ["GPU-b", "GPU-c"])


REQUEST_FILE = """
metadata:
  sweep:
    address: auto
    gpus: {models: [H100, H200, B200], share: 0.5}
    configs: [{benchmark: false}, {benchmark: true}]
    replicates: 2
    measure: {warmup_s: 0, steady_budget_s: 0.05, timeout_s: 100, calibrate: false, reference_replicates: 0}
    cells: [{workload: noop}]
"""


@pytest.fixture
def ask(tmp_path: Path) -> Callable[..., JobRequest]:
    """What a cluster is asked, as it is read there."""

    def make(strict: bool = False, **selection: Any) -> JobRequest:
        file = tmp_path / "cluster.yaml"
        file.write_text(REQUEST_FILE)
        options = LaunchOptions(
            file=file,
            results=(tmp_path / "results").as_uri(),
            strict=strict,
            **selection,
        )
        sweep = request_of(read_launch_file(file, SweepSpec), options)
        write_request(JobRequest(sweep=sweep), tmp_path)
        return read_request(tmp_path)

    return make


def test_cluster_is_told_of_the_shard_and_the_models(ask: Callable[..., JobRequest]) -> None:
    request = ask(sweep_id="shared", shard="2/3")
    assert request.sweep.options.own_shard == Shard(number=2, of=3)
    assert request.sweep.suite.gpus.share == 0.5
    assert "--sweep-id shared --shard 2/3" in request.sweep.options.command()
    said: list[str] = []
    assert models_of(request, [H200, "NVIDIA L4", H200], said.append) == [H200]
    assert said == [f"gpus.models: no node has a GPU called {name}" for name in ("H100", "B200")]
    with pytest.raises(SpecError, match=f"names one sweep, .*: {H100}, {H200}; ask for one"):
        models_of(request, [H100, H200], said.append)
    with pytest.raises(SpecError, match="--strict: no node has a GPU called H100"):
        models_of(ask(strict=True), [H200], said.append)


def test_sweeps_side_by_side_are_shown_as_one(plan_of: MakePlan) -> None:
    plan = plan_of("noop", replicates=2)
    sweeps = MergedSweeps()
    for gpu, sweep_id in enumerate(("one", "other")):
        sweeps.start(Started(sweep_id=sweep_id, reason="new", plan=plan, contrasts=()))
        state = f"of {sweep_id}"
        progress = Progress(statuses={"ok": 2}, slots={f"GPU-{gpu}": state})
        sweeps.note(sweep_id, progress)
    assert len(sweeps.plan().trials) == 2 * len(plan.trials)
    found = sweeps.progress()
    assert found.statuses == {"ok": 4}
    running = {slot: state for slot, state in found.slots.items()}
    assert running == {"GPU-0": "of one", "GPU-1": "of other"}
    sweeps.start(Started(sweep_id="one", reason="repeats", plan=plan, contrasts=()))
    assert sweeps.progress().statuses == {"ok": 2}


def test_a_model_whose_process_is_killed_is_no_success(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code = "import os, sys\nif '1' in sys.argv[1]: os.kill(os.getpid(), 9)\n"
    Path("a_driver.py").write_text(code)
    assert a_process_each("a_driver", [[], []]) == 137
    follower = Follower("results", Console(quiet=True), copies=False)
    follower.take(to_line(Ended(exit_code=0, sweeps=2)))
    with pytest.raises(UnfinishedError, match="the job ended early"):
        follower.report("the job ended early")


@pytest.fixture
def two_models(ray_here: Path) -> Iterator[None]:
    """Two more nodes for the Ray that tests share, with two logical GPUs each, that take themselves for
    GPUs of two models; the first node has a third model, the processor's.
    """
    nodes = []
    for model in (H100, H200):
        parameters = RayParams(
            gcs_address=ray.get_runtime_context().gcs_address,
            node_ip_address="127.0.0.1",
            node_manager_port=0,
            num_cpus=2,
            num_gpus=2,
            object_store_memory=OBJECT_STORE_BYTES,
            include_log_monitor=False,  # type: ignore[arg-type]
            dashboard_agent_listen_port=None,
            env_vars={"SWEEP_FAKE_GPU": model, **VARIABLES},
        )
        nodes.append(Node(parameters, head=False, shutdown_at_exit=False, spawn_reaper=False))
    yield
    for node in nodes:
        node.kill_all_processes(check_alive=False, allow_graceful=True, wait=True)


@pytest.mark.slow
def test_two_models_in_one_cluster_are_two_sweeps_each_complete(
    two_models: None, tmp_path: Path, ask: Callable[..., JobRequest]
) -> None:
    ask()
    address = ray.get_runtime_context().gcs_address
    module = "cudnn_sweep.orchestrator.remote.driver"
    driver = python("-m", module, here=tmp_path, RAY_ADDRESS=address)
    assert driver.returncode == 0, driver.stdout + driver.stderr
    assert "no node has a GPU called B200" in driver.stdout

    store = open_store(str(tmp_path / "results"))
    with open_database(store) as database:
        sweeps = database.query(load_query("sweeps").sql).to_pylist()
        slots = database.query(
            "select sweep_id, count(distinct slot) as slots, list(distinct gpu) as gpus, "
            "count(distinct cell_id) as cells from records group by all"
        ).to_pylist()
    assert sorted(sweep["gpu"] for sweep in sweeps) == [H100, H200]
    assert all(sweep["finished"] and sweep["recorded"] == 5 for sweep in sweeps)
    assert [(row["slots"], len(row["gpus"]), row["cells"]) for row in slots] == [(1, 1, 1)] * 2
    found = verdicts(store)
    assert sorted((verdict.gpu, verdict.blocks) for verdict in found) == [(H100, 2), (H200, 2)]

    lines = driver.stdout.split("\n")
    assert sum(isinstance(from_line(line), Recorded) for line in lines) == 10
    assert sum("5 of 5 trials recorded (5 ok)" in line for line in lines) == 2
