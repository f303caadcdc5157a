"""Displays the progress of a running sweep."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from threading import Event, Thread
from time import monotonic

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.text import Text

from cudnn_sweep.analysis.errors import AnalysisError
from cudnn_sweep.analysis.results.verdicts import Verdict
from cudnn_sweep.analysis.words import printable
from cudnn_sweep.orchestrator.errors import UnfinishedError
from cudnn_sweep.orchestrator.planning.plan import Plan
from cudnn_sweep.orchestrator.process.linux import give_back_memory
from cudnn_sweep.orchestrator.recording.recorder import Progress, cause
from cudnn_sweep.orchestrator.terminal.plan_text import cell_labels
from cudnn_sweep.orchestrator.terminal.say import say, warn
from cudnn_sweep.workloads.warnings import ADVICE

POLL_S = 0.25
LINE_S = 10.0  # least time between two lines of progress
VERDICTS_S = 10.0  # least time between two queries of the verdicts
REST = 20  # least pause after a query, divided by the duration of the query


@contextmanager
def watch(
    console: Console,
    plan: Plan,
    ask: Callable[[], Progress],
    ask_verdicts: Callable[[], list[Verdict]],
    limit_s: float | None = None,
    before: int = 0,
) -> Iterator[None]:
    """Show the progress of a sweep. `before` is the number of trials of earlier launches."""
    live = Live(console=console, refresh_per_second=4) if console.is_terminal else None
    display = Display(console, plan, limit_s, live, before)
    verdicts: list[Verdict] = []
    next_look = monotonic() + VERDICTS_S

    def follow() -> None:
        nonlocal verdicts, next_look
        began = monotonic()
        if began > next_look:
            with suppress(AnalysisError, OSError):  # the results are being written
                verdicts = ask_verdicts()
            give_back_memory()  # otherwise each query keeps 10 to 40 MB
            ended = monotonic()
            next_look = ended + max(VERDICTS_S, REST * (ended - began))
        with suppress(UnfinishedError):  # the launch reports this error itself
            display.update(ask(), verdicts)

    with live or nullcontext(), now_and_then(follow, every_s=POLL_S):
        yield


class Display:
    def __init__(
        self,
        console: Console,
        plan: Plan,
        limit_s: float | None = None,
        live: Live | None = None,
        before: int = 0,
    ) -> None:
        self._live, self._console, self._before = live, console, before
        cells = cell_labels(trial.cell for trial in plan.trials)
        self._cells = {trial.trial_id: cells[trial.cell.cell_id] for trial in plan.trials}
        self._least = "at most" if plan.looks else "about"
        self._limit_s = limit_s or math.inf
        self._began = self._last = monotonic()
        self._first: tuple[float, int] | None = None
        """Time and number of recorded trials from which the pace is computed."""
        self._shown = self._failures = self._warnings = 0
        self._now = ""
        self._causes_shown: set[tuple[str, str]] = set()

    def update(self, progress: Progress, verdicts: list[Verdict]) -> None:
        for failure in progress.failures[self._failures :]:
            error = cause(failure.status, failure.message)
            if error not in self._causes_shown:  # the summary counts the trials of each cause
                self._causes_shown.add(error)
                say(self._console, f"{failure.trial_id} {failure.status}: {failure.message}")
        self._failures = len(progress.failures)
        for name in progress.warnings[self._warnings :]:
            warn(self._console, f"{name}: {ADVICE[name]}")
        self._warnings = len(progress.warnings)
        if progress.slots:
            cells = dict.fromkeys(map(self._cells.__getitem__, progress.slots.values()))
            self._now = f"now {', '.join(cells)}"
        if self._live is not None:
            bar = ProgressBar(total=1.0, completed=self.share(progress), width=40)
            line = Text(printable(self._line(progress, verdicts)))
            self._live.update(Group(line, bar))
            return
        now = monotonic()
        apart_s = max(LINE_S, (now - self._began) / 10)
        if progress.recorded != self._shown and now - self._last >= apart_s:
            self._last, self._shown = now, progress.recorded
            say(self._console, self._line(progress, verdicts))

    def _line(self, progress: Progress, verdicts: list[Verdict]) -> str:
        counts = {"before": self._before} | progress.statuses if self._before else progress.statuses
        statuses = f" ({_counts(counts)})" if counts else ""
        found = _counts(Counter(verdict.wall_in_words.partition(" (")[0] for verdict in verdicts))
        trials = f"{self._before + progress.recorded}/{self._before + len(self._cells)} trials"
        parts = [
            f"{trials}{statuses}, {self.time(progress)}",
            progress.standings,
            f"verdicts: {found}" if found else None,
            self._now,
        ]
        return "; ".join(filter(None, parts))

    def share(self, progress: Progress) -> float:
        """Return how much of the sweep is done, from 0 to 1."""
        of_trials = (self._before + progress.recorded) / (self._before + len(self._cells))
        return min(1.0, max(of_trials, (monotonic() - self._began) / self._limit_s))

    def time(self, progress: Progress) -> str:
        """Return a text with the elapsed time and the estimated remaining time."""
        now, recorded, trials = monotonic(), progress.recorded, len(self._cells)
        if self._first is None and (progress.slots or recorded):
            self._first = now, recorded
        text = f"{_clock(now - self._began)} elapsed"
        if self._first is not None and self._first[1] < recorded < trials:
            pace = (now - self._first[0]) / (recorded - self._first[1])
            most_s = max(0.0, self._began + self._limit_s - now)
            text += f", {self._least} {_clock(min(pace * (trials - recorded), most_s))} to go"
        return text


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {what}" for what, count in counts.items())


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


@contextmanager
def now_and_then(do: Callable[[], object], *, every_s: float) -> Iterator[None]:
    ended = Event()

    def repeat() -> None:
        while not ended.wait(every_s):
            do()

    thread = Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
