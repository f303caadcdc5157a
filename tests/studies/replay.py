"""Whether stored blocks in other orders would have been decided alike."""

from fnmatch import fnmatchcase
from typing import Annotated

import typer

from cudnn_sweep.analysis.engine.database import open_database
from cudnn_sweep.analysis.errors import QueryError
from cudnn_sweep.analysis.results.cell_names import CELLS as NAMED
from cudnn_sweep.analysis.results.cell_names import whole_names
from cudnn_sweep.analysis.results.contrast import stored_contrasts
from cudnn_sweep.orchestrator.cli.launch_file_results import ResultsOption, asking, open_results
from cudnn_sweep.workloads.cells.suite import BY_DEFAULT
from tests.studies.parts import replay_table as table
from tests.studies.parts import replaying
from tests.studies.parts.command import SEED, Seed, run

REPLAYS = 200  # of each sweep: half a minute


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

    store, looks = open_results(results), BY_DEFAULT.looks
    chosen = [each for each in store.sweep_ids() if fnmatchcase(each, sweep_id or "*")]
    typer.echo(f"Seed {seed}, {replays} replays of each sweep. {table.LEGEND}\n\n{table.head()}")
    every: list[replaying.Replayed] = []
    told: list[str] = []
    for each in chosen:
        with open_database(store, each) as database:
            contrasts = stored_contrasts(database)
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


if __name__ == "__main__":
    run(replay)
