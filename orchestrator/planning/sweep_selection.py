"""Chooses whether a launch starts a new sweep or resumes an unfinished one."""

import secrets
from datetime import UTC, datetime
from pathlib import Path

from cudnn_sweep.analysis.store.progress import SweepState
from cudnn_sweep.analysis.store.store import Store
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.locks.private_folder import scratch_folder
from cudnn_sweep.orchestrator.planning.decided import contrasts_in, deciding_in, is_over
from cudnn_sweep.orchestrator.planning.plan import Plan
from cudnn_sweep.orchestrator.planning.request import Planned
from cudnn_sweep.orchestrator.planning.session import Session
from cudnn_sweep.workloads.hashes import content_hash


def new_sweep_id() -> str:
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


def choose_sweep(store: Store, planned: Planned) -> Session:
    """Return the session of a launch. Raises SpecError if the requested sweep cannot be resumed."""
    options, chosen = planned.request.options, planned.chosen
    if options.resume or options.sweep_id:
        return _named(store, planned)
    if options.new:
        return _session(store, planned, "a new sweep")
    earlier = [state for state in store.sweeps() if state.plan_hash == chosen.plan_hash]
    unfinished = (state for state in earlier if options.retry_failed or lacks(store, state, chosen))
    state = next(unfinished, None)
    if state is None:
        last = f"{earlier[0].sweep_id} is complete" if earlier else "no earlier sweep of this plan"
        return _session(store, planned, f"a new sweep: {last}")
    difference = differs(state, planned)
    if not difference and state.shards:
        difference = f"it runs in shards; --sweep-id {state.sweep_id} resumes it"
    if difference:
        reason = f"a new sweep: {state.sweep_id} is unfinished, but {difference}"
        return _session(store, planned, reason)
    return _resumed(store, planned, state)


def _named(store: Store, planned: Planned) -> Session:
    """Return the session of the sweep that --resume or --sweep-id names."""
    options, whole, chosen = planned.request.options, planned.whole, planned.chosen
    sweep_id = options.resume or options.sweep_id
    named = f"{'--resume' if options.resume else '--sweep-id'} {sweep_id}"
    states = store.sweeps()
    state = next((state for state in states if state.sweep_id == sweep_id), None)
    if state is None and options.resume:
        newest = ", ".join(state.sweep_id for state in states[:5]) or "none"
        raise SpecError(f"{named}: there is no such sweep. Newest sweeps: {newest}")
    if state is None:
        return _session(store, planned, "a new sweep with this name")
    if options.resume:
        there = store.stored_trials(state.sweep_id).keys()
        is_there = {trial.trial_id for trial in chosen.trials} <= there
        if not is_there and state.plan_hash not in (whole.plan_hash, chosen.plan_hash):
            raise SpecError(f"{named}: that sweep has a different plan than this launch")
    elif state.plan_hash != chosen.plan_hash:
        raise SpecError(
            f"{named}: that sweep has a different plan. All launches of a sweep must have the same "
            "suite, --only and GPU model"
        )
    if options.own_shard is not None and state.shards - {options.own_shard.of}:
        others = " and ".join(map(str, sorted(state.shards)))
        raise SpecError(f"--shard {options.shard}: {sweep_id} is split into {others} shards")
    if difference := differs(state, planned):
        rather = "--new starts another sweep" if options.resume else "choose another id"
        raise SpecError(f"{named}: {difference}; {rather}")
    return _resumed(store, planned, state)


def _resumed(store: Store, planned: Planned, state: SweepState) -> Session:
    there = f"{state.recorded} of {state.plan_trials} trials are recorded"
    return _session(store, planned, f"resuming {state.sweep_id}: {there}", state)


def _session(
    store: Store, planned: Planned, reason: str, state: SweepState | None = None
) -> Session:
    """Return a session of the sweep `state`, or of a new sweep if `state` is None."""
    request, whole, plan = planned.request, planned.whole, planned.chosen
    options = request.options
    own, shard = options.part(plan), options.own_shard
    if shard is not None:
        reason += f"; shard {shard} runs {len(own.trials)} of the plan's {len(plan.trials)}"
    stored = store.stored_trials(state.sweep_id) if state else {}
    again = {
        key: trial.retry + 1
        for key, trial in stored.items()
        if options.retry_failed and trial.status not in ("ok", "raced_out")
    }
    sweep_id = state.sweep_id if state else options.sweep_id or new_sweep_id()
    plan_hash = state.plan_hash if state else plan.plan_hash
    swept = whole if plan_hash == whole.plan_hash else plan
    done = stored.keys() - again.keys()
    begun = (trial for trial in own.trials if trial.trial_id in done)
    which = f"-shard-{shard.number}-of-{shard.of}" if shard else ""
    of_lock = content_hash([store.location, plan_hash, which])
    return Session(
        sweep_id=sweep_id,
        launch_id=f"launch-{secrets.token_hex(4)}",
        reason=reason,
        resumed=state is not None,
        plan=own.without(done),
        own=own,
        contrasts=contrasts_in(whole),
        looks=own.looks or (whole.looks if swept is whole else ()),
        begun={trial.cell.cell_id: trial.replicate + 1 for trial in begun},  # the last one is used
        of_cells=len(swept.cell_ids()),
        plan_blocks=sum(1 for _ in swept.blocks()),
        plan_hash=plan_hash,
        plan_trials=state.plan_trials if state else len(plan.trials),
        shard=shard,
        retries=again,
        scratch=scratch_folder(f"{sweep_id}{which}.{of_lock}"),
        folder=Path.cwd(),
        gpus=tuple(planned.machine.gpu_uuids),
        preload=planned.preload,
        job=request.job,
        codes=request.codes,
        min_effect=request.min_effect,
        one_sided=request.one_sided,
    )


def lacks(store: Store, state: SweepState, plan: Plan) -> bool:
    """Return whether the sweep still has trials to run."""
    if plan.looks:
        return not (state.finished or is_over(store, state.sweep_id, plan, deciding_in(plan)))
    return not state.finished or any(split.waits for split in state.blocks.split)


def differs(state: SweepState, planned: Planned) -> str | None:
    """Return a text if the sweep ran on other hardware or with other software."""
    here = planned.machine.environment
    if here.env_hash not in state.env_hashes:
        return "that sweep ran on other hardware than this launch"
    own = {software_hash for software, software_hash in state.softwares if not software}
    has_codes = any(config.code is not None for config in planned.chosen.configs())
    if own and here.software_hash not in own and not has_codes:  # a bisect's id depends on them
        return "that sweep ran with other software than this launch"
    return None
