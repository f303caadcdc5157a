"""What a person sees while a sweep runs."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from cudnn_sweep.orchestrator.planning.plan import Plan
from cudnn_sweep.orchestrator.recording.progress import Failure, Progress, SlotState
from cudnn_sweep.orchestrator.showing.display import LiveDisplay, PlainDisplay

if TYPE_CHECKING:
    from tests.makers import MakePlan


@pytest.fixture
def plan(plan_of: MakePlan) -> Plan:
    return plan_of("noop", replicates=3)


def test_live_display_shows_slots_outcomes_and_why_it_stopped(plan: Plan) -> None:
    console = Console(record=True, width=120)
    progress = Progress(
        statuses={"ok": 2, "timeout": 1},
        slots={"GPU-1": SlotState(position=4, attempt=1, began_at=datetime.now(UTC))},
        stopped="No space left on device",
    )
    display = LiveDisplay(plan)
    console.print(display.render(replace(progress, statuses={}), []))
    assert "to go" not in console.export_text(), "nobody knows the pace yet"
    console.print(display.render(progress, []))
    shown = console.export_text()
    assert "ok 2" in shown and "timeout 1" in shown
    assert "GPU-1" in shown and "noop forward 1x1 fixed tf32 · benchmark=" in shown
    assert "to go" in shown
    assert "No new trial starts: No space left on device" in shown


def test_plain_display_prints_failures_at_once_and_progress_in_lines(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    console = Console(record=True, width=120)
    display = PlainDisplay(console, plan)
    failure = Failure(trial_id="abc", status="crash", message="SIGSEGV [0]")
    display.update(Progress(statuses={"crash": 1}, failures=[failure]), [])
    assert console.export_text() == "abc crash: SIGSEGV [0]\n"

    monkeypatch.setattr("cudnn_sweep.orchestrator.showing.display.LINE_S", 0.0)
    display.update(Progress(statuses={"crash": 1, "ok": 4}, failures=[failure]), [])
    line = console.export_text()
    assert re.match(r"5/7 trials \(1 crash, 4 ok\), 0:\d\d elapsed", line)
    assert line.count("\n") == 1
