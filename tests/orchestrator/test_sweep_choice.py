"""Which sweep a launch goes on with, and why."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pytest

from cudnn_sweep.analysis.store import Store, open_store
from cudnn_sweep.orchestrator.errors import SpecError, SweepBusyError
from cudnn_sweep.orchestrator.plan import Plan, narrow
from cudnn_sweep.orchestrator.process.protocol import Outcome, Status
from cudnn_sweep.orchestrator.record import make_record
from cudnn_sweep.orchestrator.session import session_of
from cudnn_sweep.orchestrator.sweep_choice import SweepChoice, Wish, choose_sweep
from cudnn_sweep.orchestrator.sweep_lock import sweep_lock
from cudnn_sweep.workloads.environment import Environment, capture_environment

HERE = capture_environment()


@pytest.fixture
def plan(plan_of: Callable[..., Plan]) -> Plan:
    return plan_of("noop", replicates=3)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path))


def put(
    store: Store,
    plan: Plan,
    count: int,
    *,
    sweep_id: str = "earlier",
    status: Status = "ok",
    environment: Environment = HERE,
) -> None:
    """Store the plan's first `count` trials."""
    session = session_of(plan, sweep_id, Path("/nowhere"))
    now = datetime.now(UTC)
    outcome = Outcome(
        status=status,
        message=None if status == "ok" else "it went wrong",
        reply=None,
        pid=1,
        started_at=now,
        ended_at=now,
        process_s=0.0,
        exit_s=None,
        gap_s=None,
    )
    for trial in plan.trials[:count]:
        attempt_id = uuid4().hex
        kept = make_record(
            session, trial, outcome, environment, slot="s", attempt=1, attempt_id=attempt_id
        )
        store.write(kept)


def choose(store: Store, plan: Plan, chosen: Plan | None = None, **wish: object) -> SweepChoice:
    return choose_sweep(store, plan, chosen or plan, HERE, Wish(**wish))  # type: ignore[arg-type]


def test_first_launch_opens_a_sweep(store: Store, plan: Plan) -> None:
    choice = choose(store, plan)
    assert not choice.resumed
    assert choice.todo == plan
    assert "none of this plan is here yet" in choice.reason


def test_unfinished_sweep_goes_on_with_what_it_lacks(store: Store, plan: Plan) -> None:
    put(store, plan, 3)
    choice = choose(store, plan)
    assert choice.resumed and choice.sweep_id == "earlier"
    assert choice.todo.trials == plan.trials[3:]
    assert choice.plan_trials == len(plan.trials)
    assert "3 of 7 trials are there" in choice.reason


def test_new_is_obeyed(store: Store, plan: Plan) -> None:
    put(store, plan, 3)
    choice = choose(store, plan, new=True)
    assert not choice.resumed and choice.todo == plan


def test_complete_sweep_is_followed_by_another(store: Store, plan: Plan) -> None:
    put(store, plan, len(plan.trials))
    choice = choose(store, plan)
    assert not choice.resumed
    assert "earlier is complete" in choice.reason


@pytest.mark.parametrize(
    ("environment", "reason"),
    [
        (replace(HERE, torch="1.0"), "it ran with other software"),
        (replace(HERE, gpu_memory_bytes=1), "it ran on other hardware"),
    ],
)
def test_sweep_of_another_environment_is_left_alone(
    store: Store, plan: Plan, environment: Environment, reason: str
) -> None:
    put(store, plan, 3, environment=environment)
    choice = choose(store, plan)
    assert not choice.resumed
    assert reason in choice.reason
    with pytest.raises(SpecError, match=reason):
        choose(store, plan, resume="earlier")


def test_failures_stay_until_they_are_to_be_retried(store: Store, plan: Plan) -> None:
    put(store, plan, len(plan.trials), status="crash")
    assert not choose(store, plan).resumed
    choice = choose(store, plan, retry_failed=True)
    assert choice.resumed and choice.todo == plan
    assert set(choice.retries.values()) == {1}


def test_one_failed_trial_of_a_narrowed_sweep_can_be_retried(store: Store, plan: Plan) -> None:
    part = narrow(plan, [("benchmark", "true")])
    put(store, part, len(part.trials), status="timeout")
    trial = part.trials[1]
    one = narrow(plan, [("trial_id", trial.trial_id)])
    choice = choose(store, plan, one, resume="earlier", retry_failed=True)
    assert choice.todo.trials == (trial,)
    assert choice.plan_hash == part.plan_hash


def test_sweep_that_cannot_be_resumed_is_named(store: Store, plan: Plan) -> None:
    put(store, narrow(plan, [("benchmark", "true")]), 1)
    with pytest.raises(SpecError, match="no such sweep; the newest here: earlier"):
        choose(store, plan, resume="latest")
    with pytest.raises(SpecError, match="ran another plan"):
        choose(store, plan, resume="earlier")


def test_lock_names_its_holder_and_is_free_afterwards(tmp_path: Path) -> None:
    with sweep_lock(str(tmp_path), "hash"):
        busy = pytest.raises(SweepBusyError, match=r"process \d+ on ")
        with busy, sweep_lock(str(tmp_path), "hash"):
            pass
        with sweep_lock(str(tmp_path), "other"):
            pass
    with sweep_lock(str(tmp_path), "hash"):
        pass
