"""What a launch says at its end, gathered from a store before anything is printed."""

from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from rich.console import Console

from cudnn_sweep.analysis.report.payload import WARNINGS
from cudnn_sweep.analysis.storing.store import Store, open_store
from cudnn_sweep.orchestrator.planning.contrasts import contrasts_of
from cudnn_sweep.orchestrator.planning.options import LaunchOptions
from cudnn_sweep.orchestrator.planning.plan import Plan
from cudnn_sweep.orchestrator.planning.session import session_of
from cudnn_sweep.orchestrator.planning.sweep_selection import SweepSelection, choose_sweep
from cudnn_sweep.orchestrator.process.protocol import Status
from cudnn_sweep.orchestrator.recording.hopeless import Hopeless, cause, configs_to_fail
from cudnn_sweep.orchestrator.recording.progress import Progress
from cudnn_sweep.orchestrator.running.run_sweep import CELL_FAILED, DONE, UNFINISHED, end_of
from cudnn_sweep.orchestrator.showing.summary import Summary, print_summary
from cudnn_sweep.workloads.hardware.environment import Environment
from cudnn_sweep.workloads.warnings import ADVICE, WarningName
from tests.makers import MakePlan, RecordOf


def summary_of(store: Store, plan: Plan, environment: Environment) -> Summary:
    choice = choose_sweep(store, plan, plan, environment, SweepSelection(sweep_id="night"))
    session = replace(
        session_of(plan, "night", Path(store.location)), contrasts=contrasts_of(plan.configs())
    )
    return Summary.of(store, choice, session, Progress())


def test_summary_counts_what_is_recorded_by_status_and_warning(
    tmp_path: Path, plan_of: MakePlan, record_of: RecordOf, environment: Environment
) -> None:
    store, plan = open_store(str(tmp_path)), plan_of("noop", replicates=3)
    session = session_of(plan, "night", tmp_path)
    hot, failed, *others = plan.trials
    store.write(replace(record_of(session, hot), warnings=["throttled"]))
    store.write(record_of(session, failed, status="crash"))
    unfinished = summary_of(store, plan, environment)
    assert unfinished.statuses == {"ok": 1, "crash": 1} and not unfinished.is_complete
    assert next(unfinished.counted()) == (
        f"\nSweep night: 2 of {len(plan.trials)} trials recorded (1 crash, 1 ok)."
    )
    assert list(unfinished.warned()) == [f"1 of 2 trials: throttled: {ADVICE['throttled']}"]
    for trial in others:
        store.write(record_of(session, trial))
    assert summary_of(store, plan, environment).is_complete


def test_summary_says_which_blocks_no_verdict_rests_on(
    tmp_path: Path, plan_of: MakePlan, record_of: RecordOf, environment: Environment
) -> None:
    store, plan = open_store(str(tmp_path)), plan_of("noop", replicates=3)
    session = session_of(plan, "night", tmp_path)
    for number, trial in enumerate(plan.trials[:-1]):  # the first block on two slots, the last cut
        slot = "a" if number else "b"
        store.write(replace(record_of(session, trial, slot=slot), steady_wall_ms=1.0))
    summary = summary_of(store, plan, environment)
    assert list(summary.undecided()) == [
        "benchmark: false → true: 1 of 1 cell decided (cannot have an effect in 1)."
    ]
    said = "\n".join(summary.counted())
    assert (
        "Split over GPUs or launches: 1 of 3 blocks (33.3%); 0 of them were repeated as a whole."
        in said
    )
    assert "1 blocks that were split over GPUs or interrupted, 0 on a throttled or shared" in said
    assert "1 that lack a trial." in said


def test_a_cell_without_an_ok_trial_is_no_success(
    tmp_path: Path, plan_of: MakePlan, record_of: RecordOf, environment: Environment
) -> None:
    store, plan = open_store(str(tmp_path)), plan_of("noop", replicates=3)
    session = session_of(plan, "night", tmp_path)
    choice = choose_sweep(store, plan, plan, environment, SweepSelection(sweep_id="night"))
    progress = Progress()
    hopeless = Hopeless(configs_to_fail(session))
    for trial in plan.trials:
        if trial.cell.cell_id not in hopeless.cells:
            record = record_of(session, trial, status="error")
            hopeless.note(record)
            store.write(record)
    progress.hopeless = dict(hopeless.cells)
    recorded = len(store.stored_trials("night"))
    assert 4 <= recorded < len(plan.trials), "both configs twice, and no more"
    assert end_of(choice, session, store, Progress()) == UNFINISHED
    assert end_of(choice, session, store, progress) == CELL_FAILED
    store.write(record_of(session, plan.trials[-1]))
    assert end_of(choice, session, store, progress) == DONE, "one trial of it is ok"


@pytest.mark.parametrize("status", ["out_of_memory", "crash", "killed", "timeout", "ok"])
def test_what_is_a_result_gives_no_cell_up(
    tmp_path: Path, plan_of: MakePlan, record_of: RecordOf, status: Status
) -> None:
    plan = plan_of("noop", replicates=3)
    session = session_of(plan, "night", tmp_path)
    hopeless = Hopeless(configs_to_fail(session))
    hopeless.note(record_of(session, plan.trials[0], status=status))
    for trial in plan.trials[1:]:
        hopeless.note(record_of(session, trial, status="error" if status == "ok" else status))
    assert not hopeless.cells


def test_a_cause_is_an_exception_and_its_place() -> None:
    one, other = (f"RuntimeError: found {n} (net.py:4 in forward)" for n in (29, 30))
    assert cause("error", one) == cause("error", other) != cause("error", "found 29")


def test_a_report_counts_every_warning_that_telemetry_may_give() -> None:
    assert set(WARNINGS) == set(get_args(WarningName))


@pytest.mark.parametrize("status", ["error", "ok"])
def test_where_nothing_was_measured_only_its_failures_are_to_be_asked_for(
    tmp_path: Path, plan_of: MakePlan, record_of: RecordOf, environment: Environment, status: Status
) -> None:
    store, plan = open_store(str(tmp_path)), plan_of("noop")
    for trial in plan.trials:
        store.write(record_of(session_of(plan, "night", tmp_path), trial, status=status))
    console, options = Console(record=True, width=120), LaunchOptions(file=None)
    print_summary(console, summary_of(store, plan, environment), str(tmp_path), options)
    following = console.export_text().partition("Next:")[2]
    assert ("sweep query failures" in following) == (status != "ok")
    for offered in ("query helps_or_hurts", "query break_even", "sweep report"):
        assert (offered in following) == (status == "ok")


def test_nothing_recorded_is_no_reason_to_say_where_the_time_went(
    tmp_path: Path, plan_of: MakePlan, environment: Environment
) -> None:
    plan = plan_of("noop")
    summary = summary_of(open_store(str(tmp_path)), plan, environment)
    assert list(summary.counted()) == [f"\nSweep night: 0 of {len(plan.trials)} trials recorded."]
    assert not list(summary.warned())
