"""Which sweep a launch runs: a new one, or an earlier one that is not finished."""

import secrets
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from cudnn_sweep.analysis.storing.progress import StoredTrial, SweepState, planned
from cudnn_sweep.analysis.storing.store import Store
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.planning.options import LaunchOptions
from cudnn_sweep.orchestrator.planning.plan import Plan, Shard
from cudnn_sweep.orchestrator.planning.standing import contrasts_in, is_over
from cudnn_sweep.workloads.hardware.environment import Environment


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
    """Trials of this launch: its shard's blocks, or the whole plan."""
    todo: Plan
    """Trials of `own` without a record."""
    retries: dict[str, int]

    @property
    def lock_name(self) -> str:
        """Shards of one plan may run side by side."""
        return self.plan_hash + (f"-{self.shard.number}-of-{self.shard.of}" if self.shard else "")

    def begun(self) -> dict[str, int]:
        """Planned blocks of each cell that has records."""
        todo = {trial.trial_id for trial in self.todo.trials}
        done = (trial for trial in self.own.trials if trial.trial_id not in todo)
        return {trial.cell.cell_id: trial.replicate + 1 for trial in done}  # the last one's

    def lacks(self, stored: Iterable[StoredTrial], hopeless: Collection[str] = ()) -> bool:
        """Whether trials of the sweep, or of this launch's shard, are missing: not those of `hopeless` cells."""
        recorded = {trial.trial_id for trial in planned(stored)}
        left = self.own.without(recorded).trials
        given_up = sum(trial.cell.cell_id in hopeless for trial in left)
        return given_up < (self.plan_trials - len(recorded) if self.shard is None else len(left))

    def cells_without_ok(self, stored: Iterable[StoredTrial]) -> set[str]:
        """Cells that have records, but no ok trial."""
        statuses = {trial.trial_id: trial.status for trial in stored}
        recorded = [trial for trial in self.own.trials if trial.trial_id in statuses]
        measured = {t.cell.cell_id for t in recorded if statuses[t.trial_id] == "ok"}
        return {trial.cell.cell_id for trial in recorded} - measured


def choose_sweep(
    store: Store, whole: Plan, chosen: Plan, environment: Environment, options: LaunchOptions
) -> SweepChoice:
    """`whole` is the launch file's plan, `chosen` what --only left of it.

    Raises SpecError for a sweep that cannot be resumed.
    """
    if options.resume or options.sweep_id:
        return _named(store, whole, chosen, environment, options)
    if options.new:
        return _choice(store, chosen, options, "a new sweep, as requested")
    earlier = [state for state in store.sweeps() if state.plan_hash == chosen.plan_hash]
    unfinished = (
        state for state in earlier if options.retry_failed or _lacks(store, state, chosen)
    )
    state = next(unfinished, None)
    if state is None:
        last = f"{earlier[0].sweep_id} is complete" if earlier else "no earlier sweep of this plan"
        return _choice(store, chosen, options, f"a new sweep: {last}")
    difference = _difference(state, environment)
    if not difference and state.shards:
        difference = f"runs in shards: --sweep-id {state.sweep_id} resumes it"
    if difference:
        reason = f"a new sweep: {state.sweep_id} is unfinished, but {difference}"
        return _choice(store, chosen, options, reason)
    return _resumed(store, state, chosen, options)


def _named(
    store: Store, whole: Plan, chosen: Plan, environment: Environment, options: LaunchOptions
) -> SweepChoice:
    """The sweep of --resume, or of --sweep-id, which whichever shard comes first opens."""
    named = "--resume" if options.resume else "--sweep-id"
    sweep_id = options.resume or options.sweep_id
    states = store.sweeps()
    state = next((state for state in states if state.sweep_id == sweep_id), None)
    if state is None and options.resume:
        newest = ", ".join(state.sweep_id for state in states[:5]) or "none"
        raise SpecError(f"{named} {sweep_id}: no such sweep; the newest here: {newest}")
    if state is None:
        return _choice(store, chosen, options, "a new sweep with this name")
    if options.resume:
        there = store.stored_trials(state.sweep_id).keys()
        is_there = {trial.trial_id for trial in chosen.trials} <= there
        if not is_there and state.plan_hash not in (whole.plan_hash, chosen.plan_hash):
            raise SpecError(
                f"{named} {sweep_id}: that sweep has another plan than this launch file"
            )
    elif state.plan_hash != chosen.plan_hash:
        raise SpecError(
            f"{named} {sweep_id}: that sweep has another plan; suite, --only and GPU model must be the "
            "same in all its launches"
        )
    if options.own_shard is not None and state.shards - {options.own_shard.of}:
        others = " and ".join(map(str, sorted(state.shards)))
        raise SpecError(f"--shard {options.shard}: {sweep_id} is split into {others} shards")
    has_codes = any(config.code is not None for config in chosen.configs())
    if difference := _difference(state, environment, has_codes=has_codes):
        rather = "--new starts another sweep" if options.resume else "choose another id"
        raise SpecError(f"{named} {sweep_id}: {difference}; {rather}")
    return _resumed(store, state, chosen, options)


def _resumed(store: Store, state: SweepState, plan: Plan, options: LaunchOptions) -> SweepChoice:
    there = f"{state.recorded} of {state.plan_trials} trials are recorded"
    return _choice(store, plan, options, f"resuming {state.sweep_id}: {there}", state)


def _choice(
    store: Store, plan: Plan, options: LaunchOptions, reason: str, state: SweepState | None = None
) -> SweepChoice:
    """The sweep that `state` is of, or a new one."""
    own, shard = options.part(plan), options.own_shard
    if shard is not None:
        reason += f"; shard {shard} runs {len(own.trials)} of the plan's {len(plan.trials)}"
    stored = store.stored_trials(state.sweep_id) if state else {}
    # a child's own failure is an outcome and stays, unless it is to be tried again
    again = {
        key: trial.retry + 1
        for key, trial in stored.items()
        if options.retry_failed and trial.status != "ok"
    }
    new_id = options.sweep_id or f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
    return SweepChoice(
        sweep_id=state.sweep_id if state else new_id,
        reason=reason,
        resumed=state is not None,
        plan_hash=state.plan_hash if state else plan.plan_hash,
        plan_trials=state.plan_trials if state else len(plan.trials),
        shard=shard,
        own=own,
        todo=own.without(stored.keys() - again.keys()),
        retries=again,
    )


def _lacks(store: Store, state: SweepState, plan: Plan) -> bool:
    """Whether a launch of the plan would run a trial: one without a record, a repeat of a split block, a further block."""
    if plan.looks and not state.finished:
        return not is_over(store, state.sweep_id, plan, contrasts_in(plan))
    if plan.looks:
        return False
    return not state.finished or any(split.waits for split in state.blocks.split)


def _difference(state: SweepState, here: Environment, *, has_codes: bool = False) -> str | None:
    if here.env_hash not in state.env_hashes:
        return "it ran on other hardware"
    own = {software_hash for software, software_hash in state.softwares if not software}
    if own and here.software_hash not in own and not has_codes:  # a pair's id names its softwares
        return "it ran with other software"
    return None
