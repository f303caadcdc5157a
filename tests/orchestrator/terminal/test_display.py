"""What a person sees while a sweep runs."""

import ctypes
import os
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from threading import Event

import pytest
from rich.console import Console
from rich.live import Live

from cudnn_sweep.analysis.results.verdicts import Verdict
from cudnn_sweep.orchestrator.planning.plan import Plan
from cudnn_sweep.orchestrator.recording.recorder import Failure, Progress
from cudnn_sweep.orchestrator.terminal import display
from cudnn_sweep.orchestrator.terminal.display import Display, watch
from cudnn_sweep.orchestrator.terminal.say import say
from tests.makers import MakePlan


def test_what_users_name_is_said_as_it_is_and_steers_no_terminal() -> None:
    console = Console(record=True, width=20, force_terminal=True)
    say(console, "nets.py:Cat: [bold]has no\x1b[2J layers")
    assert console.export_text() == "nets.py:Cat: [bold]has no\ufffd[2J layers\n"


def test_terminal_shows_what_runs_and_how_far_it_is(plan: Plan) -> None:
    console = Console(record=True, width=120, force_terminal=True)
    progress = Progress(slots={"GPU-1": plan.trials[4].trial_id})
    with Live(console=console) as live:
        shown = Display(console, plan, live=live)
        shown.update(progress, [])
        console.print(live.renderable)
        assert "to go" not in console.export_text(), "nobody knows the pace yet"
        shown.update(replace(progress, statuses={"ok": 2, "timeout": 1}), [])
        console.print(live.renderable)
        text = console.export_text()
    assert "3/7 trials (2 ok, 1 timeout), 0:0" in text and "to go" in text
    assert "now noop forward 1x1 fixed tf32" in text


def test_plain_display_prints_failures_at_once_and_progress_in_lines(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    console = Console(record=True, width=120)
    plain = Display(console, plan)
    failure = Failure(trial_id="abc", status="crash", message="SIGSEGV [0]")
    plain.update(Progress(statuses={"crash": 1}, failures=[failure]), [])
    assert console.export_text() == "abc crash: SIGSEGV [0]\n"

    monkeypatch.setattr("cudnn_sweep.orchestrator.terminal.display.LINE_S", 0.0)
    plain.update(Progress(statuses={"crash": 1, "ok": 4}, failures=[failure]), [])
    line = console.export_text()
    assert re.match(r"5/7 trials \(1 crash, 4 ok\), 0:\d\d elapsed", line)
    assert line.count("\n") == 1


class Seconds:
    """A clock that a test sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.gone = 0.0
        monkeypatch.setattr(display, "monotonic", lambda: self.gone)


@pytest.mark.parametrize(
    ("recorded", "limit_s", "to_go"),
    [
        (2, None, "at most 0:18 to go"),
        (2, 10.0, "at most 0:08 to go"),
        (20, None, None),
    ],
)
def test_time_to_go_ends_with_the_limit(
    plan_of: MakePlan,
    monkeypatch: pytest.MonkeyPatch,
    recorded: int,
    limit_s: float | None,
    to_go: str | None,
) -> None:
    """A second a trial."""
    clock, fixed = Seconds(monkeypatch), plan_of("noop", replicates=10)
    trials = tuple(trial for trial in fixed.trials if not trial.twin)
    plan = replace(fixed, trials=trials, looks=(3, 10))
    read = Display(Console(), plan, limit_s).time
    read(Progress(slots={"GPU-1": trials[0].trial_id}))
    clock.gone = float(recorded)
    said = read(Progress(statuses={"ok": recorded}))
    assert said == f"0:{recorded:02} elapsed" + (f", {to_go}" if to_go else "")


@pytest.mark.parametrize(
    ("gone_s", "recorded", "limit_s", "share"),
    [
        (30.0, 1, None, 1 / 7),
        (30.0, 1, 120.0, 0.25),
        (30.0, 6, 120.0, 6 / 7),
        (130.0, 1, 120.0, 1.0),
    ],
)
def test_the_bar_is_full_when_the_trials_or_the_minutes_are_over(
    plan: Plan,
    monkeypatch: pytest.MonkeyPatch,
    gone_s: float,
    recorded: int,
    limit_s: float | None,
    share: float,
) -> None:
    clock = Seconds(monkeypatch)
    shown = Display(Console(), plan, limit_s)
    clock.gone = gone_s
    assert shown.share(Progress(statuses={"ok": recorded})) == pytest.approx(share)


def test_a_resumed_sweep_counts_what_was_recorded_before(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(display, "LINE_S", 0.0)
    console = Console(record=True, width=120)
    left = replace(plan, trials=plan.trials[3:])
    shown = Display(console, left, before=3)
    shown.update(Progress(statuses={"ok": 1}), [])
    assert console.export_text().startswith("4/7 trials (3 before, 1 ok), 0:0")
    assert shown.share(Progress(statuses={"ok": 4})) == 1.0


def test_memory_that_a_question_frees_goes_back_to_the_system(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small object that stays on top of what a thread has allocated holds all of it."""
    monkeypatch.setattr(display, "VERDICTS_S", 0.0)
    monkeypatch.setattr(display, "POLL_S", 0.01)
    sizes: list[int] = []
    stays: list[bytes] = []
    seen = Event()

    def ask_verdicts() -> list[Verdict]:
        if not sizes:
            ctypes.CDLL(None).malloc_trim(0)  # so that the blocks do not lie in memory freed before
            sizes.append(_resident_bytes())
            blocks = [b"x" * (3000 + number % 2) for number in range(10_000)]
            stays.append(blocks[-1])
            sizes.append(_resident_bytes())
        return []

    def ask() -> Progress:
        if len(sizes) == 2:
            sizes.append(_resident_bytes())
            seen.set()
        return Progress()

    with watch(Console(record=True), plan, ask, ask_verdicts):
        assert seen.wait(10.0)
    before, during, after = sizes
    assert during - before > 20e6
    assert after - before < (during - before) / 4


@pytest.mark.parametrize(("took_s", "least_s"), [(0.1, 10.0), (5.0, 100.0)])
def test_questions_for_verdicts_take_a_twentieth_of_the_time_at_most(
    plan: Plan, monkeypatch: pytest.MonkeyPatch, took_s: float, least_s: float
) -> None:
    """The display asks for the progress once a second."""
    clock = Seconds(monkeypatch)
    monkeypatch.setattr(display, "POLL_S", 0.001)
    began: list[float] = []
    enough = Event()

    def ask_verdicts() -> list[Verdict]:
        began.append(clock.gone)
        clock.gone += took_s
        return []

    def ask() -> Progress:
        clock.gone += 1.0
        if len(began) == 3:
            enough.set()
        return Progress()

    with watch(Console(record=True), plan, ask, ask_verdicts):
        assert enough.wait(10.0)
    between = [later - earlier - took_s for earlier, later in pairwise(began)]
    assert all(least_s <= each < least_s + 2.0 for each in between)


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0:00"),
        (59.4, "0:59"),
        (59.6, "1:00"),
        (61.0, "1:01"),
        (3599.0, "59:59"),
        (3600.0, "1:00:00"),
        (36_661.0, "10:11:01"),
    ],
)
def test_times_are_written_as_clocks_write_them(seconds: float, text: str) -> None:
    assert display._clock(seconds) == text
