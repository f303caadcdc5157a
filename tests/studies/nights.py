"""The alerts of `sweep nightly`, on made-up nights whose truth is known."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from cudnn_sweep.orchestrator.terminal.write_whole import writing
from tests.studies.parts import nights_table as table
from tests.studies.parts.command import SEED, Seed, run
from tests.studies.parts.detection_figures import save_histories, simulate_nights
from tests.studies.parts.night_choices import CHANGES, simulate_choices
from tests.studies.parts.night_words import WORDS, simulate_words
from tests.studies.parts.realities import REALITIES, try_realities
from tests.studies.parts.simulated_nights import HELD_TO_TARGETS, OTHERS
from tests.studies.parts.steps import counted

SERIES = 100  # some seconds; the figures of docs/validation.md are of 2,000
MOST_WORDS = 100  # series of words: their nights are compared one by one
NIGHTS = 60


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
    typer.echo(f"{table.by_nights_alone(every)}\n")
    lived = try_realities(series, seed)
    realities = list(counted(console, lived, "kinds of nights", len(REALITIES)))
    typer.echo(f"{table.realities(realities)}\n")
    chosen = simulate_choices(series, nights, seed)
    choices = list(counted(console, chosen, "changes of processes that choose", len(CHANGES)))
    typer.echo(f"{table.choices(choices)}\n")
    shown = simulate_words(min(series, MOST_WORDS), nights, seed)
    words = list(counted(console, shown, "kinds of words", len(WORDS)))
    typer.echo(f"{table.words(words)}\n")
    missed = "; ".join(filter(None, (table.missed_realities(realities), table.missed_words(words))))
    typer.echo(f"Missed: {missed}." if missed else "Other kinds of change: every target is met.")
    typer.echo(table.in_words(every))
    if missed or any(figures.missed() for figures in every if figures.is_promised):
        raise typer.Exit(1)


if __name__ == "__main__":
    run(nights)
