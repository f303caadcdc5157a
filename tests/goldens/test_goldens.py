"""Nothing that the program answers changes unnoticed: see CONTRIBUTING, "Goldens".

CI leaves out what takes minutes, unless SWEEP_GOLDENS is `all`.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.goldens import kept
from tests.goldens.collect import Goldens

SLOW = ("commands", "mistakes")
# Other tests ask each question, print made-up nights and plans, and draw reports.
LONG = ("answers", "nights", "plans", "reports")
WHOLE = os.environ.get("SWEEP_GOLDENS") == "all"
KINDS = ("answers", "reports", "nights", "plans", "doctor", "help", "commands", "mistakes")
HOW = "make goldens shows all; make goldens write=1 keeps what is meant (see CONTRIBUTING.md)"


@pytest.fixture(scope="module")
def goldens() -> Iterator[Goldens]:
    goldens = Goldens(whole=WHOLE)
    yield goldens
    goldens.close()


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(
            kind, marks=[pytest.mark.slow] * (kind in SLOW) + [pytest.mark.long] * (kind in LONG)
        )
        for kind in KINDS
    ],
)
def test_answers_are_as_they_were(goldens: Goldens, kind: str) -> None:
    every = {name: collect for name, collect in goldens.every().items() if name.startswith(kind)}
    told = [each for name, collect in every.items() for each in kept.differences(name, collect())]
    assert every and not told, "\n".join([*told, HOW])


def test_each_golden_is_of_a_kind_that_is_compared() -> None:
    assert all(name.startswith(KINDS) for name in kept.names())


def test_a_difference_is_told_in_words(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(kept, "KEPT", tmp_path)
    rows: list[dict[str, Any]] = [{"a": 1.0, "b": [1]}, {"a": 2.0, "b": None}]
    kept.write("some.json", rows)
    changed = ": column a differs in 1 of 2 rows, first in row 1: 2.0 → 2.1"
    for number, told in ((2.0 + 1e-12, []), (2.1, [f"some.json{changed}"])):
        assert kept.differences("some.json", [rows[0], rows[1] | {"a": number}]) == told
    assert kept.differences("some.json", rows[:1]) == ["some.json: 2 → 1 rows"]
    assert "some.json: column b is gone" in kept.differences("some.json", [{"a": 1.0}] * 2)
    kept.write("help.txt", "one\ntwo\n")
    assert kept.differences("help.txt", "one\n2\n") == ["help.txt: -two", "help.txt: +2"]
