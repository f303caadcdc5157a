"""What a launch says at its end, gathered from a store before anything is printed: counts, verdicts, GPUs that are off."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args
from unittest.mock import create_autospec

import pytest
from rich.console import Console

from cudnn_sweep.analysis.report.payload import WARNINGS
from cudnn_sweep.analysis.store.store import Store, open_store
from cudnn_sweep.orchestrator.exit_codes import ExitCode
from cudnn_sweep.orchestrator.planning.decided import contrasts_of
from cudnn_sweep.orchestrator.planning.options import LaunchOptions
from cudnn_sweep.orchestrator.planning.plan import Plan, Trial
from cudnn_sweep.orchestrator.planning.session import session_of
from cudnn_sweep.orchestrator.process.protocol import Status
from cudnn_sweep.orchestrator.recording.recorder import (
    Failure,
    Hopeless,
    Progress,
    cause,
    configs_to_fail,
)
from cudnn_sweep.orchestrator.running.run_sweep import OpenSweep, Place
from cudnn_sweep.orchestrator.terminal.summary import (
    RESEMBLING,
    Summary,
    _cause_lines,
    device_text,
    print_summary,
    slow_gpu_lines,
)
from cudnn_sweep.workloads.hardware.environment import Environment
from cudnn_sweep.workloads.warnings import ADVICE, WarningName
from tests.makers import MakePlan, RecordOf


class Night:
    """A sweep of a plan, of which some trials are stored."""

    def __init__(
        self, store: Store, plan: Plan, record_of: RecordOf, environment: Environment
    ) -> None:
        self.store, self.plan = store, plan
        session = session_of(plan, "night", Path(store.location))
        self.session = replace(session, contrasts=contrasts_of(plan.configs()))
        self._record_of, self._environment = record_of, environment

    def write(self, *trials: Trial, slot: str = "s", status: Status = "ok", **columns: Any) -> None:
        for trial in trials:
            record = self._record_of(self.session, trial, slot=slot, status=status)
            self.store.write(replace(record, **columns))

    def summary(self) -> Summary:
        return Summary(store=self.store, session=self.session, progress=Progress())


@pytest.fixture
def night(store: Store, plan: Plan, record_of: RecordOf, environment: Environment) -> Night:
    return Night(store, plan, record_of, environment)


@pytest.mark.parametrize(
    ("launch_bound", "text"),
    [(None, "0.959 helps"), (False, "0.959 helps"), (True, "0.959 helps *")],
)
def test_device_time_has_a_star_only_if_the_loop_is_known_to_be_cpu_bound(
    launch_bound: bool | None, text: str
) -> None:
    verdict: Any = SimpleNamespace(
        device_ratio=0.959, device_verdict="helps", launch_bound=launch_bound
    )
    assert device_text(verdict) == text


@pytest.mark.slow
def test_summary_counts_what_is_recorded_by_status_and_warning(night: Night) -> None:
    hot, failed, *others = night.plan.trials
    assert list(night.summary().counted()) == ["\nSweep night: 0 of 7 trials recorded."]
    assert not list(night.summary().warned())
    night.write(hot, warnings=["throttled"])
    night.write(failed, status="crash")
    unfinished = night.summary()
    assert unfinished.statuses == {"ok": 1, "crash": 1} and not unfinished.is_complete
    told = next(unfinished.counted())
    assert told == "\nSweep night: 2 of 7 trials recorded (1 crash, 1 ok)."
    assert list(unfinished.warned()) == [f"1 of 2 trials: throttled: {ADVICE['throttled']}"]
    night.write(*others)
    assert night.summary().is_complete


def test_summary_warns_of_blocks_that_resemble_the_ones_before(
    store: Store, plan_of: MakePlan, record_of: RecordOf, environment: Environment
) -> None:
    night = Night(store, plan_of("noop", replicates=10), record_of, environment)
    for trial in night.plan.trials:
        drift = 1 + trial.config.benchmark * trial.replicate / 100
        night.write(trial, steady_wall_ms=drift, loop_kind="closed")
    assert list(night.summary().warned()) == [RESEMBLING]


def test_summary_says_which_blocks_no_verdict_rests_on(night: Night) -> None:
    first, *others, _last = night.plan.trials  # of the first block on another slot, the last cut
    night.write(first, slot="b", steady_wall_ms=1.0)
    night.write(*others, slot="a", steady_wall_ms=1.0)
    summary = night.summary()
    assert list(summary.undecided()) == [
        "benchmark: false → true: 1 of 1 cell decided (cannot have an effect in 1)."
    ]
    said = "\n".join(summary.counted())
    for told in (
        "Split over GPUs or launches: 1 of 3 blocks (33.3%); 0 of them were repeated as a whole.",
        "1 block left out because the two trials ran on two GPUs or in two launches.",
        "1 block left out because one of the two trials failed or is missing.",
    ):
        assert told in said


def test_a_cell_without_an_ok_trial_is_no_success(night: Night, record_of: RecordOf) -> None:
    session, store = night.session, night.store
    hopeless = Hopeless(configs_to_fail(session))
    for trial in night.plan.trials:
        if trial.cell.cell_id not in hopeless.cells:
            hopeless.note(record_of(session, trial, status="error"))
            night.write(trial, status="error")
    progress = Progress(hopeless=dict(hopeless.cells))
    recorded = len(store.stored_trials("night"))
    assert 4 <= recorded < len(night.plan.trials), "both configs twice, and no more"
    place, quiet = create_autospec(Place), Console(quiet=True)
    sweep = OpenSweep(session=session, store=store, whole=night.plan, place=place, console=quiet)
    assert sweep.ended(Progress()).exit_code == ExitCode.UNFINISHED
    assert sweep.ended(progress).exit_code == ExitCode.DOES_NOT_RUN
    night.write(night.plan.trials[-1])
    assert sweep.ended(progress).exit_code == ExitCode.FINE, "one trial of it is ok"


@pytest.mark.parametrize("status", ["out_of_memory", "crash", "killed", "timeout", "ok"])
def test_what_is_a_result_gives_no_cell_up(
    night: Night, record_of: RecordOf, status: Status
) -> None:
    first, *others = night.plan.trials
    hopeless = Hopeless(configs_to_fail(night.session))
    hopeless.note(record_of(night.session, first, status=status))
    for trial in others:
        later = record_of(night.session, trial, status="error" if status == "ok" else status)
        hopeless.note(later)
    assert not hopeless.cells


def test_a_cause_is_an_exception_and_its_place() -> None:
    one, other = (f"RuntimeError: found {n} (net.py:4 in forward)" for n in (29, 30))
    assert cause("error", one) == cause("error", other) != cause("error", "found 29")


def test_a_report_counts_every_warning_that_telemetry_may_give() -> None:
    assert set(WARNINGS) == set(get_args(WarningName))


@pytest.mark.slow
@pytest.mark.parametrize("status", [pytest.param("error", marks=pytest.mark.long), "ok"])
def test_where_nothing_was_measured_only_its_failures_are_to_be_asked_for(
    night: Night, status: Status
) -> None:
    night.write(*night.plan.trials, status=status)
    console, options = Console(record=True, width=120), LaunchOptions(file=None)
    print_summary(console, night.summary(), night.store.location, options)
    following = console.export_text().partition("Next:")[2]
    assert ("sweep query failures" in following) == (status != "ok")
    for offered in ("query helps_or_hurts", "query break_even", "sweep report"):
        assert (offered in following) == (status == "ok")


def slow_lines(folder: Path, plan: Plan, record_of: RecordOf, gbps: list[float]) -> list[str]:
    """Of a sweep on as many GPUs of one model, four trials each, with these speeds of the copy."""
    store, session = open_store(str(folder)), session_of(plan, "night", folder)
    for number, trial in enumerate(plan.trials):
        gpu = number % len(gbps)
        there = replace(
            record_of(session, trial, slot=f"GPU-{gpu}"),
            device="cuda",
            gpu="NVIDIA H200",
            gpu_uuid=f"GPU-{gpu}",
            host=f"node-{gpu}",
            calibration_copy_gbps=gbps[gpu],
            calibration_matmul_tflops=gbps[gpu] / 8,
        )
        store.write(there)
    return list(slow_gpu_lines(store, "night"))


def test_slow_gpu_is_named_with_what_to_do(
    tmp_path: Path, plan_of: MakePlan, record_of: RecordOf
) -> None:
    (line,) = slow_lines(tmp_path, plan_of("noop", replicates=7), record_of, [4000, 4000, 3600])
    assert line.startswith(
        "GPU-2 on node-2: copy 10.0% slower, matmul tf32 10.0% slower than its 2 peers (NVIDIA H200): "
    )
    assert "nvidia-smi -q -i UUID" in line and "CUDA_VISIBLE_DEVICES" in line


@pytest.mark.slow
@pytest.mark.parametrize(
    "causes", [*(pytest.param(n, marks=pytest.mark.long) for n in (1, 5, 6)), 7]
)
def test_the_first_five_causes_are_shown_each_with_the_command_of_one_trial(
    night: Night, causes: int
) -> None:
    trials = night.plan.trials
    failures = [
        Failure(trial_id=trials[number].trial_id, status="crash", message=f"cause {number}")
        for number in [*range(causes), 0]
    ]
    night.write(*trials[:causes], status="crash")
    progress = Progress(failures=failures, lost=2, repeated=1, reasons=["disk full"])
    summary = replace(night.summary(), progress=progress)
    console, options = Console(record=True, width=300), LaunchOptions(file=None)
    print_summary(console, summary, night.store.location, options)
    lines = console.export_text().splitlines()
    assert "The worker died in 2 attempts. 1 records came twice." in lines
    told = [line for line in lines if line.startswith("crash in ")]
    assert told[0] == "crash in 2 trials of 1 cell: cause 0"
    assert told[1:] == [
        f"crash in 1 trial of 1 cell: cause {number}" for number in range(1, min(causes, 5))
    ]
    again = [line for line in lines if line.endswith("--retry-failed")]
    assert len(again) == len(told)
    assert all(each.trial_id in "".join(again) for each in failures[: min(causes, 5)])
    more = [line for line in lines if line.startswith("and ")]
    assert bool(more) == (causes > 5)
    assert not more or f"and {causes - 5} cause{'s' * (causes > 6)} more: " in more[0]
    assert "a worker gave up a trial: disk full" in lines


def test_three_cells_of_a_cause_are_named() -> None:
    failures = [
        Failure(trial_id=trial_id, status="crash", message="cause")
        for trial_id in ("a", "b", "c", "d")
    ]
    trials = [
        SimpleNamespace(
            trial_id=each.trial_id, cell=SimpleNamespace(cell_id=f"cell {each.trial_id}")
        )
        for each in failures
    ]
    of_cells = {trial.cell.cell_id: trial.cell.cell_id for trial in trials}
    session = SimpleNamespace(own=SimpleNamespace(trials=trials))
    summary: Any = SimpleNamespace(session=session, names=of_cells)
    head, three = _cause_lines(summary, failures[:3])
    assert head == "\ncrash in 3 trials of 3 cells: cause"
    assert three == "  cell a, cell b, cell c"
    _, four = _cause_lines(summary, failures)
    assert four == "  cell a, cell b, cell c, ..."
    again = [*failures[:1], *failures[:1]]
    head, one = _cause_lines(summary, again)
    assert head == "\ncrash in 2 trials of 1 cell: cause" and one == "  cell a"
