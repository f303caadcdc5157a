"""Makes the one flat row of a trial from what was planned, what was measured and where."""

from dataclasses import asdict, fields
from typing import Any

from cudnn_sweep.analysis.schema import SCHEMA_VERSION, ColdShape, RunRecord
from cudnn_sweep.orchestrator.plan import Trial
from cudnn_sweep.orchestrator.process.protocol import Outcome
from cudnn_sweep.orchestrator.session import Session
from cudnn_sweep.workloads.environment import Environment
from cudnn_sweep.workloads.measurement import Measurement

PHASES = ("start", "one_time", "build", "cold", "steady", "checks")
DIFFERENT = {"config", "cold", "phases_s"}  # every other field of Measurement is a column


def make_record(
    session: Session,
    trial: Trial,
    outcome: Outcome,
    environment: Environment,
    *,
    slot: str,
    attempt: int,
    attempt_id: str,
) -> RunRecord:
    """A process that ended without a word is recorded with the config that it was to have."""
    measured = (outcome.reply and outcome.reply.measured) or Measurement()
    cell, problem = trial.cell, trial.cell.problem
    return RunRecord(
        schema_version=SCHEMA_VERSION,
        sweep_id=session.sweep_id,
        trial_id=trial.trial_id,
        attempt_id=attempt_id,
        attempt=attempt,
        retry=session.retries.get(trial.trial_id, 0),
        launch_id=session.launch_id,
        plan_hash=session.plan_hash,
        plan_trials=session.plan_trials,
        suite=session.plan.suite,
        cell_id=cell.cell_id,
        workload=cell.workload,
        problem=problem.name if problem else None,
        direction=cell.direction,
        input_shape=list(cell.input_shape),
        out_channels=problem.out_channels if problem else None,
        kernel_size=list(problem.kernel_size) if problem else None,
        stride=list(problem.stride) if problem else None,
        padding=list(problem.padding) if problem else None,
        dilation=list(problem.dilation) if problem else None,
        groups=problem.groups if problem else None,
        bias=problem.bias if problem else None,
        regime=cell.regime,
        regime_parameters=cell.regime_parameters,
        precision=cell.precision,
        layout=cell.layout,
        replicate=trial.replicate,
        twin=trial.twin,
        block=trial.block,
        position=trial.position,
        **asdict(measured.config or trial.config),
        status=outcome.status,
        message=outcome.message,
        cold=_cold(measured),
        **_as_measured(measured),
        exit_s=outcome.exit_s,
        process_s=outcome.process_s,
        gap_s=outcome.gap_s,
        started_at=outcome.started_at,
        ended_at=outcome.ended_at,
        **asdict(environment),
        slot=slot,
        env_hash=environment.env_hash,
        software_hash=environment.software_hash,
    )


def _as_measured(measured: Measurement) -> dict[str, Any]:
    """Columns that are called as what was measured; a test holds both to each other."""
    names = {field.name for field in fields(measured)} - DIFFERENT
    phases = {f"{phase}_s": measured.phases_s.get(phase) for phase in PHASES}
    return {**{name: getattr(measured, name) for name in names}, **phases}


def _cold(measured: Measurement) -> list[ColdShape] | None:
    if measured.cold is None:
        return None
    return [
        ColdShape(shape=list(call.shape), first_ms=call.first_ms, second_ms=call.second_ms)
        for call in measured.cold
    ]
