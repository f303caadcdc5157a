"""`sweep validate`: timers against Triton's, and verdicts on made-up sweeps."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from cudnn_sweep.analysis.simulation import Figures

CELLS = 4000  # the coverage is then known within 0.4%, after half a minute on two cores
BLOCKS = [5, 8]
SEED = 1

Problems = Annotated[
    list[str] | None, typer.Option(help="Only this problem; may be repeated.", metavar="NAME")
]

validate = typer.Typer(name="validate")


@validate.callback(invoke_without_command=True)
def validate_timers_by_default(context: typer.Context, problem: Problems = None) -> None:
    """Check what the numbers rest on: timers (where nothing is said) or statistics."""
    if context.invoked_subcommand is None:
        timers(problem)


@validate.command()
def timers(problem: Problems = None) -> None:
    """Compare device times on this GPU with Triton's timers, problem by problem (4 minutes).

    Exit code 1 where one differs by more than 2% and 3 µs.
    """
    from cudnn_sweep.orchestrator.cli.failing import leave, mistakes_exit
    from cudnn_sweep.workloads.measuring.timer_validation import compare_timers

    line = "{:36} {:16} {:5} {:14} {:8}{:>10} {:>10} {:>8}"
    names = ("problem", "direction", "", "layout", "L2", "ours, ms", "triton, ms", "apart")
    typer.echo(line.format(*names))
    agree = total = 0
    with mistakes_exit():
        for row in compare_timers(problem or []):
            total += 1
            agree += row.agrees
            apart = f"{row.ours_ms / row.triton_ms - 1:+.1%}{'' if row.agrees else ' !'}"
            times = (f"{row.ours_ms:.4f}", f"{row.triton_ms:.4f}")
            case = (row.problem, row.direction, row.precision, row.layout, row.cache)
            typer.echo(line.format(*case, *times, apart))
    typer.echo(f"{agree} of {total} agree within 2% or 3 µs.")
    leave(0 if agree == total else 1)


@validate.command()
def statistics(
    cells: Annotated[int, typer.Option(min=60, help="Made-up cells under each noise.")] = CELLS,
    blocks: Annotated[
        list[int], typer.Option(min=2, help="Blocks of a cell; may be repeated.")
    ] = BLOCKS,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same figures.")] = SEED,
) -> None:
    """Judge made-up sweeps whose truth is known, by the SQL that judges real ones (half a minute).

    Exit code 1 where a promised target is missed by more than three Monte-Carlo standard errors.
    """
    from cudnn_sweep.analysis.simulation import simulate
    from cudnn_sweep.orchestrator import simulation_table as table
    from cudnn_sweep.orchestrator.cli.failing import mistakes_exit

    typer.echo(f"Seed {seed}, {cells} cells a line. {table.LEGEND}\n")
    typer.echo(f"{table.head(table.HELD_TO_TARGETS)}\n{table.targets()}")
    every: list[Figures] = []
    with mistakes_exit():
        for figures in simulate(cells, blocks, seed):
            every.append(figures)
            typer.echo(table.row(figures, table.HELD_TO_TARGETS))
    typer.echo(f"\n{table.head(table.OTHERS)}")
    for figures in every:
        typer.echo(f"{table.row(figures, table.OTHERS)}   {figures.noise.meaning}")
    typer.echo(f"\n{table.in_words(every)}")
    if any(figures.missed() for figures in every if figures.is_promised):
        raise typer.Exit(1)
