"""Installing, finding and removing the schedule of a launch file, with systemd or a crontab."""

from contextlib import chdir, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

from cudnn_sweep.cluster.launch_file import read_launch_file
from cudnn_sweep.orchestrator.errors import ScheduleError
from cudnn_sweep.orchestrator.launching.destinations import destination_of
from cudnn_sweep.orchestrator.launching.launch_here import Here
from cudnn_sweep.orchestrator.nightly.webhook import find_webhook
from cudnn_sweep.orchestrator.planning.options import LaunchOptions
from cudnn_sweep.orchestrator.planning.request import request_of
from cudnn_sweep.orchestrator.planning.spec import SweepSpec
from cudnn_sweep.orchestrator.running.run_sweep import planned_on
from cudnn_sweep.orchestrator.running.this_machine import ThisMachine
from cudnn_sweep.orchestrator.schedule.crontab import Crontab
from cudnn_sweep.orchestrator.schedule.entry import Entry, UserFolders
from cudnn_sweep.orchestrator.schedule.scheduler import Scheduled, Scheduler
from cudnn_sweep.orchestrator.schedule.user_timer import UserTimer
from cudnn_sweep.workloads.cells.expand import without_missing

Kind: TypeAlias = Literal["systemd", "cron"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Schedulers:
    every: dict[Kind, Scheduler]
    """The preferred one first."""

    @classmethod
    def here(cls, folders: UserFolders) -> "Schedulers":
        return cls(every={"systemd": UserTimer(config=folders.config), "cron": Crontab()})

    def choose(self, kind: Kind | None) -> Scheduler:
        """That one or else the first that this machine has. Raises ScheduleError."""
        reasons = []
        for scheduler in [self.every[kind]] if kind else self.every.values():
            reason = scheduler.why_not()
            if reason is None:
                return scheduler
            reasons.append(f"{scheduler.name}: {reason}")
        raise ScheduleError(f"nothing can be scheduled here; {'; '.join(reasons)}")

    def install(self, entry: Entry, scheduler: Scheduler) -> None:
        entry.log.parent.mkdir(parents=True, exist_ok=True)
        scheduler.install(entry)
        for other in self.every.values():
            if other is not scheduler:
                other.remove(entry.launch_file)

    def find(self, launch_file: Path) -> list[Scheduled]:
        found = [scheduler.find(launch_file) for scheduler in self.every.values()]
        return [each for each in found if each is not None]

    def remove(self, launch_file: Path) -> list[str]:
        """The names of those that had it."""
        return [each.name for each in self.every.values() if each.remove(launch_file)]


def check(launch_file: Path) -> list[str]:
    """A mistake in what a night reads is to be seen now. Raises one of the folders' errors.

    Returns hints: what is well here and may not be at night, and what a night leaves out.
    """
    hints = []
    folder = launch_file.parent
    with chdir(folder) if folder.is_dir() else nullcontext():  # as at night
        file = read_launch_file(launch_file, SweepSpec)
        nightly = file.sweep.nightly
        if nightly.last_good is not None:
            destination_of(file).check_python(nightly.last_good)
        request = request_of(file, LaunchOptions(file=launch_file, suite=nightly.suite))
        # The nodes of a cluster say at night what they have.
        if isinstance(destination_of(file), Here):
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
