"""The commands `sweep launch`, `sweep nightly`, `sweep status` and `sweep cluster`."""

import json as json_format
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cudnn_sweep.orchestrator.cli import failing
from cudnn_sweep.orchestrator.cli.commands import echo
from cudnn_sweep.orchestrator.cli.watchdog import start_watchdog
from cudnn_sweep.orchestrator.planning.options import LaunchOptions, NightOptions, read_date
from cudnn_sweep.orchestrator.planning.spelling import POSITIONAL

if TYPE_CHECKING:
    from cudnn_sweep.cluster.jobs.jobs import Jobs, SentJob
    from cudnn_sweep.orchestrator.remote.clusters import RunningCluster

File = Annotated[Path, POSITIONAL, "Launch file of the sweep."]


def launch(options: LaunchOptions) -> None:
    """Run the sweep that FILE describes, or resume it if it is unfinished."""
    if options.json and options.dry_run:
        raise typer.BadParameter("--json cannot be combined with --dry-run")
    if not options.dry_run:
        start_watchdog()
    from cudnn_sweep.orchestrator.planning.spec import asked_file, results_of_the_launch_file
    from cudnn_sweep.orchestrator.remote.destinations import launch as run_launch
    from cudnn_sweep.orchestrator.terminal.say import console_here, say

    options.check()
    file, suite, note = asked_file(options.file, options.suite, options.results)
    typed_in = results_of_the_launch_file()
    options = replace(options, file=file, suite=suite, results_asked=typed_in)
    console = console_here(stderr=options.json)
    if note:
        say(console, note)
    failing.leave(run_launch(options, console))


def nightly(options: NightOptions) -> None:
    """Run FILE's nightly suite once, and compare the results with earlier nights."""
    is_run = options.pin is None and not options.unpin and options.accept is None
    if is_run and not options.dry_run:
        start_watchdog()
    from cudnn_sweep.orchestrator.nightly.night import run_night
    from cudnn_sweep.orchestrator.nightly.request import accept_change, pin_baseline
    from cudnn_sweep.orchestrator.terminal.say import console_here

    if options.pin is not None or options.unpin:
        first = None if options.pin is None else read_date(options.pin, "--pin")
        typer.echo(pin_baseline(options, first))
        return
    if options.accept is not None:
        typer.echo(accept_change(options, options.accept, options.accept_from, options.reason))
        return
    options = replace(options, format="json") if options.json else options
    failing.leave(run_night(options, os.environ, console_here(stderr=options.format == "json")))


def attach(file: File = Path("cluster.yaml")) -> None:
    """Follow the last sweep that was sent to FILE's cluster. Ctrl-C does not stop the sweep."""
    from rich.console import Console

    from cudnn_sweep.orchestrator.remote.follow import follow

    with _connected(file) as (running, _, job):
        pass
    report = follow(running.jobs, job, Console(markup=False))
    if report.outcome:
        echo(f"To see the night's outcome: {job.sweep}")
    failing.leave(report.exit_code)


def status(
    file: Annotated[Path | None, POSITIONAL, "Launch file or suite of the sweep."] = None,
    results: Annotated[str | None, "Results (folder or URL) of a sweep on this machine."] = None,
    json: Annotated[bool, "Print the status as JSON."] = False,
) -> None:
    """Show the progress of the last sweep on this machine or on FILE's cluster."""
    from cudnn_sweep.orchestrator.planning.spec import asked_file
    from cudnn_sweep.orchestrator.remote.destinations import Here, destination_of, launch_file
    from cudnn_sweep.orchestrator.remote.follow import status_here, status_of

    launched = launch_file(asked_file(file, None, results)[0])
    if isinstance(destination_of(launched), Here):
        found = status_here(results or launched.sweep.results)
    else:
        with _connected(launched.path) as (_, jobs, job):
            found = status_of(jobs, job)
    if json:
        typer.echo(json_format.dumps(asdict(found), indent=1, ensure_ascii=False))
    else:
        echo(str(found))


def stop(file: File = Path("cluster.yaml")) -> None:
    """Stop the last sweep that was sent to FILE's cluster. Launch again to resume it."""
    from cudnn_sweep.cluster.jobs.jobs import ENDED

    with _connected(file) as (_, jobs, job):
        state, _ = jobs.state(job.job_id)
        if state in ENDED:
            typer.echo(f"{job.job_id} has ended already: {state.lower()}.")
            return
        jobs.stop(job.job_id)
        echo(f"Requested the stop of {job.job_id}. To resume the sweep, run: {job.sweep}")


def pull(file: File = Path("cluster.yaml")) -> None:
    """Copy records from FILE's cluster to the results folder on this machine."""
    from cudnn_sweep.orchestrator.remote.follow import pull_records

    with _connected(file) as (sent_to, jobs, job):
        new = pull_records(jobs, sent_to.sent(jobs))
        echo(f"{new} new records are in {job.results}.")


def down(
    file: File = Path("cluster.yaml"),
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    discard: Annotated[bool, "Shut down even if some records exist only on the head."] = False,
) -> None:
    """Shut down all nodes of FILE's cluster, unless some records exist only on its head."""
    from cudnn_sweep.cluster.errors import ClusterError
    from cudnn_sweep.cluster.jobs.launcher import take_down
    from cudnn_sweep.orchestrator.remote.clusters import BroughtUpCluster
    from cudnn_sweep.orchestrator.remote.destinations import cluster_of, launch_file
    from cudnn_sweep.orchestrator.remote.follow import missing_here

    running = cluster_of(launch_file(file))
    if not isinstance(running, BroughtUpCluster):
        raise ClusterError(f"{file} joins a cluster that was not launched from here")
    if not discard:
        with running.jobs() as jobs:
            sent = jobs.sent(running.known.sender())
            missing = sum(missing_here(jobs, job) for job in sent)
        if missing:
            raise ClusterError(
                f"{missing} records are only on the head: `sweep cluster pull {file}` copies them, "
                "and --discard shuts down without them"
            )
    if yes or typer.confirm(f"Shut down all nodes of {running.known.name}?"):
        take_down(running.known.launch_file)
        running.known.launch_file.unlink()


@contextmanager
def _connected(file: Path) -> Iterator[tuple["RunningCluster", "Jobs", "SentJob"]]:
    from cudnn_sweep.orchestrator.remote.destinations import cluster_of, launch_file

    running = cluster_of(launch_file(file))
    with running.jobs() as jobs:
        yield running, jobs, running.sent(jobs)[-1]
