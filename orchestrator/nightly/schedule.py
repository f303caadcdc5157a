"""A launch file's night as a line of a crontab. What the night will read is read now, so that a mistake is seen."""

import re
import shlex
from collections.abc import Sequence
from contextlib import chdir, nullcontext
from datetime import time
from pathlib import Path

from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.launching.destinations import Here
from cudnn_sweep.orchestrator.nightly.request import read_night
from cudnn_sweep.orchestrator.planning.options import NightOptions
from cudnn_sweep.orchestrator.running.run_sweep import planned_on
from cudnn_sweep.orchestrator.running.this_machine import ThisMachine

HOURS_AND_MINUTES = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])", re.ASCII)


def crontab_line(launch_file: Path, program: Sequence[str], at: time) -> str:
    r"""`program`: the words that start `sweep`. The night runs in its launch file's folder, where its log is.

    cron turns `%` into a line break and `\%` into `%`. It takes `\\%` for a backslash and a break, so two quotes,
    which are nothing to the shell, part a backslash from its neighbour. Raises SpecError for a path that no line holds.
    """
    file = absolute(launch_file)
    words = shlex.join((*program, "nightly", str(file)))
    folder, log = shlex.quote(str(file.parent)), shlex.quote(f"./{file.stem}.nightly.log")
    command = f"cd {folder} && exec {words} >> {log} 2>&1"
    if not command.isprintable():
        raise SpecError(f"{command!r}: a crontab takes no path with signs that cannot be printed")
    escaped = command.replace("\\%", "\\''%").replace("%", "\\%")
    return f"{at.minute} {at.hour} * * * {escaped}"


def parse_time(text: str) -> time:
    """Raises SpecError for all but HH:MM."""
    found = HOURS_AND_MINUTES.fullmatch(text)
    if found is None:
        raise SpecError(f"--at takes HH:MM, from 00:00 to 23:59; found {text!r}")
    return time(int(found[1]), int(found[2]))


def absolute(launch_file: Path) -> Path:
    """The same for every way to name a file. A link to a file stays: it may lead elsewhere tomorrow."""
    return launch_file.parent.resolve() / launch_file.name


def check(launch_file: Path) -> list[str]:
    """Read what a night will read, so that a mistake shows now. Raises one of the folders' errors.

    Returns hints: what is well here and may not be at night, and what a night leaves out.
    """
    hints = []
    folder = launch_file.parent
    with chdir(folder) if folder.is_dir() else nullcontext():  # as at night
        night = read_night(NightOptions(file=launch_file), {})
        if night.fault is not None:
            raise night.fault
        if isinstance(night.destination, Here):  # a cluster's nodes say at night what they have
            suite = night.suite.model_copy(update={"needs_cuda": False})
            skipped = planned_on(ThisMachine().look(suite), night.request).skipped
            hints += [f"a night leaves out {name}: {why}" for name, why in skipped.items()]
    webhook = night.keys.webhook
    if webhook is not None and webhook.url_env is not None:
        hints.append(
            f"a night does not see this shell's {webhook.url_env}, which the webhook's url_env names: "
            "set it at the top of the crontab, or use url_file. "
            "Without it a night is measured and nobody is told"
        )
    elif isinstance(night.webhook, SpecError):
        raise night.webhook
    return hints
