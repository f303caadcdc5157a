"""Which sweep a launch runs: a new one, or an earlier one that is not finished."""

import secrets
from dataclasses import dataclass
from datetime import UTC, datetime

from cudnn_sweep.analysis.progress import StoredTrial, SweepState
from cudnn_sweep.analysis.store import Store
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.plan import Plan
from cudnn_sweep.workloads.environment import Environment


@dataclass(frozen=True, kw_only=True, slots=True)
class SweepChoice:
    sweep_id: str
    reason: str
    """Why this one, in words for the user."""
    resumed: bool
    plan_hash: str
    plan_trials: int
    todo: Plan
    retries: dict[str, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Wish:
    """What the command line asks for."""

    resume: str | None = None
    new: bool = False
    retry_failed: bool = False


def choose_sweep(
    store: Store, whole: Plan, chosen: Plan, environment: Environment, wish: Wish
) -> SweepChoice:
    """`whole` is the launch file's plan, `chosen` what --only left of it.

    Raises SpecError for a sweep that cannot be resumed.
    """
    if wish.resume is not None:
        return _named(store, whole, chosen, environment, wish, wish.resume)
    earlier = [state for state in store.sweeps() if state.plan_hash == chosen.plan_hash]
    unfinished = [state for state in earlier if not state.finished or wish.retry_failed]
    if wish.new:
        return _new(chosen, "a new sweep, as asked")
    if not unfinished:
        last = f"{earlier[0].sweep_id} is complete" if earlier else "none of this plan is here yet"
        return _new(chosen, f"a new sweep: {last}")
    state = unfinished[0]
    difference = _difference(state, environment)
    if difference:
        return _new(chosen, f"a new sweep: {state.sweep_id} is unfinished, but {difference}")
    return _resumed(store, state, chosen, wish)


def _named(
    store: Store, whole: Plan, chosen: Plan, environment: Environment, wish: Wish, sweep_id: str
) -> SweepChoice:
    states = store.sweeps()
    found = [state for state in states if state.sweep_id == sweep_id]
    if not found:
        newest = ", ".join(state.sweep_id for state in states[:5]) or "none"
        raise SpecError(f"--resume {sweep_id}: no such sweep; the newest here: {newest}")
    same_plan = found[0].plan_hash in (whole.plan_hash, chosen.plan_hash)
    there = store.stored_trials(sweep_id).keys()
    if not same_plan and not {trial.trial_id for trial in chosen.trials} <= there:
        raise SpecError(
            f"--resume {sweep_id}: that sweep ran another plan than this launch file gives"
        )
    difference = _difference(found[0], environment)
    if difference:
        raise SpecError(f"--resume {sweep_id}: {difference}; --new opens another sweep")
    return _resumed(store, found[0], chosen, wish)


def _new(plan: Plan, reason: str) -> SweepChoice:
    return SweepChoice(
        sweep_id=f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}",
        reason=reason,
        resumed=False,
        plan_hash=plan.plan_hash,
        plan_trials=len(plan.trials),
        todo=plan,
        retries={},
    )


def _resumed(store: Store, state: SweepState, plan: Plan, wish: Wish) -> SweepChoice:
    stored = store.stored_trials(state.sweep_id)
    done = {key for key, trial in stored.items() if _counts(trial, wish)}
    return SweepChoice(
        sweep_id=state.sweep_id,
        reason=f"resuming {state.sweep_id}: {state.recorded} of {state.plan_trials} trials are there",
        resumed=True,
        plan_hash=state.plan_hash,
        plan_trials=state.plan_trials,
        todo=plan.without(done),
        retries={key: trial.retry + 1 for key, trial in stored.items() if key not in done},
    )


def _counts(trial: StoredTrial, wish: Wish) -> bool:
    """A child's own failure is an outcome and stays, unless it is to be tried again."""
    return trial.status == "ok" or not wish.retry_failed


def _difference(state: SweepState, environment: Environment) -> str | None:
    if environment.env_hash not in state.env_hashes:
        return "it ran on other hardware"
    if environment.software_hash not in state.software_hashes:
        return "it ran with other software"
    return None
