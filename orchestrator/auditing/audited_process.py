"""Runs the user's script as `python script.py arguments` would, and reads what was found in it."""

import json
import math
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Literal

from pydantic import TypeAdapter

from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.process.linux import die_with_parent
from cudnn_sweep.workloads.auditing.begin import END, VARIABLE
from cudnn_sweep.workloads.auditing.findings import Findings

FINDINGS = "findings.json"
START = "sitecustomize.py"  # Python imports a module of this name before it runs anything
START_TEXT = """\
import os, sys
before = {*sys.modules}
from cudnn_sweep.workloads.auditing.begin import begin
begin(os.path.dirname(__file__), before)
"""
REPEAT_S = 5.0  # between signals to a script that does not end at its limit
GRACE_S = 30.0  # for it to end, save what it has, and say so
LONGEST_S = 3600.0  # that is waited at a time
SIGNALLED = 128  # an exit code, and the signal's number
WATCHED = {signal.SIGINT, signal.SIGTERM, signal.SIGCHLD}

Ended = Literal["itself", "limit", "interrupt", "signal"]


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditRequest:
    script: str
    """A file, or a module's name."""
    is_module: bool
    arguments: tuple[str, ...]
    seconds: float | None
    steps: int | None

    @property
    def words(self) -> list[str]:
        return [*(["-m"] if self.is_module else []), self.script, *self.arguments]


@dataclass(frozen=True, kw_only=True, slots=True)
class Audited:
    request: AuditRequest
    ended: Ended
    """itself: the script ran to its end; limit: by --seconds or --steps; interrupt: Ctrl-C, or the end of the
    command; signal: another signal."""
    exit_code: int
    """The script's own; 0 at a limit; 128 and its number for a signal."""
    findings: Findings | None
    """None: the script was killed, or replaced itself by another program, before it could say anything."""


def audit_script(request: AuditRequest) -> Audited:
    """Raises SpecError for a file that is not there."""
    if not request.is_module and not Path(request.script).exists():
        raise SpecError(
            f"{request.script}: no such file; allowed: a script of Python, or -m MODULE"
        )
    with tempfile.TemporaryDirectory(prefix="sweep-audit-") as folder:
        Path(folder, START).write_text(START_TEXT, encoding="utf-8")
        command, environment = [sys.executable, *request.words], _environment(request, Path(folder))
        with _signals_held():
            process = subprocess.Popen(  # the command has one thread
                command,
                env=environment,
                preexec_fn=_in_the_child,  # noqa: PLW1509
            )
            signalled = _wait(process, request.seconds)
        findings = _read(Path(folder, FINDINGS))
    ended = _ended(process.returncode, findings, signalled)
    code = _exit_code(process.returncode, ended, signalled)
    return Audited(request=request, ended=ended, exit_code=code, findings=findings)


def _environment(request: AuditRequest, folder: Path) -> dict[str, str]:
    theirs = os.environ.get("PYTHONPATH")
    asked = {
        "findings": str(folder / FINDINGS),
        "steps": request.steps,
        "python_path": theirs,
        "modules": "." if request.is_module else os.path.dirname(os.path.realpath(request.script)),
    }
    path = os.pathsep.join([str(folder), *([theirs] if theirs else [])])
    return {**os.environ, "PYTHONPATH": path, VARIABLE: json.dumps(asked)}


@contextmanager
def _signals_held() -> Iterator[None]:
    """They are waited for instead: the script decides what Ctrl-C does to it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _in_the_child() -> None:
    die_with_parent()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, WATCHED)


def _wait(process: "subprocess.Popen[bytes]", seconds: float | None) -> int | None:
    """Until it has ended; the last signal that came to this command."""
    asks_at = math.inf if seconds is None else monotonic() + seconds
    kills_at = math.inf
    last: int | None = None
    while process.poll() is None:
        now = monotonic()
        if now >= min(asks_at, kills_at):
            process.send_signal(signal.SIGKILL if now >= kills_at else END)
            asks_at, kills_at = now + REPEAT_S, min(kills_at, now + GRACE_S)
        came = signal.sigtimedwait(WATCHED, min(LONGEST_S, max(0.0, asks_at - monotonic())))
        if came is None or came.si_signo == signal.SIGCHLD:
            continue
        last = came.si_signo
        if last == signal.SIGTERM:
            asks_at = min(asks_at, monotonic())
        elif came.si_code <= 0:  # from a process; a terminal tells the script itself
            process.send_signal(last)
    return last


def _read(file: Path) -> Findings | None:
    if not file.exists():
        return None
    return TypeAdapter(Findings).validate_json(file.read_bytes())


def _ended(code: int, findings: Findings | None, signalled: int | None) -> Ended:
    if signalled is not None:
        return "interrupt"
    if findings is not None and findings.limit_reached:
        return "limit"
    return "signal" if code < 0 else "itself"


def _exit_code(code: int, ended: Ended, signalled: int | None) -> int:
    """As a shell says it."""
    if ended == "limit":
        return 0
    if signalled == signal.SIGTERM:
        return SIGNALLED + signal.SIGTERM
    return code if code >= 0 else SIGNALLED - code
