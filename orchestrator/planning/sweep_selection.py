"""Which sweep a launch runs: a new one, or an earlier one that is not finished."""

import secrets
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeAlias

from cudnn_sweep.analysis.storing.progress import StoredTrial, SweepState, planned
from cudnn_sweep.analysis.storing.store import Store, check_id
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.planning.plan import Plan, Shard
from cudnn_sweep.orchestrator.planning.standing import contrasts_in, is_over
from cudnn_sweep.workloads.hardware.environment import Environment

Here: TypeAlias = Mapping[str, Environment]  # by software; the launch's own is the empty one


@dataclass(frozen=True, kw_only=True, slots=True)
class SweepSelection:
    resume: str | None = None
    new: bool = False
    sweep_id: str | None = None
    """The sweep to open, or to resume where some of it is stored here."""
    shard: Shard | None = None
    retry_failed: bool = False

    def __post_init__(self) -> None:
        choices = {"--resume": self.resume, "--new": self.new, "--sweep-id": self.sweep_id}
        given = [option for option, value in choices.items() if value]
        if len(given) > 1:
            raise SpecError(f"{' and '.join(given)} cannot be combined")
        if self.shard is not None and not self.sweep_id:
            raise SpecError("--shard needs --sweep-id ID, the same for all shards of a plan")
        if self.sweep_id is not None:
            check_id(self.sweep_id)

    def part(self, plan: Plan) -> Plan:
        """What this launch answers for. Raises SpecError where that is nothing."""
        return plan if self.shard is None else self.shard.part(plan)


@dataclass(frozen=True, kw_only=True, slots=True)
class SweepChoice:
    sweep_id: str
    reason: str
    """Why this one, in words for the user."""
    resumed: bool
    plan_hash: str
    plan_trials: int
    shard: Shard | None = None
    own: Plan
    """What this launch answers for: its shard's blocks, or the whole plan."""
    todo: Plan
    """What of `own` is not recorded yet."""
    retries: dict[str, int]

    @property
    def lock_name(self) -> str:
        """Shards of one plan may run side by side."""
        return self.plan_hash + (f"-{self.shard.number}-of-{self.shard.of}" if self.shard else "")

    def begun(self) -> dict[str, int]:
        """Of each cell that something is recorded of: how many blocks its plan had come to."""
        todo = {trial.trial_id for trial in self.todo.trials}
        found: dict[str, int] = {}
        for trial in self.own.trials:
            if trial.trial_id not in todo:
                cell_id = trial.cell.cell_id
                found[cell_id] = max(found.get(cell_id, 0), trial.replicate + 1)
        return found

    def lacks(self, stored: Iterable[StoredTrial], hopeless: Collection[str] = ()) -> bool:
        """Whether trials are missing that a launch could still run: not those of `hopeless` cells."""
        there = list(stored)
        if self.is_complete(there):
            return False
        recorded = {trial.trial_id for trial in planned(there)}
        given_up = [
            trial for trial in self.own.without(recorded).trials if trial.cell.cell_id in hopeless
        ]
        if self.shard is None:
            return len(recorded) + len(given_up) < self.plan_trials
        return len(given_up) < len(self.own.without(recorded).trials)

    def cells_without_ok(self, stored: Iterable[StoredTrial]) -> set[str]:
        """Cells of which trials are recorded, none of them ok under any config."""
        statuses = {trial.trial_id: trial.status for trial in stored}
        recorded = [trial for trial in self.own.trials if trial.trial_id in statuses]
        measured = {t.cell.cell_id for t in recorded if statuses[t.trial_id] == "ok"}
        return {trial.cell.cell_id for trial in recorded} - measured

    def is_complete(self, stored: Iterable[StoredTrial]) -> bool:
        """Whether these are all: of the sweep, or of the shard that this launch runs."""
        recorded = {trial.trial_id for trial in planned(stored)}
        if self.shard is None:
            return len(recorded) >= self.plan_trials
        return not self.own.without(recorded).trials


def choose_sweep(
    store: Store,
    whole: Plan,
    chosen: Plan,
    environment: Environment,
    selection: SweepSelection,
    others: Mapping[str, Environment] | None = None,
) -> SweepChoice:
    """`whole` is the launch file's plan, `chosen` what --only left of it. `others`: by their names the
    environments of a session's further pythons.

    Raises SpecError for a sweep that cannot be resumed.
    """
    here = {"": environment, **(others or {})}
    if selection.resume is not None:
        return _named(store, whole, chosen, here, selection, selection.resume)
    if selection.sweep_id is not None:
        return _shared(store, chosen, here, selection, selection.sweep_id)
    earlier = [state for state in store.sweeps() if state.plan_hash == chosen.plan_hash]
    unfinished = [
        state for state in earlier if selection.retry_failed or _lacks(store, state, chosen)
    ]
    if selection.new:
        return _new(chosen, selection, "a new sweep, as requested")
    if not unfinished:
        last = f"{earlier[0].sweep_id} is complete" if earlier else "no earlier sweep of this plan"
        return _new(chosen, selection, f"a new sweep: {last}")
    state = unfinished[0]
    difference = _difference(state, here)
    if not difference and state.shards:
        difference = f"runs in shards: --sweep-id {state.sweep_id} resumes it"
    if difference:
        return _new(
            chosen, selection, f"a new sweep: {state.sweep_id} is unfinished, but {difference}"
        )
    return _resumed(store, state, chosen, selection)


def _named(
    store: Store,
    whole: Plan,
    chosen: Plan,
    here: Here,
    selection: SweepSelection,
    sweep_id: str,
) -> SweepChoice:
    states = store.sweeps()
    found = [state for state in states if state.sweep_id == sweep_id]
    if not found:
        newest = ", ".join(state.sweep_id for state in states[:5]) or "none"
        raise SpecError(f"--resume {sweep_id}: no such sweep; the newest here: {newest}")
    same_plan = found[0].plan_hash in (whole.plan_hash, chosen.plan_hash)
    there = store.stored_trials(sweep_id).keys()
    if not same_plan and not {trial.trial_id for trial in chosen.trials} <= there:
        raise SpecError(f"--resume {sweep_id}: that sweep has another plan than this launch file")
    difference = _difference(found[0], here)
    if difference:
        raise SpecError(f"--resume {sweep_id}: {difference}; --new starts another sweep")
    return _resumed(store, found[0], chosen, selection)


def _shared(
    store: Store,
    chosen: Plan,
    here: Here,
    selection: SweepSelection,
    sweep_id: str,
) -> SweepChoice:
    """Whichever shard comes first opens it."""
    states = [state for state in store.sweeps() if state.sweep_id == sweep_id]
    if not states:
        return _new(chosen, selection, "a new sweep with this name")
    (state,), asked = states, f"--sweep-id {sweep_id}"
    if state.plan_hash != chosen.plan_hash:
        raise SpecError(
            f"{asked}: that sweep has another plan; suite, --only and GPU model must be the same "
            "in all its launches"
        )
    if selection.shard is not None and state.shards - {selection.shard.of}:
        others = " and ".join(map(str, sorted(state.shards)))
        raise SpecError(f"--shard {selection.shard}: {sweep_id} is split into {others} shards")
    difference = _difference(state, here)
    if difference:
        raise SpecError(f"{asked}: {difference}; choose another id")
    return _resumed(store, state, chosen, selection)


def _new(plan: Plan, selection: SweepSelection, reason: str) -> SweepChoice:
    own = selection.part(plan)
    return SweepChoice(
        sweep_id=selection.sweep_id or f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}",
        reason=reason + _which_part(selection, plan, own),
        resumed=False,
        plan_hash=plan.plan_hash,
        plan_trials=len(plan.trials),
        shard=selection.shard,
        own=own,
        todo=own,
        retries={},
    )


def _resumed(store: Store, state: SweepState, plan: Plan, selection: SweepSelection) -> SweepChoice:
    own = selection.part(plan)
    there = f"{state.recorded} of {state.plan_trials} trials are recorded"
    reason = f"resuming {state.sweep_id}: {there}" + _which_part(selection, plan, own)
    stored = store.stored_trials(state.sweep_id)
    done = {key for key, trial in stored.items() if _counts(trial, selection)}
    return SweepChoice(
        sweep_id=state.sweep_id,
        reason=reason,
        resumed=True,
        plan_hash=state.plan_hash,
        plan_trials=state.plan_trials,
        shard=selection.shard,
        own=own,
        todo=own.without(done),
        retries={key: trial.retry + 1 for key, trial in stored.items() if key not in done},
    )


def _which_part(selection: SweepSelection, plan: Plan, own: Plan) -> str:
    if selection.shard is None:
        return ""
    return f"; shard {selection.shard} runs {len(own.trials)} of the plan's {len(plan.trials)}"


def _lacks(store: Store, state: SweepState, plan: Plan) -> bool:
    """A trial, or a whole run of a block that was split; where cells get blocks until they are decided, one."""
    if plan.looks and not state.finished:
        return not is_over(store, state.sweep_id, plan, contrasts_in(plan))
    if plan.looks:
        return False
    return not state.finished or any(split.waits for split in state.blocks.split)


def _counts(trial: StoredTrial, selection: SweepSelection) -> bool:
    """A child's own failure is an outcome and stays, unless it is to be tried again."""
    return trial.status == "ok" or not selection.retry_failed


def _difference(state: SweepState, here: Here) -> str | None:
    if here[""].env_hash not in state.env_hashes:
        return "it ran on other hardware"
    for name, environment in here.items():
        hashes = {software_hash for each, software_hash in state.softwares if each == name}
        # where it interleaves two softwares, one of them may not have had its turn
        if hashes and environment.software_hash not in hashes:
            role = f" as {name}" if name else ""
            return f"it ran with other software{role}"
    return None
