"""Installing, finding and removing the schedule of a launch file, with systemd's user manager or a crontab."""

import os
import re
import shutil
import subprocess
from contextlib import chdir, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

from cudnn_sweep.cluster.launch_file import read_launch_file
from cudnn_sweep.cluster.user_folders import config_home, state_home
from cudnn_sweep.orchestrator.errors import ScheduleError
from cudnn_sweep.orchestrator.launching.destinations import Here, destination_of
from cudnn_sweep.orchestrator.nightly.news import find_webhook
from cudnn_sweep.orchestrator.nightly.request import check_python
from cudnn_sweep.orchestrator.planning.options import LaunchOptions
from cudnn_sweep.orchestrator.planning.request import request_of
from cudnn_sweep.orchestrator.planning.spec import SweepSpec
from cudnn_sweep.orchestrator.running.run_sweep import planned_on
from cudnn_sweep.orchestrator.running.this_machine import ThisMachine
from cudnn_sweep.orchestrator.schedule.entry import (
    Entry,
    key_of,
    mark_of,
    unit_files,
    with_entry,
    without,
)
from cudnn_sweep.workloads.cells.expand import without_missing

SYSTEMD, CRON = "systemd user timer", "crontab"
COMMAND_LIMIT_S = 60  # each is done at once where nothing hangs
# What `crontab -l` says where nothing of ours can be: Debian and cronie, BusyBox, /etc/cron.allow.
NO_CRONTAB = re.compile(r"no crontab for|can't open .*No such file|not allowed to use")
DAILY = re.compile(r"([0-9]+) ([0-9]+) \* \* \* ")


@dataclass(frozen=True, kw_only=True, slots=True)
class Scheduled:
    by: str
    next_time: str
    text: str
    """The entry as it stands there."""


def choose(by: str | None) -> str:
    """`by`, or else the first that this machine has. Raises ScheduleError."""
    reasons = []
    for each, why_not in ((SYSTEMD, _why_no_systemd), (CRON, _why_no_cron)):
        if by in (None, each):
            reason = why_not()
            if reason is None:
                return each
            reasons.append(f"{each}: {reason}")
    raise ScheduleError(f"nothing can be scheduled here; {'; '.join(reasons)}")


def log_of(launch_file: Path) -> Path:
    return state_home(os.environ) / "cudnn-sweep" / f"nightly-{key_of(launch_file)}.log"


def preview(entry: Entry, by: str) -> str:
    return entry.line if by == CRON else _shown(entry.units(config_home(os.environ)))


def install(entry: Entry, by: str) -> None:
    """Replaces an earlier entry of the same launch file, also one of the other scheduler's."""
    entry.log.parent.mkdir(parents=True, exist_ok=True)
    if by == CRON:
        _order("crontab", "-", given=with_entry(_crontab(), entry))
        _remove_timer(entry.launch_file)
        return
    for path, text in entry.units(config_home(os.environ)).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    _order("systemctl", "--user", "daemon-reload")
    _order("systemctl", "--user", "enable", "--quiet", path.name)
    _order("systemctl", "--user", "restart", path.name)  # a running one would keep its old time
    _remove_line(entry.launch_file)


def find(launch_file: Path) -> list[Scheduled]:
    found = []
    service, timer = unit_files(config_home(os.environ), launch_file)
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
        lacks = _ask("pgrep", "-x", "crond?").returncode == 1  # 127: there is no pgrep
        return (
            "no cron daemon runs on this machine: until one does, nothing starts" if lacks else None
        )
    # A user's manager ends with the user's last session, and its timers with it.
    answer = _ask("loginctl", "show-user", "--property=Linger", "--value", str(os.getuid()))
    if answer.stdout.strip() == "yes":
        return None
    return "when you log out your timers end; to keep them running: loginctl enable-linger"


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
    service, timer = unit_files(config_home(os.environ), launch_file)
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
    """Raises ScheduleError where it cannot be read: taken for an empty one, it would be overwritten."""
    if shutil.which("crontab") is None:
        return ""
    answer = _ask("crontab", "-l")
    if answer.returncode == 0:
        return answer.stdout
    if NO_CRONTAB.search(answer.stderr):
        return ""
    raise ScheduleError(f"`crontab -l`: {_complaint(answer)}")


def _ask(*words: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run a system's command, in English. Line ends, and what is not UTF-8, come back and go in as they were."""
    data = None if given is None else given.encode(errors="surrogateescape")
    command = ("env", "LC_ALL=C", *words)
    try:
        done = subprocess.run(
            command, input=data, capture_output=True, timeout=COMMAND_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise ScheduleError(f"`{' '.join(words)}` gave no answer in {COMMAND_LIMIT_S} s") from None
    said, complaint = (each.decode(errors="surrogateescape") for each in (done.stdout, done.stderr))
    return subprocess.CompletedProcess(command, done.returncode, said, complaint)


def _order(*words: str, given: str | None = None) -> None:
    answer = _ask(*words, given=given)
    if answer.returncode:
        raise ScheduleError(f"`{' '.join(words)}`: {_complaint(answer)}")


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
