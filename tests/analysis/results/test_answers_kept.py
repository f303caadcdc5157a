"""An answer is asked for once, until files come or go or eight others were asked."""

from types import SimpleNamespace
from typing import Any

import pytest

from cudnn_sweep.analysis.results import answers
from cudnn_sweep.analysis.results.answers import AnswerRow
from cudnn_sweep.analysis.results.contrast import BANS, TWINS


class Store:
    """Stored files; no database."""

    def __init__(self) -> None:
        self.names = ["a"]

    @property
    def stores(self) -> list["Store"]:
        return [self]

    def files(self, sweep_id: str | None) -> list[str]:
        return [*self.names]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What a database was asked, in turn."""
    found: list[Any] = []

    class Opened:
        def __init__(self, store: Store, sweep_id: str | None) -> None:
            self.sweep_id = sweep_id

        def __enter__(self) -> Any:
            return SimpleNamespace(ask=self.ask)

        def __exit__(self, *_: object) -> None: ...

        def ask(self, question: str, **values: Any) -> Any:
            found.append((question, self.sweep_id, *values.values()))
            return SimpleNamespace(to_pylist=lambda: [{"number": len(found)}])

    monkeypatch.setattr(answers, "open_database", Opened)
    return found


class Row(AnswerRow):
    question = "mine"


def test_an_answer_is_asked_for_once_while_the_files_are_the_same(asked: list[Any]) -> None:
    store: Any = Store()
    first = Row.of(store, x=1)
    assert Row.of(store, x=1) == first == [Row(number=1)]
    first.clear()
    assert Row.of(store, x=1) == [Row(number=1)], "a list of the caller's own"
    assert Row.of(store, "june", x=1) == [Row(number=2)]
    store.names.append("b")
    assert Row.of(store, x=1) == [Row(number=3)]
    assert asked == [("mine", None, 1), ("mine", "june", 1), ("mine", None, 1)]


def test_the_last_eight_answers_are_kept(asked: list[Any]) -> None:
    store: Any = Store()
    for number in range(9):
        Row.of(store, x=number)
    for number in range(8, 0, -1):
        Row.of(store, x=number)
    assert len(asked) == 9
    Row.of(store, x=0)
    assert len(asked) == 10


def test_each_contrast_is_asked_about(asked: list[Any]) -> None:
    store: Any = Store()
    rows = Row.of_each(store, "june", [BANS, TWINS])
    assert [row.number for row in rows] == [1, 2]
    assert [fields[2] for fields in asked] == ["ban", "twin"]
