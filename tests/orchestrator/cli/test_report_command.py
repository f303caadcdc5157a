"""What `sweep report` shows while it works."""

import io
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from cudnn_sweep.orchestrator.showing import say
from tests.orchestrator.typed import invoke

report: Any = import_module("cudnn_sweep.orchestrator.cli.report")  # the package has its command
MADE_UP = Path(__file__).parents[2] / "goldens/made-up"


@pytest.mark.parametrize(("is_terminal", "patience_s"), [(True, 0.0), (True, 60.0), (False, 0.0)])
def test_a_terminal_shows_what_a_slow_report_does(
    monkeypatch: pytest.MonkeyPatch, is_terminal: bool, patience_s: float
) -> None:
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=is_terminal, width=120)
    monkeypatch.setattr(say, "console_here", lambda **_: console)
    monkeypatch.setattr(report, "PATIENCE_S", patience_s)
    done = invoke(["report", "--results", str(MADE_UP), "--format", "json"])
    assert done.exit_code == 0
    is_shown = "Report: comparing benchmark" in shown.getvalue()
    assert is_shown == (is_terminal and not patience_s)
    assert "Report:" not in done.stdout


def test_names_of_users_are_no_markup_there(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=True, width=120)
    monkeypatch.setattr(say, "console_here", lambda **_: console)
    monkeypatch.setattr(report, "PATIENCE_S", 0.0)
    with report._shown_if_slow() as show:
        show("[bold]a\x1b[2Jb")
        time.sleep(0.3)
    assert "[bold]a\ufffd[2Jb" in shown.getvalue()
