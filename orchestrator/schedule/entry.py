"""A launch file's night, every day at a time, as a crontab and as systemd's user manager have it."""

import re
import shlex
from dataclasses import dataclass
from datetime import time
from hashlib import blake2b
from pathlib import Path

from cudnn_sweep.orchestrator.errors import ScheduleError

HOURS_AND_MINUTES = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])", re.ASCII)
SERVICE = """\
# Written by `sweep schedule install`; `sweep schedule remove` removes it.
[Unit]
Description={description}

[Service]
Type=oneshot
EnvironmentFile=-{variables}
ExecStart=:/bin/sh -c "{command}"
# A stop is told to sweep alone, which ends its own processes.
KillMode=mixed
"""
TIMER = """\
# Written by `sweep schedule install`; `sweep schedule remove` removes it.
[Unit]
Description={description}

[Timer]
OnCalendar=*-*-* {at:%H:%M}:00
AccuracySec=1s

[Install]
WantedBy=timers.target
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    launch_file: Path
    """Absolute."""
    program: tuple[str, ...]
    """The words that start `sweep`, the first an absolute path."""
    at: time
    log: Path

    def __post_init__(self) -> None:
        for text in (str(self.launch_file), *self.program, str(self.log)):
            if not text.isprintable():
                raise ScheduleError(
                    f"{text!r}: a schedule takes no path with line breaks or other signs "
                    "that cannot be printed"
                )

    @property
    def command(self) -> str:
        """For a shell, which sweep replaces: a stop would end the shell alone."""
        words = shlex.join((*self.program, "nightly", str(self.launch_file)))
        folder, log = shlex.quote(str(self.launch_file.parent)), shlex.quote(str(self.log))
        return f"exec >> {log} 2>&1; cd {folder} && exec {words}"

    @property
    def line(self) -> str:
        r"""Of a crontab, where cron turns `%` into a line break and `\%` into `%`. It takes `\\%` for a backslash
        and a break, so two quotes, which are nothing to the shell, part a backslash from its neighbour.
        """
        command = self.command.replace("\\%", "\\''%").replace("%", "\\%")
        return f"{self.at.minute} {self.at.hour} * * * {command}{mark_of(self.launch_file)}"

    def units(self, config: Path) -> dict[Path, str]:
        """Service and timer by their files. `config`: the user's folder of settings."""
        service, timer = unit_files(config, self.launch_file)
        description = f"Nightly sweep of {self.launch_file} (cudnn-sweep)".replace("%", "%%")
        command = self.command.replace("%", "%%").replace("\\", "\\\\").replace('"', '\\"')
        variables = str(config / "cudnn-sweep" / "env").replace("%", "%%")
        return {
            service: SERVICE.format(description=description, variables=variables, command=command),
            timer: TIMER.format(description=description, at=self.at),
        }


def unit_files(config: Path, launch_file: Path) -> tuple[Path, Path]:
    service = config / "systemd" / "user" / f"cudnn-sweep-{key_of(launch_file)}.service"
    return service, service.with_suffix(".timer")


def mark_of(launch_file: Path) -> str:
    """The end of a crontab's line that is ours: a comment to the shell that cron starts."""
    return f" # cudnn-sweep {key_of(launch_file)}"


def with_entry(crontab: str, entry: Entry) -> str:
    """An entry that is there is replaced in its place: variables set above it hold for it."""
    mark = mark_of(entry.launch_file)
    lines = crontab.split("\n")
    if any(line.endswith(mark) for line in lines):
        return "\n".join(entry.line if line.endswith(mark) else line for line in lines)
    end = "" if not crontab or crontab.endswith("\n") else "\n"
    return f"{crontab}{end}{entry.line}\n"


def without(crontab: str, launch_file: Path) -> str:
    mark = mark_of(launch_file)
    return "\n".join(line for line in crontab.split("\n") if not line.endswith(mark))


def parse_time(text: str) -> time:
    """Raises ScheduleError for all but HH:MM."""
    found = HOURS_AND_MINUTES.fullmatch(text)
    if found is None:
        raise ScheduleError(f"--at takes HH:MM, from 00:00 to 23:59; found {text!r}")
    return time(int(found[1]), int(found[2]))


def absolute(launch_file: Path) -> Path:
    """The same for every way to name a file. A link to a file stays: it may lead elsewhere tomorrow."""
    return launch_file.parent.resolve() / launch_file.name


def key_of(launch_file: Path) -> str:
    """What entries are told apart by."""
    return blake2b(str(launch_file).encode(errors="surrogateescape"), digest_size=6).hexdigest()
