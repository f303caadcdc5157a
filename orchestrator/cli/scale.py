"""`sweep scale`: of questions over many trials, and of drivers that run them."""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cudnn_sweep.orchestrator.cli.commands import Command, Group

if TYPE_CHECKING:
    from cudnn_sweep.analysis.proving.question_timing import Asked
    from cudnn_sweep.analysis.proving.scale import Rival
    from cudnn_sweep.orchestrator.proving.controllers import Busy
    from cudnn_sweep.orchestrator.proving.one_controller import Costs

scale = typer.Typer(name="scale", cls=Group)


@scale.callback(invoke_without_command=True)
def questions(
    context: typer.Context,
    trials: Annotated[int, typer.Option(min=100, help="Number of made-up trials.")] = 100_000,
    samples: Annotated[int, typer.Option(min=3, help="Samples per trial.")] = 300,
    repeats: Annotated[
        int, typer.Option(min=1, help="Repeats of each question; the best counts.")
    ] = 3,
    results: Annotated[
        Path | None,
        typer.Option(
            help="Folder for the made-up results; if it holds results, those are queried."
        ),
    ] = None,
) -> None:
    """Measure the time and memory that each question takes over many made-up trials.

    If pandas is installed, it is measured too: it reads the same files and computes the ratios of
    helps_or_hurts in closed loops.
    """
    if context.invoked_subcommand is None:
        with tempfile.TemporaryDirectory() as folder:
            _measure(results or Path(folder), trials, samples, repeats)


@scale.command(cls=Command)
def controllers(
    trials: Annotated[int, typer.Option(min=40, help="Trials that only sleep.")] = 10_000,
    slots: Annotated[int, typer.Option(min=1, help="Logical GPUs on this machine.")] = 64,
    sleep: Annotated[float, typer.Option(min=0.01, help="Seconds that each trial sleeps.")] = 1.0,
    shards: Annotated[
        int, typer.Option(min=1, help="Number of drivers, each with a Ray of its own.")
    ] = 1,
) -> None:
    """Measure how busy one launch keeps many slots, and its CPU and memory per trial."""
    from rich.console import Console

    from cudnn_sweep.orchestrator.proving.controllers import measure_controllers
    from cudnn_sweep.orchestrator.showing.steps import steps

    least_s = trials * sleep / slots
    with tempfile.TemporaryDirectory() as folder, steps(Console(), total=1) as begins:
        begins(f"{trials} trials on {slots} slots, at least {least_s:.0f} s")
        busy, costs = measure_controllers(
            folder, trials=trials, slots=slots, sleep_s=sleep, shards=shards
        )
    _print_busy(busy, slots)
    _print_costs(costs)


def _print_busy(busy: "Busy", slots: int) -> None:
    quarters = ", ".join(f"{each:.1f}" for each in busy.quarters)
    typer.echo(
        f"{busy.trials} trials; {busy.slots} of {slots} slots used. From the moment all of them were up until "
        f"the queue was empty, {busy.window_s:.1f} s:\n"
        f"busy {busy.share:.1%} of the time\n"
        f"{busy.trials_per_s:.1f} trials per second; in each quarter {quarters}"
    )


def _print_costs(costs: "list[Costs]") -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("")
    for column in ("MB at 0, 1/4, 2/4, 3/4, 4/4", "MB per 1,000 trials", "CPU ms per trial"):
        table.add_column(column, justify="right")
    for number, each in enumerate(costs, start=1):
        which = f" {number}" if len(costs) > 1 else ""
        rows = {
            "driver": (each.driver_mb, each.driver_growth_mb, each.driver_ms),
            "recorder": (each.recorder_mb, each.recorder_growth_mb, each.recorder_ms),
        }
        for what, (mb, growth_mb, cpu_ms) in rows.items():
            sizes = ", ".join(f"{size:.0f}" for size in mb)
            table.add_row(f"{what}{which}", sizes, f"{growth_mb:.1f}", f"{cpu_ms:.1f}")
        table.add_row(f"slots and Ray{which}", "", "", f"{each.rest_ms:.1f}")
    Console().print(table)


def _measure(folder: Path, trials: int, samples: int, repeats: int) -> None:
    from rich.console import Console

    from cudnn_sweep.analysis.answering.results import open_results
    from cudnn_sweep.analysis.asking.queries import query_names
    from cudnn_sweep.analysis.proving.generated import write_generated
    from cudnn_sweep.analysis.proving.scale import measure_questions, measure_rivals, stored_bytes
    from cudnn_sweep.analysis.storing.store import open_store
    from cudnn_sweep.orchestrator.showing.steps import steps

    store, console = open_store(str(folder)), Console()
    if not store.sweep_ids():
        with steps(console, total=1) as begins:
            begins(f"{trials} made-up trials are written")
            write_generated(store, trials=trials, samples=samples)
    (row,) = open_results(folder).sql("select count(*) as trials from records").arrow().to_pylist()
    trial_bytes = stored_bytes(folder) / row["trials"]
    typer.echo(f"{row['trials']} trials, {trial_bytes:.0f} bytes per trial on disk")
    with steps(console, total=repeats * len(query_names())) as begins:
        asked = measure_questions(str(folder), repeats, begins)
    with steps(console) as begins:
        rivals = measure_rivals(str(folder), repeats, begins)
    _print(asked, rivals)


def _print(questions: "list[Asked]", rivals: "list[Rival]") -> None:
    from rich.console import Console
    from rich.table import Table

    from cudnn_sweep.orchestrator.showing.say import say

    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("question")
    for column in ("rows", "seconds", "CPU seconds", "peak MB"):
        table.add_column(column, justify="right")
    for asked in [*questions, *(rival.asked for rival in rivals)]:
        peak_mb = asked.peak_bytes / 1e6
        cells = [f"{asked.rows}", f"{asked.wall_s:.2f}", f"{asked.cpu_s:.2f}", f"{peak_mb:.0f}"]
        table.add_row(asked.name, *cells)
    console = Console(markup=False)
    console.print(table)
    if rivals:
        difference = max(rival.difference for rival in rivals)
        say(console, f"Largest relative difference of pandas' ratios to ours: {difference:.0e}")
    else:
        say(console, "pandas is not installed: pip install 'cudnn-sweep[notebook]'")
