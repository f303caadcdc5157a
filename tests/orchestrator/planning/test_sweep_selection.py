"""Which sweep a launch goes on with, and why."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cudnn_sweep.analysis.storing.store import Store
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.planning.plan import Plan, narrow
from cudnn_sweep.orchestrator.planning.session import session_of
from cudnn_sweep.orchestrator.planning.shard import Shard, read_shard
from cudnn_sweep.orchestrator.planning.sweep_selection import (
    SweepChoice,
    SweepSelection,
    choose_sweep,
)
from cudnn_sweep.orchestrator.running.run_sweep import session_for
from cudnn_sweep.workloads.hardware.environment import Environment, capture_environment
from tests.makers import MakePlan, RecordOf

HERE = capture_environment()
Put = Callable[..., None]


@pytest.fixture
def put(record_of: RecordOf) -> Put:
    """Store the first `count` trials of a plan, or of a shard of it."""

    def put_first(
        store: Store,
        plan: Plan,
        count: int,
        *,
        sweep_id: str = "earlier",
        shard: Shard | None = None,
        **how: Any,
    ) -> None:
        session = replace(session_of(plan, sweep_id, Path("/nowhere")), shard=shard)
        for trial in (shard.part(plan) if shard else plan).trials[:count]:
            store.write(record_of(session, trial, **how))

    return put_first


def choose(
    store: Store, plan: Plan, chosen: Plan | None = None, **selection: object
) -> SweepChoice:
    return choose_sweep(store, plan, chosen or plan, HERE, SweepSelection(**selection))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("stored", "new", "reason"),
    [
        (0, False, "no earlier sweep of this plan"),
        (3, True, "as requested"),
        (7, False, "earlier is complete"),
    ],
)
def test_a_sweep_is_opened_where_none_is_unfinished_or_a_new_one_is_asked_for(
    store: Store, plan: Plan, put: Put, stored: int, new: bool, reason: str
) -> None:
    put(store, plan, stored)
    choice = choose(store, plan, new=new)
    assert not choice.resumed and choice.todo == plan
    assert reason in choice.reason


def test_unfinished_sweep_goes_on_with_what_it_lacks(store: Store, plan: Plan, put: Put) -> None:
    put(store, plan, 3)
    choice = choose(store, plan)
    assert choice.resumed and choice.sweep_id == "earlier"
    assert choice.todo.trials == plan.trials[3:]
    assert choice.plan_trials == len(plan.trials)
    assert "3 of 7 trials are recorded" in choice.reason


@pytest.mark.parametrize(
    ("elsewhere", "reason"),
    [
        (replace(HERE, torch="1.0"), "it ran with other software"),
        (replace(HERE, gpu_memory_bytes=1), "it ran on other hardware"),
    ],
)
def test_sweep_of_another_environment_is_left_alone(
    store: Store, plan: Plan, put: Put, elsewhere: Environment, reason: str
) -> None:
    put(store, plan, 3, where=elsewhere)
    choice = choose(store, plan)
    assert not choice.resumed
    assert reason in choice.reason
    with pytest.raises(SpecError, match=reason):
        choose(store, plan, resume="earlier")


def test_failures_stay_until_they_are_to_be_retried(store: Store, plan: Plan, put: Put) -> None:
    put(store, plan, len(plan.trials), status="crash")
    assert not choose(store, plan).resumed
    choice = choose(store, plan, retry_failed=True)
    assert choice.resumed and choice.todo == plan
    assert set(choice.retries.values()) == {1}


def test_one_failed_trial_of_a_narrowed_sweep_can_be_retried(
    store: Store, plan: Plan, put: Put
) -> None:
    part = narrow(plan, [("benchmark", "true")])
    put(store, part, len(part.trials), status="timeout")
    trial = part.trials[1]
    one = narrow(plan, [("trial_id", trial.trial_id)])
    choice = choose(store, plan, one, resume="earlier", retry_failed=True)
    assert choice.todo.trials == (trial,)
    assert choice.plan_hash == part.plan_hash


def test_a_narrowed_sweep_has_as_many_cells_as_are_left(store: Store, plan_of: MakePlan) -> None:
    """Its verdicts are corrected for those, and no others are counted as open."""
    whole = plan_of("conv", problem="tutorials/rgb224", batch=1, regime=["fixed", "cycle"])
    part = narrow(whole, [("regime", "fixed")])
    assert len(whole.cell_ids()) == 2
    for chosen, cells in ((part, 1), (whole, 2)):
        session = session_for(choose(store, whole, chosen), whole, chosen, ())
        assert session.of_cells == cells


def test_sweep_that_cannot_be_resumed_is_named(store: Store, plan: Plan, put: Put) -> None:
    put(store, narrow(plan, [("benchmark", "true")]), 1)
    with pytest.raises(SpecError, match="no such sweep; the newest here: earlier"):
        choose(store, plan, resume="latest")
    with pytest.raises(SpecError, match="has another plan"):
        choose(store, plan, resume="earlier")


def test_any_shard_opens_the_sweep_and_each_runs_its_own(
    store: Store, plan: Plan, put: Put
) -> None:
    third, first = (
        choose(store, plan, sweep_id="shared", shard=read_shard(text)) for text in ("3/3", "1/3")
    )
    assert not third.resumed and third.sweep_id == "shared"
    assert (third.plan_hash, third.plan_trials) == (plan.plan_hash, len(plan.trials))
    assert third.todo == third.own
    assert f"shard 3/3 runs {len(third.own.trials)} of the plan's 7" in third.reason

    put(store, plan, len(plan.trials), sweep_id="shared", shard=third.shard)
    again = choose(store, plan, sweep_id="shared", shard=third.shard)
    assert again.resumed and not again.todo.trials
    assert again.is_complete(store.stored_trials("shared").values())
    beside = choose(store, plan, sweep_id="shared", shard=first.shard)
    assert beside.resumed and beside.todo == first.own
    assert not beside.is_complete(store.stored_trials("shared").values())
    put(store, plan, 1, sweep_id="shared", shard=first.shard)
    resumed = choose(store, plan, sweep_id="shared", shard=first.shard)
    assert resumed.todo.trials == first.own.trials[1:]
    assert third.lock_name != first.lock_name


def test_what_no_shard_has_run_is_run_without_one(store: Store, plan: Plan, put: Put) -> None:
    shard = read_shard("1/2")
    put(store, plan, len(plan.trials), sweep_id="shared", shard=shard)
    assert not choose(store, plan).resumed
    assert "shared is unfinished, but runs in shards: --sweep-id" in choose(store, plan).reason
    rest = choose(store, plan, sweep_id="shared")
    assert rest.todo.trials == read_shard("2/2").part(plan).trials
    assert choose(store, plan, resume="shared").todo == rest.todo


def test_shard_that_does_not_fit_its_sweep_is_refused(store: Store, plan: Plan, put: Put) -> None:
    put(store, plan, 1, sweep_id="shared", shard=read_shard("1/2"))
    with pytest.raises(SpecError, match="--shard 1/3: shared is split into 2 shards"):
        choose(store, plan, sweep_id="shared", shard=read_shard("1/3"))
    with pytest.raises(SpecError, match="--sweep-id shared: that sweep has another plan"):
        part = narrow(plan, [("benchmark", "true")])
        choose(store, plan, part, sweep_id="shared", shard=read_shard("1/2"))
    with pytest.raises(SpecError, match="--sweep-id shared: it ran on other hardware"):
        elsewhere = replace(HERE, gpu_memory_bytes=1)
        choose_sweep(store, plan, plan, elsewhere, SweepSelection(sweep_id="shared"))
