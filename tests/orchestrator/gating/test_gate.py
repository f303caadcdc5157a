"""`sweep gate`: what it says of two sides on a made-up GPU, and which code a side's processes really run."""

import io
import json
import subprocess
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree
from zipfile import ZipFile

import pytest
from rich.console import Console

from cudnn_sweep.analysis.storing.store import open_store
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.gating.gate import gate
from cudnn_sweep.orchestrator.gating.sides import sides_of
from cudnn_sweep.orchestrator.launching.step_options import GateOptions
from cudnn_sweep.orchestrator.planning import sweep_selection
from cudnn_sweep.orchestrator.process.protocol import MODULES
from cudnn_sweep.orchestrator.running.run_sweep import Place
from cudnn_sweep.orchestrator.running.this_machine import ThisMachine
from tests.fake_machine import FakeEffect
from tests.orchestrator.gating.conftest import STEP, made_up

OK, SLOWER, UNCERTAIN = 0, 1, 2


def _head(**changes: Any) -> FakeEffect:
    return FakeEffect(where={"code": "head:b"}, **changes)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two sides. The made-up noise goes by a sweep's id, which is the same in every run."""
    numbers = count()
    monkeypatch.setattr(
        sweep_selection, "secrets", SimpleNamespace(token_hex=lambda _: next(numbers))
    )
    monkeypatch.setattr(
        sweep_selection, "datetime", SimpleNamespace(now=lambda _: datetime(2026, 1, 1, tzinfo=UTC))
    )
    monkeypatch.chdir(tmp_path)
    for side in "ab":
        (tmp_path / side).mkdir()
    return tmp_path


def _gate(place: Place, *sides: str, **changes: Any) -> tuple[int, dict[str, Any]]:
    base, head = sides or ("a", "b")
    usual: dict[str, Any] = {"workload": "batch_norm", "json": True}
    options = GateOptions(base=base, head=head, **usual | changes)
    out = io.StringIO()
    code = gate(options, Console(file=io.StringIO()), place, Console(file=out, markup=False))
    return code, json.loads(out.getvalue())


@pytest.mark.parametrize(
    ("time", "code", "state", "words"),
    [
        (1.03, SLOWER, "slower", "Slower, by more than 1%: a step takes 1.0"),
        pytest.param(
            1.0, OK, "not slower", "Not slower than 1%: a step takes", marks=pytest.mark.slow
        ),
        pytest.param(
            0.85, OK, "faster", "Faster, by more than 1%: a step takes 0.8", marks=pytest.mark.slow
        ),
    ],
)
def test_a_change_is_told_with_its_size_and_what_the_gate_could_have_found(
    here: Path, time: float, code: int, state: str, words: str
) -> None:
    files = {"comment": str(here / "gate.md"), "junit": str(here / "gate.xml")}
    ended, answer = _gate(made_up(_head(time=time)), **files)
    assert (ended, answer["state"]) == (code, state)
    assert answer["headline"].startswith(words)
    row, control = answer["row"], answer["control"]
    assert row["ratio"] == pytest.approx(time, rel=0.01)
    assert control["ratio"] == pytest.approx(1, abs=0.01)
    assert control["false_alarms"] < 0.025, "an equal change would have to look 1% slower as well"
    assert control["least_found"] > 0.01
    assert answer["headline"] in (here / "gate.md").read_text()
    suite = ElementTree.parse(here / "gate.xml").getroot()
    assert suite.get("failures") == str(int(code == SLOWER))


@pytest.mark.slow
def test_a_change_at_the_threshold_cannot_be_told_yet_and_has_its_interval() -> None:
    code, answer = _gate(made_up(_head(time=1.01), scatter=0.01))
    assert (code, answer["state"]) == (UNCERTAIN, "cannot tell yet")
    assert answer["row"]["ratio_low"] < 1.01 < answer["row"]["ratio_high"]
    assert answer["row"]["blocks"] == 20


def test_code_that_does_not_run_is_an_answer() -> None:
    code, answer = _gate(made_up(_head(status="error")))
    assert (code, answer["state"]) == (SLOWER, "broken")
    assert answer["headline"] == "Broken: batch_norm does not run at head:b."
    assert "head:b" in answer["messages"]


@pytest.mark.slow
def test_changes_of_nothing_are_seldom_called_slower() -> None:
    ended = [_gate(made_up(scatter=0.005, seed=seed))[0] for seed in range(4)]
    assert ended.count(SLOWER) == 0
    assert ended.count(OK) >= 3


def test_what_is_no_side_is_named() -> None:
    with pytest.raises(SpecError, match="HEAD: found 'nowhere', allowed: a commit of this repo"):
        _gate(made_up(), "a", "nowhere")


@pytest.mark.slow
@pytest.mark.measuring
@pytest.mark.usefixtures("briefly")
def test_each_side_runs_its_own_code_in_turns(here: Path) -> None:
    """A commit's: the folder of the step and a package beside it, both as they were; a wheel's package."""
    commits = []
    (here / "mine").mkdir()
    (here / "bench").mkdir()
    (here / "mine/__init__.py").touch()
    (here / "random.py").write_text("raise RuntimeError('in place of the one of Python')")
    (here / "bench/step.py").write_text(STEP)
    _git("init", "--quiet")
    for seconds in ("0.04", "nothing"):
        (here / "mine/work.py").write_text(f"SECONDS = {seconds}\n")
        _git("add", ".")
        _git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "-m", seconds)
        commits.append(_git("rev-parse", "HEAD"))
    wheel = _wheel(here / "mine-1.0-py3-none-any.whl", "SECONDS = 0.02\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(here / "bench")
        ahead = here / "installed" / "mine"  # no side's, and on PYTHONPATH as CI often has it
        ahead.mkdir(parents=True)
        (ahead / "__init__.py").write_text("raise RuntimeError('the code of neither side')")
        patch.setenv("PYTHONPATH", str(ahead.parent))
        step = {"workload": "step.py:step", "input": ("1x1",), "minutes": 2.0}
        code, answer = _gate(ThisMachine(), str(wheel), commits[0], **step)
        assert (code, answer["state"]) == (SLOWER, "slower")
        assert answer["row"]["ratio"] == pytest.approx(2, rel=0.3)
        assert answer["row"]["in_turns"]
        code, answer = _gate(ThisMachine(), *commits, **step)
        assert (code, answer["state"]) == (SLOWER, "broken")
        assert "NameError" in answer["messages"][f"head:{commits[1][:12]}"]
        store = open_store("results")
    assert len(store.sweep_ids()) == 2, "results are kept like those of any launch"
    assert _git("worktree", "list").count("\n") == 0, "worktrees are removed"


def test_two_wheels_of_one_name_are_unpacked_apart(here: Path) -> None:
    wheels = [str(_wheel(here / side / "mine-1.0-py3-none-any.whl", side)) for side in "ab"]
    with sides_of(wheels[0], wheels[1], here / "scratch") as sides:
        packages = [Path(side.code.variables[MODULES]) / "mine" for side in sides]
        assert [(package / "work.py").read_text() for package in packages] == ["a", "b"]


def _wheel(path: Path, work: str) -> Path:
    about = "mine-1.0.dist-info"
    files = {
        "mine/__init__.py": "",
        "mine/work.py": work,
        f"{about}/METADATA": "Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{about}/RECORD": "",
    }
    with ZipFile(path, "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)
    return path


def _git(*words: str) -> str:
    return subprocess.run(
        ["git", *words], check=True, capture_output=True, text=True
    ).stdout.strip()
