"""A timer and a service of systemd's user manager for each launch file."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from cudnn_sweep.orchestrator.errors import ScheduleError
from cudnn_sweep.orchestrator.schedule.entry import Entry, key_of
from cudnn_sweep.orchestrator.schedule.scheduler import Scheduled, ask, order

NOT_IN_A_PROGRAM = set("'\"\\")  # systemd refuses them, quoted or not
WRITTEN_BY = "# Written by `sweep schedule install`; `sweep schedule remove` removes it."


@dataclass(frozen=True, kw_only=True, slots=True)
class UserTimer:
    config: Path
    """The user's folder of settings."""
    name: str = "systemd user timer"

    def why_not(self) -> str | None:
        if shutil.which("systemctl") is None:
            return "there is no command `systemctl`"
        answer = ask("systemctl", "--user", "show", "--property=Version")
        if answer.code == 0:
            return None
        return f"no user manager answers ({answer.complaint}); log in directly, not by su or sudo"

    def preview(self, entry: Entry) -> str:
        units = {self._service(entry.launch_file): service_of(entry, self._variables)}
        units[self._timer(entry.launch_file)] = timer_of(entry)
        return "\n".join(f"# {path}\n{text}" for path, text in units.items()).rstrip()

    def install(self, entry: Entry) -> None:
        """The timer is started again: a running one would keep its old time."""
        service, timer = self._service(entry.launch_file), self._timer(entry.launch_file)
        service.parent.mkdir(parents=True, exist_ok=True)
        service.write_text(service_of(entry, self._variables))
        timer.write_text(timer_of(entry))
        order("systemctl", "--user", "daemon-reload")
        order("systemctl", "--user", "enable", "--quiet", timer.name)
        order("systemctl", "--user", "restart", timer.name)

    def find(self, launch_file: Path) -> Scheduled | None:
        service, timer = self._service(launch_file), self._timer(launch_file)
        if not timer.exists():
            return None
        files = [path for path in (service, timer) if path.exists()]
        text = "\n".join(f"# {path}\n{path.read_text()}" for path in files).rstrip()
        return Scheduled(by=self.name, next_time=_next_time(timer.name), text=text)

    def remove(self, launch_file: Path) -> bool:
        service, timer = self._service(launch_file), self._timer(launch_file)
        there = [path for path in (service, timer) if path.exists()]
        if not there:
            return False
        reachable = self.why_not() is None
        if reachable and timer in there:
            order("systemctl", "--user", "disable", "--quiet", "--now", timer.name)
        for path in (*there, timer.parent / "timers.target.wants" / timer.name):
            path.unlink(missing_ok=True)
        if reachable:
            order("systemctl", "--user", "daemon-reload")
        return True

    def hint(self) -> str | None:
        """A user's manager ends with the user's last session, and its timers with it."""
        answer = ask("loginctl", "show-user", "--property=Linger", "--value", str(os.getuid()))
        if answer.code == 0 and answer.text.strip() == "yes":
            return None
        return "when you log out your timers end; to keep them running: loginctl enable-linger"

    @property
    def _variables(self) -> Path:
        """A file of the user's, which need not be there: a night has no shell to set them."""
        return self.config / "cudnn-sweep" / "env"

    def _service(self, launch_file: Path) -> Path:
        return self.config / "systemd" / "user" / f"cudnn-sweep-{key_of(launch_file)}.service"

    def _timer(self, launch_file: Path) -> Path:
        return self._service(launch_file).with_suffix(".timer")


def service_of(entry: Entry, variables: Path) -> str:
    """Only ExecStart takes quotes. The slash at its end saves a folder whose name ends in a space.

    Raises ScheduleError for a program that systemd would not start.
    """
    first, *others = entry.words
    if NOT_IN_A_PROGRAM & set(first):
        raise ScheduleError(
            f"{first}: systemd starts no program whose path has quotes or a backslash; use --cron"
        )
    words = " ".join(map(_quote, (f":{first}", *others)))  # `:` leaves `$` alone
    return f"""\
{WRITTEN_BY}
[Unit]
Description={_escape(f"Nightly sweep of {entry.launch_file} (cudnn-sweep)")}

[Service]
Type=oneshot
WorkingDirectory={_escape(str(entry.launch_file.parent))}/
EnvironmentFile=-{_escape(str(variables))}
ExecStart={words}
StandardOutput=append:{_escape(str(entry.log))}
StandardError=inherit
# A stop is told to sweep alone, which ends its own processes.
KillMode=mixed
"""


def timer_of(entry: Entry) -> str:
    return f"""\
{WRITTEN_BY}
[Unit]
Description={_escape(f"Nightly sweep of {entry.launch_file} (cudnn-sweep)")}

[Timer]
OnCalendar=*-*-* {entry.at:%H:%M}:00
AccuracySec=1s

[Install]
WantedBy=timers.target
"""


def _escape(text: str) -> str:
    return text.replace("%", "%%")


def _quote(word: str) -> str:
    escaped = _escape(word).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _next_time(timer: str) -> str:
    words = ("systemctl", "--user", "show", "--property=NextElapseUSecRealtime", "--value", timer)
    try:
        answer = ask(*words) if shutil.which("systemctl") else None
    except ScheduleError:
        answer = None
    if answer is None or answer.code:
        return "unknown: no systemd user manager answers"
    return answer.text.strip() or "never: the timer is stopped"
