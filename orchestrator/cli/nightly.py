"""`sweep nightly`."""

import os
import traceback
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from cudnn_sweep.orchestrator.nightly.request import NightOptions

COULD_NOT_TELL = 3  # exit code


def nightly(
    file: Annotated[Path, typer.Argument(help="Launch file.")] = Path("cluster.yaml"),
    suite: Annotated[str | None, "Overrides `nightly.suite` of the launch file."] = None,
    results: Annotated[str | None, "Folder or URL; overrides the launch file (./results)."] = None,
    budget_minutes: Annotated[
        float | None,
        typer.Option(min=0.001, help="Overrides `nightly.budget_minutes` of the launch file."),
    ] = None,
    night: Annotated[
        str | None,
        typer.Option(metavar="DATE", help="The night to run or compare. Default: today."),
    ] = None,
    pin: Annotated[
        str | None,
        typer.Option(
            metavar="DATE",
            help="From now on, compare with the month that starts on this night; run nothing.",
        ),
    ] = None,
    unpin: Annotated[bool, "Undo --pin; run nothing."] = False,
    accept: Annotated[
        str | None,
        typer.Option(
            metavar="SERIES|CELL",
            help="Accept the last night's alerts of a series, a cell_id or a metric; run nothing.",
        ),
    ] = None,
    accept_from: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="DATE", help="With --accept: the first night of the change."
        ),
    ] = None,
    reason: Annotated[
        str | None, typer.Option(metavar="TEXT", help="With --accept: why the change is accepted.")
    ] = None,
    reports: Annotated[
        Path | None, "Folder for the reports. Default: a folder in the results."
    ] = None,
    format: Annotated[Literal["text", "json"], "Format of the output."] = "text",
    json: Annotated[bool, "Short for --format json."] = False,
    fake: Annotated[
        Path | None,
        typer.Option(metavar="SCRIPT", help="Measure nothing; a script makes up the numbers."),
    ] = None,
    measure: Annotated[
        bool, typer.Option(help="--no-measure only compares recorded nights and needs no GPU.")
    ] = True,
    dry_run: Annotated[bool, "Print the plan and run nothing."] = False,
) -> None:
    """Run one night of FILE's nightly suite and compare it with the nights before.

    Exit code 0: nothing got worse, or there are too few nights yet. 1: a regression is confirmed. 2: usage error. 3: could not
    tell; the reason is printed. 130: Ctrl-C. 143: SIGTERM. To resume an interrupted night, start it again.
    """
    from cudnn_sweep.orchestrator.cli.failing import leave
    from cudnn_sweep.orchestrator.cli.standing_by import stand_by

    if not dry_run and pin is None and not unpin and accept is None:
        stand_by(lost=COULD_NOT_TELL)
    from cudnn_sweep.orchestrator.nightly.accepting import accept_change, pin_baseline
    from cudnn_sweep.orchestrator.nightly.request import NightOptions
    from cudnn_sweep.orchestrator.planning.night_name import read_date
    from cudnn_sweep.orchestrator.planning.spelling import program
    from cudnn_sweep.orchestrator.showing.say import console_here

    format = "json" if json else format
    console = console_here(stderr=format == "json")
    options = NightOptions(
        file=file,
        suite=suite,
        results=results,
        budget_minutes=budget_minutes,
        night=date.today() if night is None else read_date(night, "--night"),
        reports=reports,
        format=format,
        fake=fake,
        measure=measure,
        dry_run=dry_run,
        program=program(),
    )
    if pin is not None or unpin:
        first = None if pin is None else read_date(pin, "--pin")
        typer.echo(pin_baseline(options, first))
        return
    if accept is not None:
        typer.echo(accept_change(options, accept, accept_from, reason))
        return
    leave(_run(options, console))


def _run(options: "NightOptions", console: "Console") -> int:
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
