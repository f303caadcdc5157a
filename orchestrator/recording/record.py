"""Makes the record of a trial, which is a row of the results."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from typing import Any
from uuid import uuid4

from cudnn_sweep.analysis.store.schema import columns_of
from cudnn_sweep.orchestrator.planning.plan import Trial
from cudnn_sweep.orchestrator.planning.session import Session
from cudnn_sweep.orchestrator.process.protocol import Outcome
from cudnn_sweep.workloads.cells.cell import Cell
from cudnn_sweep.workloads.cells.measurement import LogPass, Measurement
from cudnn_sweep.workloads.hardware.environment import Environment
from cudnn_sweep.workloads.records.measured import Logged, Measured
from cudnn_sweep.workloads.records.row import SCHEMA_VERSION, RunRecord

PHASES = ("start", "one_time", "build", "cold", "calibration", "steady", "checks")
# Parts of a Measurement whose fields are columns of the row.
PARTS = ("memory", "calibration", "wall", "device", "choice", "ran", "computed", "telemetry")


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """How a slot ran a trial. The fields are columns of the trial's row."""

    slot: str
    attempt: int
    attempt_id: str = field(default_factory=lambda: uuid4().hex)
    in_turns: bool = False
    alone_reason: str | None = None
    turn_cpus: str | None = None
    overlapped_s: float = 0.0


def make_record(
    session: Session,
    trial: Trial,
    outcome: Outcome,
    environment: Environment,
    attempt: Attempt,
    log: Outcome | None = None,
) -> RunRecord:
    """Return a trial's record. `log` is the outcome of the logging process, if there was one."""
    measured = (outcome.reply and outcome.reply.measured) or Measurement()
    status, message = _judged(outcome, log)
    return RunRecord(
        schema_version=SCHEMA_VERSION,
        sweep_id=session.sweep_id,
        trial_id=trial.trial_id,
        **asdict(attempt),
        retry=session.retries.get(trial.trial_id, 0),
        launch_id=session.launch_id,
        ends_launch=False,
        plan_hash=session.plan_hash,
        plan_trials=session.plan_trials,
        plan_cells=session.of_cells,
        plan_blocks=session.plan_blocks,
        looks=list(session.looks) or None,
        shard=session.shard.number if session.shard else None,
        shards=session.shard.of if session.shard else None,
        suite=session.plan.suite,
        **cell_columns(trial.cell),
        replicate=trial.replicate,
        twin=trial.twin,
        block=trial.block,
        position=trial.position,
        repeats_block=trial.repeats_block,
        software=trial.software or None,
        **(measured.config or trial.config).columns(),
        status=status,
        message=message,
        last_output=outcome.last_output,
        **_as_measured(measured),
        **_as_logged(log, measured.choice.kernels_hash),
        exit_s=outcome.exit_s,
        process_s=outcome.process_s,
        waited_s=outcome.waited_s,
        gap_s=outcome.gap_s,
        started_at=outcome.started_at,
        ended_at=outcome.ended_at,
        **asdict(environment),
        env_hash=environment.env_hash,
        software_hash=environment.software_hash,
    )


def raced_out(
    session: Session, trial: Trial, environment: Environment, slot: str, now: datetime
) -> RunRecord:
    message = "another config is surely faster, or this one fails"
    outcome = Outcome(
        status="raced_out", message=message, started_at=now, ended_at=now, process_s=0.0
    )
    return make_record(session, trial, outcome, environment, Attempt(slot=slot, attempt=1))


def _as_measured(measured: Measurement) -> dict[str, Any]:
    values = _values(measured, Measured)
    for part in PARTS:
        values |= vars(getattr(measured, part))
    return values | {f"{phase}_s": measured.phases_s.get(phase) for phase in PHASES}


def _judged(outcome: Outcome, log: Outcome | None) -> tuple[str, str | None]:
    """Return the outcome's status and message, or an error if cuDNN ran a banned plan."""
    ran = log.reply.log_pass.banned_ran if log and log.reply and log.reply.log_pass else []
    if ran:
        return "error", f"errata: cuDNN ran {'; '.join(ran)}"
    return outcome.status, outcome.message


def _as_logged(log: Outcome | None, timed_kernels: str | None) -> dict[str, Any]:
    log_pass = (log and log.reply and log.reply.log_pass) or LogPass()
    kernels = log_pass.kernels_hash
    return {
        **_values(log_pass, Logged),
        "logged_kernels_agree": None if kernels is None else kernels == timed_kernels,
        "logged_error": None if log is None or log.status == "ok" else log.message,
        "log_s": None if log is None else log.process_s,
    }


def _values(part: Any, kind: type[Measured | Logged]) -> dict[str, Any]:
    return {field.name: getattr(part, field.name) for field in fields(kind)}


def cell_columns(cell: Cell) -> Mapping[str, Any]:
    problem, model = cell.problem, cell.model
    inputs = model and model.inputs
    values = {
        **(asdict(problem) if problem else {}),
        **(asdict(model) if model and cell.direction == "training" else {}),
        **vars(cell),
        "cell_id": cell.cell_id,
        "problem": problem and problem.name,
        "model_arguments": model and {name: json.dumps(x) for name, x in model.arguments.items()},
        "model_inputs": None if inputs is None else json.dumps(inputs, sort_keys=True),
        "listed_shapes": cell.listed_shapes or None,
        "placement": cell.placement or None,
    }
    columns = {name: values.get(name) for name in ("cell_id", *columns_of("cell"), "occurrences")}
    return {name: list(x) if isinstance(x, tuple) else x for name, x in columns.items()}
