"""What the stored rows say of a sweep's progress: which trials are done, which sweeps there are."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from datetime import datetime

from cudnn_sweep.analysis.snapshot import Snapshot


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredTrial:
    """What the store says of one trial."""

    sweep_id: str
    trial_id: str
    attempt_id: str
    attempt: int
    retry: int
    status: str
    suite: str
    plan_hash: str
    plan_trials: int
    env_hash: str
    software_hash: str
    started_at: datetime
    ended_at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class SweepState:
    """How far one sweep has come. The hashes are those of every slot that recorded a trial."""

    sweep_id: str
    suite: str
    plan_hash: str
    plan_trials: int
    recorded: int
    env_hashes: frozenset[str]
    software_hashes: frozenset[str]
    first_started_at: datetime
    last_ended_at: datetime

    @property
    def finished(self) -> bool:
        return self.recorded >= self.plan_trials


def counting(snapshot: Snapshot) -> list[StoredTrial]:
    """One row a key, as the view `records` has it: the highest retry, of these the earliest."""
    columns = [field.name for field in fields(StoredTrial)]
    trials = [StoredTrial(**row) for row in snapshot.table(columns).to_pylist()]
    ordered = sorted(trials, key=lambda row: (-row.retry, row.ended_at, row.attempt_id))
    first: dict[tuple[str, str], StoredTrial] = {}
    for trial in ordered:
        first.setdefault((trial.sweep_id, trial.trial_id), trial)
    return list(first.values())


def sweep_states(trials: Iterable[StoredTrial]) -> list[SweepState]:
    """One state a sweep, newest first."""
    by_sweep: dict[str, list[StoredTrial]] = {}
    for trial in trials:
        by_sweep.setdefault(trial.sweep_id, []).append(trial)
    states = [_state(rows) for rows in by_sweep.values()]
    return sorted(states, key=lambda state: state.first_started_at, reverse=True)


def _state(trials: list[StoredTrial]) -> SweepState:
    first = min(trials, key=lambda trial: trial.started_at)
    return SweepState(
        sweep_id=first.sweep_id,
        suite=first.suite,
        plan_hash=first.plan_hash,
        plan_trials=first.plan_trials,
        recorded=len(trials),
        env_hashes=frozenset(trial.env_hash for trial in trials),
        software_hashes=frozenset(trial.software_hash for trial in trials),
        first_started_at=first.started_at,
        last_ended_at=max(trial.ended_at for trial in trials),
    )
