"""`sweep advise` on a made-up GPU: when they stop, what they say, and that the store says it again."""

import io
import json
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

import pytest
from rich.console import Console

from cudnn_sweep.analysis.results.advice import Advice
from cudnn_sweep.analysis.store.location import REFERENCE
from cudnn_sweep.analysis.store.store import open_store
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.exit_codes import ExitCode
from cudnn_sweep.orchestrator.running.run_sweep import RunSession
from cudnn_sweep.orchestrator.steps.advising import advise
from cudnn_sweep.orchestrator.steps.one_step import plan_step, suite_of
from cudnn_sweep.orchestrator.steps.sequence import answer_step
from cudnn_sweep.orchestrator.steps.step_options import AdviseOptions
from cudnn_sweep.workloads.hardware.environment import Environment
from tests.fake_machine import FakeEffect, FakeMachine, FakeNoise, FakeScript
from tests.orchestrator.typed import invoke

TODAY = date(2026, 1, 1)
DECIDED, FAILED = 0, 4


def _machine(*effects: FakeEffect, scatter: float = 0.002, trial_s: float = 2.0) -> FakeMachine:
    noise = FakeNoise(night=0.0, process=scatter)
    script = FakeScript(noise=noise, effects=list(effects), trial_s=trial_s)
    return FakeMachine(script=script, night=TODAY)


@pytest.fixture(autouse=True)
def _here(here: Path) -> None:
    """Results go to the folder that the command is typed in."""


CLEAR = _machine(FakeEffect(where={"benchmark": "true"}, time=0.3))


def _options(**changes: Any) -> AdviseOptions:
    usual: dict[str, Any] = {"workload": "batch_norm", "minutes": 1.0, "levers": "benchmark"}
    return AdviseOptions(**usual | changes)


def _said(options: AdviseOptions, machine: FakeMachine, width: int = 80) -> tuple[int, str]:
    out = io.StringIO()
    shown = Console(file=out, width=width, markup=False)
    code = answer_step(advise, options, Console(file=io.StringIO()), machine, shown)
    return code, out.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("state", "blocks"), [pytest.param("container", 1, marks=pytest.mark.long), ("warm", 2)]
)
def test_time_that_is_up_leaves_a_block_that_began_in_the_state_asked(
    tmp_path: Path, state: str, blocks: int
) -> None:
    slow = FakeMachine(script=FakeScript(trial_s=100), night=TODAY)
    told = _options(state=state, minutes=1.0, json=True)
    _, said = _said(told, slow)
    asked = json.loads(said)["asked"]
    assert (asked["start"], asked["recorded_blocks"]) == (state, blocks)
    assert asked["start_blocks"] == 1
    assert asked["ratio"] is not None


def _faster(ratio: float) -> FakeEffect:
    """On top of what the fake's searches do: its own ratio is one of three, by the cell's hash."""
    return FakeEffect(where={"benchmark": "true"}, time=ratio)


class Decided(NamedTuple):
    """A clear case, measured once: its folder, and how that launch ended."""

    folder: Path
    code: int
    text: str


@pytest.fixture(scope="module")
def decided(tmp_path_factory: pytest.TempPathFactory) -> Decided:
    folder = tmp_path_factory.mktemp("decided")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return Decided(folder, *_said(_options(steps=10**6, json=True), CLEAR))


@pytest.fixture
def stored(decided: Decided, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder has the results of the clear case."""
    monkeypatch.chdir(decided.folder)
    return decided.folder


@pytest.mark.slow
def test_a_clear_case_is_decided_after_few_blocks_in_both_states(stored: Path) -> None:
    code, text = _said(_options(steps=10**6, from_store=True), CLEAR)
    assert code == DECIDED
    assert text.strip().startswith(
        "Turn benchmark on.\n\n    torch.backends.cudnn.benchmark = True"
    )
    assert "1,000,000 steps in a new container on a warm machine" in " ".join(text.split())
    assert max(map(len, text.splitlines()[:-1])) <= 80, text
    store = open_store(str(stored / "results"))
    (sweep_id,) = store.sweep_ids()
    rows = Advice.of(store, sweep_id, steps=10**6)
    assert rows[0].blocks < 20
    assert min(row.start_blocks for row in rows) >= 1, "both states of the compute cache were met"


@pytest.mark.slow
@pytest.mark.usefixtures("stored")
def test_the_store_answers_again_and_for_another_job(decided: Decided) -> None:
    again = _options(steps=10**6, json=True, from_store=True)
    assert _said(again, CLEAR) == (decided.code, decided.text)
    short = _options(steps=2, json=True, from_store=True)
    told = json.loads(_said(short, CLEAR)[1])
    assert told["asked"]["job_steps"] == 2
    assert told["asked"]["blocks"] == json.loads(decided.text)["asked"]["blocks"]


@pytest.mark.slow
def test_the_json_keeps_its_keys(decided: Decided) -> None:
    told = json.loads(decided.text)
    keys = (
        "headline exit_code sweep_id advice setting lines asked other_start frozen kernels ranks "
    )
    assert list(told) == (keys + "step_times_ms messages warnings again").split()
    assert (told["asked"]["start"], told["other_start"]["start"]) == ("container", "warm")
    assert told["asked"].keys() == told["other_start"].keys()
    needed = {"advice", "setting", "saved_s", "saved_s_low", "saved_s_high", "ratio", "ratio_low"}
    assert needed | {"ratio_high", "sure", "break_even_steps", "minutes_needed"} <= set(
        told["asked"]
    )


CONV = ("in_channels=3", "out_channels=4", "kernel_size=3")
MODEL: dict[str, Any] = {
    "workload": "torch.nn:Conv2d",
    "input": ("2x3x32x32",),
    "argument": CONV,
    "json": True,
}


@pytest.mark.long
def test_the_store_answers_for_the_very_step_that_was_typed(tmp_path: Path) -> None:
    machine = _machine(trial_s=100)  # one block of each
    ways: list[dict[str, Any]] = [
        {},
        {"regime": "{cycle: {sizes: 2, step: 8}}"},
        {"argument": (*CONV, "out_channels=8")},
    ]
    others: list[dict[str, Any]] = [
        {"layout": "channels_last"},
        {"regime": "{cycle: {sizes: 3, step: 8}}"},
        {"argument": (*CONV, "kernel_size=5")},
    ]
    measured = [json.loads(_said(_options(**MODEL | way), machine)[1])["sweep_id"] for way in ways]
    assert len(set(measured)) == len(ways)
    for way, sweep_id in zip(ways, measured, strict=True):
        told = _said(_options(**MODEL | way, from_store=True), machine)[1]
        assert json.loads(told)["sweep_id"] == sweep_id, way
    for way in others:
        with pytest.raises(SpecError, match="--from-store: found no `sweep advise` run"):
            _said(_options(**MODEL | way, from_store=True), machine)


class NoGpu(FakeMachine):
    def environment(self) -> Environment:
        return replace(super().environment(), device="cpu", gpu="a CPU", gpu_uuid=None)


class NothingRuns(NoGpu):
    @contextmanager
    def opened(self, *_: object) -> Iterator[RunSession]:
        raise AssertionError("nothing is measured")


@pytest.mark.long
def test_without_a_gpu_the_newest_measurement_of_the_step_on_a_gpu_answers(tmp_path: Path) -> None:
    long = _options(steps=10**6)
    measured = _said(long, _machine(_faster(0.3)))
    no_gpu = NothingRuns(script=FakeScript(), night=TODAY)
    for machine, options in ((no_gpu, long), (no_gpu, replace(long, from_store=True))):
        assert _said(options, machine) == measured


@pytest.mark.slow
def test_a_step_on_a_cpu_is_undecided_with_its_time(tmp_path: Path) -> None:
    machine = NoGpu(script=FakeScript(), night=TODAY)
    code, text = _said(_options(steps=10**6), machine)
    assert code == ExitCode.NEEDS_GPU
    assert text.strip().startswith("Undecided: this step was not measured on a GPU.")
    assert "A step " in text and "on this CPU (2 processes" in text
    assert text.endswith(
        "\nOn a machine with a GPU: sweep advise batch_norm --steps 1000000 --levers benchmark\n"
    )
    # measured anew: the step may have changed
    with pytest.raises(AssertionError, match="nothing is measured"):
        _said(_options(steps=10**6), NothingRuns(script=FakeScript(), night=TODAY))
    told = json.loads(_said(_options(json=True, from_store=True), machine)[1])
    assert (told["advice"], len(told["step_times_ms"])) == ("undecided", 2)


@pytest.mark.parametrize(("gone_s", "timeout_s", "budget_s"), [(0, 90, 170), (100, 60, 70)])
def test_limits_count_from_the_commands_start(
    tmp_path: Path, gone_s: float, timeout_s: float, budget_s: float
) -> None:
    step = replace(_options(), minutes=3, began=monotonic() - gone_s)
    for machine in (_machine(), NoGpu(script=FakeScript(), night=TODAY)):
        suite = suite_of(step, 3)
        planned = plan_step(step, suite, machine.look(suite), suite_name="try")
        assert planned.chosen.measure.timeout_s == timeout_s
        assert planned.request.budget_minutes == pytest.approx(budget_s / 60, abs=0.2)


@pytest.mark.long
def test_what_a_failed_advice_names_next_shows_the_failures(tmp_path: Path) -> None:
    machine = _machine(FakeEffect(status="crash"))
    code, text = _said(_options(results=str(tmp_path / "my others")), machine, width=300)
    assert code == FAILED
    assert "does not run here" in text
    (command,) = re.findall(r"^Next: sweep (.*)$", text, re.MULTILINE)
    ran = invoke(shlex.split(command))
    assert ran.exit_code == 0, ran.output
    assert "crash" in ran.stdout


@pytest.mark.long
def test_the_reference_answers_for_a_bundled_network_on_each_gpu() -> None:
    """The figures are those of `sweep query advice --reference --sweep-id 'networks-*' --steps 20000`."""
    step = {"workload": "nets.unet:UNet", "input": ("2x1x96x96x96",), "steps": 20_000}
    code, text = _said(_options(**step, reference=True), CLEAR)
    assert code == DECIDED
    titles = [line for line in text.splitlines() if line.startswith("NVIDIA")]
    assert all(": Leave" in title or ": Turn" in title or ": It" in title for title in titles)
    assert [title.split()[1] for title in titles] == ["H100", "H200,"]
    _, rows = _said(_options(**step, reference=True, json=True), CLEAR)
    stored = Advice.of(open_store(str(REFERENCE)), "networks-*", steps=20_000)
    wanted = {(row.cell_id, row.advice) for row in stored if row.asked}
    found = {(row["cell_id"], row["advice"]) for row in json.loads(rows)["asked"]}
    assert len(found) == len(titles) and found < wanted


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "there"),
    [
        ({"workload": "nets.unet:Unet"}, "there are .*nets.unet:UNet"),
        ({"workload": "nets.unet:UNet", "regime": "often"}, "training fresh amp_bf16 channels"),
    ],
)
def test_what_the_reference_lacks_is_refused_with_what_it_has(
    changes: dict[str, str], there: str
) -> None:
    with pytest.raises(SpecError, match=there):
        _said(_options(**changes, reference=True), CLEAR)
