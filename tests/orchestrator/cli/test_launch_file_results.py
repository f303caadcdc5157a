"""What a command reports if a sweep is not stored, or a store is empty."""

from pathlib import Path

import pytest

from cudnn_sweep.analysis.errors import QueryError
from cudnn_sweep.analysis.store.store import Store, open_store
from cudnn_sweep.orchestrator.cli.launch_file_results import check_sweep, open_results
from tests.analysis.conftest import make_record


@pytest.fixture
def nights(store: Store) -> Store:
    """Of seven days."""
    store.write(*(make_record(sweep_id=f"night-{day}") for day in range(1, 8)))
    return store


def test_a_sweep_that_is_not_stored_is_refused_with_the_newest_five(nights: Store) -> None:
    for sweep_id in (None, "night-3", "night-*"):
        check_sweep(nights, sweep_id)
    newest = "night-7, night-6, night-5, night-4, night-3"
    with pytest.raises(
        QueryError, match=rf"no sweep day-\* is stored in .*; the newest sweeps are {newest}$"
    ):
        check_sweep(nights, "day-*")


def test_in_an_empty_store_no_sweep_is_missing(store: Store) -> None:
    check_sweep(store, "night-3")


def test_a_store_without_results_is_named_if_others_are_read_with_it(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store.write(make_record())
    (tmp_path / "empty").mkdir()
    empty = open_store(str(tmp_path / "empty"))
    open_results([empty.location])
    assert capsys.readouterr().err == ""
    open_results([empty.location, store.location])
    expected = f"warning: no results are stored in {empty.folder.shown()}\n"
    assert capsys.readouterr().err == expected
