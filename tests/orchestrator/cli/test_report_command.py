"""What `sweep report` shows while it works."""

import io
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from cudnn_sweep.orchestrator.exit_codes import ExitCode
from cudnn_sweep.orchestrator.terminal import say
from tests.orchestrator.typed import invoke

report: Any = import_module("cudnn_sweep.orchestrator.cli.report")  # the package has its command
MADE_UP = Path(__file__).parents[2] / "goldens/made-up"


@pytest.mark.long
@pytest.mark.parametrize("is_terminal", [True, pytest.param(False, marks=pytest.mark.long)])
def test_a_terminal_shows_what_a_report_does(
    monkeypatch: pytest.MonkeyPatch, is_terminal: bool
) -> None:
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=is_terminal, width=120)
    monkeypatch.setattr(say, "console_here", lambda **_: console)
    done = invoke(["report", "--results", str(MADE_UP), "--format", "json"])
    assert done.exit_code == 0
    assert ("Report: comparing benchmark: false → true, 1 of " in shown.getvalue()) == is_terminal
    assert "Report:" not in done.stdout


def test_names_of_users_are_no_markup_there() -> None:
    shown = io.StringIO()
    status = Console(file=shown, force_terminal=True, width=120).status("")
    with status:
        assert list(report._followed(["[bold]a\x1b[2Jb"], status))
    assert "[bold]a\ufffd[2Jb, 1 of 1" in shown.getvalue()


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("words", "mistake"),
    [
        (["--page", "claims"], "--watch: found --page claims, allowed: the HTML report"),
        (["--format", "markdown"], "--watch: found --format markdown, allowed: the HTML report"),
        (["--json"], "--watch: found --format json, allowed: the HTML report"),
        ([], "none; choose another with --results"),
    ],
)
def test_only_the_html_report_is_written_anew_each_minute(words: list[str], mistake: str) -> None:
    done = invoke(["report", "--results", "none", "--watch", *words])
    assert done.exit_code == ExitCode.USAGE
    assert mistake in " ".join(done.output.split())
