"""`sweep gate`: what it says of two sides on a made-up GPU, and which code a side's processes really run."""

import io
import json
import math
import os
import shlex
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
from scipy import stats

from cudnn_sweep.analysis.engine.database import open_database
from cudnn_sweep.analysis.store.store import open_store
from cudnn_sweep.orchestrator.errors import ModelError, OutputError, SpecError
from cudnn_sweep.orchestrator.gating.gate import LOOKS, gate, power
from cudnn_sweep.orchestrator.gating.sides import Sides, sides_of
from cudnn_sweep.orchestrator.planning import sweep_selection
from cudnn_sweep.orchestrator.process.protocol import MODULES
from cudnn_sweep.orchestrator.running.run_sweep import Place
from cudnn_sweep.orchestrator.running.this_machine import ThisMachine
from cudnn_sweep.orchestrator.steps.sequence import answer_step
from cudnn_sweep.orchestrator.steps.step_options import GateOptions
from cudnn_sweep.workloads.cells.suite import SuiteSpec
from cudnn_sweep.workloads.survey import Survey
from tests.fake_machine import FakeEffect, FakeMachine
from tests.orchestrator.gating.conftest import STEP, made_up
from tests.orchestrator.typed import invoke

OK, SLOWER, UNCERTAIN, BROKEN = 0, 1, 3, 4


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
    quiet, shown = Console(file=io.StringIO()), Console(file=out, markup=False)
    code = answer_step(gate, options, quiet, place, shown)
    return code, json.loads(out.getvalue())


@pytest.mark.parametrize(
    ("time", "code", "state", "words"),
    [
        (1.03, SLOWER, "slower", "Slower by more than 1%: a step takes 1.0"),
        pytest.param(
            1.0,
            OK,
            "not slower",
            "Not slower by more than 1%: a step takes",
            marks=pytest.mark.slow,
        ),
        pytest.param(0.99, OK, "faster", "Faster: a step takes 0.9", marks=pytest.mark.long),
    ],
)
def test_a_change_is_told_with_its_size_and_what_the_gate_could_have_found(
    here: Path, time: float, code: int, state: str, words: str
) -> None:
    files = [str(here / f"gate.{kind}") for kind in ("md", "xml", "html", "prom")]
    ended, answer = _gate(made_up(_head(time=time)), write=files)
    assert (ended, answer["state"]) == (code, state)
    assert answer["headline"].startswith(words)
    assert answer["row"]["ratio"] == pytest.approx(time, rel=0.01)
    assert [each["kind"] for each in answer["alone"]] == ["base", "head"], "A/A pairs of both"
    for each in answer["alone"]:
        assert each["ratio_low"] - 0.005 < 1 < each["ratio_high"] + 0.005
    assert answer["false_alarms"] < 0.01
    assert 0.01 < answer["least_found"] < 0.02
    assert answer["headline"] in (here / "gate.md").read_text()
    assert answer["headline"] in (here / "gate.html").read_text()
    assert (
        f'cudnn_sweep_gate_exit_code{{model="batch_norm"}} {code}.0'
        in (here / "gate.prom").read_text()
    )
    suite = ElementTree.parse(here / "gate.xml").getroot()
    assert suite.get("failures") == str(int(code == SLOWER))


@pytest.mark.long
def test_a_change_at_the_threshold_cannot_be_told_yet_and_has_its_interval() -> None:
    code, answer = _gate(made_up(_head(time=1.01), scatter=0.01))
    assert (code, answer["state"]) == (UNCERTAIN, "cannot tell yet")
    assert answer["row"]["ratio_low"] < 1.01 < answer["row"]["ratio_high"]
    assert answer["row"]["blocks"] == 20


@pytest.mark.slow
def test_code_that_does_not_run_is_an_answer() -> None:
    code, answer = _gate(made_up(_head(status="error")))
    assert (code, answer["state"]) == (BROKEN, "broken")
    assert answer["headline"] == "Broken: batch_norm does not run at head:b."
    assert "head:b" in answer["messages"]


@pytest.mark.long
def test_base_that_does_not_run_blames_no_change() -> None:
    base = FakeEffect(where={"code": "base:a"}, status="error")
    code, answer = _gate(made_up(base))
    assert (code, answer["state"]) == (UNCERTAIN, "cannot tell yet")
    assert answer["headline"] == "Cannot tell: batch_norm does not run at base:a."


@pytest.mark.parametrize(
    ("fault", "broken", "code"),
    [
        (ModelError("it hangs"), "b", BROKEN),
        (SpecError("no step.py"), "b", BROKEN),
        (ModelError("it hangs"), "a b", UNCERTAIN),
    ],
)
def test_a_side_that_cannot_be_looked_at_ends_the_gate_before_it_measures(
    fault: Exception, broken: str, code: int, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(machine: FakeMachine, suite: SuiteSpec) -> Survey:
        if Path.cwd().name in broken:
            raise fault
        return usual(machine, suite)

    usual = FakeMachine.look
    monkeypatch.setattr(FakeMachine, "look", look)
    ended, answer = _gate(made_up())
    assert ended == code
    assert answer["messages"]["head:b"] == str(fault)
    assert not open_store("results").sweep_ids()


@pytest.mark.parametrize("broken", ["b", "a b"])
def test_a_side_whose_model_fails_at_its_first_call_ends_the_gate_before_it_measures(
    broken: str, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def call(*_: object) -> None:
        if Path.cwd().name in broken:
            raise SpecError("step.py:step: missing a required argument")

    monkeypatch.setattr(FakeMachine, "call", call)
    if broken == "b":
        ended, answer = _gate(made_up())
        assert (ended, answer["state"]) == (BROKEN, "broken")
    else:
        with pytest.raises(SpecError, match="missing a required argument"):
            _gate(made_up())
    assert not open_store("results").sweep_ids()


def test_step_that_no_side_has_is_typed_wrongly_and_the_comment_says_so(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(machine: FakeMachine, suite: SuiteSpec) -> Survey:
        raise SpecError("there is no step.py")

    monkeypatch.setattr(FakeMachine, "look", look)
    files = comment, junit = here / "gate.md", here / "gate.xml"
    with pytest.raises(SpecError, match="there is no step.py"):
        _gate(made_up(), write=list(map(str, files)))
    assert comment.read_text() == "## No answer: there is no step.py\n"
    case = ElementTree.parse(junit).getroot().find("testcase/error")
    assert case is not None
    assert case.get("message") == "No answer: there is no step.py"


def test_file_that_cannot_be_written_is_named_before_anything_is_measured(here: Path) -> None:
    with pytest.raises(OutputError, match="cannot write missing/gate.md: No such file"):
        _gate(made_up(), write=["missing/gate.md"])
    (here / "a.xml").mkdir()
    with pytest.raises(OutputError, match="cannot write a.xml: Is a directory"):
        _gate(made_up(), write=["a.xml"])
    with pytest.raises(SpecError, match="--write a.pdf: the name must end in one of .*, .md, "):
        _gate(made_up(), write=["a.pdf"])
    assert not open_store("results").sweep_ids()


@pytest.mark.slow
def test_answer_is_printed_before_files_are_written(here: Path) -> None:
    (here / "full.md").symlink_to("/dev/full")
    code, answer = _gate(made_up(_head(time=1.05)), write=["full.md"])
    assert (code, answer["state"]) == (SLOWER, "slower")


def test_gate_that_is_killed_leaves_no_older_answer(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "gate.md").write_text("**Not slower**")

    def killed(machine: FakeMachine, suite: SuiteSpec) -> Survey:
        raise KeyboardInterrupt

    monkeypatch.setattr(FakeMachine, "look", killed)
    with pytest.raises(KeyboardInterrupt):
        _gate(made_up(), write=["gate.md"])
    assert (here / "gate.md").read_text() == "## No answer: the command has not ended\n"
    assert [each.name for each in here.glob(".*")] == []


@pytest.mark.long
def test_files_that_changed_while_they_were_measured_excuse_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Sides, "changed", lambda sides: ["base: step.py"])
    code, answer = _gate(made_up(), cannot_tell="ok")
    assert code == UNCERTAIN
    assert (
        answer["headline"] == "Cannot tell: files changed while they were measured: base: step.py."
    )


@pytest.mark.long
def test_query_that_the_answer_names_shows_the_verdict(here: Path) -> None:
    _gate(made_up(_head(time=1.05)), write=["gate.md"])
    (line,) = (line for line in (here / "gate.md").read_text().splitlines() if "More" in line)
    typed = shlex.split(line.removeprefix("More: ").strip("`"))
    assert typed[:3] == ["sweep", "query", "helps_or_hurts"]
    ended = invoke([*typed[1:], "--json"])
    (row,) = json.loads(ended.stdout)
    assert row["contrast"] == "code: base:a → head:b"


@pytest.mark.long
def test_changes_of_nothing_are_seldom_called_slower() -> None:
    ended = [_gate(made_up(scatter=0.005, seed=seed))[0] for seed in range(4)]
    assert ended.count(SLOWER) == 0
    assert ended.count(OK) >= 3


@pytest.mark.parametrize(("scatter", "prior", "most"), [(0.0035, 0.003, 5), (0.01, None, 3)])
def test_what_a_gate_finds_is_worked_out_by_its_own_rule(
    scatter: float, prior: float | None, most: int
) -> None:
    """Beside SciPy: the error of all looks is at most the sum of theirs, and at least that of the last."""
    with open_database(open_store("results")) as database:
        values = {"most": most, "lacks": int(prior is None)}
        looks = database.query(LOOKS, values).to_pylist()
    quantiles = {each["blocks"]: each["quantile"] for each in looks}
    shares = {2: 0.4, 3: 0.2, 5: 0.4} if most == 5 else {2: 0.4, 3: 0.6}
    dfs = {blocks: blocks - (prior is None) for blocks in shares}
    expected = {blocks: stats.t.isf(0.05 * share, dfs[blocks]) for blocks, share in shares.items()}
    assert quantiles == pytest.approx(expected, rel=1e-4)
    alarms, least = power(scatter, prior, 0.01, quantiles)
    error = scatter / math.sqrt(most)
    last = math.expm1(math.log1p(0.01) + (quantiles[most] + 0.84) * error)
    assert 0.01 < least < last * 1.05
    if prior is None:
        effect = -math.log1p(0.01) / scatter
        each = [
            stats.nct.sf(quantile, dfs[blocks], effect * math.sqrt(blocks))
            for blocks, quantile in quantiles.items()
        ]
        assert max(each) - 0.003 < alarms < sum(each) + 0.003


def test_made_up_gates_of_one_look_alarm_as_often_as_students_t_does() -> None:
    quantile, effect = stats.t.isf(0.05, 2), -math.log1p(0.01) / 0.05
    alarms, _ = power(0.05, None, 0.01, {3: quantile})
    assert alarms == pytest.approx(stats.nct.sf(quantile, 2, effect * math.sqrt(3)), abs=0.008)


def test_what_is_no_side_is_named() -> None:
    with pytest.raises(SpecError, match="HEAD: found 'nowhere', allowed: a commit of this repo"):
        _gate(made_up(), "a", "nowhere")


@pytest.mark.long
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
        assert 1.2 < answer["row"]["ratio"] < 4, "0.04 s to 0.02 s, on a core that others may use"
        assert answer["row"]["in_turns"]
        code, answer = _gate(ThisMachine(), *commits, **step)
        assert (code, answer["state"]) == (BROKEN, "broken")
        assert "NameError" in answer["messages"][f"head:{commits[1][:12]}"]
        store = open_store("results")
    assert len(store.sweep_ids()) == 1, "results are kept like those of any launch"
    assert _git("worktree", "list").count("\n") == 0, "worktrees are removed"


def test_a_python_does_not_find_the_modules_of_the_folder_beside_it(here: Path) -> None:
    python = here / "environment/bin/python"
    python.parent.mkdir(parents=True)
    python.touch(mode=0o755)
    sides = sides_of("a", str(python), here / "scratch", exact=False)
    with sides.base.entered():
        assert os.environ[MODULES] == str(here / "a")
    with sides.head.entered():
        assert MODULES not in os.environ


@pytest.mark.slow
def test_two_wheels_of_one_name_are_unpacked_apart(here: Path) -> None:
    wheels = [str(_wheel(here / side / "mine-1.0-py3-none-any.whl", side)) for side in "ab"]
    sides = sides_of(wheels[0], wheels[1], here / "scratch", exact=False)
    packages = [Path(side.code.variables[MODULES]) / "mine" for side in (sides.base, sides.head)]
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
