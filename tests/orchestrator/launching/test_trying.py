"""What `sweep try` and `sweep advise` say, and that what they name next works when pasted."""

import io
import json
import re
import shlex
from datetime import date
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from cudnn_sweep.orchestrator.cli import app
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.launching.advising import advise
from cudnn_sweep.orchestrator.launching.step_options import AdviseOptions, StepOptions
from cudnn_sweep.orchestrator.launching.trying import try_step
from cudnn_sweep.orchestrator.nightly.fake.machine import FakeMachine
from cudnn_sweep.orchestrator.nightly.fake.script import FakeEffect, FakeScript
from cudnn_sweep.orchestrator.running.run_sweep import CELL_FAILED, DONE

NEXT = re.compile(r"^Next: sweep (.*)$", re.MULTILINE)


def _options(results: Path, workload: str = "batch_norm") -> StepOptions:
    return StepOptions(
        workload=workload,
        results=str(results),
    )


def _machine(*effects: FakeEffect) -> FakeMachine:
    return FakeMachine(script=FakeScript(effects=list(effects)), night=date(2026, 1, 1))


def _tried(options: StepOptions, machine: FakeMachine) -> tuple[int, str]:
    out = io.StringIO()
    return try_step(options, Console(file=out, width=300, markup=False), machine), out.getvalue()


def test_the_answer_as_json_has_the_sentence_and_what_it_rests_on(tmp_path: Path) -> None:
    faster = FakeEffect(where={"benchmark": "true"}, time=0.3)
    shown, out = io.StringIO(), io.StringIO()
    consoles = Console(file=shown, width=300, markup=False), Console(file=out, width=80)
    try_step(_options(tmp_path), consoles[0], _machine(faster), consoles[1])
    told = json.loads(out.getvalue())
    assert told["answer"].startswith("Turn benchmark on: ") and told["answer"] in shown.getvalue()
    assert told["verdict"]["wall_verdict"] == "helps"
    assert len(told["step_times_ms"]) == 11, "five blocks and a twin"
    assert shown.getvalue().startswith("Looking at this machine and at batch_norm")


def _pasted(text: str) -> str:
    (command,) = NEXT.findall(text)
    ran = CliRunner().invoke(app, shlex.split(command))
    assert ran.exit_code == 0, ran.output
    return ran.stdout


@pytest.mark.parametrize(
    ("cold", "pays"),
    [
        (0.2, "it saves time from the first iteration on"),
        (20.0, r"it breaks even after (about )?[\d,]+ iterations"),
    ],
)
def test_a_gain_is_told_with_when_it_pays_and_the_verdict_comes_next(
    tmp_path: Path, cold: float, pays: str
) -> None:
    faster = FakeEffect(where={"benchmark": "true"}, time=0.3, cold=cold)
    code, text = _tried(_options(tmp_path / "my results"), _machine(faster))
    assert code == DONE
    (sentence,) = [line for line in text.splitlines() if line.startswith("Turn benchmark on: ")]
    assert re.search(f"; with an empty compute cache {pays}", sentence), sentence
    assert "helps" in _pasted(text)


def test_what_a_failed_try_or_advice_names_next_tells_the_failures(tmp_path: Path) -> None:
    machine = _machine(FakeEffect(status="crash"))
    code, text = _tried(_options(tmp_path / "my results"), machine)
    assert code == CELL_FAILED
    assert "Not measured: " in text
    assert "crash" in _pasted(text)

    out = io.StringIO()
    asked = AdviseOptions(
        workload="batch_norm",
        results=str(tmp_path / "others"),
        minutes=1.0,
        format="text",
        from_store=False,
    )
    shown = Console(file=out, width=300, markup=False)
    assert advise(asked, Console(file=io.StringIO()), machine, shown) == CELL_FAILED
    assert "does not run here" in out.getvalue()
    assert "crash" in _pasted(out.getvalue())


@pytest.mark.parametrize("workload", ["gone.py:Net", "no_such_package:Net", "no_such_workload"])
def test_a_workload_that_is_not_there_is_named_before_anything_is_stored(
    tmp_path: Path, workload: str
) -> None:
    with pytest.raises(SpecError, match=re.escape(workload.partition(":")[0])):
        _tried(_options(tmp_path / "results", workload), _machine())
    assert not (tmp_path / "results").exists()
