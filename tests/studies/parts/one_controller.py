"""One driver that runs its shard of a plan whose trials only sleep, in a process of its own: for `controllers.py`.

python -m tests.studies.parts.one_controller JSON
"""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from cudnn_sweep.analysis.results.verdicts import Verdict
from cudnn_sweep.analysis.store.store import open_store
from cudnn_sweep.cluster.local.janitor import processes_of
from cudnn_sweep.cluster.local.local_ray import local_ray
from cudnn_sweep.orchestrator.planning.decided import contrasts_of
from cudnn_sweep.orchestrator.planning.plan import Shard, make_plan
from cudnn_sweep.orchestrator.planning.session import Session, session_of
from cudnn_sweep.orchestrator.process.client import ForkServer, survey
from cudnn_sweep.orchestrator.terminal.display import now_and_then, watch
from cudnn_sweep.workloads.cells.expand import expand_cells
from cudnn_sweep.workloads.cells.suite import CellAxes, SuiteSpec
from cudnn_sweep.workloads.survey import Survey
from tests.studies.parts.local_nodes import more_nodes
from tests.studies.parts.sleeping_slot import SleepingSlot

if TYPE_CHECKING:
    from cudnn_sweep.orchestrator.slots.tune_host import Host

TRIALS_A_BLOCK = 2.05  # `benchmark` off and on, and one block in twenty has a twin
SLOTS_A_NODE = 16
LOOK_S = 1.0
QUARTERS = 4
PARTS = range(1, QUARTERS + 1)
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
PAGE_MB = os.sysconf("SC_PAGE_SIZE") / 2**20


@dataclass(frozen=True, kw_only=True, slots=True)
class Load:
    """What one driver is to run."""

    trials: int
    """Trials of all shards together."""
    slots: int
    """Slots of this driver."""
    sleep_s: float
    results: str
    sweep_id: str
    shard: int
    shards: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Costs:
    """What its driver and recorder took."""

    driver_mb: list[float]
    """Memory at the first records, and after each quarter of them."""
    recorder_mb: list[float]
    driver_growth_mb: float
    """Growth of memory per 1,000 trials, without the first quarter, in which libraries are loaded."""
    recorder_growth_mb: float
    driver_ms: float
    """CPU time of the driver per trial."""
    recorder_ms: float
    rest_ms: float
    """CPU time of the slots' actors and Ray's own processes per trial."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Usage:
    """What the launch's processes have taken up to one moment."""

    recorded: int
    driver_mb: float
    recorder_mb: float
    driver_s: float
    recorder_s: float
    rest_s: dict[int, float]
    """CPU time by process."""


def run_controller(load: Load) -> Costs:
    with ForkServer(survey_only=True) as server:
        machine = survey(server, ["noop"])
    session = _session(load, machine)
    with _ray(load.slots) as ours:
        return _costs(_run(load, session, machine, ours))


def _session(load: Load, machine: Survey) -> Session:
    blocks = max(load.shards, round(load.trials / TRIALS_A_BLOCK))
    suite = SuiteSpec(cells=[CellAxes(workload="noop")], replicates=blocks)
    where = machine.environment
    cells = expand_cells(suite, machine.workloads, device=where.device, gpu=where.gpu)
    plan = make_plan("sleeping", suite, cells)
    whole = session_of(plan, load.sweep_id, Path(load.results))
    shard = Shard(number=load.shard, of=load.shards)
    launch_id = f"{whole.launch_id}-{shard.number}"
    return replace(whole, plan=shard.part(plan), shard=shard, launch_id=launch_id)


@contextmanager
def _ray(slots: int) -> Iterator[Path]:
    nodes = ceil(slots / SLOTS_A_NODE)
    each = ceil(slots / nodes)
    os.environ["PYTHONPATH"] = os.getcwd()  # Ray's workers run functions of tests
    with ExitStack() as stack:
        folder = stack.enter_context(local_ray(slots=each, gpus=each))
        stack.enter_context(more_nodes(folder, nodes - 1, slots=each, gpus=each))
        yield folder


def _run(load: Load, session: Session, machine: Survey, ray_folder: Path) -> list[Usage]:
    """As a launch does it, display and all."""
    from cudnn_sweep.orchestrator.slots.tune_host import Host, Slots

    store, looks = open_store(load.results), list[Usage]()
    contrasts = contrasts_of(session.plan.configs())
    slot = partial(SleepingSlot, environment=machine.environment, sleep_s=load.sleep_s)
    host = Host(session, results=store.location, slots=Slots(count=load.slots, gpu=True))
    with (
        watch(
            Console(stderr=True, force_terminal=False),
            session.plan,
            host.progress,
            lambda: Verdict.of_each(store, session.sweep_id, contrasts),
        ),
        _looking(host, ray_folder, looks),
    ):
        host.run(ray_folder / "tune", make_slot=slot)
    host.finish([])
    return looks


@contextmanager
def _looking(host: "Host", folder: Path, looks: list[Usage]) -> Iterator[None]:
    def look() -> None:
        if recorded := host.progress().recorded:
            looks.append(_look(recorded, folder))

    try:
        with now_and_then(look, every_s=LOOK_S):
            yield
    finally:
        looks.append(_look(host.progress().recorded, folder))


def _look(recorded: int, folder: Path) -> Usage:
    ids = set(processes_of(folder))
    (recorder,) = [pid for pid in ids if _command(pid).startswith("ray::Recorder")]
    return Usage(
        recorded=recorded,
        driver_mb=_memory_mb(os.getpid()),
        recorder_mb=_memory_mb(recorder),
        driver_s=_cpu_s(os.getpid()),
        recorder_s=_cpu_s(recorder),
        rest_s={pid: _cpu_s(pid) for pid in ids - {recorder}},
    )


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""  # gone meanwhile


def _memory_mb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_MB


def _cpu_s(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) * TICK_S


def _costs(looks: list[Usage]) -> Costs:
    first, last = looks[0], looks[-1]
    trials = last.recorded - first.recorded
    marks = [first, *(_when(looks, first.recorded + trials * part / QUARTERS) for part in PARTS)]
    rest_s = sum(cpu_s - first.rest_s.get(pid, 0.0) for pid, cpu_s in last.rest_s.items())
    return Costs(
        driver_mb=[look.driver_mb for look in marks],
        recorder_mb=[look.recorder_mb for look in marks],
        driver_growth_mb=_growth(marks[1], last, last.driver_mb - marks[1].driver_mb),
        recorder_growth_mb=_growth(marks[1], last, last.recorder_mb - marks[1].recorder_mb),
        driver_ms=(last.driver_s - first.driver_s) / trials * 1e3,
        recorder_ms=(last.recorder_s - first.recorder_s) / trials * 1e3,
        rest_ms=rest_s / trials * 1e3,
    )


def _when(looks: list[Usage], recorded: float) -> Usage:
    return next(look for look in looks if look.recorded >= recorded)


def _growth(since: Usage, until: Usage, mb: float) -> float:
    return mb / (until.recorded - since.recorded) * 1000


if __name__ == "__main__":
    costs = run_controller(Load(**json.loads(sys.argv[1])))
    print(json.dumps(asdict(costs)), flush=True)
    os._exit(0)  # see orchestrator/cli/failing.py::leave
