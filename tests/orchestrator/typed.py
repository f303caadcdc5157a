"""Python and `sweep` as they are typed: each in a process of its own, or in this one."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias
from unittest.mock import patch

import typer
from typer.testing import CliRunner, Result

from cudnn_sweep.orchestrator.cli import app

Done: TypeAlias = "subprocess.CompletedProcess[str]"


def python(*words: str, here: Path | None = None, **environment: str) -> Done:
    return subprocess.run(
        [sys.executable, *words],
        cwd=here,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def sweep(*words: str, here: Path | None = None, **environment: str) -> Done:
    return python("-m", "cudnn_sweep.orchestrator.cli", *words, here=here, **environment)


@cache  # to make it takes as long as many a command
def _command() -> Any:
    return typer.main.get_command(app)


def invoke(words: Sequence[str], env: Mapping[str, str] | None = None, **options: Any) -> Result:
    """What a command does in this process."""
    with patch("typer.testing._get_command", lambda _: _command()):
        return CliRunner(env=env).invoke(app, list(words), **options)
