"""A line of the user's crontab for each launch file; nobody else's line is touched."""

import re
import shlex
import shutil
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cudnn_sweep.orchestrator.errors import ScheduleError
from cudnn_sweep.orchestrator.schedule.entry import Entry, key_of
from cudnn_sweep.orchestrator.schedule.scheduler import Scheduled, ask, order

# What `crontab -l` says where nothing of ours can be: Debian and cronie, BusyBox, /etc/cron.allow.
NOTHING = re.compile(r"no crontab for|can't open .*No such file|not allowed to use")
TIME = re.compile(r"([0-9]+) ([0-9]+) \* \* \* ")
DAEMONS = {"cron", "crond"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Crontab:
    name: str = "crontab"

    def why_not(self) -> str | None:
        return None if shutil.which("crontab") else "there is no command `crontab`"

    def preview(self, entry: Entry) -> str:
        return line_of(entry)

    def install(self, entry: Entry) -> None:
        _write(with_entry(_read(), entry))

    def find(self, launch_file: Path) -> Scheduled | None:
        for line in _read().split("\n"):
            if line.endswith(_mark(launch_file)):
                return Scheduled(by=self.name, next_time=next_time_of(line), text=line)
        return None

    def remove(self, launch_file: Path) -> bool:
        before = _read()
        after = without(before, launch_file)
        if after != before:
            _write(after)
        return after != before

    def hint(self) -> str | None:
        for comm in Path("/proc").glob("[0-9]*/comm"):
            try:
                if comm.read_text().strip() in DAEMONS:
                    return None
            except OSError:  # it has just ended
                continue
        return "no cron daemon runs on this machine: until one does, nothing starts"


def line_of(entry: Entry) -> str:
    words = shlex.join(entry.words)
    folder, log = shlex.quote(str(entry.launch_file.parent)), shlex.quote(str(entry.log))
    command = f"(cd {folder} && {words}) >> {log} 2>&1"
    return f"{entry.at.minute} {entry.at.hour} * * * {_escape(command)}{_mark(entry.launch_file)}"


def _escape(command: str) -> str:
    r"""cron turns `%` into a line break and `\%` into `%`. It takes `\\%` for a backslash and a break,
    so that two quotes, which are nothing to the shell, part a backslash from its neighbour.
    """
    return command.replace("\\%", "\\''%").replace("%", "\\%")


def _mark(launch_file: Path) -> str:
    """A comment to the shell that cron starts."""
    return f" # cudnn-sweep {key_of(launch_file)}"


def with_entry(text: str, entry: Entry) -> str:
    """An entry that is there is replaced in its place: variables set above it hold for it."""
    mark, ours = _mark(entry.launch_file), line_of(entry)
    lines = text.split("\n")
    if any(line.endswith(mark) for line in lines):
        return "\n".join(ours if line.endswith(mark) else line for line in lines)
    end = "" if not text or text.endswith("\n") else "\n"
    return f"{text}{end}{ours}\n"


def without(text: str, launch_file: Path) -> str:
    mark = _mark(launch_file)
    return "\n".join(line for line in text.split("\n") if not line.endswith(mark))


def next_time_of(line: str) -> str:
    found = TIME.match(line)
    if found is None:
        return "unknown: this line was changed by hand"
    now = datetime.now()
    then = now.replace(hour=int(found[2]), minute=int(found[1]), second=0, microsecond=0)
    coming = then if then > now else then + timedelta(days=1)
    return f"{coming.astimezone():%a %Y-%m-%d %H:%M:%S %Z}"


def _read() -> str:
    if shutil.which("crontab") is None:
        return ""
    answer = ask("crontab", "-l")
    if answer.code == 0:
        return answer.text
    if NOTHING.search(answer.complaint):
        return ""
    # Taken for an empty one, a crontab that cannot be read would be overwritten.
    raise ScheduleError(f"`crontab -l`: {answer.complaint or f'exit code {answer.code}'}")


def _write(text: str) -> None:
    order("crontab", "-", given=text)
