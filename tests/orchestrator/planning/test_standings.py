"""Which cells and configs get a further block, which trials a plan keeps, and whose nights a sweep's are."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cudnn_sweep.analysis.results.advice import Advice
from cudnn_sweep.analysis.results.contrast import RACE
from cudnn_sweep.analysis.results.verdicts import ContrastState, RaceState
from cudnn_sweep.orchestrator.errors import ModelError, SpecError
from cudnn_sweep.orchestrator.planning import decided
from cudnn_sweep.orchestrator.planning.decided import (
    HOPELESS,
    OPEN,
    OUT,
    Standing,
    contrasts_in,
    contrasts_of,
    is_over,
    name_of,
    standings,
    standings_text,
    stopped_cells,
)
from cudnn_sweep.orchestrator.planning.options import LaunchOptions, read_replicates
from cudnn_sweep.orchestrator.planning.plan import (
    first_blocks,
    narrow,
    with_alternate_caches,
)
from cudnn_sweep.orchestrator.planning.session import Job, modules_to_preload, session_of
from cudnn_sweep.orchestrator.planning.spec import INLINE, cells_named, is_night_of, is_of
from cudnn_sweep.workloads.cells.config import Config
from cudnn_sweep.workloads.cells.suite import SuiteSpec
from cudnn_sweep.workloads.errors import CellsError, UserCodeError
from tests.makers import MakePlan

DECIDED = "hurts"


def state(of: str = OPEN, **changes: Any) -> Any:
    """Return a contrast's state in a cell with three blocks of 2 s."""
    usual = {"recorded_blocks": 3, "at_most": 8, "blocks_needed": None, "block_s": 2.0}
    return SimpleNamespace(state=of, **usual | {"other_settings": ""} | changes)


def standing(*states: Any, stays: str = "") -> Standing:
    return Standing(states=states, stays=stays)


@pytest.mark.parametrize(
    ("states", "is_open", "is_decided", "is_out_of_reach"),
    [
        ([OPEN], True, False, False),
        ([DECIDED], False, True, False),
        ([HOPELESS], False, False, True),
        ([OPEN, DECIDED], True, False, False),
        ([OPEN, HOPELESS], True, False, False),
        ([HOPELESS, DECIDED], False, False, True),
        ([DECIDED, OUT], False, True, False),
    ],
)
def test_a_cell_is_open_decided_or_out_of_reach(
    states: Sequence[str], is_open: bool, is_decided: bool, is_out_of_reach: bool
) -> None:
    cell = standing(*map(state, states))
    assert cell.is_open is is_open
    assert cell.is_decided is is_decided
    assert cell.is_out_of_reach is is_out_of_reach


def test_a_config_that_lost_a_race_holds_nothing_up_and_the_one_compared_with_stays_in() -> None:
    lost, left = state(OUT, other_settings="lost", recorded_blocks=1, block_s=99.0), state()
    assert standing(lost, left).out == {"lost"}
    assert standing(lost, left, stays="lost").out == frozenset()
    assert standing(lost, left).recorded_blocks == 3
    assert standing(left, state(recorded_blocks=2)).recorded_blocks == 2
    assert standing(lost).recorded_blocks == 1, "of those that are there, if all lost"
    assert standing(lost, left).seconds_to_decide == 10.0


@pytest.mark.parametrize(
    ("states", "seconds"),
    [
        ([{"blocks_needed": 4}], 8.0),
        ([{}], 10.0),
        ([{"at_most": None}], -6.0),
        ([{"blocks_needed": 4}, {"blocks_needed": 1}], 8.0),
    ],
)
def test_a_cell_takes_as_long_as_the_contrast_that_needs_most(
    states: Sequence[dict[str, Any]], seconds: float
) -> None:
    assert standing(*(state(**of) for of in states)).seconds_to_decide == seconds


def test_the_display_counts_decided_cells_and_those_out_of_reach() -> None:
    cells = {"a": standing(state(DECIDED)), "b": standing(state(OPEN))}
    assert standings_text(cells, 3) == "1 of 3 cells decided"
    hopeless = cells | {"c": standing(state(HOPELESS))}
    assert standings_text(hopeless, 3) == "1 of 3 cells decided, 1 left undecided"


@pytest.mark.parametrize(
    ("states", "over"),
    [([DECIDED, HOPELESS], True), ([DECIDED, OPEN], False), ([DECIDED], False), ([], False)],
)
def test_a_sweep_is_over_if_each_of_its_cells_has_records_and_gets_no_block(
    plan_of: MakePlan, monkeypatch: pytest.MonkeyPatch, states: Sequence[str], over: bool
) -> None:
    plan = plan_of("noop", batch=[1, 2])
    cells = dict(zip(plan.cell_ids(), (standing(state(of)) for of in states), strict=False))
    monkeypatch.setattr(decided, "_tested", lambda *_: ())
    monkeypatch.setattr(decided, "_by_cell", lambda _: cells)
    store: Any = None
    assert is_over(store, "", plan, ()) is over


@pytest.mark.parametrize(
    ("of_row", "expected"),
    [
        ({}, OPEN),
        ({"recorded_blocks": 8}, HOPELESS),
        ({"recorded_blocks": 7}, OPEN),
        ({"at_most": None, "recorded_blocks": 99}, OPEN),
        ({"settled": True}, "on"),
        ({"asked": False}, None),
    ],
)
def test_a_job_is_open_until_its_advice_is_settled_or_its_last_block_ran(
    monkeypatch: pytest.MonkeyPatch, of_row: dict[str, Any], expected: str | None
) -> None:
    usual = {"asked": True, "settled": False, "advice": "on", "cell_id": "a", "contrast": "c"}
    row = SimpleNamespace(**vars(state()) | usual | of_row)
    monkeypatch.setattr(Advice, "of", lambda *_, **__: [row])
    contrast, store = SimpleNamespace(values=dict), SimpleNamespace()
    contrasts: Any = [contrast]
    any_store: Any = store
    states = list(decided._advised(any_store, "", contrasts, Job()))
    assert [of.state for of in states] == ([] if expected is None else [expected])


@pytest.mark.parametrize(
    ("job", "is_race", "asked", "stays"),
    [
        (None, False, "tested", ""),
        (None, True, "tested", ""),
        (Job(), False, "advised", ""),
        (Job(), True, "tested", name_of(Config())),
    ],
)
def test_advice_decides_the_cells_of_a_job_and_a_race_keeps_what_it_is_compared_with(
    plan_of: MakePlan,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    job: Job | None,
    is_race: bool,
    asked: str,
    stays: str,
) -> None:
    plan = replace(plan_of("noop"), is_race=is_race)
    session = replace(session_of(plan, "s", tmp_path), job=job, looks=(3,))
    for name in ("tested", "advised"):
        states = [state(cell_id=name, contrast="c"), state(DECIDED, cell_id="other", contrast="c")]
        monkeypatch.setattr(decided, f"_{name}", lambda *_, found=states, **__: found)
    store: Any = None
    found = standings(store, session)
    assert {*found} == {asked, "other"}
    assert {each.stays for each in found.values()} == {stays}
    assert stopped_cells(store, session) == {"other"}
    assert stopped_cells(store, replace(session, looks=())) == set()


def test_a_cell_has_each_contrasts_first_state() -> None:
    first, again = state(DECIDED, cell_id="a", contrast="c"), state(cell_id="a", contrast="c")
    other = state(cell_id="a", contrast="c", other_settings="layout")
    found = decided._by_cell([first, again, other, state(cell_id="b", contrast="c")])
    assert list(found["a"].states) == [first, other]
    assert {*found} == {"a", "b"}


@pytest.mark.parametrize(
    ("configs", "is_race", "contrasts"),
    [
        ((Config(),), True, 0),
        ((Config(), Config(benchmark=True)), True, 1),
        ((Config(),), False, 0),
        ((Config(), Config(benchmark=True)), False, 1),
        ((Config(), Config(benchmark=True), Config(deterministic=True)), False, 2),
        ((Config(), Config(benchmark=True), Config(deterministic=True)), True, 1),
    ],
)
def test_a_race_is_one_contrast_and_other_plans_have_one_for_each_pair_that_differs_in_one_field(
    plan_of: MakePlan, configs: tuple[Config, ...], is_race: bool, contrasts: int
) -> None:
    plan = replace(plan_of("noop", configs=configs), is_race=is_race)
    assert len(contrasts_in(plan)) == contrasts
    assert (RACE in contrasts_in(plan)) == (is_race and contrasts > 0)
    alone = plan_of("noop", configs=configs[:1], batch=7).trials
    beside = replace(plan, trials=(*plan.trials, *alone))
    assert len(contrasts_in(beside)) == contrasts, "a cell of one config has none"


def test_a_contrast_is_tested_once_for_each_config_with_its_baseline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Any] = []

    def states(*_: object, **of: Any) -> list[str]:
        asked.append(of)
        return ["state"]

    monkeypatch.setattr(ContrastState, "of", states)
    monkeypatch.setattr(RaceState, "of", lambda *_, **__: ["race"])
    configs = [Config(), Config(deterministic=True), Config(benchmark=True)]
    benchmark, store = contrasts_of([configs[0], configs[2]]), SimpleNamespace()
    any_store: Any = store
    assert list(decided._tested(any_store, "s", benchmark, configs, 4, one_sided=True)) == ["state"]
    assert [(of["of_cells"], of["one_sided"]) for of in asked] == [(8, True)]
    race: Any = [*benchmark, RACE]
    assert list(decided._tested(any_store, "s", race, configs, 4)) == ["race"]
    assert len(asked) == 1


def test_a_job_that_starts_warm_needs_two_blocks() -> None:
    assert Job(state="warm").blocks_owed == 2
    assert Job(state="container").blocks_owed == 1


def test_a_new_compute_cache_begins_in_each_even_block(plan_of: MakePlan) -> None:
    plan = with_alternate_caches(plan_of("noop", replicates=4))
    found = {trial.replicate: trial.cache_generation for trial in plan.trials}
    assert found == {0: 0, 1: 0, 2: 2, 3: 2}


def test_the_first_blocks_of_a_plan_or_all_if_none_is_left(plan_of: MakePlan) -> None:
    plan = plan_of("noop", replicates=3)
    assert {trial.replicate for trial in first_blocks(plan, 2).trials} == {0, 1}
    assert first_blocks(plan, 0) == plan


def test_a_plan_of_whole_cells_keeps_its_looks(plan_of: MakePlan) -> None:
    plan = replace(plan_of("noop", replicates=5, batch=[1, 2]), looks=(3, 5))
    cell_id = plan.trials[0].cell.cell_id
    assert narrow(plan, [("cell_id", cell_id)]).looks == (3, 5)
    assert narrow(plan, [("benchmark", "true")]).looks == ()


def test_what_leaves_no_trial_names_up_to_twelve_values(plan_of: MakePlan) -> None:
    plan = plan_of("noop", batch=list(range(1, 15)))
    with pytest.raises(SpecError, match=r"matches no trial.*; found: ") as raised:
        narrow(plan, [("cell_id", "99")])
    assert len(str(raised.value).partition("found: ")[2].split(", ")) == 12


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"resume": "s"}, None),
        ({"resume": "s", "new": True}, "--resume and --new cannot be combined"),
        ({"new": True, "sweep_id": "s"}, "--new and --sweep-id cannot be combined"),
        ({"shard": "1/2"}, "--shard needs --sweep-id ID"),
        ({"shard": "1/2", "sweep_id": "s"}, None),
        ({"sweep_id": "a/b"}, "a/b"),
        ({"only": ("batch",)}, "--only: found 'batch', allowed: FIELD=VALUE"),
    ],
)
def test_options_that_exclude_or_need_each_other(
    options: dict[str, Any], message: str | None
) -> None:
    if message is None:
        LaunchOptions(**options).check()
        return
    with pytest.raises(Exception, match=message):
        LaunchOptions(**options).check()


def test_the_command_that_resumes_repeats_what_chose_the_trials_of_a_new_sweep() -> None:
    chosen = LaunchOptions(only=("batch=1",))
    assert "--only batch=1" in chosen.command()
    assert "--only" not in replace(chosen, resume="s").command()


@pytest.mark.parametrize(
    ("text", "at_most"), [("decided", None), ("decided:50", 50), ("best", None), ("best:8", 8)]
)
def test_blocks_until_decided_may_have_a_limit(text: str, at_most: int | None) -> None:
    until: Any = read_replicates(text)
    assert until.until == text.partition(":")[0]
    assert at_most is None or until.at_most == at_most


def test_other_numbers_of_blocks_are_refused_with_what_is_allowed() -> None:
    with pytest.raises(SpecError, match=r"found 'decided:1', allowed: .* MOST .* from 3 to 200$"):
        read_replicates("decided:1")
    assert read_replicates("8") == 8


@pytest.mark.parametrize(
    ("sweep_id", "is_launchs", "is_night"),
    [
        ("night-2026-03-01-lab", True, True),
        ("confirm-2026-03-01-lab", True, False),
        ("night-2026-03-01-other", False, False),
        ("night-2026-03-01-lab-2", False, False),
        ("own", False, False),
    ],
)
def test_a_night_is_of_the_launch_in_its_name(
    sweep_id: str, is_launchs: bool, is_night: bool
) -> None:
    assert (is_of(sweep_id, "lab"), is_night_of(sweep_id, "lab")) == (is_launchs, is_night)


def test_cells_whose_trials_all_failed_have_no_result(plan_of: MakePlan, tmp_path: Path) -> None:
    plan = plan_of("noop", batch=[1, 2, 3])
    session = session_of(plan, "s", tmp_path)
    good, bad, _ = sorted(plan.cell_ids())
    stored: Any = [
        SimpleNamespace(trial_id=trial.trial_id, status="ok" if cell == good else "error")
        for trial in plan.trials
        if (cell := trial.cell.cell_id) in (good, bad)
    ]
    assert session.cells_without_ok(stored) == {bad}
    assert session.cells_without_ok(stored[:1]) <= {bad}


def test_modules_to_preload_must_be_installed_if_the_launch_file_names_them() -> None:
    suite = SuiteSpec.model_construct(preload=("json", "no_such_module"))
    assert modules_to_preload(suite, ["csv"]) == ("json", "csv")
    with pytest.raises(SpecError, match="preload: no_such_module is not installed"):
        modules_to_preload(suite, ["no_such_module"])


@pytest.mark.parametrize(
    ("suite", "message"),
    [
        (INLINE, r"launch.yaml:4: metadata.sweep.cells\[1\]: no such problem"),
        ("quick", r"^suite quick: cells\[1\]: no such problem"),
        ("own.yaml", r"own.yaml:4: cells\[1\]: no such problem"),
        ("a model", r"^no such problem"),
    ],
)
def test_a_mistake_in_a_cell_has_the_file_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suite: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("launch.yaml").write_text(
        "metadata:\n  sweep:\n    cells: [{workload: noop},\n      {workload: conv}]\n"
    )
    Path("own.yaml").write_text("replicates: 1\ncells:\n  - workload: noop\n  - workload: conv\n")
    for cause, kind in ((None, SpecError), (UserCodeError("import"), ModelError)):
        named = cells_named(Path("launch.yaml"), suite)
        with pytest.raises(SpecError, match=message) as raised, named:
            raise CellsError(1, "no such problem") from cause
        assert raised.type is kind
