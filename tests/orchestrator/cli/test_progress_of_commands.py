"""Long commands show how far they are at a terminal, and nothing of that in a pipe."""

from collections.abc import Callable, Iterator
from typing import NoReturn

import pytest
from typer.testing import CliRunner

from cudnn_sweep.analysis.proving import detection_figures, generated, simulation
from cudnn_sweep.orchestrator.cli import app
from cudnn_sweep.orchestrator.proving import controllers, overhead


class Enough(Exception):
    """What is measured does not matter here."""


def _ends(*asked: object, **more: object) -> NoReturn:
    raise Enough


def _overhead(trials: int, training: int, rivals: int, begins: Callable[[str], None]) -> NoReturn:
    begins("no-op trials")
    raise Enough


def _kinds(*asked: object) -> Iterator[NoReturn]:
    raise Enough
    yield


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("overhead", "no-op trials"),
        ("scale controllers --trials 40 --slots 4", "40 trials on 4 slots"),
        ("scale --trials 100", "100 made-up trials"),
        ("validate nights", "kinds of noise"),
        ("validate statistics", "kinds of noise"),
    ],
)
def test_progress_is_shown_at_a_terminal_only(
    command: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overhead, "measure_overhead", _overhead)
    monkeypatch.setattr(controllers, "measure_controllers", _ends)
    monkeypatch.setattr(generated, "write_generated", _ends)
    monkeypatch.setattr(simulation, "simulate", _kinds)
    monkeypatch.setattr(detection_figures, "simulate_nights", _kinds)
    told = {
        terminal: CliRunner().invoke(
            app, command.split(), env={"TTY_COMPATIBLE": terminal, "COLUMNS": "120"}
        )
        for terminal in ("1", "0")
    }
    bar = "━"
    assert all(isinstance(each.exception, Enough) for each in told.values())
    assert shown in told["1"].output and bar in told["1"].output, told["1"].output
    assert bar not in told["0"].output
