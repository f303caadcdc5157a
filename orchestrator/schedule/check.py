"""What a night will read, read when it is scheduled: a mistake is to be seen now."""

from contextlib import chdir, nullcontext
from dataclasses import replace
from pathlib import Path

from cudnn_sweep.cluster.launch_file import read_launch_file
from cudnn_sweep.orchestrator.launching.destinations import Here, destination_of
from cudnn_sweep.orchestrator.nightly.request import check_python
from cudnn_sweep.orchestrator.nightly.webhook import find_webhook
from cudnn_sweep.orchestrator.planning.options import LaunchOptions
from cudnn_sweep.orchestrator.planning.request import request_of
from cudnn_sweep.orchestrator.planning.spec import SweepSpec
from cudnn_sweep.orchestrator.running.run_sweep import planned_on
from cudnn_sweep.orchestrator.running.this_machine import ThisMachine
from cudnn_sweep.workloads.cells.expand import without_missing


def check(launch_file: Path) -> list[str]:
    """Raises one of the folders' errors.

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
