"""A launch file's night, every day at a time: a timer of systemd's user manager, or a line of the crontab."""

import os
import re
import shlex
import shutil
import subprocess
from contextlib import chdir, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime, time, timedelta
from hashlib import blake2b
from pathlib import Path

from cudnn_sweep.cluster.launch_file import read_launch_file
from cudnn_sweep.cluster.user_folders import config_home, state_home
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.launching.destinations import Here, destination_of
from cudnn_sweep.orchestrator.nightly.news import find_webhook
from cudnn_sweep.orchestrator.nightly.request import check_python
from cudnn_sweep.orchestrator.planning.options import LaunchOptions
from cudnn_sweep.orchestrator.planning.request import request_of
from cudnn_sweep.orchestrator.planning.spec import SweepSpec
from cudnn_sweep.orchestrator.running.run_sweep import planned_on
from cudnn_sweep.orchestrator.running.this_machine import ThisMachine
from cudnn_sweep.workloads.cells.expand import without_missing

SYSTEMD, CRON = "systemd user timer", "crontab"
COMMAND_LIMIT_S = 60  # each is done at once where nothing hangs
HOURS_AND_MINUTES = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])", re.ASCII)
DAILY = re.compile(r"([0-9]+) ([0-9]+) \* \* \* ")
# What `crontab -l` says where nothing of ours can be: Debian and cronie, BusyBox, /etc/cron.allow.
NO_CRONTAB = re.compile(r"no crontab for|can't open .*No such file|not allowed to use")
UNIT = """\
# Written by `sweep schedule install`; `sweep schedule remove` removes it.
[Unit]
Description={description}

"""
SERVICE = """\
[Service]
Type=oneshot
EnvironmentFile=-{variables}
ExecStart=:/bin/sh -c "{command}"
# A stop is told to sweep alone, which ends its own processes.
KillMode=mixed
"""
TIMER = """\
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

    def __post_init__(self) -> None:
        for text in (str(self.launch_file), *self.program, str(self.log)):
            if not text.isprintable():
                raise SpecError(
                    f"{text!r}: a schedule takes no path with line breaks or other signs "
                    "that cannot be printed"
                )

    @property
    def log(self) -> Path:
        return log_of(self.launch_file)

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

    def units(self) -> dict[Path, str]:
        """The texts of service and timer, by their files."""
        service, timer = unit_files(self.launch_file)
        description = f"Nightly sweep of {self.launch_file} (cudnn-sweep)".replace("%", "%%")
        command = self.command.replace("%", "%%").replace("\\", "\\\\").replace('"', '\\"')
        variables = str(config_home(os.environ) / "cudnn-sweep" / "env").replace("%", "%%")
        head = UNIT.format(description=description)
        return {
            service: head + SERVICE.format(variables=variables, command=command),
            timer: head + TIMER.format(at=self.at),
        }

    def text(self, by: str) -> str:
        return self.line if by == CRON else _shown(self.units())


@dataclass(frozen=True, kw_only=True, slots=True)
class Scheduled:
    by: str
    next_time: str
    text: str
    """The entry as it stands there."""


def parse_time(text: str) -> time:
    """Raises SpecError for all but HH:MM."""
    found = HOURS_AND_MINUTES.fullmatch(text)
    if found is None:
        raise SpecError(f"--at takes HH:MM, from 00:00 to 23:59; found {text!r}")
    return time(int(found[1]), int(found[2]))


def absolute(launch_file: Path) -> Path:
    """The same for every way to name a file. A link to a file stays: it may lead elsewhere tomorrow."""
    return launch_file.parent.resolve() / launch_file.name


def key_of(launch_file: Path) -> str:
    """What entries are told apart by."""
    return blake2b(str(launch_file).encode(errors="surrogateescape"), digest_size=6).hexdigest()


def log_of(launch_file: Path) -> Path:
    return state_home(os.environ) / "cudnn-sweep" / f"nightly-{key_of(launch_file)}.log"


def mark_of(launch_file: Path) -> str:
    """The end of a crontab's line that is ours: a comment to the shell that cron starts."""
    return f" # cudnn-sweep {key_of(launch_file)}"


def unit_files(launch_file: Path) -> tuple[Path, Path]:
    folder = config_home(os.environ) / "systemd" / "user"
    service = folder / f"cudnn-sweep-{key_of(launch_file)}.service"
    return service, service.with_suffix(".timer")


def choose(by: str | None) -> str:
    """`by`, or else the first that this machine has. Raises SpecError."""
    reasons = []
    for each, why_not in ((SYSTEMD, _why_no_systemd), (CRON, _why_no_cron)):
        if by in (None, each):
            reason = why_not()
            if reason is None:
                return each
            reasons.append(f"{each}: {reason}")
    raise SpecError(f"nothing can be scheduled here; {'; '.join(reasons)}")


def install(entry: Entry, by: str) -> None:
    """Replaces an earlier entry of the same launch file, also one of the other scheduler's."""
    entry.log.parent.mkdir(parents=True, exist_ok=True)
    if by == CRON:
        _order("crontab", "-", given=with_entry(_crontab(), entry))
        _remove_timer(entry.launch_file)
        return
    for path, text in entry.units().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    _order("systemctl", "--user", "daemon-reload")
    _order("systemctl", "--user", "enable", "--quiet", path.name)
    _order("systemctl", "--user", "restart", path.name)  # a running one would keep its old time
    _remove_line(entry.launch_file)


def find(launch_file: Path) -> list[Scheduled]:
    found = []
    service, timer = unit_files(launch_file)
    if timer.exists():
        text = _shown({path: path.read_text() for path in (service, timer) if path.exists()})
        found.append(Scheduled(by=SYSTEMD, next_time=_next_start(timer.name), text=text))
    for line in _crontab().split("\n"):
        if line.endswith(mark_of(launch_file)):
            found.append(Scheduled(by=CRON, next_time=next_time_of(line), text=line))
    return found


def remove(launch_file: Path) -> list[str]:
    removed = {SYSTEMD: _remove_timer(launch_file), CRON: _remove_line(launch_file)}
    return [by for by, was_there in removed.items() if was_there]


def hint(by: str) -> str | None:
    """What else a night needs, which this machine seems to lack."""
    if by == CRON:
        if _ask("pgrep", "-x", "crond?").returncode == 1:  # 127: there is no pgrep
            return "no cron daemon runs on this machine: until one does, nothing starts"
        return None
    # A user's manager ends with the user's last session, and its timers with it.
    answer = _ask("loginctl", "show-user", "--property=Linger", "--value", str(os.getuid()))
    if answer.stdout.strip() == "yes":
        return None
    return "when you log out your timers end; to keep them running: loginctl enable-linger"


def with_entry(crontab: str, entry: Entry) -> str:
    """In the place of an earlier entry, or at the end."""
    mark = mark_of(entry.launch_file)
    lines = crontab.split("\n")
    if any(line.endswith(mark) for line in lines):
        return "\n".join(entry.line if line.endswith(mark) else line for line in lines)
    end = "" if not crontab or crontab.endswith("\n") else "\n"
    return f"{crontab}{end}{entry.line}\n"


def without(crontab: str, launch_file: Path) -> str:
    mark = mark_of(launch_file)
    return "\n".join(line for line in crontab.split("\n") if not line.endswith(mark))


def next_time_of(line: str) -> str:
    found = DAILY.match(line)
    if found is None:
        return "unknown: this line was changed by hand"
    now = datetime.now()
    then = now.replace(hour=int(found[2]), minute=int(found[1]), second=0, microsecond=0)
    coming = then if then > now else then + timedelta(days=1)
    return f"{coming.astimezone():%a %Y-%m-%d %H:%M:%S %Z}"


def _why_no_systemd() -> str | None:
    if shutil.which("systemctl") is None:
        return "there is no command `systemctl`"
    answer = _ask("systemctl", "--user", "show", "--property=Version")
    if answer.returncode == 0:
        return None
    complaint = answer.stderr.strip()
    return f"no user manager answers ({complaint}); log in directly, not by su or sudo"


def _why_no_cron() -> str | None:
    return None if shutil.which("crontab") else "there is no command `crontab`"


def _shown(units: dict[Path, str]) -> str:
    return "\n".join(f"# {path}\n{text}" for path, text in units.items()).rstrip()


def _next_start(timer: str) -> str:
    answer = _ask(
        "systemctl", "--user", "show", "--property=NextElapseUSecRealtime", "--value", timer
    )
    if answer.returncode:
        return "unknown: no systemd user manager answers"
    return answer.stdout.strip() or "never: the timer is stopped"


def _remove_timer(launch_file: Path) -> bool:
    service, timer = unit_files(launch_file)
    there = [path for path in (service, timer) if path.exists()]
    reachable = bool(there) and _why_no_systemd() is None
    if reachable and timer in there:
        _order("systemctl", "--user", "disable", "--quiet", "--now", timer.name)
    for path in (*there, timer.parent / "timers.target.wants" / timer.name):
        path.unlink(missing_ok=True)
    if reachable:
        _order("systemctl", "--user", "daemon-reload")
    return bool(there)


def _remove_line(launch_file: Path) -> bool:
    before = _crontab()
    after = without(before, launch_file)
    if after != before:
        _order("crontab", "-", given=after)
    return after != before


def _crontab() -> str:
    """Raises SpecError where it cannot be read: taken for an empty one, it would be overwritten."""
    if shutil.which("crontab") is None:
        return ""
    answer = _ask("crontab", "-l")
    if answer.returncode and not NO_CRONTAB.search(answer.stderr):
        raise SpecError(f"`crontab -l`: {_complaint(answer)}")
    return "" if answer.returncode else answer.stdout


def _ask(*words: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run a system's command, in English. Line ends, and what is not UTF-8, come back and go in as they were."""
    data = None if given is None else given.encode(errors="surrogateescape")
    command = ("env", "LC_ALL=C", *words)
    try:
        done = subprocess.run(
            command, input=data, capture_output=True, timeout=COMMAND_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise SpecError(f"`{' '.join(words)}` gave no answer in {COMMAND_LIMIT_S} s") from None
    said, complaint = (each.decode(errors="surrogateescape") for each in (done.stdout, done.stderr))
    return subprocess.CompletedProcess(command, done.returncode, said, complaint)


def _order(*words: str, given: str | None = None) -> None:
    answer = _ask(*words, given=given)
    if answer.returncode:
        raise SpecError(f"`{' '.join(words)}`: {_complaint(answer)}")


def _complaint(answer: subprocess.CompletedProcess[str]) -> str:
    text = answer.stderr.strip().encode(errors="surrogateescape").decode(errors="replace")
    return text or f"exit code {answer.returncode}"


def check(launch_file: Path) -> list[str]:
    """Read what a night will read, as a mistake is to be seen now. Raises one of the folders' errors.

    Returns hints: what is well here and may not be at night, and what a night leaves out.
    """
    hints = []
    folder = launch_file.parent
    with chdir(folder) if folder.is_dir() else nullcontext():  # as at night
        file = read_launch_file(launch_file, SweepSpec)
        nightly = file.sweep.nightly
        request = request_of(file, LaunchOptions(file=launch_file, suite=nightly.suite))
        # The nodes of a cluster say at night what they have.
        if isinstance(destination_of(file), Here):
            check_python(nightly.last_good)
            suite = request.suite.model_copy(update={"needs_cuda": False})
            machine = ThisMachine().look(suite)
            planned_on(machine, replace(request, may_skip=True))
            _, skipped = without_missing(suite, machine.workloads)
            hints += [f"a night leaves out {name}: {why}" for name, why in skipped.items()]
        if nightly.webhook is not None and nightly.webhook.url_env is None:
            find_webhook(nightly.webhook, {})
    if nightly.webhook is not None and nightly.webhook.url_env is not None:
        hints.append(
            f"a night does not see this shell's {nightly.webhook.url_env}, which the webhook's url_env names: "
            "set it in ~/.config/cudnn-sweep/env (systemd) or at the top of the crontab, or use url_file. "
            "Without it a night is measured and nobody is told"
        )
    return hints
