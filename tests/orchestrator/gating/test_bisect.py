"""`sweep bisect`: it ends at the environment that was slowed down, on a made-up GPU and in real environments."""

import io
import json
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from cudnn_sweep.analysis.answers.answer import CODES
from cudnn_sweep.analysis.results.verdicts import Verdict
from cudnn_sweep.analysis.store.store import open_store
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.gating import answer
from cudnn_sweep.orchestrator.gating.answer import Gate, State
from cudnn_sweep.orchestrator.gating.bisect import Bisection, Installation, _bisected, bisect
from cudnn_sweep.orchestrator.gating.sides import Side
from cudnn_sweep.orchestrator.planning.session import CodeLocation
from cudnn_sweep.orchestrator.process.client import survey_of
from cudnn_sweep.orchestrator.running.run_sweep import Place
from cudnn_sweep.orchestrator.running.this_machine import ThisMachine
from cudnn_sweep.orchestrator.steps.sequence import answer_step
from cudnn_sweep.orchestrator.steps.step_options import BisectOptions
from cudnn_sweep.workloads.cells.measurement import TrialRequest
from cudnn_sweep.workloads.survey import Survey, workload_facts
from tests.fake_machine import FakeEffect, FakeMachine
from tests.orchestrator.gating.conftest import STEP, made_up

OK, FOUND, UNCERTAIN, BROKEN = 0, 1, 3, 4
PYTHONS = "a,b,c,d"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with what looks like four environments."""
    monkeypatch.chdir(tmp_path)
    for name in PYTHONS.split(","):
        python = tmp_path / name / "bin/python"
        python.parent.mkdir(parents=True)
        python.touch(mode=0o755)
    return tmp_path


def _machine(scatter: float = 0.003, **times: float) -> FakeMachine:
    """A step takes these times in these environments."""
    effects = [FakeEffect(where={"code": name}, time=time) for name, time in times.items()]
    return made_up(*effects, scatter=scatter)


def _looking(machine: FakeMachine) -> Callable[[Path, list[str]], Survey]:
    """Each environment has a torch of its own, but the first."""

    def look(python: Path, names: list[str]) -> Survey:
        side = python.parent.parent.name
        own = machine.environment()
        torch = own.torch if side == "a" else f"2.12.{ord(side)}"
        there = replace(own, torch=torch)
        return Survey(
            environment=there, gpus=[own.gpu], gpu_uuids=[], workloads=workload_facts(names)
        )

    return look


def _bisect(
    place: Place, look: Callable[[Path, list[str]], Survey], **changes: Any
) -> tuple[int, dict[str, Any], str]:
    usual: dict[str, Any] = {"workload": "batch_norm", "pythons": PYTHONS, "json": True}
    options, said = BisectOptions(**usual | changes), io.StringIO()
    out = Console(file=io.StringIO(), markup=False)
    code = answer_step(bisect, options, Console(file=said, width=200), place, out, look)
    assert isinstance(out.file, io.StringIO)
    return code, json.loads(out.file.getvalue()), said.getvalue()


def test_expected_counts_are_those_of_the_model_in_the_oldest_environment(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(python: Path, trials: Sequence[TrialRequest]) -> Iterator[str]:
        (trial,) = trials
        assert trial.cell.model is not None
        raise SpecError(f"{python}: {trial.cell.model.expect}")

    module = "cudnn_sweep.orchestrator.gating.bisect"
    monkeypatch.setattr(f"{module}.ForkServer", lambda python, **_: nullcontext(python))
    monkeypatch.setattr(f"{module}.call_models", refuse)
    step: dict[str, Any] = {"workload": "torch.nn:ReLU", "input": ("2x3x8x8",)}
    with pytest.raises(SpecError, match=f"{here}/a/bin/python: parameters=7 convolutions=None"):
        _bisect(_machine(), _looking(_machine()), **step, expect="parameters=7")


@pytest.mark.long
def test_a_small_change_on_the_way_is_not_named_in_place_of_the_large_one() -> None:
    machine = _machine(b=1.02, c=1.02, d=1.25)
    code, answer, _ = _bisect(machine, _looking(machine))
    assert (code, answer["first"]) == (FOUND, 3)


@pytest.mark.slow
def test_where_the_newest_is_not_slower_nothing_else_is_measured() -> None:
    machine = _machine()
    code, answer, _ = _bisect(machine, _looking(machine))
    assert code == OK
    assert answer["headline"].startswith("d: Not slower by more than 1%: a step takes")
    assert len(open_store("results").sweep_ids()) == 1


@pytest.mark.long
def test_it_ends_at_the_first_slow_environment_and_measures_no_decided_pair_again() -> None:
    machine = _machine(c=1.2, d=1.2)
    assert _bisect(machine, _looking(machine), pythons="a,d")[0] == FOUND
    newest = _trials()
    code, answer, said = _bisect(machine, _looking(machine))
    told = f"c (torch 2.12.{ord('c')}, cuDNN 9.19.0) is the first environment that is slower: a step takes 1."
    assert code == FOUND
    assert answer["headline"].startswith(told)
    row = answer["answers"]["2"]["row"]
    assert row["ratio"] == pytest.approx(1.2, rel=0.02)
    assert list(answer["changed"]) == ["torch"]
    assert said.count("resuming") == 1
    assert _trials() > newest
    measured = _trials()
    assert _bisect(machine, _looking(machine))[:2] == (code, answer)
    assert _trials() == measured


def _trials() -> set[str]:
    store = open_store("results")
    return {trial for sweep_id in store.sweep_ids() for trial in store.stored_trials(sweep_id)}


STATES: dict[str, State] = {
    ".": "not slower",
    "s": "slower",
    "x": "broken",
    "?": "cannot tell yet",
}


def _answer(head: str, state: State, row: Verdict | None) -> Gate:
    return Gate(
        workload="x",
        base="a",
        head=head,
        gpu="x",
        sweep_id="x",
        threshold=0.01,
        state=state,
        row=row,
    )


@pytest.mark.parametrize(
    ("states", "measured", "first", "good", "code"),
    [
        ("...", "d", None, 3, OK),
        ("..s", "dbc", 3, 2, FOUND),
        ("sss", "db", 1, 0, FOUND),
        ("..x", "dbc", 3, 2, BROKEN),
        ("?ss", "dbc", 2, 0, FOUND),
        (".?s", "dbc", 3, 1, FOUND),
        ("s.?", "dc", None, 2, UNCERTAIN),
        ("ss?", "dcb", 1, 0, FOUND),
        ("???", "dcb", None, 0, UNCERTAIN),
    ],
)
def test_search_passes_over_what_it_cannot_tell(
    states: str, measured: str, first: int | None, good: int, code: int
) -> None:
    seen: list[tuple[str, float]] = []

    def measure(tested: Installation, options: BisectOptions) -> Gate:
        label = tested.side.label
        seen.append((label, options.min_effect))
        row = Verdict(ratio=1.44, ratio_low=1.4, ratio_high=1.5)
        state = STATES[states[" bcd".index(label) - 1]]
        return _answer(label, state, row)

    software = made_up().environment()
    environments = [
        Installation(
            side=Side(label=label, code=CodeLocation(folder=None)), software=software, packages={}
        )
        for label in "abcd"
    ]
    options = BisectOptions(workload="x", pythons="x")
    found = _bisected(options, environments, measure, Console(file=io.StringIO()))
    assert "".join(label for label, _ in seen) == measured
    assert (found.first, found.good, CODES[answer.STATES[found.decisive.state]]) == (
        first,
        good,
        code,
    )
    if states[-1] == "s":
        assert [least for _, least in seen[1:]] == pytest.approx([0.2] * len(seen[1:]))
    if states == "?ss":
        told = "c (torch 2.11.0, cuDNN 9.19.0) or an undecided environment (b) is the first environment"
        assert found.headline.startswith(told)


def test_every_package_that_differs_is_named_with_both_versions() -> None:
    software = made_up().environment()
    listed: list[dict[str, str]] = [
        {"numpy": "2.0", "mine": "1.0", "gone": "3"},
        {"numpy": "2.0", "mine": "1.1", "New": "4"},
    ]
    environments = [
        Installation(
            side=Side(label=label, code=CodeLocation(folder=None)),
            software=software,
            packages=packages,
        )
        for label, packages in zip("ab", listed, strict=True)
    ]
    slow = {1: _answer("b", "slower", None)}
    found = Bisection(environments=environments, answers=slow, good=0, first=1)
    moved = ("Changed", "gone: 3 → none, mine: 1.0 → 1.1, New: none → 4")
    assert moved in found.answer().facts


@pytest.mark.long
def test_time_that_scatters_too_much_cannot_be_told_and_the_command_goes_on() -> None:
    machine = _machine(scatter=0.05, b=1.01)
    code, answer, _ = _bisect(machine, _looking(machine), pythons="a,b")
    assert code == UNCERTAIN
    assert answer["headline"].startswith("b: Cannot tell yet: a step takes")
    assert answer["headline"].endswith("The same command resumes.")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pythons": "a,nowhere"}, "--pythons: found 'nowhere', allowed: two or more environments"),
        ({"pythons": "a"}, "--pythons: found only 'a', allowed: two or more environments"),
        ({"workload": "quick"}, r"found \d+ cells of quick, allowed: one; set --only cell_id=..."),
    ],
)
def test_what_cannot_be_bisected_is_named(changes: dict[str, Any], message: str) -> None:
    machine = _machine()
    with pytest.raises(SpecError, match=message):
        _bisect(machine, _looking(machine), **changes)


@pytest.mark.long
@pytest.mark.measuring
@pytest.mark.usefixtures("briefly")
def test_real_environments_end_at_the_one_with_the_slow_package(here: Path) -> None:
    """Each has this one's packages, and a package of its own version."""
    for name, seconds in (("e", 0.02), ("f", 0.05)):
        _environment(here / name, seconds)
    (here / "step.py").write_text(STEP)
    step = {"workload": "step.py:step", "input": ("1x1",), "pythons": "e,f", "minutes": 2.0}
    code, answer, _ = _bisect(ThisMachine(), survey_of, **step)
    assert (code, answer["first"]) == (FOUND, 1)
    row = answer["answers"]["1"]["row"]
    assert 1.4 < row["ratio"] < 5, "0.05 s to 0.02 s, on a core that others may use"
    assert row["in_turns"]
    assert answer["changed"] == {"mine": ["e", "f"]}, "the package that differs, and nothing else"


def _environment(folder: Path, seconds: float) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = folder.glob("lib/python3*/site-packages")
    ours = sysconfig.get_paths()["purelib"]
    (packages / "base.pth").write_text(f"import site; site.addsitedir({ours!r})\n")
    (packages / "mine").mkdir()
    (packages / "mine/__init__.py").touch()
    (packages / "mine/work.py").write_text(f"SECONDS = {seconds}\n")
    about = packages / "mine-1.dist-info/METADATA"
    about.parent.mkdir()
    about.write_text(f"Metadata-Version: 2.1\nName: mine\nVersion: {folder.name}\n")
