"""Computes the progress of sweeps from their stored trials."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from datetime import datetime

from cudnn_sweep.analysis.store.snapshot import Snapshot

MOST_REPEATS = 2  # largest number of repeats of a split block


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredTrial:
    sweep_id: str
    trial_id: str
    attempt_id: str
    retry: int
    launch_id: str
    ends_launch: bool | None
    status: str
    suite: str
    plan_hash: str
    plan_trials: int
    shards: int | None
    block: int
    repeats_block: int | None
    slot: str
    env_hash: str
    software_hash: str
    software: str | None
    started_at: datetime
    ended_at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class SplitBlock:
    """A block whose trials cannot be paired, because their slots, launches or software differ."""

    block: int
    trials: int
    repeats: int
    mended: bool
    """Whether a repeat of the block is complete and not split."""

    @property
    def waits(self) -> bool:
        return not self.mended and self.repeats < MOST_REPEATS


@dataclass(frozen=True, kw_only=True, slots=True)
class Blocks:
    begun: int
    """Number of planned blocks with a stored trial."""
    split: tuple[SplitBlock, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class SweepState:
    sweep_id: str
    suite: str
    plan_hash: str
    plan_trials: int
    recorded: int
    """Number of planned trials that are stored."""
    shards: frozenset[int]
    """Number of shards in each launch that ran a shard, without duplicates."""
    blocks: Blocks
    env_hashes: frozenset[str]
    softwares: frozenset[tuple[str, str]]
    """Name and hash of each software. The name is empty for the software of the launch itself."""
    first_started_at: datetime
    last_ended_at: datetime

    @property
    def finished(self) -> bool:
        return self.recorded >= self.plan_trials


def counting(snapshot: Snapshot) -> list[StoredTrial]:
    """Return one row for each trial, the same row as in the view `records`."""
    columns = [field.name for field in fields(StoredTrial)]
    trials = [StoredTrial(**row) for row in snapshot.table(columns).to_pylist()]
    ordered = sorted(
        trials, key=lambda row: (-row.retry, row.ended_at, row.attempt_id, not row.ends_launch)
    )
    first: dict[tuple[str, str], StoredTrial] = {}
    for trial in ordered:
        first.setdefault((trial.sweep_id, trial.trial_id), trial)
    return list(first.values())


def sweep_states(trials: Iterable[StoredTrial]) -> list[SweepState]:
    by_sweep: dict[str, list[StoredTrial]] = {}
    for trial in trials:
        by_sweep.setdefault(trial.sweep_id, []).append(trial)
    states = [_state(rows) for rows in by_sweep.values()]
    return sorted(states, key=lambda state: state.first_started_at, reverse=True)


def planned(trials: Iterable[StoredTrial]) -> list[StoredTrial]:
    """Return the trials that do not repeat a block."""
    return [trial for trial in trials if trial.repeats_block is None]


def blocks_of(trials: Iterable[StoredTrial]) -> Blocks:
    blocks: dict[int, list[StoredTrial]] = {}
    repeats: dict[int, dict[int, list[StoredTrial]]] = {}
    for trial in trials:
        if trial.repeats_block is None:
            blocks.setdefault(trial.block, []).append(trial)
        else:
            of = repeats.setdefault(trial.repeats_block, {})
            of.setdefault(trial.block, []).append(trial)
    split = (
        SplitBlock(
            block=block,
            trials=len(rows),
            repeats=len(again := repeats.get(block, {}).values()),
            mended=any(len(each) == len(rows) and not _is_split(each) for each in again),
        )
        for block, rows in sorted(blocks.items())
        if _is_split(rows)
    )
    return Blocks(begun=len(blocks), split=tuple(split))


def _is_split(rows: Iterable[StoredTrial]) -> bool:
    counted = [row for row in rows if row.status == "ok"]
    places = {(row.launch_id, row.slot, row.env_hash) for row in counted}
    hashes = {(row.software, row.software_hash) for row in counted}
    return len(places) > 1 or len(hashes) > len({software for software, _ in hashes})


def _state(trials: list[StoredTrial]) -> SweepState:
    first = min(trials, key=lambda trial: trial.started_at)
    return SweepState(
        sweep_id=first.sweep_id,
        suite=first.suite,
        plan_hash=first.plan_hash,
        plan_trials=first.plan_trials,
        recorded=len(planned(trials)),
        shards=frozenset(trial.shards for trial in trials if trial.shards is not None),
        blocks=blocks_of(trials),
        env_hashes=frozenset(trial.env_hash for trial in trials),
        softwares=frozenset((trial.software or "", trial.software_hash) for trial in trials),
        first_started_at=first.started_at,
        last_ended_at=max(trial.ended_at for trial in trials),
    )
