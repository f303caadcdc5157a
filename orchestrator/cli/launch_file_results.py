"""Finds and opens the results that a command reads."""

import fnmatch
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

from cudnn_sweep.analysis.errors import QueryError
from cudnn_sweep.orchestrator.cli.commands import echo

if TYPE_CHECKING:
    from cudnn_sweep.analysis.engine.database import Database
    from cudnn_sweep.analysis.store.stored import Stored

ResultsOption = Annotated[
    list[str] | None,
    "Folder or URL (s3://, gs://) of the results. Repeat the option to read several folders. "
    "Default: the value of `results` in ./cluster.yaml, or ./results.",
]
ReferenceOption = Annotated[
    bool,
    "Read the results that are installed with cudnn-sweep. Add --results to read your own, too.",
]


def results_asked(named: Sequence[str] | None, *, reference: bool = False) -> list[str]:
    if reference:
        from cudnn_sweep.analysis.store.location import REFERENCE

        return [*(named or ()), str(REFERENCE)]
    if named:
        return list(named)
    from cudnn_sweep.orchestrator.planning.spec import results_of_the_launch_file

    return [results_of_the_launch_file()]


def open_results(named: Sequence[str] | None, *, reference: bool = False) -> "Stored":
    """Open the results. Raises StoreError if a location is missing or is no results folder."""
    from cudnn_sweep.analysis.store.stored import open_stored

    stored = open_stored(results_asked(named, reference=reference))
    for store in stored.stores[:-1] and stored.stores:  # only if there are several
        if not store.sweep_ids():
            echo(f"warning: no results are stored in {store.folder.shown()}", err=True)
    return stored


def check_sweep(store: "Stored", sweep_id: str | None) -> None:
    """Raise QueryError if sweeps are stored, but none matches the id or pattern `sweep_id`."""
    from cudnn_sweep.analysis.store.stored import shown

    stored = store.sweep_ids()
    if sweep_id is not None and stored and not fnmatch.filter(stored, sweep_id):
        newest = ", ".join(stored[:-6:-1])
        raise QueryError(
            f"no sweep {sweep_id} is stored in {shown(store)}; the newest sweeps are {newest}"
        )


@contextmanager
def asking(store: "Stored", sweep_id: str | None = None) -> "Iterator[Database]":
    """Yield a database. Raises QueryError if no sweep matches or all files are damaged."""
    from cudnn_sweep.analysis.engine.database import open_database

    check_sweep(store, sweep_id)
    with open_database(store, sweep_id) as database:
        try:
            yield database
        finally:
            warn_of(database.torn_files)
        if database.is_empty and database.torn_files:
            raise QueryError("every stored file is damaged")


def warn_of(torn_files: Iterable[str]) -> None:
    from cudnn_sweep.analysis.engine.database import left_out

    for torn in torn_files:
        echo(f"warning: {left_out(torn)}", err=True)
