"""Which GPUs a sweep runs on; a launch measures one model."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import ray
from ray._private import node as ray_node
from ray._private.parameter import RayParams
from rich.console import Console

from cudnn_sweep.analysis.engine.database import open_database
from cudnn_sweep.analysis.engine.queries import load_query
from cudnn_sweep.analysis.results.verdicts import Verdict
from cudnn_sweep.analysis.store.store import open_store
from cudnn_sweep.cluster.launch_file import read_launch_file
from cudnn_sweep.cluster.local.local_ray import OBJECT_STORE_BYTES
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.gpus.choice import gpus_asked, model_asked, models_missing, share_of
from cudnn_sweep.orchestrator.planning.options import LaunchOptions
from cudnn_sweep.orchestrator.planning.plan import Shard
from cudnn_sweep.orchestrator.planning.request import request_of
from cudnn_sweep.orchestrator.planning.spec import SweepSpec
from cudnn_sweep.orchestrator.remote import driver
from cudnn_sweep.orchestrator.remote.job import (
    VARIABLES,
    Ended,
    JobRequest,
    Recorded,
    from_line,
    read_request,
    write_request,
)
from cudnn_sweep.orchestrator.remote.nodes import Node
from cudnn_sweep.workloads.cells.suite import CellAxes, GpuChoice, SuiteSpec
from cudnn_sweep.workloads.hardware.environment import Environment
from cudnn_sweep.workloads.survey import Survey
from tests.makers import Look
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
    assert _models_asked(choice, [H100, *A100, H200, H100]) == sorted(found)
    assert models_missing(choice, [H100, *A100, H200]) == (["B200"] if "B200" in asked else [])


def _models_asked(choice: GpuChoice, there: list[str]) -> list[str]:
    try:
        return [model_asked(choice, there)]
    except SpecError as error:
        return str(error).removeprefix("GPUs of several models: ").partition(";")[0].split(", ")


def test_one_model_that_is_not_there_is_missing() -> None:
    assert models_missing(GpuChoice(models="B200"), [H100, H200]) == ["B200"]
    assert models_missing(GpuChoice(models="all"), []) == []


def test_exact_name_is_not_that_of_its_slices() -> None:
    assert model_asked(GpuChoice(models=A100[0]), [SLICE, A100[0]]) == A100[0]
    assert model_asked(GpuChoice(models="1g.5gb"), [SLICE, A100[0]]) == SLICE


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
    with pytest.raises(SpecError, match=f"several models: {H100}, {H200}; choose one by"):
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


def test_cluster_is_told_of_the_shard_and_the_models(
    ask: Callable[..., JobRequest], environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = ask(sweep_id="shared", shard="2/3")
    assert request.sweep.options.own_shard == Shard(number=2, of=3)
    assert request.sweep.suite.gpus.share == 0.5
    assert "--sweep-id shared --shard 2/3" in request.sweep.options.command()

    def place(models: list[str], **selection: bool) -> str:
        """What is said of nodes with these models; the last line names the model that is measured."""
        surveys = [
            Survey(environment=replace(environment, gpu=model), gpus=[], gpu_uuids=[], workloads={})
            for model in models
        ]
        nodes = [
            Node(node_id=str(number), address="", accelerators=1, machine=machine)
            for number, machine in enumerate(surveys)
        ]
        monkeypatch.setattr(driver, "wait_for_nodes", lambda *_: None)
        monkeypatch.setattr(driver, "look_at_nodes", lambda *_, **__: (nodes, []))
        console = Console(record=True, width=200, quiet=False, file=StringIO())
        suite = request.sweep.suite
        found = driver.place_of(ask(**selection), console)
        return f"{console.export_text()}{found.look(suite).environment.gpu}"

    assert place([H200, "NVIDIA L4", H200]).splitlines() == [
        *(f"gpus.models: no node has a GPU called {name}" for name in ("H100", "B200")),
        H200,
    ]
    with pytest.raises(SpecError, match=f"several models: {H100}, {H200}; choose one by"):
        place([H100, H200])
    with pytest.raises(SpecError, match="--strict: no node has a GPU called H100"):
        place([H200], strict=True)


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
        nodes.append(
            ray_node.Node(parameters, head=False, shutdown_at_exit=False, spawn_reaper=False)
        )
    yield
    for node in nodes:
        node.kill_all_processes(check_alive=False, allow_graceful=True, wait=True)


@pytest.mark.long
def test_a_job_measures_on_the_nodes_of_its_model(
    two_models: None, tmp_path: Path, ask: Callable[..., JobRequest]
) -> None:
    ask()
    request = tmp_path / "sweep-request.json"
    several = request.read_text()
    address = ray.get_runtime_context().gcs_address

    def drive() -> list[str]:
        module = "cudnn_sweep.orchestrator.remote.driver"
        done = python("-m", module, here=tmp_path, RAY_ADDRESS=address)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.split("\n")

    (ended,) = filter(None, map(from_line, drive()))
    assert isinstance(ended, Ended) and ended.reason is not None
    assert f"GPUs of several models: {H100}, {H200}" in ended.reason
    request.write_text(several.replace('"H100"', '"L4"'))
    lines = drive()
    assert "gpus.models: no node has a GPU called L4" in lines

    store = open_store(str(tmp_path / "results"))
    with open_database(store) as database:
        (sweep,) = database.query(load_query("sweeps").sql).to_pylist()
        (slots,) = database.query(
            "select count(distinct slot) as slots, list(distinct gpu) as gpus from records"
        ).to_pylist()
    assert (sweep["gpu"], sweep["finished"], sweep["recorded"]) == (H200, True, 5)
    assert slots == {"slots": 1, "gpus": [H200]}
    assert [verdict.blocks for verdict in Verdict.of(store)] == [2]
    sent = [found.record for line in lines if isinstance(found := from_line(line), Recorded)]
    assert [record.ends_launch for record in sent] == [False] * 5 + [True]
    assert sent[5].attempt_id in {record.attempt_id for record in sent[:5]}
    assert sum("5 of 5 trials recorded (5 ok)" in line for line in lines) == 1
