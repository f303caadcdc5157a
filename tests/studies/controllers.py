"""How busy drivers keep their slots, and what a trial costs them: trials that sleep on logical GPUs of this
machine, under one driver or as many as there are shards.
"""

import json
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from cudnn_sweep.analysis.store.store import open_store
from cudnn_sweep.orchestrator.errors import SpecError, UnfinishedError
from tests.studies.parts.command import run
from tests.studies.parts.one_controller import Costs, Load
from tests.studies.parts.steps import steps

Row = dict[str, Any]
SWEEP_ID = "sleeping"
LEAST_EACH = 4  # else there is hardly a time when all slots are up and the queue is not empty


@dataclass(frozen=True, kw_only=True, slots=True)
class Busy:
    trials: int
    slots: int
    """Slots that ran a trial."""
    window_s: float
    """From the moment when all of these have begun a trial until the last trial begins, and the queue is
    empty; what follows is of this time."""
    share: float
    """Share of `window_s` that a slot's trials slept, the mean of all slots."""
    trials_per_s: float
    quarters: list[float]
    """Trials per second in each quarter of `window_s`."""


def measure_controllers(
    results: str, *, trials: int, slots: int, sleep_s: float, shards: int
) -> tuple[Busy, list[Costs]]:
    """`slots`, of all shards together; all run at the same time. Raises SpecError, UnfinishedError."""
    if slots % shards or trials < LEAST_EACH * slots:
        raise SpecError(
            f"{trials} trials on {slots} slots in {shards} shards: slots must be a multiple of shards, and "
            f"trials at least {LEAST_EACH} for each slot"
        )
    loads = [
        Load(
            trials=trials,
            slots=slots // shards,
            sleep_s=sleep_s,
            results=results,
            sweep_id=SWEEP_ID,
            shard=number,
            shards=shards,
        )
        for number in range(1, shards + 1)
    ]
    running = [_start(load) for load in loads]
    try:
        costs = [_finish(process) for process in running]
    finally:
        for process in running:
            process.terminate()
            process.wait()
    rows = open_store(results).snapshot(SWEEP_ID).table(["slot", "started_at", "ended_at"])
    return busy_of(rows.to_pylist(), slots), costs


def _start(load: Load) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.studies.parts.one_controller"]
    return subprocess.Popen([*command, json.dumps(asdict(load))], stdout=subprocess.PIPE, text=True)


def _finish(process: subprocess.Popen[str]) -> Costs:
    told, _ = process.communicate()
    if process.returncode:
        raise UnfinishedError(f"a driver ended with {process.returncode}: see above")
    return Costs(**json.loads(told.splitlines()[-1]))


def busy_of(rows: list[Row], slots: int) -> Busy:
    """`rows`: each trial's slot, start and end."""
    firsts: dict[str, datetime] = {}
    for row in sorted(rows, key=lambda row: row["started_at"]):
        firsts.setdefault(row["slot"], row["started_at"])
    begins, ends = max(firsts.values()), max(row["started_at"] for row in rows)
    window_s = (ends - begins).total_seconds()
    begun = [(row["started_at"] - begins).total_seconds() / window_s for row in rows]
    quarters = [sum(part <= 4 * at < part + 1 for at in begun) for part in range(4)]
    return Busy(
        trials=len(rows),
        slots=len(firsts),
        window_s=window_s,
        share=sum(_overlap_s(row, begins, ends) for row in rows) / slots / window_s,
        trials_per_s=sum(quarters) / window_s,
        quarters=[4 * trials / window_s for trials in quarters],
    )


def _overlap_s(row: Row, begins: datetime, ends: datetime) -> float:
    inside = min(row["ended_at"], ends) - max(row["started_at"], begins)
    seconds: float = inside.total_seconds()
    return max(0.0, seconds)


def controllers(
    trials: Annotated[int, typer.Option(min=40, help="Trials that only sleep.")] = 10_000,
    slots: Annotated[int, typer.Option(min=1, help="Logical GPUs on this machine.")] = 64,
    sleep: Annotated[float, typer.Option(min=0.01, help="Seconds that each trial sleeps.")] = 1.0,
    shards: Annotated[
        int, typer.Option(min=1, help="Number of drivers, each with a Ray of its own.")
    ] = 1,
) -> None:
    """Measure how busy one launch keeps many slots, and its CPU and memory per trial."""
    least_s = trials * sleep / slots
    with tempfile.TemporaryDirectory() as folder, steps(Console(), total=1) as begins:
        begins(f"{trials} trials on {slots} slots, at least {least_s:.0f} s")
        busy, costs = measure_controllers(
            folder, trials=trials, slots=slots, sleep_s=sleep, shards=shards
        )
    _print_busy(busy, slots)
    _print_costs(costs)


def _print_busy(busy: Busy, slots: int) -> None:
    quarters = ", ".join(f"{each:.1f}" for each in busy.quarters)
    typer.echo(
        f"{busy.trials} trials; {busy.slots} of {slots} slots used. From the moment all of them were up until "
        f"the queue was empty, {busy.window_s:.1f} s:\n"
        f"busy {busy.share:.1%} of the time\n"
        f"{busy.trials_per_s:.1f} trials per second; in each quarter {quarters}"
    )


def _print_costs(costs: list[Costs]) -> None:

    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("")
    for column in ("MB at 0, 1/4, 2/4, 3/4, 4/4", "MB per 1,000 trials", "CPU ms per trial"):
        table.add_column(column, justify="right")
    for number, each in enumerate(costs, start=1):
        which = f" {number}" if len(costs) > 1 else ""
        rows = {
            "driver": (each.driver_mb, each.driver_growth_mb, each.driver_ms),
            "recorder": (each.recorder_mb, each.recorder_growth_mb, each.recorder_ms),
        }
        for what, (mb, growth_mb, cpu_ms) in rows.items():
            sizes = ", ".join(f"{size:.0f}" for size in mb)
            table.add_row(f"{what}{which}", sizes, f"{growth_mb:.1f}", f"{cpu_ms:.1f}")
        table.add_row(f"slots and Ray{which}", "", "", f"{each.rest_ms:.1f}")
    Console().print(table)


if __name__ == "__main__":
    run(controllers)
