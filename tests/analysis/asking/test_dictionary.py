"""The data dictionary says what every column of every answer means, and nothing else."""

import pytest

from cudnn_sweep.analysis.asking.database import open_database
from cudnn_sweep.analysis.asking.dictionary import SHARED, answer_columns, meaning
from cudnn_sweep.analysis.asking.queries import load_query, query_names
from cudnn_sweep.analysis.storing.store import open_store


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The columns of each question's answer."""
    questions = [load_query(name) for name in query_names()]
    with open_database(open_store(str(tmp_path_factory.mktemp("empty")))) as database:
        return {each.name: answer_columns(database, each).names for each in questions}


@pytest.mark.parametrize("name", query_names())
def test_every_column_of_an_answer_is_explained(answered: dict[str, list[str]], name: str) -> None:
    question = load_query(name)
    columns = answered[name]
    assert [column for column in columns if not meaning(question, column)] == []
    assert set(question.columns) <= set(columns), "explained, but not answered"


def test_what_is_shared_is_the_meaning_somewhere(answered: dict[str, list[str]]) -> None:
    own = {name: load_query(name).columns for name in answered}
    used = {column for name, columns in answered.items() for column in {*columns} - {*own[name]}}
    assert set(SHARED) <= used
