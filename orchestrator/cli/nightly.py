"""`sweep nightly`."""

import os
import traceback
from dataclasses import replace
from typing import TYPE_CHECKING

import typer

from cudnn_sweep.orchestrator.planning.options import NightOptions

if TYPE_CHECKING:
    from rich.console import Console

COULD_NOT_TELL = 3  # exit code


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
