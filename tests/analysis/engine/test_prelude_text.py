"""What SQL makes before a question that plain DuckDB asks, of stores without a file."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from cudnn_sweep.analysis.engine.prelude import (
    HTTPFS_HINT,
    PATTERN,
    each_macro,
    macro_parameter,
    prelude_sql,
    question_macros,
)
from cudnn_sweep.analysis.store.store import Store, open_store
from tests.analysis.conftest import make_record


def test_the_prelude_makes_every_macro(tmp_path: Path) -> None:
    text = prelude_sql(open_store(str(tmp_path)))
    assert all(statement in text for statement in question_macros().values())
    assert all(f"create or replace macro {name}" in text for name in each_macro())
    assert HTTPFS_HINT not in text


@pytest.mark.parametrize(
    "beside",
    [
        None,
        "sweep=june/torn.parquet",
        "sweep=june copy/part.parquet",
        "sweep=june/notes/mine.parquet",
    ],
)
def test_files_are_named_one_by_one_if_a_pattern_would_read_others(
    store: Store, beside: str | None
) -> None:
    store.write(make_record(sweep_id="june"))
    (file,) = store.files()
    if beside is not None:
        store.folder.write(beside, pa.py_buffer(b"PAR1"))
    text = prelude_sql(store)
    assert (PATTERN in text, file in text) == (beside is None, beside is not None)
    assert beside is None or beside not in text


@pytest.mark.parametrize(
    ("name", "parameter"), [("sweep_id", "of_sweep_id"), ("min_effect", "min_effect")]
)
def test_a_parameter_hides_no_column(name: str, parameter: str) -> None:
    of: Any = SimpleNamespace(name=name)
    assert macro_parameter(of) == parameter
