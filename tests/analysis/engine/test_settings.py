"""Settings as text: SQL and Python write the same, and two configs never look alike."""

from collections.abc import Iterator
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cudnn_sweep.analysis.engine import settings as settings_sql
from cudnn_sweep.analysis.engine.settings import (
    as_text,
    texts_in,
)
from cudnn_sweep.workloads.records.row import SettingValue

SCALARS = {
    pa.bool_(): st.booleans(),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float64(): st.floats(allow_nan=False, allow_subnormal=False),
    pa.string(): st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
}
KINDS = [*SCALARS, *(pa.map_(pa.string(), kind) for kind in SCALARS)]


def values_of(kind: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_map(kind):
        return st.dictionaries(SCALARS[pa.string()], SCALARS[kind.item_type], max_size=4)
    return SCALARS[kind]


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as opened:
        opened.execute(settings_sql.QUOTED_MACRO)
        yield opened


@pytest.mark.parametrize("kind", KINDS, ids=str)
@settings(deadline=None, max_examples=20)
@given(data=st.data())
def test_sql_and_python_write_a_setting_alike(
    connection: duckdb.DuckDBPyConnection, kind: pa.DataType, data: st.DataObject
) -> None:
    values = data.draw(st.lists(values_of(kind), min_size=1, max_size=20))
    connection.register("stored", pa.table({"value": pa.array(values, kind)}))
    found = connection.sql(f"select {settings_sql.text_of('value', kind)} as text from stored")
    assert found.to_arrow_table()["text"].to_pylist() == [as_text(value) for value in values]


@settings(deadline=None, max_examples=30)
@given(
    values=st.dictionaries(
        st.from_regex(r"[a-z_]{1,8}", fullmatch=True),
        st.one_of(st.none(), *map(values_of, KINDS)),
        max_size=5,
    )
)
def test_a_line_of_settings_reads_back(values: dict[str, SettingValue]) -> None:
    texts = {name: as_text(value) for name, value in values.items()}
    line = ", ".join(f"{name}={text}" for name, text in texts.items())
    assert texts_in(line) == texts


@pytest.mark.parametrize("kind", KINDS, ids=str)
@settings(deadline=None, max_examples=30)
@given(data=st.data())
def test_two_values_of_a_setting_never_look_alike(kind: pa.DataType, data: st.DataObject) -> None:
    one, other = data.draw(values_of(kind)), data.draw(values_of(kind))
    assert (as_text(one) == as_text(other)) == (repr(one) == repr(other) or one == other)


def test_text_that_means_nothing_else_stands_without_quotes() -> None:
    assert as_text("sm_90a") == "sm_90a"
    assert as_text("") == '""'
    assert as_text("null") == '"null"', "null itself is the value that is not set"
    assert as_text({"B": 2, "A": "x y"}) == r'"A=\"x y\",B=2"'
