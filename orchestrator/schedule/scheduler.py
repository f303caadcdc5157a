"""What fires entries: systemd's user timers or a crontab."""

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from cudnn_sweep.orchestrator.errors import ScheduleError
from cudnn_sweep.orchestrator.schedule.entry import Entry

COMMAND_LIMIT_S = 60  # each is done at once where nothing hangs


@dataclass(frozen=True, kw_only=True, slots=True)
class Scheduled:
    by: str
    next_time: str
    text: str
    """The entry as it stands there."""


class Scheduler(Protocol):
    @property
    def name(self) -> str: ...

    def why_not(self) -> str | None:
        """Why nothing can be scheduled here; None where it can."""

    def preview(self, entry: Entry) -> str: ...

    def install(self, entry: Entry) -> None:
        """Takes the place of an earlier entry of the same launch file. Raises ScheduleError."""

    def find(self, launch_file: Path) -> Scheduled | None: ...

    def remove(self, launch_file: Path) -> bool:
        """Whether there was one. Raises ScheduleError."""

    def hint(self) -> str | None:
        """What else a night needs, which this machine seems to lack."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CommandAnswer:
    code: int
    text: str
    complaint: str


def ask(*words: str, given: str | None = None) -> CommandAnswer:
    """Run a system's command, in English. What is not UTF-8 comes back, and goes in, as it was."""
    data = None if given is None else given.encode(errors="surrogateescape")
    try:
        done = subprocess.run(
            ("env", "LC_ALL=C", *words),
            input=data,
            capture_output=True,
            timeout=COMMAND_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ScheduleError(f"`{' '.join(words)}` gave no answer in {COMMAND_LIMIT_S} s") from None
    return CommandAnswer(
        code=done.returncode,
        text=done.stdout.decode(errors="surrogateescape"),
        complaint=done.stderr.decode(errors="replace").strip(),
    )


def order(*words: str, given: str | None = None) -> CommandAnswer:
    """Run a command that must not fail. Raises ScheduleError."""
    answer = ask(*words, given=given)
    if answer.code:
        raise ScheduleError(
            f"`{' '.join(words)}`: {answer.complaint or f'exit code {answer.code}'}"
        )
    return answer
