"""What `sweep compare` answers, of comparisons that are made up."""

from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

compare: Any = import_module("cudnn_sweep.orchestrator.cli.compare")  # the package has its command


def found(*verdicts: str, device: str | None = None, rows: int | None = None, **of: Any) -> Any:
    counts = {verdict: verdicts.count(verdict) for verdict in sorted({*verdicts})}
    by_column = {"verdict": counts, "device_verdict": {device: 1} if device else {}}
    usual: dict[str, Any] = {
        "a": "2.10",
        "b": "2.11",
        "rows": pa.table({"row": list(range(len(verdicts) if rows is None else rows))}),
        "cells": len(verdicts),
        "counts": lambda column="verdict": by_column[column],
        "differences": {"torch": "torch: 2.10 → 2.11"},
        "edited": (),
        "mixed": {},
        "slowest": None,
    }
    return SimpleNamespace(**usual | of)


@pytest.mark.parametrize(
    ("of", "fail_on", "headline", "state"),
    [
        (found(), None, "No cell was measured with the same config on both sides.", "fine"),
        (
            found(),
            "hurts",
            "No cell was measured with the same config on both sides.",
            "cannot tell",
        ),
        (found("hurts"), None, "1 cell and config: hurts 1.", "fine"),
        (found("hurts"), "hurts", "1 cell and config: hurts 1.", "worse"),
        (found("helps"), "hurts", "1 cell and config: helps 1.", "fine"),
        (found("helps", device="hurts"), "hurts", "1 cell and config: helps 1.", "worse"),
        (found("helps", "hurts", "helps"), None, "3 cells and configs: helps 2, hurts 1.", "fine"),
        (found("helps", rows=2), None, "1 cell and config, in 2 rows: helps 1.", "fine"),
    ],
)
def test_cells_are_counted_by_verdict_and_a_verdict_may_fail(
    of: Any, fail_on: str | None, headline: str, state: str
) -> None:
    answer = compare._answer(of, [], fail_on)
    assert (answer.headline, answer.state) == (headline, state)
    notes = [text for (text,) in answer.sections[2].notes]
    assert notes == (["By device time: hurts 1."] if "hurts" in of.counts("device_verdict") else [])


def test_what_differs_and_what_is_mixed_is_said_with_what_to_add() -> None:
    mixed = {"driver": ["1", "2"]}
    same = compare._answer(found("helps", differences={}), [], None)
    assert same.sections[0].items == [["no part of the environment"]]
    other = compare._answer(found("helps", edited=("nets.py:Net",), mixed=mixed), [], None)
    assert other.sections[0].items == [["torch: 2.10 → 2.11"], ["the code of nets.py:Net"]]
    (note,) = other.sections[2].notes
    assert note[0].endswith("add --where driver=1 --where driver=2")
    assert compare._answer(found(mixed=mixed), [], None).sections[2].notes == []


@pytest.mark.parametrize(
    ("slowest", "differences", "words"),
    [
        (("quick", "c1", False), {"torch": ""}, "bisect quick --only cell_id=c1 --pythons OLD"),
        (
            ("quick", "c1", True),
            {"cuda": ""},
            "bisect quick --only cell_id=c1 --benchmark --pythons",
        ),
        (("mine.yaml", "c1", False), {"torch": ""}, "bisect mine.yaml --only cell_id=c1 --pythons"),
        (("advise", "c1", False), {"torch": ""}, None),
        (("quick", "c1", False), {"driver": ""}, None),
        (None, {"torch": ""}, None),
    ],
)
def test_a_slower_environment_is_bisected_by_the_cell_that_it_slows_down_most(
    slowest: Any, differences: dict[str, str], words: str | None
) -> None:
    commands = compare._answer(found(slowest=slowest, differences=differences), [], None).commands
    assert len(commands) == (words is not None)
    assert all(words in command for _, command in commands)
