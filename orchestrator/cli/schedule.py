"""`sweep schedule`: a launch file's sweep every night, by systemd or cron."""

import json as json_format
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from cudnn_sweep.orchestrator.cli.commands import Command, Group, spelled

File = Annotated[Path, typer.Argument(help="The launch file.")]

schedule = typer.Typer(
    name="schedule", cls=Group, no_args_is_help=True, help="Run a launch file's suite every night."
)


@schedule.command(cls=Command)
@spelled
def install(
    at: Annotated[str, typer.Option(metavar="HH:MM", help="Start time by this machine's clock.")],
    file: File = Path("cluster.yaml"),
    cron: Annotated[bool, "Use the crontab, even if systemd is available."] = False,
    systemd: Annotated[bool, "Use a systemd user timer or fail."] = False,
    dry_run: Annotated[bool, "Print what would be installed and change nothing."] = False,
) -> None:
    """Schedule FILE every night; replaces an earlier schedule of it.

    Uses a timer of systemd's user manager if one answers, else the crontab.
    """
    from cudnn_sweep.orchestrator.schedule import schedule as schedules
    from cudnn_sweep.orchestrator.schedule.check import check
    from cudnn_sweep.orchestrator.schedule.entry import Entry, absolute, parse_time

    if cron and systemd:
        raise typer.BadParameter("--cron and --systemd cannot be combined")
    by = schedules.CRON if cron else schedules.SYSTEMD if systemd else None
    launch_file = absolute(file)
    time = parse_time(at)
    entry = Entry(
        launch_file=launch_file, program=_program(), at=time, log=schedules.log_of(launch_file)
    )
    hints = check(launch_file)
    if not (dry_run and by):
        by = schedules.choose(by)
    if dry_run:
        typer.echo(schedules.preview(entry, by))
    else:
        schedules.install(entry, by)
        show(file)
        hints += filter(None, [schedules.hint(by)])
    for text in hints:
        typer.echo(f"hint: {text}", err=True)


@schedule.command(cls=Command)
@spelled
def show(
    file: File = Path("cluster.yaml"),
    json: Annotated[bool, "Print the schedule as JSON."] = False,
) -> None:
    """Show when FILE's next night starts, and the entry that starts it."""
    from cudnn_sweep.orchestrator.schedule.entry import absolute
    from cudnn_sweep.orchestrator.schedule.schedule import find, log_of

    launch_file = absolute(file)
    found, log = find(launch_file), log_of(launch_file)
    if json:
        content = {
            "file": str(launch_file),
            "log": str(log),
            "schedules": [asdict(each) for each in found],
        }
        typer.echo(json_format.dumps(content, indent=2))
        return
    if not found:
        typer.echo(f"Nothing is scheduled for {launch_file}.")
    for scheduled in found:
        typer.echo(f"file   {launch_file}")
        typer.echo(f"by     {scheduled.by}")
        typer.echo(f"next   {scheduled.next_time}")
        typer.echo(f"log    {log}")
        typer.echo(f"\n{scheduled.text}")


@schedule.command(cls=Command)
@spelled
def remove(file: File = Path("cluster.yaml")) -> None:
    """Remove FILE's schedule. A running night continues, and the log stays."""
    from cudnn_sweep.orchestrator.schedule import schedule as schedules
    from cudnn_sweep.orchestrator.schedule.entry import absolute

    launch_file = absolute(file)
    names = schedules.remove(launch_file)
    if names:
        typer.echo(f"Removed from {' and '.join(names)}: {launch_file}.")
    else:
        typer.echo(f"Nothing was scheduled for {launch_file}.")


def _program() -> tuple[str, ...]:
    """This very `sweep`, whatever the PATH of a night."""
    typed = Path(os.path.abspath(sys.argv[0]))
    if typed.name == "sweep" and typed.is_file():
        return (str(typed),)
    return (sys.executable, "-m", "cudnn_sweep.orchestrator.cli")
