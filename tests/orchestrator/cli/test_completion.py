"""What Tab completes, asked as a shell asks it."""

import pytest
from typer.testing import CliRunner

from cudnn_sweep.orchestrator.cli import app


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("sweep query helps", "helps_or_hurts"),
        ("sweep query failures --format ma", "markdown"),
        ("sweep schema sui", "suite"),
        ("sweep schedule rem", "remove"),
    ],
)
def test_tab_completes(typed: str, completed: str) -> None:
    asked = {
        "_SWEEP_COMPLETE": "complete_bash",
        "COMP_WORDS": typed,
        "COMP_CWORD": str(typed.count(" ")),
    }
    told = CliRunner().invoke(app, [], prog_name="sweep", env=asked)
    assert told.exit_code == 0, told.output
    assert told.stdout.split() == [completed]
