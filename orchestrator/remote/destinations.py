"""Chooses the destination of a launch: this machine, or a cluster."""

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Protocol

from rich.console import Console

from cudnn_sweep.analysis.engine.formats import json_value
from cudnn_sweep.analysis.results.verdicts import BreakEven, RaceState, Verdict
from cudnn_sweep.analysis.words import counted
from cudnn_sweep.cluster.launch_file import INSIDE, LaunchFile, no_launch_file, read_launch_file
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.exit_codes import ExitCode
from cudnn_sweep.orchestrator.planning.options import LaunchOptions
from cudnn_sweep.orchestrator.planning.request import Planned, SweepRequest, request_of
from cudnn_sweep.orchestrator.planning.spec import LAUNCH_FILE, SweepSpec
from cudnn_sweep.orchestrator.remote.clusters import BroughtUpCluster, Inside, Keep, RunningCluster
from cudnn_sweep.orchestrator.remote.job import NightJob
from cudnn_sweep.orchestrator.running.run_sweep import Place, Ran, plan_sweep, run_sweep
from cudnn_sweep.orchestrator.running.this_machine import ThisMachine
from cudnn_sweep.orchestrator.terminal.plan_text import print_part
from cudnn_sweep.orchestrator.terminal.say import say
from cudnn_sweep.orchestrator.terminal.summary import print_summary, slow_gpu_lines
from cudnn_sweep.workloads.cells.suite import most_replicates


class Destination(Protocol):
    where: str
    """Name of the destination in messages."""

    def launch(self, request: SweepRequest, console: Console) -> int:
        """Run the sweep, or send it to a cluster. Return the exit code."""

    def show(self, request: SweepRequest, console: Console) -> int:
        """Print the plan of the sweep, and return the exit code."""

    def night(
        self, request: SweepRequest, night: NightJob, keep: Keep, console: Console
    ) -> Place | None:
        """Run the night and store its outcome, or return a place where the caller can run it."""


File = LaunchFile[SweepSpec]


def destination_of(file: File) -> Destination:
    return next(make(file) for is_meant, make in KINDS if is_meant(file))


def cluster_of(file: File) -> RunningCluster:
    """Return the cluster to which a launch file sends jobs. Raises SpecError if it sends none."""
    destination = destination_of(file)
    if isinstance(destination, RunningCluster):
        return destination
    found = f"{file.path} names {destination.where}"
    raise SpecError(f"{found}, allowed: a cluster to which jobs are sent")


def launch(options: LaunchOptions, console: Console) -> int:
    """Launch a sweep, or only print its plan. Return the exit code. Raises one of MISTAKES."""
    file = launch_file(options.file)
    request = replace(request_of(file, options), launched_at=monotonic())
    destination = destination_of(file)
    run = destination.show if options.dry_run else destination.launch
    return run(request, console)


def launch_file(file: Path | None) -> LaunchFile[SweepSpec]:
    return read_launch_file(file, SweepSpec) if file else no_launch_file(LAUNCH_FILE, SweepSpec)


class Here:
    where = "this machine"

    def launch(self, request: SweepRequest, console: Console) -> int:
        waits, needs_gpu = request.options.wait, request.suite.needs_cuda
        place = ThisMachine.free(console, waits=waits, needs_gpu=needs_gpu)
        if waits:
            request = replace(request, launched_at=monotonic())  # the time limit begins now
        say(console, "Looking at this machine: importing torch.")
        planned = plan_sweep(request, place)
        tell_without_gpu(planned, console)

        tell = partial(print_summary, console, location=request.results, options=request.options)
        ran = run_sweep(planned, place, console, if_cut=tell)
        tell(ran)
        if request.options.json:
            print(to_json(ran, request.results))
        return ran.exit_code

    def show(self, request: SweepRequest, console: Console) -> int:
        planned = plan_sweep(request, ThisMachine(plans_only=True))
        gpus = planned.machine.gpus
        tell_without_gpu(planned, console)
        print_part(console, planned.chosen, request.options, max(1, len(gpus)), gpu=bool(gpus))
        return ExitCode.FINE

    def night(
        self, request: SweepRequest, night: NightJob, keep: Keep, console: Console
    ) -> Place | None:
        return ThisMachine(wait_s=60 * night.keys.wait_minutes)


KINDS: list[tuple[Callable[[File], bool], Callable[[File], Destination]]] = [
    (lambda file: file.sweep.address == INSIDE, Inside),
    (lambda file: file.sweep.address is not None, RunningCluster),
    (lambda file: "provider" in file.ray_part, BroughtUpCluster),
    (lambda file: True, lambda file: Here()),
]
"""Conditions on launch files, with their destinations. The first true condition decides."""


def tell_without_gpu(planned: Planned, console: Console) -> None:
    if planned.machine.environment.device == "cuda":
        return
    suite = planned.request.suite
    few, usual = (most_replicates(s.replicates) for s in (suite.on("cpu"), suite))
    text = "No GPU here, so cuDNN's flags have no effect: this only shows what a sweep does"
    if suite.needs_cuda:
        text = "No GPU here, but the suite needs one: this is the plan for a machine of one slot"
    more = f", in {counted(few, 'block')} per cell instead of {usual}" if few < usual else ""
    say(console, f"{text}{more}.")


def to_json(ran: Ran, results: str) -> str:
    def named(row: Verdict | BreakEven | RaceState) -> dict[str, object]:
        return {"cell": ran.names[row.cell_id], **vars(row)}

    launch = {
        "sweep_id": ran.session.sweep_id,
        "results": results,
        "exit_code": ran.exit_code,
        "is_complete": ran.is_complete,
        "trials_planned": ran.session.plan_trials,
        "trials_recorded": ran.statuses.total(),
        "trials_not_run": ran.not_run,
        "statuses": ran.statuses,
        "warnings": dict(ran.warnings.most_common()),
        "slow_gpus": list(slow_gpu_lines(ran.store, ran.session.sweep_id)),
        "failures": [asdict(failure) for failure in ran.progress.failures],
        "races": list(map(named, ran.races)),
        "verdicts": list(map(named, ran.verdicts)),
        "break_evens": list(map(named, ran.break_evens)),
    }
    return json.dumps(json_value(launch), indent=1, ensure_ascii=False)
