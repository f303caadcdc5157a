"""What an error says of a column that people look for in `records`."""

import pytest

from cudnn_sweep.analysis.engine.database import HINTS, open_database
from cudnn_sweep.analysis.errors import QueryError
from cudnn_sweep.analysis.store.store import Store


@pytest.mark.parametrize("name", HINTS)
def test_a_column_that_people_guess_is_named_with_what_has_it(kept_store: Store, name: str) -> None:
    with open_database(kept_store) as database, pytest.raises(QueryError) as raised:
        database.query(f"select {name} from records")
    assert str(raised.value).endswith(f"; `{name}` {HINTS[name]}")


def test_what_the_hints_name_answers(kept_store: Store) -> None:
    with open_database(kept_store) as database:
        for sql in (
            "select workload, problem, input_shape, cell_id from records",
            "select list_contains(warnings, 'throttled') from records",
            "select tuning_ms from break_even()",
        ):
            assert database.query(sql).num_rows > 0, sql


def test_a_misspelled_column_is_guessed(kept_store: Store) -> None:
    with open_database(kept_store) as database, pytest.raises(QueryError) as raised:
        database.query("select surly from helps_or_hurts()")
    text = str(raised.value)
    assert text.startswith(
        "the query failed: no column surly (did you mean surely?); similar names: "
    )
    assert "Binder" not in text and "LINE" not in text


def test_a_question_that_reads_a_file_learns_of_the_export(kept_store: Store) -> None:
    with (
        open_database(kept_store) as database,
        pytest.raises(QueryError, match="`sweep query --export store.duckdb`"),
    ):
        database.query("select * from read_csv('/etc/passwd')")
