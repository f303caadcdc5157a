"""What a person sees while a sweep runs: a live picture at a terminal, plain lines elsewhere."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from time import monotonic
from typing import Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, TaskProgressColumn, TextColumn
from rich.progress import Progress as Bar
from rich.table import Table
from rich.text import Text

from cudnn_sweep.analysis.answering.verdicts import Verdict
from cudnn_sweep.analysis.errors import AnalysisError
from cudnn_sweep.orchestrator.errors import UnfinishedError
from cudnn_sweep.orchestrator.planning.plan import Plan
from cudnn_sweep.orchestrator.recording.hopeless import cause
from cudnn_sweep.orchestrator.recording.progress import Progress
from cudnn_sweep.orchestrator.showing.labels import cell_labels, trial_label
from cudnn_sweep.orchestrator.showing.now_and_then import now_and_then
from cudnn_sweep.orchestrator.showing.say import say, warn
from cudnn_sweep.orchestrator.showing.verdict_table import (
    VERDICT_STYLES,
    ratio_text,
    verdict_label,
)
from cudnn_sweep.workloads.warnings import ADVICE

POLL_S = 0.25
LINE_S = 5.0  # plain lines come at most so often, but for failures
VERDICTS_S = 10.0  # a look at the results takes 0.1 s of a core, which on a CPU disturbs a trial
VERDICTS_SHOWN = 8


class Display(Protocol):
    def update(self, progress: Progress, verdicts: list[Verdict]) -> None: ...


@contextmanager
def watch(
    console: Console,
    plan: Plan,
    ask: Callable[[], Progress],
    ask_verdicts: Callable[[], list[Verdict]],
) -> Iterator[None]:
    """Show how far the plan is until the block ends."""
    verdicts: list[Verdict] = []
    asked_at = monotonic()

    def follow(display: Display) -> None:
        nonlocal verdicts, asked_at
        if monotonic() - asked_at > VERDICTS_S:
            verdicts, asked_at = _quietly(ask_verdicts, verdicts), monotonic()
        with suppress(UnfinishedError):  # the launch itself will meet it, and say so
            display.update(ask(), verdicts)

    with _display(console, plan) as display, now_and_then(partial(follow, display), every_s=POLL_S):
        yield


def _quietly(ask: Callable[[], list[Verdict]], otherwise: list[Verdict]) -> list[Verdict]:
    """A look at results that are being written may fail; the launch must not."""
    try:
        return ask()
    except (AnalysisError, OSError):
        return otherwise


@contextmanager
def _display(console: Console, plan: Plan) -> Iterator[Display]:
    if not console.is_terminal:
        yield PlainDisplay(console, plan)
        return
    live_display = LiveDisplay(plan)
    with Live(live_display.render(), console=console, refresh_per_second=4) as live:
        live_display.live = live
        yield live_display


class LiveDisplay:
    def __init__(self, plan: Plan) -> None:
        self.live: Live | None = None
        self._trials = {trial.position: trial for trial in plan.trials}
        self._cells = cell_labels(trial.cell for trial in plan.trials)
        self._clock = Clock(len(plan.trials), is_most=bool(plan.looks))
        self._bar = Bar(
            TextColumn("trials"),
            BarColumn(bar_width=40),
            MofNCompleteColumn(),
            TaskProgressColumn(),
        )
        self._task = self._bar.add_task("trials", total=len(plan.trials))

    def update(self, progress: Progress, verdicts: list[Verdict]) -> None:
        assert self.live is not None
        self._bar.update(self._task, completed=progress.recorded)
        self.live.update(self.render(progress, verdicts))

    def render(
        self, progress: Progress | None = None, verdicts: list[Verdict] | None = None
    ) -> RenderableType:
        progress = progress or Progress()
        parts: list[RenderableType] = [self._bar, self._times(progress), self._slots(progress)]
        if verdicts:
            parts.append(_latest(verdicts, self._cells))
        return Group(*parts)

    def _times(self, progress: Progress) -> Text:
        text = Text(self._clock.read(progress))
        if progress.standings:
            text.append(f"   {progress.standings}", style="bold")
        for status, count in sorted(progress.statuses.items()):
            text.append(f"   {status} {count}", style="green" if status == "ok" else "bold red")
        for name in progress.warnings:
            text.append(f"\n{name}: {ADVICE[name]}", style="yellow")
        if progress.stopped:
            text.append(f"\nNo new trial starts: {progress.stopped}", style="bold red")
        return text

    def _slots(self, progress: Progress) -> Table:
        table = Table.grid(padding=(0, 2))
        for slot, state in sorted(progress.slots.items()):
            seconds = (datetime.now(UTC) - state.began_at).total_seconds()
            doing = trial_label(self._trials[state.position], self._cells)
            table.add_row(Text(slot, style="cyan"), doing, f"{seconds:.0f} s")
        if not progress.slots:
            waiting = "the first process" if not progress.recorded else "the last records"
            table.add_row(Text(f"waiting for {waiting}", style="dim"))
        return table


def _latest(verdicts: list[Verdict], cells: Mapping[str, str]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_row(Text("verdicts so far", style="bold"))
    for verdict in verdicts[:VERDICTS_SHOWN]:
        style = VERDICT_STYLES.get(verdict.wall_verdict, "")
        shown = Text(verdict.wall_in_words, style=style)
        label = verdict_label(verdict, cells)
        table.add_row(label, verdict.contrast, ratio_text(verdict), shown)
    if len(verdicts) > VERDICTS_SHOWN:
        table.add_row(Text(f"and {len(verdicts) - VERDICTS_SHOWN} more", style="dim"))
    return table


class PlainDisplay:
    def __init__(self, console: Console, plan: Plan) -> None:
        self._console = console
        self._total = len(plan.trials)
        self._clock = Clock(self._total, is_most=bool(plan.looks))
        self._last = monotonic()
        self._shown = self._failures = self._warnings = 0
        self._told: set[tuple[str, str]] = set()

    def update(self, progress: Progress, verdicts: list[Verdict]) -> None:
        for failure in progress.failures[self._failures :]:
            error = cause(failure.status, failure.message)
            if error not in self._told:  # the summary says how many ended so
                self._told.add(error)
                say(self._console, f"{failure.trial_id} {failure.status}: {failure.message}")
        self._failures = len(progress.failures)
        for name in progress.warnings[self._warnings :]:
            warn(self._console, f"{name}: {ADVICE[name]}")
        self._warnings = len(progress.warnings)
        if progress.recorded == self._shown or monotonic() - self._last < LINE_S:
            return
        self._last, self._shown = monotonic(), progress.recorded
        outcomes = ", ".join(f"{count} {status}" for status, count in progress.statuses.items())
        told = f", {progress.standings}" if progress.standings else ""
        say(
            self._console,
            f"{progress.recorded}/{self._total} trials ({outcomes}), {self._clock.read(progress)}{told}",
        )


class Clock:
    """Time gone, and an estimate of the time to go, which starts with the first trial."""

    def __init__(self, total: int, *, is_most: bool = False) -> None:
        """`is_most`: fewer trials may do."""
        self._total = total
        self._about = "at most" if is_most else "about"
        self._began = monotonic()
        self._first: tuple[float, int] | None = None
        """When trials were first seen, and how many were recorded by then."""

    def read(self, progress: Progress) -> str:
        now = monotonic()
        if self._first is None and (progress.slots or progress.recorded):
            self._first = now, progress.recorded
        text = f"{_clock(now - self._began)} elapsed"
        if self._first is not None and progress.recorded > self._first[1]:
            pace = (now - self._first[0]) / (progress.recorded - self._first[1])
            text += f", {self._about} {_clock(pace * (self._total - progress.recorded))} to go"
        return text


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
