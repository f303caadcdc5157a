"""What a launch runs of its sweep, for how long, and what it refuses to plan, of plans that nothing imports."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from cudnn_sweep.analysis.store.progress import MOST_REPEATS
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.planning.plan import Plan
from cudnn_sweep.orchestrator.planning.session import Job, session_of
from cudnn_sweep.orchestrator.recording.recorder import Progress
from cudnn_sweep.orchestrator.running import run_sweep as running
from cudnn_sweep.orchestrator.running.run_sweep import (
    END_S,
    OpenSweep,
    _limited,
    _seconds,
    plan_of,
    planned_on,
)
from cudnn_sweep.workloads.cells.config import Config
from cudnn_sweep.workloads.cells.expand import WorkloadFacts
from cudnn_sweep.workloads.cells.suite import CellAxes, SuiteSpec, UntilDecided
from cudnn_sweep.workloads.hardware.environment import Environment
from tests.orchestrator.blank import blank
from tests.orchestrator.made_plan import made_plan

ON, OFF = Config(benchmark=True), Config()


@pytest.fixture(scope="module")
def plan() -> Plan:
    """Of two cells, in two blocks each."""
    return made_plan(configs=[OFF, ON], suite={"replicates": 2}, batch=[1, 2])


class Rounds:
    """A sweep whose runs take `run_s` each, and after so many of which it stops."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        plan: Plan,
        *,
        split: Sequence[Plan] = (),
        run_s: float = 1.0,
        stops_at: int | None = None,
        ranks: int = 1,
    ) -> None:
        """`split`: what is split after each round."""
        self.now_s, self.runs = 100.0, list[tuple[int, float | None]]()
        self.announced: list[str] = []
        self._run_s, self._stops_at, self._split = run_s, stops_at, iter(split)
        monkeypatch.setattr(running, "monotonic", lambda: self.now_s)
        monkeypatch.setattr(OpenSweep, "repeats", self._repeats)
        session = session_of(plan, "s", Path())
        alike = [session] * ranks
        monkeypatch.setattr(type(session), "by_ranks", lambda part: [part] * len(alike))
        place: Any = SimpleNamespace(announce=lambda _, reason, __: self.announced.append(reason))
        any_store: Any = None
        self.sweep = OpenSweep(
            session=session, store=any_store, whole=plan, place=place, console=Mock()
        )

    def _repeats(self, *_: Any) -> Plan:
        none = replace(self.sweep.session.plan, trials=())
        return next(self._split, none)

    def run(self, session: Any, left_s: float | None) -> Progress:
        self.runs.append((len(session.plan.trials), left_s))
        self.now_s += self._run_s
        is_last = len(self.runs) == self._stops_at
        return Progress(statuses={"ok": 1}, stopped="full" if is_last else None)


def repeat(plan: Plan, count: int) -> Plan:
    return replace(
        plan, trials=tuple(replace(trial, repeats_block=7) for trial in plan.trials[:count])
    )


def test_split_blocks_run_again_a_few_times_and_are_announced(
    monkeypatch: pytest.MonkeyPatch, plan: Plan
) -> None:
    all_, often = len(plan.trials), [repeat(plan, 2)] * 9
    rounds = Rounds(monkeypatch, plan)
    assert rounds.sweep.run_rounds(rounds.run, None).recorded == 1
    assert (rounds.runs, rounds.announced) == ([(all_, None)], [])
    rounds = Rounds(monkeypatch, plan, split=[repeat(plan, 2)])
    assert rounds.sweep.run_rounds(rounds.run, None).recorded == 2
    assert rounds.runs == [(all_, None), (2, None)]
    assert rounds.announced == ["whole repeats of split blocks: 1"]
    rounds = Rounds(monkeypatch, plan, split=often)
    rounds.sweep.run_rounds(rounds.run, None)
    assert len(rounds.runs) == 1 + MOST_REPEATS
    rounds = Rounds(monkeypatch, plan, split=often, stops_at=2)
    assert rounds.sweep.run_rounds(rounds.run, None).stopped == "full"
    assert len(rounds.runs) == 2
    none = replace(plan, trials=())
    rounds = Rounds(monkeypatch, none, split=[repeat(plan, 3)])
    rounds.sweep.run_rounds(rounds.run, None)
    assert rounds.runs == [(3, None)], "a finished plan has only its split blocks left"


@pytest.mark.parametrize(
    ("budget_s", "ranks", "left"),
    [
        (10.0, 1, [10.0, 9.0]),
        (1.0, 1, [1.0]),
        (1.5, 1, [1.5, 0.5]),
        (0.0, 1, []),
        (1.0, 2, [1.0]),
        (10.0, 2, [10.0, 9.0, 8.0, 7.0]),
    ],
)
def test_each_run_has_the_time_that_is_left(
    monkeypatch: pytest.MonkeyPatch, plan: Plan, budget_s: float, ranks: int, left: list[float]
) -> None:
    rounds = Rounds(monkeypatch, plan, split=[repeat(plan, 2)], ranks=ranks)
    rounds.sweep.run_rounds(rounds.run, budget_s)
    assert [left_s for _, left_s in rounds.runs] == left


@pytest.mark.parametrize(
    ("resumed", "decided", "retried", "lacks"),
    [
        (False, 2, False, True),
        (True, 0, False, True),
        (True, 1, False, True),
        (True, 2, False, False),
        (True, 2, True, True),
    ],
)
def test_of_decided_cells_only_retries_are_left(
    monkeypatch: pytest.MonkeyPatch,
    plan: Plan,
    resumed: bool,
    decided: int,
    retried: bool,
    lacks: bool,
) -> None:
    cells = set(sorted(plan.cell_ids())[:decided])
    monkeypatch.setattr(running, "stopped_cells", lambda *_: cells)
    retries = {plan.trials[0].trial_id: 1} if retried else {}
    session = replace(session_of(plan, "s", Path()), resumed=resumed, retries=retries)
    any_: Any = None
    sweep = OpenSweep(session=session, store=any_, whole=plan, place=any_, console=any_)
    assert sweep.lacks_anything() is lacks
    done = replace(session, plan=replace(plan, trials=()))
    assert not replace(sweep, session=done).lacks_anything()


def test_only_whole_blocks_that_wait_are_repeated_and_never_with_looks(
    monkeypatch: pytest.MonkeyPatch, plan: Plan
) -> None:
    sizes = {block: len(trials) for block, trials in plan.blocks()}
    split = [
        SimpleNamespace(block=0, waits=True, trials=sizes[0], repeats=0),
        SimpleNamespace(block=1, waits=False, trials=sizes[1], repeats=0),
        SimpleNamespace(block=2, waits=True, trials=sizes[2] + 1, repeats=0),
        SimpleNamespace(block=3, waits=True, trials=sizes[3], repeats=2),
    ]
    monkeypatch.setattr(running, "blocks_of", lambda _: SimpleNamespace(split=split))
    store: Any = SimpleNamespace(stored_trials=lambda _: {})
    any_: Any = None
    session = session_of(plan, "s", Path())
    sweep = OpenSweep(session=session, store=store, whole=plan, place=any_, console=any_)
    found = sweep.repeats()
    assert {trial.repeats_block for trial in found.trials} == {0, 3}
    assert len(found.trials) == sizes[0] + sizes[3]
    by_block = {trial.repeats_block: trial for trial in found.trials}
    blocks = 1 + max(trial.block for trial in plan.trials)
    assert (by_block[0].replicate, by_block[0].block) == (2, blocks)
    assert (by_block[3].replicate, by_block[3].block) == (1 + 3 * 2, 3 + 3 * blocks)
    positions = [trial.position for trial in found.trials]
    assert min(positions) >= len(plan.trials) and len({*positions}) == len(positions)
    looks = replace(plan, looks=(3,))
    assert replace(sweep, whole=looks).repeats().trials == ()


@pytest.mark.parametrize(
    ("minutes", "launched_at", "seconds"),
    [
        (None, None, None),
        (None, 400.0, None),
        (10.0, None, 600.0),
        (10.0, 400.0, 600.0 - 100.0 - END_S),
        (1.0, 400.0, 1.0),
        (0.001, None, 1.0),
    ],
)
def test_blocks_have_the_minutes_without_what_was_spent(
    monkeypatch: pytest.MonkeyPatch,
    minutes: float | None,
    launched_at: float | None,
    seconds: float | None,
) -> None:
    monkeypatch.setattr(running, "monotonic", lambda: 500.0)
    request: Any = SimpleNamespace(budget_minutes=minutes, launched_at=launched_at)
    assert _seconds(request) == seconds


@pytest.mark.parametrize(
    ("left_s", "launched_at", "gpus", "reached"),
    [
        (100.0, 1.0, 0, 2),
        (99.0, 1.0, 0, 1),
        (49.0, 1.0, 0, 0),
        (1000.0, 1.0, 0, 2),
        (50.0, 1.0, 2, 2),
        (49.0, 1.0, 2, 1),
        (100.0, 1.0, 1, 2),
        (None, 1.0, 1, None),
        (100.0, None, 1, None),
    ],
)
def test_a_limit_says_for_how_many_cells_it_suffices(
    monkeypatch: pytest.MonkeyPatch,
    plan: Plan,
    left_s: float | None,
    launched_at: float | None,
    gpus: int,
    reached: int | None,
) -> None:
    """Both cells take 100 s on one slot."""
    said: list[str] = []
    monkeypatch.setattr(running, "_seconds", lambda _: left_s)
    monkeypatch.setattr(running, "say", lambda _, text: said.append(text))

    def estimated_s(_: Plan, slots: int, *, gpu: bool) -> float:
        assert gpu is (gpus > 0)
        return 100.0 / slots

    monkeypatch.setattr(Plan, "estimated_s", estimated_s)
    request: Any = SimpleNamespace(launched_at=launched_at)
    session = session_of(plan, "s", Path())
    limited = _limited(session, request, gpus, Mock())
    assert limited.cell_by_cell is (reached is not None and reached < 2)
    assert len(said) == (reached is not None)
    assert all(f"a first verdict in {reached} of 2 cells." in text for text in said)
    done = replace(session, plan=replace(plan, trials=()))
    assert _limited(done, request, gpus, Mock()) is done


FACTS = {"noop": WorkloadFacts(directions=("forward",), varies=(), input_shape=(8, 3, 16, 16))}


def machine(device: str = "cuda", compiler: str | None = None) -> Any:
    where = blank(Environment, device=device, gpu="H200")
    return SimpleNamespace(workloads=FACTS, environment=where, compiler=compiler, gpus=["H200"])


def suite(*configs: Config, **keys: Any) -> SuiteSpec:
    return SuiteSpec(cells=[CellAxes(workload="noop")], configs=list(configs), **keys)


def test_a_sweep_that_compares_nothing_has_a_fixed_number_of_blocks() -> None:
    assert plan_of("s", suite(OFF), machine()).looks == ()
    until = plan_of("s", suite(OFF, ON), machine())
    assert until.looks != () and not until.is_race
    two = Config(benchmark=True, deterministic=True)
    assert plan_of("s", suite(OFF, two), machine()).looks == ()
    assert plan_of("s", suite(OFF, ON, replicates=4), machine()).looks == ()


@pytest.mark.parametrize(
    ("of", "message"),
    [
        (
            suite(OFF, replicates=UntilDecided(until="best", at_most=8)),
            "until: best}` would decide nothing: found one config; give a number",
        ),
        (
            suite(OFF, replicates=UntilDecided(until="decided", at_most=8)),
            "found 1 configs of which no two differ in one setting; give",
        ),
        (
            suite(
                OFF,
                ON,
                replicates=UntilDecided(until="decided", at_most=8),
                decided_by=["deterministic"],
            ),
            "no two differ in one setting among deterministic; give",
        ),
    ],
)
def test_blocks_until_nothing_is_compared_are_refused(of: SuiteSpec, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        plan_of("s", of, machine())


@pytest.mark.parametrize(
    ("execution", "ranks", "fault"),
    [
        (None, None, None),
        ("compile", None, "lacks a compiler"),
        (None, "too few GPUs", "too few GPUs"),
        ("compile", "too few GPUs", "lacks a compiler"),
    ],
)
def test_what_a_machine_cannot_run_is_refused_with_the_suite(
    monkeypatch: pytest.MonkeyPatch, execution: Any, ranks: str | None, fault: str | None
) -> None:
    def executes(_: object, config: Config, *__: object, **___: object) -> str | None:
        return "lacks a compiler" if config.execution else "never asked"

    monkeypatch.setattr(running, "execution_fault", executes)
    monkeypatch.setattr(running, "ranks_fault", lambda *_, **__: ranks)
    of = suite(Config(execution=execution), replicates=1)
    if fault is None:
        assert plan_of("s", of, machine()).trials
        return
    with pytest.raises(SpecError, match=f"^suite s: {fault}$"):
        plan_of("s", of, machine())


@pytest.mark.parametrize(
    ("job", "only", "replicates", "looks", "last"),
    [
        (None, [], None, True, None),
        (None, [("twin", "0")], None, False, 5),
        (None, [("workload", "noop")], None, True, None),
        (None, [("benchmark", "true")], None, False, 5),
        (None, [("benchmark", "true")], 9, False, 9),
        (Job(), [], None, True, None),
    ],
)
def test_a_narrowed_sweep_without_looks_has_its_first_blocks(
    job: Job | None,
    only: list[tuple[str, str]],
    replicates: int | None,
    looks: bool,
    last: int | None,
) -> None:
    keys = {} if replicates is None else {"replicates": replicates}
    options = SimpleNamespace(choices=only, file=None)
    request: Any = SimpleNamespace(
        suite_name="s", suite=suite(OFF, ON, **keys), options=options, may_skip=False, job=job
    )
    planned = planned_on(machine(), request)
    assert bool(planned.chosen.looks) is looks
    if last is not None:
        assert 1 + max(trial.replicate for trial in planned.chosen.trials) == last
    if job is not None:
        assert {trial.cache_generation % 2 for trial in planned.whole.trials} == {0}
    assert (planned.skipped, math.isfinite(len(planned.whole.trials))) == ({}, True)
