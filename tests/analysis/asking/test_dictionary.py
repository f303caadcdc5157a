"""The data dictionary says what every column of every answer means, and nothing else."""

from collections.abc import Callable, Iterator
from functools import cache

import pytest

from cudnn_sweep.analysis.asking.database import open_database
from cudnn_sweep.analysis.asking.dictionary import SHARED, answer_columns, meaning
from cudnn_sweep.analysis.asking.queries import load_query, query_names
from cudnn_sweep.analysis.storing.store import open_store

Columns = Callable[[str], list[str]]


@pytest.fixture(scope="module")
def columns_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Columns]:
    """The columns of a question's answer; each is asked once."""
    with open_database(open_store(str(tmp_path_factory.mktemp("empty")))) as database:
        yield cache(lambda name: list(answer_columns(database, load_query(name)).names))


@pytest.mark.parametrize("name", query_names())
def test_every_column_of_an_answer_is_explained(columns_of: Columns, name: str) -> None:
    question, columns = load_query(name), columns_of(name)
    assert [column for column in columns if not meaning(question, column)] == []
    assert set(question.columns) <= set(columns), "explained, but not answered"


def test_what_is_shared_is_the_meaning_somewhere(columns_of: Columns) -> None:
    answered = {name: columns_of(name) for name in query_names()}
    own = {name: load_query(name).columns for name in answered}
    used = {column for name, columns in answered.items() for column in {*columns} - {*own[name]}}
    assert set(SHARED) <= used
