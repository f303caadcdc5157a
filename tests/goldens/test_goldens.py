"""Nothing that the program answers changes unnoticed: see CONTRIBUTING, "Goldens".

CI leaves out what takes minutes, unless SWEEP_GOLDENS is `all`.
"""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.goldens import kept
from tests.goldens.collect import Goldens

SLOW = ("answers", "nights")
WHOLE = os.environ.get("SWEEP_GOLDENS") == "all"
KINDS = ("answers", "reports", "nights", "plans", "doctor", "help", "commands", "mistakes")
HOW = "make goldens shows all; where it is meant, make goldens write=1 and a line in CHANGELOG.md"


@pytest.fixture(scope="module")
def goldens() -> Iterator[Goldens]:
    goldens = Goldens(whole=WHOLE)
    yield goldens
    goldens.close()


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.slow] * (kind in SLOW)) for kind in KINDS]
)
def test_answers_are_as_they_were(goldens: Goldens, kind: str) -> None:
    every = {name: collect for name, collect in goldens.every().items() if name.startswith(kind)}
    told = [each for name, collect in every.items() for each in kept.differences(name, collect())]
    assert every and not told, "\n".join([*told, HOW])


def test_each_golden_is_of_a_kind_that_is_compared() -> None:
    assert all(name.startswith(KINDS) for name in kept.names())


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ([{"a": 1.0, "b": [1]}, {"a": 2.0 + 1e-12, "b": None}], []),
        (
            [{"a": 1.0, "b": [1]}, {"a": 2.1, "b": None}],
            [": column a differs in 1 of 2 rows, first in row 1: 2.0 → 2.1"],
        ),
        ([{"a": 1.0, "b": [1]}], [": 2 → 1 rows"]),
        (
            [{"a": 1.0, "c": 1}, {"a": 2.0, "c": 1}],
            [": column b is gone", ": column c is new"],
        ),
        (
            [{"b": [1], "a": 1.0}, {"b": None, "a": 2.0}],
            [": columns are in another order"],
        ),
    ],
)
def test_a_difference_is_told_in_words(
    found: Any, told: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setattr(kept, "KEPT", tmp_path)
    kept.write("some.json", [{"a": 1.0, "b": [1]}, {"a": 2.0, "b": None}])
    assert kept.differences("some.json", found) == [f"some.json{each}" for each in told]


def test_a_changed_line_of_a_text_is_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr(kept, "KEPT", tmp_path)
    kept.write("help.txt", "one\ntwo\nthree\n")
    assert kept.differences("help.txt", "one\n2\nthree\n") == ["help.txt: -two", "help.txt: +2"]
    assert kept.differences("other.txt", "one\n") == ["other.txt is new"]
