"""Which stored sweep a launch resumes, what it runs of it, and why, of states that are made up."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.planning import sweep_selection as selection
from cudnn_sweep.orchestrator.planning.options import LaunchOptions
from cudnn_sweep.orchestrator.planning.plan import Plan, Shard
from cudnn_sweep.orchestrator.planning.session import session_of
from cudnn_sweep.orchestrator.planning.sweep_selection import choose_sweep, differs, lacks
from cudnn_sweep.workloads.cells.config import Config
from tests.orchestrator.made_plan import made_plan

OFF, ON = Config(), Config(benchmark=True)


@pytest.fixture(scope="module")
def plan() -> Plan:
    return made_plan(configs=[OFF, ON], suite={"replicates": 2}, batch=[1, 2])


def state(plan_hash: str, sweep_id: str = "june", **of: Any) -> Any:
    usual = {"recorded": 1, "plan_trials": 9, "finished": False, "shards": set()}
    blocks = SimpleNamespace(split=[])
    here = {"env_hashes": {"lab"}, "softwares": {("", "own")}, "blocks": blocks}
    return SimpleNamespace(sweep_id=sweep_id, plan_hash=plan_hash, **usual | here | of)


def planned(plan: Plan, whole: Plan | None = None, **options: Any) -> Any:
    environment = SimpleNamespace(env_hash="lab", software_hash="own")
    request = SimpleNamespace(
        options=LaunchOptions(**options), job=None, codes={}, min_effect=0.01, one_sided=False
    )
    return SimpleNamespace(
        request=request,
        whole=whole or plan,
        chosen=plan,
        machine=SimpleNamespace(environment=environment, gpu_uuids=["GPU-1"]),
        preload=(),
    )


def store(*states: Any, trials: Any = None) -> Any:
    return SimpleNamespace(
        sweeps=lambda: list(states), stored_trials=lambda _: dict(trials or {}), location="results"
    )


@pytest.fixture(autouse=True)
def _ids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "new_sweep_id", lambda: "new")


def chosen(plan: Plan, *states: Any, trials: Any = None, **options: Any) -> tuple[str, str]:
    session = choose_sweep(store(*states, trials=trials), planned(plan, **options))
    return session.sweep_id, session.reason


OTHER: dict[str, Any] = {"env_hashes": {"other"}}


def test_the_newest_unfinished_sweep_of_the_plan_goes_on(plan: Plan) -> None:
    of = plan.plan_hash
    done: dict[str, Any] = {"finished": True}
    june, july = state(of), state(of, "july")
    assert chosen(plan) == ("new", "a new sweep: no earlier sweep of this plan")
    assert chosen(plan, june, july)[0] == "june"
    assert chosen(plan, june)[1] == "resuming june: 1 of 9 trials are recorded"
    assert chosen(plan, state(of, **done), july)[0] == "july"
    assert chosen(plan, state(of, **done)) == ("new", "a new sweep: june is complete")
    assert chosen(plan, state("another")) == ("new", "a new sweep: no earlier sweep of this plan")
    assert chosen(plan, june, new=True) == ("new", "a new sweep")
    assert chosen(plan, state(of, **done), retry_failed=True)[0] == "june"
    assert chosen(plan, state(of, **OTHER)) == (
        "new",
        "a new sweep: june is unfinished, but that sweep ran on other hardware than this launch",
    )
    assert chosen(plan, state(of, shards={3})) == (
        "new",
        "a new sweep: june is unfinished, but it runs in shards; --sweep-id june resumes it",
    )
    both = state(of, shards={3}, softwares={("", "old")})
    assert chosen(plan, both)[1].endswith("but that sweep ran with other software than this launch")


@pytest.mark.parametrize(
    ("options", "of", "found"),
    [
        ({"resume": "june"}, {}, "june"),
        ({"sweep_id": "june"}, {}, "june"),
        ({"sweep_id": "mine"}, {}, "mine"),
        ({"resume": "mine"}, {}, "--resume mine: there is no such sweep. Newest sweeps: june"),
        ({"resume": "june"}, {"plan_hash": "x"}, "has a different plan than this launch"),
        ({"sweep_id": "june"}, {"plan_hash": "x"}, "that sweep has a different plan. All launches"),
        (
            {"resume": "june"},
            OTHER,
            "--resume june: that sweep ran on other hardware than this launch; --new starts",
        ),
        (
            {"sweep_id": "june"},
            OTHER,
            "that sweep ran on other hardware than this launch; choose another id",
        ),
        ({"sweep_id": "june", "shard": "1/2"}, {"shards": {2}}, "june"),
        ({"sweep_id": "june", "shard": "1/2"}, {"shards": set()}, "june"),
        ({"sweep_id": "june", "shard": "1/2"}, {"shards": {4, 3}}, "is split into 3 and 4 shards"),
        ({"sweep_id": "june"}, {"shards": {3}}, "june"),
    ],
)
def test_a_named_sweep_is_resumed_if_plan_machine_and_shards_are_its_own(
    plan: Plan, options: dict[str, Any], of: dict[str, Any], found: str
) -> None:
    there = state(**{"plan_hash": plan.plan_hash} | of)
    if len(found) < 6:
        assert chosen(plan, there, **options)[0] == found
        return
    with pytest.raises(SpecError, match=found):
        chosen(plan, there, **options)


def test_failed_trials_of_a_sweep_can_be_named_by_their_ids(plan: Plan) -> None:
    """The sweep's plan may be another if all chosen trials are in it."""
    trials = {t.trial_id: SimpleNamespace(status="error", retry=0) for t in plan.trials}
    session = choose_sweep(
        store(state("another"), trials=trials), planned(plan, resume="june", retry_failed=True)
    )
    assert session.sweep_id == "june" and len(session.plan.trials) == len(plan.trials)
    some = dict(list(trials.items())[1:])
    with pytest.raises(SpecError, match="that sweep has a different plan"):
        chosen(plan, state("another"), trials=some, resume="june")


@pytest.mark.parametrize("retry", [False, True])
def test_a_resumed_session_lacks_what_is_not_recorded_and_retries_failures_if_asked(
    plan: Plan, retry: bool
) -> None:
    statuses = ["ok", "error", "raced_out", "crash"]
    trials = {
        trial.trial_id: SimpleNamespace(status=status, retry=2)
        for trial, status in zip(plan.trials, statuses, strict=False)
    }
    there = state(plan.plan_hash, plan_trials=77)
    session = choose_sweep(store(there, trials=trials), planned(plan, retry_failed=retry))
    failed = {plan.trials[1].trial_id, plan.trials[3].trial_id} if retry else set()
    assert session.retries == dict.fromkeys(failed, 3)
    left = {trial.trial_id for trial in session.plan.trials}
    assert left == {trial.trial_id for trial in plan.trials[4:]} | failed
    assert (session.resumed, session.plan_trials, session.of_cells) == (True, 77, 2)
    done = [trial for trial in plan.trials if trial.trial_id in trials.keys() - failed]
    assert session.begun == {t.cell.cell_id: t.replicate + 1 for t in done}
    assert (session.gpus, session.plan_blocks) == (("GPU-1",), 4)
    new = choose_sweep(store(), planned(plan))
    assert (new.resumed, new.plan_trials, new.begun) == (False, len(plan.trials), {})


def test_a_shard_runs_its_part_with_a_scratch_of_its_own(plan: Plan) -> None:
    sessions = [
        choose_sweep(store(), planned(plan, sweep_id="s", shard=f"{number}/2")) for number in (1, 2)
    ]
    first, second = sessions
    ran = [trial.trial_id for session in sessions for trial in session.plan.trials]
    assert sorted(ran) == sorted(trial.trial_id for trial in plan.trials)
    assert first.scratch != second.scratch and first.lock_name != second.lock_name
    assert first.shard == Shard(number=1, of=2)
    assert f"; shard 1/2 runs {len(first.plan.trials)} of the plan's" in first.reason
    assert choose_sweep(store(), planned(plan, sweep_id="s")).lock_name == plan.plan_hash


def test_a_narrowed_sweep_counts_its_own_cells_and_keeps_the_looks_of_its_plan(plan: Plan) -> None:
    whole = replace(plan, looks=(3, 5))
    cell_id = plan.trials[0].cell.cell_id
    part = replace(plan, trials=tuple(t for t in plan.trials if t.cell.cell_id == cell_id))
    new = choose_sweep(store(), planned(part, whole))
    assert (new.of_cells, new.looks, new.plan_blocks) == (1, (), 2)
    same = choose_sweep(store(), planned(whole, whole))
    assert (same.of_cells, same.looks) == (2, (3, 5))
    there = state(whole.plan_hash)
    trials = {t.trial_id: SimpleNamespace(status="ok", retry=0) for t in whole.trials}
    of_whole = choose_sweep(store(there, trials=trials), planned(part, whole, resume="june"))
    assert (of_whole.of_cells, of_whole.looks) == (2, (3, 5))


@pytest.mark.parametrize(
    ("looks", "finished", "waits", "over", "left"),
    [
        ((), True, [], False, False),
        ((), True, [False, True], False, True),
        ((), True, [False], False, False),
        ((), False, [], True, True),
        ((3,), False, [], False, True),
        ((3,), False, [], True, False),
        ((3,), True, [True], False, False),
        ((3,), True, [], True, False),
    ],
)
def test_a_sweep_lacks_trials_repeats_or_decisions(
    monkeypatch: pytest.MonkeyPatch,
    plan: Plan,
    looks: tuple[int, ...],
    finished: bool,
    waits: Sequence[bool],
    over: bool,
    left: bool,
) -> None:
    monkeypatch.setattr(selection, "is_over", lambda *_: over)
    blocks = SimpleNamespace(split=[SimpleNamespace(waits=each) for each in waits])
    there = state(plan.plan_hash, finished=finished, blocks=blocks)
    assert lacks(store(), there, replace(plan, looks=looks)) is left


@pytest.mark.parametrize(
    ("of", "code", "text"),
    [
        ({}, None, None),
        (OTHER, None, "that sweep ran on other hardware than this launch"),
        ({"env_hashes": {"other", "lab"}}, None, None),
        ({"softwares": {("", "old")}}, None, "that sweep ran with other software than this launch"),
        ({"softwares": {("", "old"), ("", "own")}}, None, None),
        ({"softwares": {("last_good", "old")}}, None, None),
        ({"softwares": set()}, None, None),
        ({"softwares": {("", "old")}}, "base", None),
    ],
)
def test_a_sweep_of_another_machine_is_no_sweep_of_this_one(
    plan: Plan, of: dict[str, Any], code: str | None, text: str | None
) -> None:
    trial = replace(plan.trials[0], config=Config(code=code))
    here = planned(replace(plan, trials=(*plan.trials, trial)))
    assert differs(state(plan.plan_hash, **of), here) == text


@pytest.mark.parametrize(
    ("recorded", "hopeless", "sharded", "lacks_any"),
    [
        (0, 0, False, True),
        (8, 0, False, False),
        (7, 0, False, True),
        (4, 1, False, False),
        (0, 1, False, True),
        (0, 2, False, False),
        (0, 2, True, False),
        (0, 1, True, True),
    ],
)
def test_a_session_lacks_records_outside_of_the_cells_that_are_given_up(
    recorded: int, hopeless: int, sharded: bool, lacks_any: bool
) -> None:
    plan = made_plan(configs=[OFF, ON], suite={"replicates": 2}, batch=[1, 2])
    trials = sorted((t for t in plan.trials if not t.twin), key=lambda t: t.cell.cell_id)
    plan = replace(plan, trials=tuple(trials))
    shard = Shard(number=1, of=1) if sharded else None
    session = replace(session_of(plan, "s", Path()), shard=shard)
    stored: Any = [
        SimpleNamespace(trial_id=trial.trial_id, repeats_block=None) for trial in trials[:recorded]
    ]
    given_up = sorted(plan.cell_ids(), reverse=True)[:hopeless]
    assert session.lacks(stored, given_up) is lacks_any
