"""What a trial costs besides its measurement, side by side with the two usual ways to get a fresh process.

Ours: Tune, a long-lived actor, a fork of a server that has imported torch. Against it a plain function
trainable of Ray Tune with a new actor for each trial, and a shell loop that starts Python each time.
All three import torch and touch the device.
"""

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from time import monotonic
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from cudnn_sweep.analysis.store.store import open_store
from cudnn_sweep.orchestrator.cli.failing import leave
from cudnn_sweep.orchestrator.planning.plan import make_plan
from cudnn_sweep.orchestrator.planning.session import session_of
from cudnn_sweep.orchestrator.process.client import ForkServer, survey
from cudnn_sweep.orchestrator.terminal.say import say
from cudnn_sweep.workloads.cells.config import Config
from cudnn_sweep.workloads.cells.expand import expand_cells
from cudnn_sweep.workloads.cells.measurement import MeasureSpec
from cudnn_sweep.workloads.cells.suite import CellAxes, SuiteSpec, workload_names
from cudnn_sweep.workloads.survey import Survey
from tests.studies.parts.command import run
from tests.studies.parts.steps import steps

NOTHING = MeasureSpec(
    warmup_s=0.0,
    steady_budget_s=0.0,
    device_budget_s=0.0,
    calibrate=False,
    reference_replicates=0,
    logged_replicates=0,
    telemetry="off",
)
TOUCH = "import torch; torch.zeros(1, device='cuda' if torch.cuda.is_available() else 'cpu')"


@dataclass(frozen=True, kw_only=True, slots=True)
class Ours:
    """Seconds a trial, but for the memory."""

    trials: int
    trial_s: float
    """Median time from one trial's start to the next one's."""
    own_s: float
    """The trial's process itself, fork to gone, median."""
    quarters_s: list[float]
    """Time for each quarter of the trials: equal where time is linear in trials."""
    driver_mb: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Overhead:
    machine: Survey
    noop: Ours
    training: Ours
    training_start_s: float
    """From the fork to the end of the first training step, median."""
    plain_tune_s: float | None
    shell_loop_s: float | None


def measure_overhead(
    trials: int, training_trials: int, rivals: int, begins: Callable[[str], None]
) -> Overhead:
    """`rivals`: how many trials each of the two usual ways gets; 0 leaves them out. `begins` is told each part."""
    from cudnn_sweep.cluster.local.local_ray import local_ray

    machine = _machine()
    with (
        tempfile.TemporaryDirectory() as folder,
        local_ray(slots=1, gpus=len(machine.gpus), gpu_uuids=machine.gpu_uuids) as ray_folder,
    ):
        tune_folder = ray_folder / "tune"
        begins(f"{trials} no-op trials")
        noop, _ = _ours("noop", trials, machine, Path(folder), tune_folder)
        begins(f"{training_trials} MNIST trials")
        training, start_s = _ours("mnist", training_trials, machine, Path(folder), tune_folder)
        if rivals:
            begins(f"{rivals} trials of plain Ray Tune and of a shell loop")
        return Overhead(
            machine=machine,
            noop=noop,
            training=training,
            training_start_s=start_s,
            plain_tune_s=_plain_tune(rivals, bool(machine.gpus), tune_folder) if rivals else None,
            shell_loop_s=_shell_loop(rivals) if rivals else None,
        )


def _machine() -> Survey:
    with ForkServer(survey_only=True) as server:
        return survey(server, workload_names(_suite("noop", 1)) + ["mnist"])


def _suite(workload: str, trials: int) -> SuiteSpec:
    return SuiteSpec(
        cells=[CellAxes(workload=workload)],
        configs=[Config()],
        replicates=trials,
        measure=NOTHING,
    )


def _ours(
    workload: str, trials: int, machine: Survey, folder: Path, tune_folder: Path
) -> tuple[Ours, float]:
    from cudnn_sweep.orchestrator.slots.tune_host import Host, Slots

    suite, where = _suite(workload, trials), machine.environment
    cells = expand_cells(suite, machine.workloads, device=where.device, gpu=where.gpu)
    session = session_of(make_plan(workload, suite, cells), f"overhead-{workload}", folder)
    host = Host(session, results=str(folder), slots=Slots(count=1, gpu=bool(machine.gpus)))
    host.run(tune_folder)
    host.finish([])
    columns = ["started_at", "process_s", "start_s", "one_time_s", "build_s", "cold", "status"]
    rows = open_store(str(folder)).snapshot(session.sweep_id).table(columns).to_pylist()
    rows.sort(key=lambda row: row["started_at"])
    starts = [row["started_at"].timestamp() for row in rows]
    quarter = len(starts) // 4
    ours = Ours(
        trials=len(rows),
        trial_s=median(after - before for before, after in pairwise(starts)),
        own_s=median(row["process_s"] for row in rows),
        quarters_s=[starts[i * quarter + quarter - 1] - starts[i * quarter] for i in range(4)],
        driver_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    )
    return ours, median(map(_start_s, rows))


def _start_s(row: dict[str, Any]) -> float:
    return float(
        row["start_s"] + row["one_time_s"] + row["build_s"] + row["cold"][0]["first_ms"] / 1e3
    )


def _plain_tune(trials: int, gpu: bool, folder: Path) -> float:
    """As Tune's guides have it: a function, results reported, a new actor for each trial."""
    from ray import tune

    def touch(config: dict[str, Any]) -> dict[str, Any]:
        exec(TOUCH)  # noqa: S102  # the very code that the shell loop runs
        return {"done": True}

    tuner = tune.Tuner(
        tune.with_resources(touch, {"cpu": 1, "gpu": 1 if gpu else 0}),
        tune_config=tune.TuneConfig(num_samples=trials, reuse_actors=False),
        run_config=tune.RunConfig(storage_path=str(folder), name="plain", verbose=0),
    )
    with _with_its_own_loggers():
        began = monotonic()
        tuner.fit()
        return (monotonic() - began) / trials


@contextmanager
def _with_its_own_loggers() -> Iterator[None]:
    """Plain Tune writes its log files."""
    quiet = os.environ.pop("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", None)
    try:
        yield
    finally:
        if quiet is not None:
            os.environ["TUNE_DISABLE_AUTO_CALLBACK_LOGGERS"] = quiet


def _shell_loop(trials: int) -> float:
    loop = f'for i in $(seq {trials}); do "$PYTHON" -c "$TOUCH"; done'
    began = monotonic()
    environment = {**os.environ, "PYTHON": sys.executable, "TOUCH": TOUCH}
    subprocess.run(["sh", "-c", loop], check=True, env=environment)
    return (monotonic() - began) / trials


def overhead(
    trials: Annotated[int, typer.Option(min=8, help="Number of no-op trials.")] = 100,
    training: Annotated[int, typer.Option(min=8, help="Number of MNIST trials.")] = 20,
    rivals: Annotated[
        int,
        typer.Option(
            min=0, help="Number of trials of plain Ray Tune and of a shell loop; 0: none."
        ),
    ] = 8,
) -> None:
    """Measure the overhead of a trial, compared with plain Ray Tune and a shell loop (some minutes)."""

    console = Console(markup=False)
    with steps(console, total=3 if rivals else 2) as begins:
        found = measure_overhead(trials, training, rivals, begins)
    where = found.machine.environment
    say(console, f"{where.gpu}, torch {where.torch}, ray {where.ray}, {where.cpu_cores} CPU cores")
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("what")
    table.add_column("seconds per trial", justify="right")
    rows = {
        f"no-op trial, {found.noop.trials} of them": found.noop.trial_s,
        "  in its own process": found.noop.own_s,
        "  between processes": found.noop.trial_s - found.noop.own_s,
        f"MNIST trial without timing, {found.training.trials} of them": found.training.trial_s,
        "  until its first step is done": found.training_start_s,
        f"plain Ray Tune, a new actor per trial, {rivals} of them": found.plain_tune_s,
        f"shell loop, a new Python per trial, {rivals} of them": found.shell_loop_s,
    }
    for what, seconds in rows.items():
        if seconds is not None:
            table.add_row(what, f"{seconds:.3f}")
    console.print(table)
    quarters = ", ".join(f"{seconds:.1f}" for seconds in found.noop.quarters_s)
    say(console, f"Seconds for each quarter of the no-op trials: {quarters}")
    say(console, f"Peak memory of the driver: {found.noop.driver_mb:.0f} MB")
    leave(0)


if __name__ == "__main__":
    run(overhead)
