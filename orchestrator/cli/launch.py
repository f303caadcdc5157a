"""`sweep launch`."""

from pathlib import Path
from typing import Annotated

import typer


def launch(
    file: Annotated[
        Path | None,
        typer.Argument(
            help="Launch file (a Ray cluster-launcher file with `metadata.sweep`) or suite. Default: "
            "./cluster.yaml; without that file, this machine."
        ),
    ] = None,
    suite: Annotated[
        str | None, typer.Option(help="Bundled suite or .yaml file; overrides the launch file.")
    ] = None,
    results: Annotated[
        str | None, typer.Option(help="Folder or URL; overrides the launch file (./results).")
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FIELD=VALUE", help="Run only trials with this value; repeat to narrow further."
        ),
    ] = None,
    replicates: Annotated[
        str | None,
        typer.Option(
            metavar="N|decided[:MOST]",
            help="Blocks per cell: a number, or until it is decided, at most 20 (the default).",
        ),
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(min=0.1, help="Time limit; overrides `budget_minutes` of the launch file."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the plan and run nothing.")
    ] = False,
    try_: Annotated[
        bool, typer.Option("--try", help="With --dry-run: run one short process of each cell.")
    ] = False,
    ask: Annotated[
        bool, typer.Option("--ask", help="With --dry-run: ask a running cluster for its GPUs.")
    ] = False,
    resume: Annotated[
        str | None, typer.Option(metavar="SWEEP_ID", help="Resume this sweep and no other.")
    ] = None,
    new: Annotated[
        bool, typer.Option("--new", help="Start a new sweep even if one is unfinished.")
    ] = False,
    sweep_id: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Start the sweep with this name, or resume it."),
    ] = None,
    shard: Annotated[
        str | None,
        typer.Option(metavar="I/N", help="With --sweep-id: run part I of N of the plan."),
    ] = None,
    detach: Annotated[
        bool,
        typer.Option("--detach/--follow", help="On a cluster: send the sweep and return at once."),
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="On a cluster: refuse to start if a node is unfit.")
    ] = False,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Run failed trials again.")
    ] = False,
    json: Annotated[
        bool,
        typer.Option("--json", help="On this machine: print the outcome as JSON at the end."),
    ] = False,
    manifest: Annotated[
        bool,
        typer.Option("--manifest", help="Print a KubeRay RayJob of this sweep and run nothing."),
    ] = False,
    at: Annotated[
        str | None,
        typer.Option(
            metavar="HH:MM",
            help="With --manifest: print a CronJob that runs every night at this time (UTC).",
        ),
    ] = None,
) -> None:
    """Run the sweep that FILE describes, or resume it if it is unfinished.

    Exit code 0: all trials (of the shard) are recorded, including failed ones. 1: the sweep is not finished. 2: nothing
    was started; the reason is printed. 4: a cell has no successful trial under any config. 130: Ctrl-C. 143: SIGTERM.
    """
    from cudnn_sweep.orchestrator.cli.failing import leave
    from cudnn_sweep.orchestrator.cli.standing_by import UNFINISHED, stand_by

    if at is not None and not manifest:
        raise typer.BadParameter(
            "--at needs --manifest; on this machine use `sweep schedule install`"
        )
    if try_ and not dry_run:
        raise typer.BadParameter("--try needs --dry-run")
    if ask and not dry_run:
        raise typer.BadParameter("--ask needs --dry-run")
    if json and (dry_run or manifest):
        raise typer.BadParameter("--json cannot be combined with --dry-run or --manifest")
    _check_together(resume, new, sweep_id, shard)
    if not dry_run and not manifest:
        stand_by(lost=UNFINISHED)
    from cudnn_sweep.orchestrator.cli.launch_file_results import results_of_the_launch_file
    from cudnn_sweep.orchestrator.cli.program import program
    from cudnn_sweep.orchestrator.launching.launch import launch as run_launch
    from cudnn_sweep.orchestrator.planning.asked_file import asked_file
    from cudnn_sweep.orchestrator.planning.options import LaunchOptions, read_replicates
    from cudnn_sweep.orchestrator.planning.shard import read_shard
    from cudnn_sweep.orchestrator.planning.sweep_selection import SweepSelection
    from cudnn_sweep.orchestrator.showing.say import console_here, say

    selection = SweepSelection(
        resume=resume,
        new=new,
        sweep_id=sweep_id,
        shard=None if shard is None else read_shard(shard),
        retry_failed=retry_failed,
    )
    asked = asked_file(file, suite, results)
    options = LaunchOptions(
        file=asked.file,
        suite=asked.suite,
        results=results,
        only=tuple(_choice(text) for text in only or ()),
        replicates=None if replicates is None else read_replicates(replicates),
        budget_minutes=minutes,
        dry_run=dry_run,
        try_cells=try_,
        ask=ask,
        detach=detach,
        strict=strict,
        json=json,
        results_asked=results_of_the_launch_file(),
        program=program(),
        selection=selection,
    )
    if manifest:
        from cudnn_sweep.orchestrator.remote.manifest import manifest as manifest_of
        from cudnn_sweep.orchestrator.schedule.entry import parse_time

        typer.echo(manifest_of(options, parse_time(at) if at else None), nl=False)
        return
    console = console_here(stderr=json)
    if asked.note:
        say(console, asked.note)
    code = run_launch(options, console)
    leave(code)


def _check_together(resume: str | None, new: bool, sweep_id: str | None, shard: str | None) -> None:
    from cudnn_sweep.orchestrator.errors import SpecError

    choices = {"--resume": resume, "--new": new, "--sweep-id": sweep_id}
    given = [option for option, value in choices.items() if value]
    if len(given) > 1:
        raise SpecError(f"{' and '.join(given)} cannot be combined")
    if shard is not None and not sweep_id:
        raise SpecError("--shard needs --sweep-id ID, the same for all shards of a plan")


def _choice(text: str) -> tuple[str, str]:
    field, found, value = text.partition("=")
    if not found:
        raise typer.BadParameter(f"--only takes FIELD=VALUE, found {text!r}")
    return field, value
