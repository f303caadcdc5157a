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
        """Cells that have records, but no ok trial."""
        statuses = {trial.trial_id: trial.status for trial in stored}
        recorded = [trial for trial in self.own.trials if trial.trial_id in statuses]
        measured = {t.cell.cell_id for t in recorded if statuses[t.trial_id] == "ok"}
        return {trial.cell.cell_id for trial in recorded} - measured

    def is_complete(self, stored: Iterable[StoredTrial]) -> bool:
        """Whether every trial of the sweep, or of this launch's shard, has a record."""
        recorded = {trial.trial_id for trial in planned(stored)}
        if self.shard is None:
            return len(recorded) >= self.plan_trials
        return not self.own.without(recorded).trials


def choose_sweep(
    store: Store,
    whole: Plan,
    chosen: Plan,
    environment: Environment,
    options: LaunchOptions,
) -> SweepChoice:
    """`whole` is the launch file's plan, `chosen` what --only left of it.

    Raises SpecError for a sweep that cannot be resumed.
    """
    if options.resume or options.sweep_id:
        return _named(store, whole, chosen, environment, options)
    earlier = [state for state in store.sweeps() if state.plan_hash == chosen.plan_hash]
    unfinished = [
        state for state in earlier if options.retry_failed or _lacks(store, state, chosen)
    ]
    if options.new:
        return _new(chosen, options, "a new sweep, as requested")
    if not unfinished:
        last = f"{earlier[0].sweep_id} is complete" if earlier else "no earlier sweep of this plan"
        return _new(chosen, options, f"a new sweep: {last}")
    state = unfinished[0]
    difference = _difference(state, environment)
    if not difference and state.shards:
        difference = f"runs in shards: --sweep-id {state.sweep_id} resumes it"
    if difference:
        return _new(
            chosen, options, f"a new sweep: {state.sweep_id} is unfinished, but {difference}"
        )
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
        return _new(chosen, options, "a new sweep with this name")
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


def _new(plan: Plan, options: LaunchOptions, reason: str) -> SweepChoice:
    own = options.part(plan)
    return SweepChoice(
        sweep_id=options.sweep_id or f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}",
        reason=reason + _which_part(options, plan, own),
        resumed=False,
        plan_hash=plan.plan_hash,
        plan_trials=len(plan.trials),
        shard=options.own_shard,
        own=own,
        todo=own,
        retries={},
    )


def _resumed(store: Store, state: SweepState, plan: Plan, options: LaunchOptions) -> SweepChoice:
    own = options.part(plan)
    stored = store.stored_trials(state.sweep_id)
    done = {key for key, trial in stored.items() if _counts(trial, options)}
    there = f"{state.recorded} of {state.plan_trials} trials are recorded"
    return SweepChoice(
        sweep_id=state.sweep_id,
        reason=f"resuming {state.sweep_id}: {there}" + _which_part(options, plan, own),
        resumed=True,
        plan_hash=state.plan_hash,
        plan_trials=state.plan_trials,
        shard=options.own_shard,
        own=own,
        todo=own.without(done),
        retries={key: trial.retry + 1 for key, trial in stored.items() if key not in done},
    )


def _which_part(options: LaunchOptions, plan: Plan, own: Plan) -> str:
    if options.own_shard is None:
        return ""
    return f"; shard {options.own_shard} runs {len(own.trials)} of the plan's {len(plan.trials)}"


def _lacks(store: Store, state: SweepState, plan: Plan) -> bool:
    """Whether a launch of the plan would run a trial: one without a record, a repeat of a split block, a further block."""
    if plan.looks and not state.finished:
        return not is_over(store, state.sweep_id, plan, contrasts_in(plan))
    if plan.looks:
        return False
    return not state.finished or any(split.waits for split in state.blocks.split)


def _counts(trial: StoredTrial, options: LaunchOptions) -> bool:
    """A child's own failure is an outcome and stays, unless it is to be tried again."""
    return trial.status == "ok" or not options.retry_failed


def _difference(state: SweepState, here: Environment, *, has_codes: bool = False) -> str | None:
    if here.env_hash not in state.env_hashes:
        return "it ran on other hardware"
    own = {software_hash for software, software_hash in state.softwares if not software}
    if own and here.software_hash not in own and not has_codes:  # a pair's id names its softwares
        return "it ran with other software"
    return None
