"""One fork server and one Ray for all of this folder's tests: a start and stop of Ray costs 7 s."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
import venv
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from cudnn_sweep.analysis.store.schema import RunRecord
from cudnn_sweep.analysis.store.store import Store, open_store
from cudnn_sweep.orchestrator.planning.plan import Plan, Trial, make_plan
from cudnn_sweep.orchestrator.planning.session import Session
from cudnn_sweep.orchestrator.process.client import ForkServer, survey
from cudnn_sweep.orchestrator.process.protocol import Outcome, Request, Status, TrialJob
from cudnn_sweep.orchestrator.recording.record import Attempt, make_record
from cudnn_sweep.workloads.cells.config import Config
from cudnn_sweep.workloads.cells.expand import expand_cells
from cudnn_sweep.workloads.cells.measurement import MeasureSpec, TrialRequest
from cudnn_sweep.workloads.cells.suite import CellAxes, SuiteSpec, workload_names
from cudnn_sweep.workloads.hardware.environment import Environment, capture_environment

if TYPE_CHECKING:
    from tests.makers import Look, MakePlan, RecordOf, RunTrial

OURS = Path(__file__).parents[2]
SHARED_RAY = ExitStack()
QUICK = MeasureSpec(
    warmup_s=0.0,
    steady_budget_s=0.05,
    open_budget_s=0.5,
    open_steps=40,
    calibrate=False,
    timeout_s=100,
)


@pytest.fixture
def one_server_for_slots(server: ForkServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """All slots share it: to start one takes 3 s."""
    does = ("run", "begin", "hear", "pass_on", "end", "pin")
    lent = SimpleNamespace(close=lambda: None, **{name: getattr(server, name) for name in does})
    monkeypatch.setattr("cudnn_sweep.orchestrator.slots.slot.ForkServer", lambda **_: lent)
    yield
    server.pin(os.sched_getaffinity(0))


@pytest.fixture(scope="session")
def look(server: ForkServer) -> Look:
    """What planning asks; each choice of workloads once."""
    asked = cache(lambda names: survey(server, list(names)))
    return lambda suite: asked(tuple(workload_names(suite)))


@pytest.fixture(scope="session")
def plan_of(look: Look) -> MakePlan:
    """A plan of one workload's cells: `plan_of("noop", replicates=3, regime="fixed")`."""

    def make(
        *workloads: str,
        replicates: int = 1,
        measure: MeasureSpec = QUICK,
        configs: tuple[Config, ...] = (Config(), Config(benchmark=True)),
        **axes: Any,
    ) -> Plan:
        suite = SuiteSpec(
            cells=[CellAxes(workload=workload, **axes) for workload in workloads],
            configs=list(configs),
            replicates=replicates,
            measure=measure,
        )
        machine = look(suite)
        where = machine.environment
        cells = expand_cells(suite, machine.workloads, device=where.device, gpu=where.gpu)
        return make_plan("test", suite, cells)

    return make


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A test's own folder is the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def plan(plan_of: MakePlan) -> Plan:
    """Of one cell, in three blocks: seven trials."""
    return plan_of("noop", replicates=3)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path))


@pytest.fixture(scope="session")
def run_trial(server: ForkServer, plan_of: MakePlan) -> RunTrial:
    """What becomes of a fresh process that measures one trial of `workload`."""

    def run(
        workload: str,
        *,
        config: Config | None = None,
        measure: MeasureSpec = QUICK,
        **axes: Any,
    ) -> Outcome:
        trial = plan_of(workload, configs=(config or Config(),), **axes).trials[0]
        request = TrialRequest(
            cell=trial.cell,
            config=trial.config,
            measure=measure,
            seed=trial.seed,
            compute_cache=None,
        )
        return server.run(
            Request(
                job=TrialJob(trial=request),
                timeout_s=measure.timeout_s,
                host_memory_limit_mib=measure.host_memory_limit_mib,
            )
        )

    return run


@pytest.fixture(scope="session")
def environment() -> Environment:
    return capture_environment()


@pytest.fixture(scope="session")
def record_of(environment: Environment) -> RecordOf:
    """A trial's record as if it had run: `record_of(session, trial, slot="GPU-1")`."""

    def make(
        session: Session,
        trial: Trial,
        *,
        status: Status = "ok",
        slot: str = "s",
        where: Environment = environment,
    ) -> RunRecord:
        message = None if status == "ok" else "it went wrong"
        now = datetime.now(UTC)
        outcome = Outcome(
            status=status, message=message, started_at=now, ended_at=now, process_s=0.0
        )
        return make_record(session, trial, outcome, where, Attempt(slot=slot, attempt=1))

    return make


@pytest.fixture(scope="package")
def last_good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with this one's torch and with version 0.0.1 of ours."""
    folder = tmp_path_factory.mktemp("last-good")
    venv.create(folder, with_pip=False)
    packages = folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    for name in ("orchestrator", "workloads", "cluster", "analysis"):
        no_caches = shutil.ignore_patterns("__pycache__")
        shutil.copytree(OURS / name, packages / "cudnn_sweep" / name, ignore=no_caches)
    metadata = packages / "cudnn_sweep-0.0.1.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.1\nName: cudnn-sweep\nVersion: 0.0.1\n")
    (packages / "torch_of_this_one.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin" / "python"


@pytest.fixture(scope="session")
def our_ray(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a Ray of our own with eight logical GPUs and a job server, whose jobs have another home."""
    import ray
    from ray._private import services
    from ray._private.utils import write_ray_address

    from cudnn_sweep.cluster.local.local_ray import local_ray

    start_dashboard, init = services.start_api_server, ray.init

    def with_dashboard(**options: Any) -> None:
        services.start_api_server = start_dashboard
        init(**options | {"include_dashboard": True, "dashboard_host": "127.0.0.1"})

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        patch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")
        patch.setenv("PYTHONPATH", str(OURS))  # of its workers, which run functions of tests
        patch.setattr(ray, "init", with_dashboard)
        folder = SHARED_RAY.enter_context(local_ray(slots=8, gpus=8))
        # if a machine runs several Rays, a job's driver joins the one whose address is written here
        write_ray_address(ray.get_runtime_context().gcs_address, str(folder / "r"))
        return folder


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """The shared Ray ends with the tests that share it: idle, it takes a tenth of a core."""
    yield
    if nextitem is None or not nextitem.get_closest_marker("clustered"):
        SHARED_RAY.close()


@pytest.fixture(scope="session")
def ray_here(our_ray: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """It is up; a folder for what Tune stores."""
    return tmp_path_factory.mktemp("tune")
