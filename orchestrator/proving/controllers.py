"""How busy drivers keep their slots, and what a trial costs them: trials that sleep on logical GPUs of this
machine, under one driver or as many as there are shards.
"""

import json
import subprocess
import sys
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from cudnn_sweep.analysis.storing.store import open_store
from cudnn_sweep.orchestrator.errors import SpecError, UnfinishedError
from cudnn_sweep.orchestrator.proving.one_controller import Costs, Load

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
    command = [sys.executable, "-m", "cudnn_sweep.orchestrator.proving.one_controller"]
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
