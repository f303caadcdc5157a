"""`sweep scale`."""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cudnn_sweep.orchestrator.cli.failing import mistakes_exit

if TYPE_CHECKING:
    from cudnn_sweep.analysis.asked_alone import Asked
    from cudnn_sweep.analysis.scale import Rival


def scale(
    trials: Annotated[int, typer.Option(min=100, help="Made-up trials to ask.")] = 100_000,
    samples: Annotated[int, typer.Option(min=3, help="Samples of each.")] = 300,
    repeats: Annotated[int, typer.Option(min=1, help="Times each is asked; the best counts.")] = 3,
    results: Annotated[
        Path | None,
        typer.Option(help="Keep the made-up results here; where there are results, ask those."),
    ] = None,
) -> None:
    """Measure what each question takes, in time and memory, over many made-up trials.

    pandas is measured beside them, where it is installed: it reads the same files and finds the
    ratios of helps_or_hurts in closed loops.
    """
    with mistakes_exit(), tempfile.TemporaryDirectory() as folder:
        _measure(results or Path(folder), trials, samples, repeats)


def _measure(folder: Path, trials: int, samples: int, repeats: int) -> None:
    from cudnn_sweep.analysis.generated import write_generated
    from cudnn_sweep.analysis.results import open_results
    from cudnn_sweep.analysis.scale import measure_questions, measure_rivals, stored_bytes
    from cudnn_sweep.analysis.store import open_store

    store = open_store(str(folder))
    if not store.sweep_ids():
        write_generated(store, trials=trials, samples=samples)
    (row,) = open_results(folder).sql("select count(*) as trials from records").arrow().to_pylist()
    trial_bytes = stored_bytes(folder) / row["trials"]
    typer.echo(f"{row['trials']} trials, {trial_bytes:.0f} bytes a trial on disk")
    _print(measure_questions(str(folder), repeats), measure_rivals(str(folder), repeats))


def _print(questions: "list[Asked]", rivals: "list[Rival]") -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("question")
    for column in ("rows", "seconds", "CPU seconds", "peak MB"):
        table.add_column(column, justify="right")
    for asked in [*questions, *(rival.asked for rival in rivals)]:
        peak_mb = asked.peak_bytes / 1e6
        cells = [f"{asked.rows}", f"{asked.wall_s:.2f}", f"{asked.cpu_s:.2f}", f"{peak_mb:.0f}"]
        table.add_row(asked.name, *cells)
    console = Console()
    console.print(table)
    if rivals:
        difference = max(rival.difference for rival in rivals)
        console.print(f"Largest relative difference of pandas' ratios to ours: {difference:.0e}")
    else:
        console.print("pandas is not installed: pip install 'cudnn-sweep[notebook]'")
