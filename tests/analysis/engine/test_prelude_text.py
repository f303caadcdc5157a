"""What SQL makes before a question that plain DuckDB asks, of stores without a file."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cudnn_sweep.analysis.engine.prelude import (
    HTTPFS_HINT,
    each_macro,
    macro_parameter,
    prelude_sql,
    question_macros,
)
from cudnn_sweep.analysis.store.store import open_store


def test_the_prelude_makes_every_macro(tmp_path: Path) -> None:
    text = prelude_sql(open_store(str(tmp_path)))
    assert all(statement in text for statement in question_macros().values())
    assert all(f"create or replace macro {name}" in text for name in each_macro())
    assert HTTPFS_HINT not in text


@pytest.mark.parametrize(
    ("name", "parameter"), [("sweep_id", "of_sweep_id"), ("min_effect", "min_effect")]
)
def test_a_parameter_hides_no_column(name: str, parameter: str) -> None:
    of: Any = SimpleNamespace(name=name)
    assert macro_parameter(of) == parameter
