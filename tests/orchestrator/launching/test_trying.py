"""`sweep try`, the short form of `sweep advise`, and that what they name next works when pasted."""

import io
import json
import re
import shlex
from datetime import date
from pathlib import Path

from rich.console import Console

from cudnn_sweep.orchestrator.launching.advising import advise, try_step
from cudnn_sweep.orchestrator.launching.step_options import AdviseOptions, StepOptions
from cudnn_sweep.orchestrator.nightly.fake.machine import FakeEffect, FakeMachine, FakeScript
from cudnn_sweep.orchestrator.running.run_sweep import CELL_FAILED, DONE
from tests.orchestrator.typed import invoke

NEXT = re.compile(r"^Next: sweep (.*)$", re.MULTILINE)


def _machine(*effects: FakeEffect) -> FakeMachine:
    return FakeMachine(script=FakeScript(effects=list(effects)), night=date(2026, 1, 1))


def _tried(
    results: Path, machine: FakeMachine, workload: str = "batch_norm", *, json: bool = False
) -> tuple[int, str]:
    out = io.StringIO()
    step = StepOptions(workload=workload, results=str(results))
    options = AdviseOptions.to_try(step, "json" if json else "text")
    shown = Console(file=out, width=300, markup=False)
    return try_step(options, Console(file=io.StringIO()), machine, shown), out.getvalue()


def test_try_decides_by_five_blocks_and_its_answer_can_be_asked_again(tmp_path: Path) -> None:
    faster = _machine(FakeEffect(where={"benchmark": "true"}, time=0.3))
    code, text = _tried(tmp_path, faster, json=True)
    told = json.loads(text)
    assert (code, told["advice"]) == (DONE, "on")
    assert len(told["step_times_ms"]) == 11, "five blocks and a twin"
    assert shlex.split(told["again"])[:2] == ["sweep", "advise"]


def _pasted(text: str) -> str:
    (command,) = NEXT.findall(text)
    ran = invoke(shlex.split(command))
    assert ran.exit_code == 0, ran.output
    return ran.stdout


def test_what_a_failed_try_or_advice_names_next_tells_the_failures(tmp_path: Path) -> None:
    machine = _machine(FakeEffect(status="crash"))
    out = io.StringIO()
    asked = AdviseOptions(workload="batch_norm", results=str(tmp_path / "others"), minutes=1.0)
    shown = Console(file=out, width=300, markup=False)
    code = advise(asked, Console(file=io.StringIO()), machine, shown)
    for exit_code, text in (_tried(tmp_path / "my results", machine), (code, out.getvalue())):
        assert exit_code == CELL_FAILED
        assert "does not run here" in text
        assert "crash" in _pasted(text)
