"""`sweep validate`: timers against Triton's, verdicts on made-up sweeps and on stored blocks in other orders,
alerts on made-up nights.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cudnn_sweep.orchestrator.cli.commands import Command, Group
from cudnn_sweep.orchestrator.cli.launch_file_results import ResultsOption, asking, open_results
from cudnn_sweep.orchestrator.cli.writing import writing

if TYPE_CHECKING:
    from cudnn_sweep.analysis.proving.simulation import Figures, UnpairedFigures

CELLS = 4000  # the coverage is then known within 0.4%
BLOCKS = [5, 8]
UNTIL_CELLS = (
    4  # times fewer where cells are looked at again and again: each look asks the whole sweep
)
UNPAIRED_CELLS = 2  # times fewer, as an addition to the lines with pairs
SERIES = 100  # some seconds; the figures of docs/nightly-validation.md are of 2,000
NIGHTS = 60
REPLAYS = 200  # of each sweep: half a minute
SEED = 1
Seed = Annotated[int, typer.Option(min=0, help="The same seed gives the same figures.")]

Problems = Annotated[
    list[str] | None, typer.Option(help="Only this problem; repeat for more.", metavar="NAME")
]

validate = typer.Typer(name="validate", cls=Group)


@validate.callback(invoke_without_command=True)
def validate_timers_by_default(context: typer.Context, problem: Problems = None) -> None:
    """Check the basis of the numbers: timers (the default), statistics, replay or nights."""
    if context.invoked_subcommand is None:
        timers(problem)


@validate.command(cls=Command)
def timers(problem: Problems = None) -> None:
    """Compare device times on this GPU with Triton's timers, problem by problem (4 minutes).

    Exit code 1: a problem differs by more than 2% and 3 µs.
    """
    from cudnn_sweep.orchestrator.cli.failing import leave
    from cudnn_sweep.workloads.measuring.timer_validation import compare_timers

    line = "{:36} {:16} {:5} {:14} {:8}{:>10} {:>10} {:>8}"
    names = ("problem", "direction", "", "layout", "L2", "ours, ms", "triton, ms", "apart")
    typer.echo(line.format(*names))
    agree = total = 0
    for row in compare_timers(problem or []):
        total += 1
        agree += row.agrees
        apart = f"{row.ours_ms / row.triton_ms - 1:+.1%}{'' if row.agrees else ' !'}"
        times = (f"{row.ours_ms:.4f}", f"{row.triton_ms:.4f}")
        case = (row.problem, row.direction, row.precision, row.layout, row.cache)
        typer.echo(line.format(*case, *times, apart))
    typer.echo(f"{agree} of {total} agree within 2% or 3 µs.")
    leave(0 if agree == total else 1)


@validate.command(cls=Command)
def statistics(
    cells: Annotated[int, typer.Option(min=60, help="Made-up cells per kind of noise.")] = CELLS,
    blocks: Annotated[
        list[int], typer.Option(min=2, help="Blocks per cell; repeat for more.")
    ] = BLOCKS,
    seed: Seed = SEED,
) -> None:
    """Test the SQL that gives verdicts on made-up sweeps whose truth is known (some minutes).

    Exit code 1: a promised target is missed by more than three Monte-Carlo standard errors.
    """
    from rich.console import Console

    from cudnn_sweep.analysis.proving.simulation import (
        LEAST_FEWER,
        simulate,
        simulate_unpaired,
        simulate_until_decided,
        try_empty_caches,
    )
    from cudnn_sweep.orchestrator.proving import simulation_table as table
    from cudnn_sweep.orchestrator.showing.steps import counted
    from cudnn_sweep.workloads.cells.suite import UntilDecided

    typer.echo(f"Seed {seed}, {cells} cells per line. {table.LEGEND}\n")
    typer.echo(f"{table.head(table.HELD_TO_TARGETS)}\n{table.targets()}")
    every: list[Figures] = []
    console = Console()
    for figures in counted(console, simulate(cells, blocks, seed), "kinds of noise"):
        every.append(figures)
        typer.echo(table.row(figures, table.HELD_TO_TARGETS))
    typer.echo(f"\n{table.head(table.OTHERS)}")
    for figures in every:
        typer.echo(f"{table.row(figures, table.OTHERS)}   {figures.noise.meaning}")
    unpaired_cells = max(cells // UNPAIRED_CELLS, 60)
    about = table.UNPAIRED.format(cells=unpaired_cells)
    typer.echo(f"\n{about}\n{table.head(table.UNPAIRED_COLUMNS)}")
    unpaired = list(counted(console, simulate_unpaired(unpaired_cells, seed), "without pairs"))
    for each in unpaired:
        typer.echo(table.unpaired_row(each))
    looks, fewer_cells = UntilDecided(until="decided").looks, max(cells // UNTIL_CELLS, 60)
    asked_after = ", ".join(map(str, looks))
    about = table.UNTIL.format(looks=asked_after, fewer=LEAST_FEWER, cells=fewer_cells)
    columns = table.HELD_TO_TARGETS | table.OTHERS
    typer.echo(f"\n{about}\n{table.head(columns)}       fewer")
    looked = simulate_until_decided(fewer_cells, looks, seed)
    for figures in counted(console, looked, "kinds of noise, after each look"):
        every.append(figures)
        typer.echo(table.until_row(figures, columns))
    typer.echo(f"\n{table.EMPTY_CACHES}")
    empty = list(counted(console, try_empty_caches(cells, seed), "empty caches"))
    for row in empty:
        typer.echo(table.empty_caches_row(row))
    typer.echo(f"\n{table.in_words(every, unpaired, empty)}")
    held: list[Figures | UnpairedFigures] = [
        *(figures for figures in every if figures.is_promised),
        *unpaired,
    ]
    if any(figures.missed() for figures in held) or any(row.is_missed for row in empty):
        raise typer.Exit(1)


@validate.command(cls=Command)
def replay(
    results: ResultsOption = None,
    sweep_id: Annotated[
        str | None, typer.Option(help="Only this sweep, or several by a pattern (night-*).")
    ] = None,
    replays: Annotated[int, typer.Option(min=1, help="Random orders of each sweep.")] = REPLAYS,
    seed: Seed = SEED,
) -> None:
    """Test whether stored blocks in other orders would have been decided alike.

    Shuffles the blocks of each cell, and looks at them as a launch until decided does. Exit code 1: under 98% of
    the replays that are decided have the verdict of all blocks.
    """
    from fnmatch import fnmatchcase

    from cudnn_sweep.analysis.answering.cell_names import CELLS as NAMED
    from cudnn_sweep.analysis.answering.cell_names import whole_names
    from cudnn_sweep.analysis.answering.contrast import stored_contrasts
    from cudnn_sweep.analysis.errors import QueryError
    from cudnn_sweep.analysis.proving import replay as replaying
    from cudnn_sweep.orchestrator.proving import replay_table as table
    from cudnn_sweep.workloads.cells.suite import BY_DEFAULT

    store, looks = open_results(results), BY_DEFAULT.looks
    chosen = [each for each in store.sweep_ids() if fnmatchcase(each, sweep_id or "*")]
    typer.echo(f"Seed {seed}, {replays} replays of each sweep. {table.LEGEND}\n\n{table.head()}")
    every: list[replaying.Replayed] = []
    told: list[str] = []
    for each in chosen:
        contrasts = stored_contrasts(store, each)
        with asking(store) as database:
            names = whole_names(database.query(NAMED).to_pylist())
            for contrast in contrasts:
                found = replaying.replay(database, contrast, looks, replays, seed, each)
                every.append(found)
                if found.cells:
                    typer.echo(table.row(each, contrast, found))
                    told += [f"{each}, {line.strip()}" for line in table.changes(found, names)]
    whole = replaying.together(every)
    if not whole.cells:
        raise QueryError(
            f"nothing to replay: found {len(chosen)} sweeps, and {whole.too_few} cells with a verdict by times; "
            f"needed are cells with more than {looks[0]} blocks"
        )
    typer.echo(table.total(whole))
    typer.echo("\n".join(["", *told, "", table.in_words(whole)]))
    if whole.is_missed:
        raise typer.Exit(1)


@validate.command(cls=Command)
def nights(
    series: Annotated[int, typer.Option(min=20, help="Made-up series per kind of noise.")] = SERIES,
    nights: Annotated[int, typer.Option(min=20, help="Nights per series.")] = NIGHTS,
    seed: Seed = SEED,
    histories: Annotated[
        Path | None,
        typer.Option(help="Also write the histories to this .npz file, for other programs."),
    ] = None,
) -> None:
    """Test the alerts of `sweep nightly` on made-up nights whose truth is known (seconds).

    Exit code 1: a promised target is missed by more than three Monte-Carlo standard errors.
    """
    from rich.console import Console

    from cudnn_sweep.analysis.proving.detection_figures import save_histories, simulate_nights
    from cudnn_sweep.analysis.proving.night_choices import CHANGES, simulate_choices
    from cudnn_sweep.analysis.proving.realities import REALITIES, try_realities
    from cudnn_sweep.analysis.proving.simulated_nights import HELD_TO_TARGETS, OTHERS
    from cudnn_sweep.orchestrator.proving import nights_table as table
    from cudnn_sweep.orchestrator.showing.steps import counted

    if histories:
        with writing(histories):
            save_histories(histories, series, nights, seed)
    typer.echo(
        f"Seed {seed}, {series} series of {nights} nights under each noise. {table.LEGEND}\n"
    )
    console, total = Console(), len(HELD_TO_TARGETS + OTHERS)
    every = list(counted(console, simulate_nights(series, nights, seed), "kinds of noise", total))
    for told in table.tables(every):
        typer.echo(f"{told}\n")
    lived = try_realities(series, seed)
    realities = list(counted(console, lived, "kinds of nights", len(REALITIES)))
    typer.echo(f"{table.realities(realities)}\n")
    chosen = simulate_choices(series, nights, seed)
    choices = list(counted(console, chosen, "changes of processes that choose", len(CHANGES)))
    typer.echo(f"{table.choices(choices)}\n")
    missed = table.missed_realities(realities)
    typer.echo(f"Missed: {missed}." if missed else "Other kinds of change: every target is met.")
    typer.echo(table.in_words(every))
    if missed or any(figures.missed() for figures in every if figures.is_promised):
        raise typer.Exit(1)
