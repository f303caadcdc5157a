"""`sweep nightly`, and `sweep schedule`: a launch file's night every day, by systemd or cron."""

import os
import sys
import traceback
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cudnn_sweep.orchestrator.cli.commands import Command, Group, spelled
from cudnn_sweep.orchestrator.planning.options import NightOptions

if TYPE_CHECKING:
    from rich.console import Console

COULD_NOT_TELL = 3  # exit code
File = Annotated[Path, typer.Argument(help="The launch file.")]


def nightly(options: NightOptions) -> None:
    """Run one night of FILE's nightly suite and compare it with the nights before.

    Exit code 0: nothing got worse, or there are too few nights yet. 1: a regression is confirmed. 2: usage error. 3: could not
    tell; the reason is printed. 130: Ctrl-C. 143: SIGTERM. To resume an interrupted night, start it again.
    """
    from cudnn_sweep.orchestrator.cli.failing import leave
    from cudnn_sweep.orchestrator.cli.standing_by import stand_by

    is_run = options.pin is None and not options.unpin and options.accept is None
    if is_run and not options.dry_run:
        stand_by(lost=COULD_NOT_TELL)
    from cudnn_sweep.orchestrator.nightly.diary import accept_change, pin_baseline
    from cudnn_sweep.orchestrator.planning.spec import read_date
    from cudnn_sweep.orchestrator.showing.say import console_here

    if options.pin is not None or options.unpin:
        first = None if options.pin is None else read_date(options.pin, "--pin")
        typer.echo(pin_baseline(options, first))
        return
    if options.accept is not None:
        typer.echo(accept_change(options, options.accept, options.accept_from, options.reason))
        return
    options = replace(options, format="json") if options.json else options
    console = console_here(stderr=options.format == "json")
    leave(_run(options, console))


def _run(options: NightOptions, console: "Console") -> int:
    """Exit code 1 says one thing: whatever was not foreseen could not tell."""
    from cudnn_sweep.orchestrator.cli.failing import MISTAKES
    from cudnn_sweep.orchestrator.nightly.night import run_night

    try:
        return run_night(options, os.environ, console)
    except MISTAKES:
        raise
    except Exception as error:  # noqa: BLE001  # of whichever library
        traceback.print_exc()
        typer.echo(f"sweep: could not tell: {type(error).__name__}: {error}", err=True)
        return COULD_NOT_TELL


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

    if cron and systemd:
        raise typer.BadParameter("--cron and --systemd cannot be combined")
    by = schedules.CRON if cron else schedules.SYSTEMD if systemd else None
    launch_file, time = schedules.absolute(file), schedules.parse_time(at)
    entry = schedules.Entry(launch_file=launch_file, program=_program(), at=time)
    hints = schedules.check(launch_file)
    if not (dry_run and by):
        by = schedules.choose(by)
    if dry_run:
        typer.echo(entry.text(by))
    else:
        schedules.install(entry, by)
        show(file)
        hints += filter(None, [schedules.hint(by)])
    for text in hints:
        typer.echo(f"hint: {text}", err=True)


@schedule.command(cls=Command)
@spelled
def show(file: File = Path("cluster.yaml")) -> None:
    """Show when FILE's next night starts, and the entry that starts it."""
    from cudnn_sweep.orchestrator.schedule.schedule import absolute, find, log_of

    launch_file = absolute(file)
    found, log = find(launch_file), log_of(launch_file)
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

    launch_file = schedules.absolute(file)
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
