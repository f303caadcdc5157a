"""The command `sweep nightly`."""

import os
from dataclasses import replace

import typer

from cudnn_sweep.orchestrator.planning.options import NightOptions, read_date


def nightly(options: NightOptions) -> None:
    """Run FILE's nightly suite once, and compare the results with earlier nights."""
    from cudnn_sweep.orchestrator.cli.failing import leave
    from cudnn_sweep.orchestrator.cli.watchdog import start_watchdog

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
    leave(run_night(options, os.environ, console_here(stderr=options.format == "json")))
