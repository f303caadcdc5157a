"""What an error says of a column that people look for in `records`."""

import pytest

from cudnn_sweep.analysis.asking.database import HINTS, open_database
from cudnn_sweep.analysis.errors import QueryError
from cudnn_sweep.analysis.storing.store import Store


@pytest.mark.parametrize("name", HINTS)
def test_a_column_that_people_guess_is_named_with_what_has_it(kept_store: Store, name: str) -> None:
    with open_database(kept_store) as database, pytest.raises(QueryError) as raised:
        database.query(f"select {name} from records")
    assert str(raised.value).endswith(f"`{name}` {HINTS[name]}")


def test_what_the_hints_name_answers(kept_store: Store) -> None:
    with open_database(kept_store) as database:
        for sql in (
            "select workload, problem, input_shape, cell_id from records",
            "select list_contains(warnings, 'throttled') from records",
            "select tuning_ms from break_even()",
        ):
            assert database.query(sql).num_rows > 0, sql


def test_another_column_has_no_hint(kept_store: Store) -> None:
    with open_database(kept_store) as database, pytest.raises(QueryError) as raised:
        database.query("select nothing_like_it from records")
    assert "`" not in str(raised.value)
