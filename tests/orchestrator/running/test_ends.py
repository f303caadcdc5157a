"""How a launch ends whose Ray or results are lost on the way."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from datetime import date
from pathlib import Path
from time import monotonic, sleep

import pytest
from rich.console import Console

from cudnn_sweep.analysis.store.store import Store, open_store
from cudnn_sweep.cluster.launch_file import no_launch_file
from cudnn_sweep.orchestrator.errors import UnfinishedError
from cudnn_sweep.orchestrator.exit_codes import ExitCode
from cudnn_sweep.orchestrator.freezing.freeze import freeze
from cudnn_sweep.orchestrator.gating.bisect import bisect
from cudnn_sweep.orchestrator.gating.gate import gate
from cudnn_sweep.orchestrator.planning.options import LaunchOptions
from cudnn_sweep.orchestrator.planning.request import SweepRequest, request_of
from cudnn_sweep.orchestrator.planning.session import Session, session_of
from cudnn_sweep.orchestrator.planning.spec import LAUNCH_FILE, SweepSpec
from cudnn_sweep.orchestrator.recording.recorder import Progress
from cudnn_sweep.orchestrator.running import this_machine
from cudnn_sweep.orchestrator.running.run_sweep import (
    END_S,
    RunSession,
    _limited,
    plan_sweep,
    run_sweep,
)
from cudnn_sweep.orchestrator.steps.advising import advise
from cudnn_sweep.orchestrator.steps.step_options import (
    AdviseOptions,
    BisectOptions,
    FreezeOptions,
    GateOptions,
)
from cudnn_sweep.workloads.cells.suite import CellAxes, SuiteSpec
from cudnn_sweep.workloads.survey import Survey
from tests.fake_machine import FakeMachine, FakeScript
from tests.makers import MakePlan
from tests.orchestrator.freezing.fake_probe import FakeProbe


class Lost(FakeMachine):
    """When its trials have run, or as many as its time allows, something is lost."""

    def lose(self, store: Store) -> None:
        raise UnfinishedError("the recorder is gone: launch again to resume")

    @contextmanager
    def opened(self, store: Store, machine: Survey, console: Console) -> Iterator[RunSession]:
        with FakeMachine.opened(self, store, machine, console) as run:

            def cut(session: Session, budget_s: float | None, /) -> Progress:
                progress = run(session, budget_s)
                self.lose(store)
                return progress

            yield cut


class ResultsLost(Lost):
    def lose(self, store: Store) -> None:
        shutil.rmtree(store.location)
        Path(store.location).write_text("no folder any more")


class DiskFull(FakeMachine):
    """It stops the sweep before the first block is recorded."""

    @contextmanager
    def opened(self, store: Store, machine: Survey, console: Console) -> Iterator[RunSession]:
        yield lambda session, budget_s: Progress(stopped="the disk is full")


@pytest.fixture
def request_for(tmp_path: Path) -> Callable[[float | None], SweepRequest]:
    def make(minutes: float | None) -> SweepRequest:
        suite = tmp_path / "suite.yaml"
        suite.write_text("{cells: [{workload: conv, problem: tutorials/rgb224}], replicates: 4}")
        options = LaunchOptions(
            file=None, suite=str(suite), results=str(tmp_path / "results"), minutes=minutes
        )
        return request_of(no_launch_file(LAUNCH_FILE, SweepSpec), options)

    return make


def _machine(kind: type[FakeMachine]) -> FakeMachine:
    return kind(script=FakeScript(trial_s=10.0), night=date(2026, 1, 1))


def test_a_ray_that_is_lost_after_the_last_record_leaves_a_complete_sweep(
    request_for: Callable[[float | None], SweepRequest],
) -> None:
    machine, told = _machine(Lost), Console(record=True, width=120)
    ran = run_sweep(plan_sweep(request_for(None), machine), machine, told)
    assert ran.exit_code == ExitCode.FINE
    assert "Ray ended early, but every trial was recorded." in told.export_text()


def test_a_ray_that_is_lost_before_is_told_as_it_was(
    request_for: Callable[[float | None], SweepRequest], tmp_path: Path
) -> None:
    machine = _machine(Lost)
    with pytest.raises(UnfinishedError, match="the recorder is gone: launch again to resume"):
        run_sweep(plan_sweep(request_for(0.5), machine), machine, Console(quiet=True))
    assert open_store(str(tmp_path / "results")).snapshot().table(["trial_id"]).num_rows


@pytest.mark.parametrize(("share", "reached"), [(0.4, 1), (1.5, 3)])
def test_a_launch_goes_cell_by_cell_if_its_limit_leaves_no_time_for_a_look_at_each(
    plan_of: MakePlan, tmp_path: Path, share: float, reached: int
) -> None:
    plan = replace(plan_of("noop", replicates=5, batch=[1, 2, 3]), looks=(3, 5))
    needed_s = plan.first_look().estimated_s(1, gpu=False)
    request = SweepRequest(
        options=LaunchOptions(),
        suite_name="noop",
        suite=SuiteSpec(cells=[CellAxes(workload="noop")]),
        results=str(tmp_path),
        budget_minutes=(END_S + share * needed_s) / 60,
        launched_at=monotonic(),
    )
    out = Console(record=True, width=120)
    limited = _limited(session_of(plan, "limited", tmp_path), request, 0, out)
    assert f"a first verdict in {reached} of 3 cells" in out.export_text()
    assert limited.cell_by_cell == (reached < 3)


def test_results_that_are_lost_on_the_way_leave_an_unfinished_sweep(
    request_for: Callable[[float | None], SweepRequest],
) -> None:
    """Exit code 2 says that nothing was started."""
    machine = _machine(ResultsLost)
    with pytest.raises(UnfinishedError, match="results became unreadable: .*launch again to"):
        run_sweep(plan_sweep(request_for(None), machine), machine, Console(quiet=True))


@pytest.mark.slow
@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    "command",
    [
        "advise",
        *(pytest.param(name, marks=pytest.mark.long) for name in ("freeze", "gate", "bisect")),
    ],
)
def test_command_that_was_stopped_before_it_could_decide_is_unfinished(command: str) -> None:
    machine, quiet = _machine(DiskFull), Console(quiet=True)
    workload = "batch_norm"
    for side in ("a", "b"):
        python = Path(side, "bin/python")
        python.parent.mkdir(parents=True)
        python.touch(mode=0o755)
    suite = SuiteSpec(cells=[CellAxes(workload=workload)])
    probe = FakeProbe(operations=[{"ConvFwd_eng1": 2.0, "ConvFwd_eng2": 1.0}])
    commands: dict[str, Callable[[], object]] = {
        "advise": lambda: advise(AdviseOptions(workload=workload), quiet, machine),
        "freeze": lambda: freeze(
            FreezeOptions(workload=workload), quiet, machine, lambda *_: nullcontext(probe)
        ),
        "gate": lambda: gate(GateOptions(base="a", head="b", workload=workload), quiet, machine),
        "bisect": lambda: bisect(
            BisectOptions(workload=workload, pythons="a,b"),
            quiet,
            machine,
            lambda *_: machine.look(suite),
        ),
    }
    with pytest.raises(UnfinishedError, match="stopped: the disk is full; run the command again"):
        commands[command]()


def test_an_import_that_hangs_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(this_machine, "PATIENCE_S", 0.01)
    for own in ("hangs.py:Net", ""):
        with this_machine._warning_of_a_wait(own):
            sleep(0.3)
    assert capsys.readouterr().err == "Still importing hangs.py:Net, for 120 s at most.\n"
