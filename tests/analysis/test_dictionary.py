"""The data dictionary says what every column of every answer means, and nothing else."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cudnn_sweep.analysis.database import Database, open_database
from cudnn_sweep.analysis.dictionary import SHARED, answer_columns, meaning, questions_dictionary
from cudnn_sweep.analysis.queries import load_query, query_names
from cudnn_sweep.analysis.store import open_store

DOCUMENT = Path(__file__).parents[2] / "docs" / "questions.md"


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with open_database(open_store(str(tmp_path_factory.mktemp("empty")))) as database:
        yield database


@pytest.mark.parametrize("name", query_names())
def test_every_column_of_an_answer_is_explained(database: Database, name: str) -> None:
    question = load_query(name)
    columns = answer_columns(database, question).names
    assert [column for column in columns if not meaning(question, column)] == []
    assert set(question.columns) <= set(columns), "explained, but not answered"


def test_what_is_shared_is_the_meaning_somewhere(database: Database) -> None:
    questions = [load_query(name) for name in query_names()]
    used = {
        column
        for question in questions
        for column in answer_columns(database, question).names
        if column not in question.columns
    }
    assert set(SHARED) <= used


def test_the_document_is_up_to_date() -> None:
    assert DOCUMENT.read_text() == questions_dictionary(), (
        "run: python -m cudnn_sweep.analysis.dictionary > docs/questions.md"
    )
