"""A model is called once before anything is measured: one that does not run leaves no sweep."""

import re
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
import torch
from rich.console import Console

from cudnn_sweep.analysis.store.store import open_store
from cudnn_sweep.cluster.errors import LaunchFileError
from cudnn_sweep.cluster.launch_file import no_launch_file
from cudnn_sweep.orchestrator.errors import ModelError, SpecError
from cudnn_sweep.orchestrator.exit_codes import ExitCode
from cudnn_sweep.orchestrator.planning.options import LaunchOptions
from cudnn_sweep.orchestrator.planning.plan import first_calls
from cudnn_sweep.orchestrator.planning.request import SweepRequest, request_of
from cudnn_sweep.orchestrator.planning.spec import LAUNCH_FILE, SweepSpec
from cudnn_sweep.orchestrator.process import client
from cudnn_sweep.orchestrator.process.client import ForkServer, call_models
from cudnn_sweep.orchestrator.running.run_sweep import plan_sweep, run_sweep
from cudnn_sweep.orchestrator.running.this_machine import ThisMachine
from cudnn_sweep.orchestrator.steps.one_step import suite_of
from cudnn_sweep.orchestrator.steps.step_options import AdviseOptions
from cudnn_sweep.workloads.cells.measurement import TrialRequest
from cudnn_sweep.workloads.survey import Survey
from cudnn_sweep.workloads.training.choice import Expect
from tests.fake_machine import FakeMachine, FakeScript
from tests.makers import MakePlan
from tests.orchestrator.typed import invoke
from tests.workloads.made_up_models import small

HERE = "tests.workloads.made_up_models"
CELLS = f"""
replicates: 2
cells:
- {{workload: ['{HERE}:Plain', '{HERE}:Integers'], input: 2x3x8x8, precision: [tf32, bf16]}}
- {{workload: 'cudnn_sweep.workloads.nets.unet:UNet', input: 2x1x16x16}}
- {{workload: mnist}}
"""


class Calling(FakeMachine):
    """Notes what it is to call."""

    called: list[str] = []  # noqa: RUF012  # of the class: its instances are frozen

    def call(self, trials: object, machine: Survey, console: Console) -> None:
        assert isinstance(trials, list)
        self.called.extend(f"{each.cell.workload} {each.config}" for each in trials)


def _request(folder: Path, **options: object) -> SweepRequest:
    (folder / "suite.yaml").write_text(CELLS)
    asked = LaunchOptions(suite=str(folder / "suite.yaml"), results=str(folder / "results"))
    return request_of(no_launch_file(LAUNCH_FILE, SweepSpec), replace(asked, **options))  # type: ignore[arg-type]


@pytest.mark.slow
def test_each_of_the_users_models_is_called_once_unless_all_is_recorded_or_it_is_a_night(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def called(request: SweepRequest) -> list[str]:
        Calling.called.clear()
        machine = Calling(script=FakeScript(), night=date(2026, 1, 1))
        run_sweep(plan_sweep(request, machine), machine, Console(quiet=True))
        return sorted(name.split()[0].partition(":")[2] for name in Calling.called)

    night = replace(_request(tmp_path, results=str(tmp_path / "night")), may_skip=True)
    assert called(night) == []
    only = _request(tmp_path, only=("workload=mnist",), results=str(tmp_path / "only"))
    assert called(only) == []
    launch = _request(tmp_path)
    assert called(launch) == ["Integers", "Plain"]
    store = open_store(launch.results)
    (sweep_id,) = store.sweep_ids()
    assert called(replace(launch, options=replace(launch.options, resume=sweep_id))) == []


def _requests(plan_of: MakePlan, name: str) -> list[TrialRequest]:
    return first_calls(plan_of(f"{HERE}:{name}", input="2x3x8x8"))


def test_call_of_a_model_says_how_it_fails(server: ForkServer, plan_of: MakePlan) -> None:
    ((text, is_warning),) = call_models(server, _requests(plan_of, "Plain"))
    assert not is_warning
    assert text.startswith(f"{HERE}:Plain at input 2x3x8x8 runs. A first rough timing: ")
    found = f"^{HERE}:Integers at input 2x3x8x8: loss mean_square needs floating-point"
    with pytest.raises(SpecError, match=found) as mistake:
        list(call_models(server, _requests(plan_of, "Integers")))
    assert not isinstance(mistake.value, ModelError)


def test_model_that_takes_long_is_measured_untried(
    server: ForkServer, plan_of: MakePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "CALL_TIMEOUT_S", 0.001)
    ((note, is_warning),) = call_models(server, _requests(plan_of, "Plain"))
    assert is_warning
    assert note.startswith(f"{HERE}:Plain at input 2x3x8x8 could not be called before measuring")
    assert "no result after 0.001 s" in note


@pytest.mark.slow
@pytest.mark.measuring
@pytest.mark.parametrize(
    "words",
    [
        ["advise", "nets.py:Net", "--input", "2x3x8x8"],
        pytest.param(["launch", "--suite", "suite.yaml"], marks=pytest.mark.long),
    ],
)
def test_model_that_fails_ends_a_command_before_a_sweep_is_opened(
    here: Path, words: list[str]
) -> None:
    (here / "nets.py").write_text(
        "from torch import nn\n"
        "class Net(nn.Conv2d):\n"
        "    def __init__(self): super().__init__(3, 4, 3)\n"
        "    def forward(self, x): raise ValueError('no')\n"
    )
    (here / "suite.yaml").write_text("cells: [{workload: 'nets.py:Net', input: 2x3x8x8}]")
    ran = invoke(words)
    assert ran.exit_code == ExitCode.DOES_NOT_RUN
    assert "nets.py:Net at input 2x3x8x8: ValueError: no (nets.py:4 in forward)" in ran.stderr
    assert not open_store("results").sweep_ids()


@pytest.mark.slow
@pytest.mark.measuring
def test_server_of_a_look_ends_once_it_has_called_or_its_place_is_gone(
    plan_of: MakePlan, tmp_path: Path
) -> None:
    place, request = ThisMachine(), _request(tmp_path)
    machine = place.look(request.suite)
    server = place._server
    assert server is not None and Path(f"/proc/{server.pid}").exists()
    place.call(_requests(plan_of, "Plain"), machine, Console(quiet=True))
    assert not Path(f"/proc/{server.pid}").exists()
    place.look(request.suite)
    server = place._server
    del place
    assert server is not None and not Path(f"/proc/{server.pid}").exists()


def test_model_with_other_counts_than_expected_is_refused_with_both(
    server: ForkServer, plan_of: MakePlan
) -> None:
    def called(expect: dict[str, int], **axes: object) -> list[str]:
        model = {"arguments": axes.pop("arguments", {}), "expect": expect}
        plan = plan_of(f"{HERE}:small", input="2x3x8x8", model=model, **axes)
        shown = call_models(server, first_calls(plan))
        return [text for text, is_warning in shown if is_warning]

    narrow, wide = (sum(map(torch.Tensor.numel, small(width).parameters())) for width in (4, 500))
    counts = {"parameters": narrow, "convolutions": 2}
    assert called({}, arguments={"width": 4}) == []
    for direction in ("training", "inference"):
        assert called(counts, arguments={"width": 4}, direction=direction) == []
    has = f"small(width=500) has {wide:,} parameters and 2 convolutions, but `expect` has {narrow} and 2"
    with pytest.raises(SpecError, match=re.escape(f"{has}. Are arguments of the model missing?")):
        called(counts, arguments={"width": 500})
    with pytest.raises(
        SpecError, match=re.escape("has 2 convolutions, but `expect` has 1,007. Are")
    ):
        called({"convolutions": 1007}, arguments={"width": 4})


def test_expected_counts_are_no_part_of_a_cell_and_typed_as_an_option(plan_of: MakePlan) -> None:
    usual = plan_of(f"{HERE}:Plain", input="2x3x8x8")
    expecting = plan_of(f"{HERE}:Plain", input="2x3x8x8", model={"expect": {"parameters": 7}})
    assert usual.plan_hash == expecting.plan_hash
    (request,) = first_calls(expecting)
    assert request.cell.model is not None and request.cell.model.expect == Expect(parameters=7)
    options = AdviseOptions(
        workload=f"{HERE}:Plain", input=("2x3x8x8",), expect="parameters=223685,convolutions=7"
    )
    (cell,) = suite_of(options, 1).cells
    assert cell.model.expect == Expect(parameters=223685, convolutions=7)
    assert "--expect parameters=223685,convolutions=7" in options.command()
    for wrong in ("parameters=0", "width=7", "parameters=many", "7"):
        with pytest.raises(LaunchFileError, match="--expect"):
            suite_of(replace(options, expect=wrong), 1)
