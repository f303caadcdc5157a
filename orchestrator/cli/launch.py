"""`sweep launch`."""

from dataclasses import replace

import typer

from cudnn_sweep.orchestrator.cli import failing
from cudnn_sweep.orchestrator.cli.standing_by import UNFINISHED, stand_by
from cudnn_sweep.orchestrator.planning.options import LaunchOptions


def launch(options: LaunchOptions) -> None:
    """Run the sweep that FILE describes, or resume it if it is unfinished.

    Exit code 0: all trials (of the shard) are recorded, including failed ones. 1: the sweep is not finished. 2: nothing
    was started; the reason is printed. 4: a cell has no successful trial under any config. 130: Ctrl-C. 143: SIGTERM.
    """
    if options.json and options.dry_run:
        raise typer.BadParameter("--json cannot be combined with --dry-run")
    if not options.dry_run:
        stand_by(lost=UNFINISHED)
    from cudnn_sweep.orchestrator.launching.destinations import launch as run_launch
    from cudnn_sweep.orchestrator.planning.spec import (
        asked_file,
        results_of_the_launch_file,
    )
    from cudnn_sweep.orchestrator.showing.say import console_here, say

    options.check()
    asked = asked_file(options.file, options.suite, options.results)
    options = replace(
        options,
        file=asked.file,
        suite=asked.suite,
        results_asked=results_of_the_launch_file(),
    )
    console = console_here(stderr=options.json)
    if asked.note:
        say(console, asked.note)
    failing.leave(run_launch(options, console))
