"""The SQL that gives verdicts, on made-up sweeps whose truth is known."""

from typing import Annotated

import typer
from rich.console import Console

from cudnn_sweep.workloads.cells.suite import UntilDecided
from tests.studies.parts import simulation_table as table
from tests.studies.parts.command import SEED, Seed, run
from tests.studies.parts.simulation import (
    LEAST_FEWER,
    Figures,
    UnpairedFigures,
    simulate,
    simulate_unpaired,
    simulate_until_decided,
    try_empty_caches,
)
from tests.studies.parts.steps import counted

CELLS = 4000  # the coverage is then known within 0.4%
BLOCKS = [5, 8]
UNTIL_CELLS = (
    4  # times fewer where cells are looked at again and again: each look asks the whole sweep
)
UNPAIRED_CELLS = 2  # times fewer, as an addition to the lines with pairs


def verdicts(
    cells: Annotated[int, typer.Option(min=60, help="Made-up cells per kind of noise.")] = CELLS,
    blocks: Annotated[
        list[int], typer.Option(min=2, help="Blocks per cell; repeat for more.")
    ] = BLOCKS,
    seed: Seed = SEED,
) -> None:
    """Test the SQL that gives verdicts on made-up sweeps whose truth is known (some minutes).

    Exit code 1: a promised target is missed by more than three Monte-Carlo standard errors.
    """

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


if __name__ == "__main__":
    run(verdicts)
