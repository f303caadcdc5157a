"""Prints a summary with a table of verdicts at the end of a launch."""

import shlex
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from operator import attrgetter

from rich.console import Console

from cudnn_sweep.analysis.engine.settings import shortened, unusual_in
from cudnn_sweep.analysis.results.cell_names import stored_names
from cudnn_sweep.analysis.results.contrast import Contrast
from cudnn_sweep.analysis.results.marked import CELL, MarkedColumn
from cudnn_sweep.analysis.results.min_effect import MIN_EFFECT
from cudnn_sweep.analysis.results.verdicts import (
    BreakEven,
    GpuSpeed,
    RaceState,
    Surroundings,
    Verdict,
    blocks_left_out,
    further_lines,
    headline,
    more_blocks,
    payback,
    third_blocks,
)
from cudnn_sweep.analysis.store.progress import StoredTrial, blocks_of, planned
from cudnn_sweep.analysis.store.store import Store
from cudnn_sweep.analysis.words import counted, interval, number, percent, ratio
from cudnn_sweep.orchestrator.planning.decided import HOPELESS, OPEN, standings, stopped_cells
from cudnn_sweep.orchestrator.planning.options import LaunchOptions
from cudnn_sweep.orchestrator.planning.session import Session
from cudnn_sweep.orchestrator.recording.recorder import Failure, Progress, cause
from cudnn_sweep.orchestrator.terminal.drawing import draw_marked
from cudnn_sweep.orchestrator.terminal.say import say, warn
from cudnn_sweep.workloads.warnings import ADVICE, WarningName

CAUSES_SHOWN = 5
LAUNCH_BOUND_NOTE = (
    "* The loop is CPU-bound, so device time shows the setting's effect, and wall time does not."
)
CELLS_NAMED = 3  # for each cause of failures
WIDE = 125  # columns that a terminal needs to show intervals
GPU_ADVICE = (
    "check its clocks, power limit, temperature and memory errors (nvidia-smi -q -i UUID); until it is "
    "repaired, exclude it with CUDA_VISIBLE_DEVICES, or exclude its node from the cluster"
)
RESEMBLING = (
    "consecutive blocks are more alike than chance explains (at the 5% level), so intervals may be "
    "too narrow. Find what changes during the sweep (temperature, other load), or measure again "
    "at another time"
)


@dataclass(frozen=True, kw_only=True)
class Summary:
    store: Store
    session: Session
    progress: Progress

    @cached_property
    def stored(self) -> Collection[StoredTrial]:
        return self.store.stored_trials(self.session.sweep_id).values()

    @cached_property
    def there(self) -> Collection[StoredTrial]:
        """Recorded trials except those that repeat a block."""
        return planned(self.stored)

    @cached_property
    def statuses(self) -> Counter[str]:
        return Counter(trial.status for trial in self.there)

    @cached_property
    def is_complete(self) -> bool:
        closed = {*self.progress.hopeless, *stopped_cells(self.store, self.session)}
        return not self.session.lacks(self.stored, closed)

    @property
    def not_run(self) -> int:
        """Number of trials that do not run because their cells were given up."""
        recorded = {trial.trial_id for trial in self.stored}
        left = self.session.own.without(recorded).trials
        return sum(trial.cell.cell_id in self.progress.hopeless for trial in left)

    @cached_property
    def races(self) -> list[RaceState]:
        """Comparisons of each config with the fastest one, or an empty list if there is no race."""
        return RaceState.of(self.store, self.session.sweep_id) if self.session.plan.is_race else []

    @property
    def contrasts(self) -> tuple[Contrast, ...]:
        return () if self.session.plan.is_race else self.session.contrasts

    @cached_property
    def verdicts(self) -> list[Verdict]:
        return Verdict.of_each(self.store, self.session.sweep_id, self.contrasts)

    @cached_property
    def break_evens(self) -> list[BreakEven]:
        return BreakEven.of_each(self.store, self.session.sweep_id, self.contrasts)

    @cached_property
    def names(self) -> Mapping[str, str]:
        return stored_names(self.store, self.session.sweep_id)

    @cached_property
    def warnings(self) -> Counter[WarningName]:
        """Number of the sweep's records with each warning."""
        column = self.store.snapshot(self.session.sweep_id).table(["warnings"])["warnings"]
        return Counter(name for names in column.to_pylist() for name in names or ())

    def undecided(self) -> Iterator[str]:
        for _, verdicts in groupby(self.verdicts, lambda each: each.contrast):
            yield headline(list(verdicts), MIN_EFFECT, self.session.of_cells)
        yield from more_blocks(self.verdicts)

    def counted(self) -> Iterator[str]:
        outcomes = ", ".join(f"{count} {status}" for status, count in sorted(self.statuses.items()))
        most = "at most " if self.session.looks else ""
        yield (
            f"\nSweep {self.session.sweep_id}: {self.statuses.total()} of {most}{self.session.plan_trials} trials "
            "recorded" + (f" ({outcomes})." if outcomes else ".")
        )
        cells = standings(self.store, self.session) if self.session.looks else {}
        if out_of_reach := sum(each.is_out_of_reach for each in cells.values()):
            yield f"{counted(out_of_reach, 'cell')} undecided, although no further blocks will run."
        yield from shard_lines(self.session, self.there)
        yield from split_lines(self.stored)
        yield from blocks_left_out(self.verdicts)

    def warned(self) -> Iterator[str]:
        trials = self.store.snapshot(self.session.sweep_id).table(["trial_id"]).num_rows
        for name, count in self.warnings.most_common():
            yield f"{count} of {trials} trials: {name}: {ADVICE[name]}"
        hosts = Surroundings.of(self.store, self.session.sweep_id)
        if any(host.resembling_sweeps for host in hosts):
            yield RESEMBLING
        yield from slow_gpu_lines(self.store, self.session.sweep_id)


def print_summary(
    console: Console, summary: Summary, location: str, options: LaunchOptions
) -> None:
    """Print the summary. `location` is the folder or URL of the results as the user typed it."""
    verdicts, cells = summary.verdicts, summary.names
    width = console.width if console.is_terminal else None
    if summary.session.plan.is_race:
        for line in race_lines(summary.races, cells, width):
            say(console, line)
    if verdicts:
        gpus = ", ".join(sorted({verdict.gpu for verdict in verdicts}))
        contrasts = ", ".join(sorted({shortened(verdict.contrast) for verdict in verdicts}))
        say(console, f"\n{gpus}, {contrasts}; milliseconds per iteration", "italic")
        columns = verdict_columns(summary, has_room=width is None or width >= WIDE)
        say(console, draw_marked(list(columns), width))
    if any(verdict.launch_bound for verdict in verdicts):
        say(console, LAUNCH_BOUND_NOTE)
    beside = further_lines(verdicts, lambda each: verdict_label(each, cells))
    for line in (*beside, *summary.undecided(), *summary.counted()):
        say(console, line)
    for line in summary.warned():
        warn(console, line)
    is_usual = location == options.results_asked
    results = "" if is_usual else f" --results {shlex.quote(location)}"
    for line in _failure_lines(summary, results, options):
        say(console, line)
    say(console, "\nNext:", "bold")
    for line in _next_lines(summary, results, options):
        say(console, f"  {line}")


def race_lines(
    states: Sequence[RaceState], cells: Mapping[str, str], width: int | None
) -> Iterator[str]:
    """Yield the fastest config of each cell, then one table of all configs in all cells."""
    for _, of_cell in groupby(states, attrgetter("cell_id")):
        first, *others = of_cell
        is_open = any(each.state in (OPEN, HOPELESS) for each in (first, *others))
        so_far, name = " so far" if is_open else "", cells[first.cell_id]
        if first.best_ms is None:
            yield f"\nNo config ran in {name}."
        else:
            yield f"\nFastest{so_far} in {name}: {first.best}, {number(first.best_ms)} ms."
    ends = [interval(state.ratio_low, state.ratio_high, to="–") for state in states]
    columns = [
        _column(CELL, [cells[state.cell_id] for state in states]),
        _column("config", [state.other for state in states]),
        _column("ms", [number(state.other_ms) for state in states]),
        _column(
            "ratio", [ratio(state.ratio) + end for state, end in zip(states, ends, strict=True)]
        ),
        _column("blocks", [str(state.blocks) for state in states]),
        _column("state", [state.state.replace("_", " ") for state in states]),
    ]
    yield draw_marked(columns, width)


def _column(name: str, texts: Sequence[str]) -> MarkedColumn:
    is_number = name.endswith("ms") or name == "blocks"
    return MarkedColumn(name=name, texts=texts, is_number=is_number, intervals=())


def verdict_columns(summary: Summary, *, has_room: bool) -> Iterator[MarkedColumn]:
    verdicts, paid = summary.verdicts, summary.break_evens
    yield _column(CELL, [verdict_label(verdict, summary.names) for verdict in verdicts])
    if len({verdict.contrast for verdict in verdicts}) > 1:
        yield _column("contrast", [shortened(verdict.contrast) for verdict in verdicts])
    for name in ("baseline_ms", "candidate_ms"):
        yield _column(name, [number(getattr(verdict, name)) for verdict in verdicts])
    ends = [
        has_room * interval(verdict.ratio_low, verdict.ratio_high, to="–") for verdict in verdicts
    ]
    ratios = [ratio(verdict.ratio) for verdict in verdicts]
    yield _column("ratio", list(map(str.__add__, ratios, ends)))
    yield _column("verdict", [verdict.wall_in_words for verdict in verdicts])
    if any(verdict.device_ratio is not None for verdict in verdicts):
        yield _column("device_time", list(map(device_text, verdicts)))
    for cache in sorted({row.compute_cache for row in paid if row.outcome != "no_effect"}):
        rows = {row.identity: payback(row) for row in paid if row.compute_cache == cache}
        yield _column(
            f"break-even_{cache}_cache", [rows.get(verdict.identity, "") for verdict in verdicts]
        )


def device_text(verdict: Verdict) -> str:
    if verdict.device_ratio is None or verdict.device_verdict is None:
        return ""
    star = " *" if verdict.launch_bound else ""
    return f"{ratio(verdict.device_ratio)} {verdict.device_verdict}{star}"


def _failure_lines(summary: Summary, results: str, options: LaunchOptions) -> Iterator[str]:
    progress, sweep_id = summary.progress, summary.session.sweep_id
    if progress.lost or progress.repeated:
        lost, repeated = progress.lost, progress.repeated
        yield f"The worker died in {lost} attempts. {repeated} records came twice."
    by_cause: dict[tuple[str, str], list[Failure]] = {}
    for failure in progress.failures:
        by_cause.setdefault(cause(failure.status, failure.message), []).append(failure)
    for failures in list(by_cause.values())[:CAUSES_SHOWN]:
        yield from _cause_lines(summary, failures)
        yield f"  {options.again(sweep_id, failures[0].trial_id)} --retry-failed"
    if summary.not_run:
        cells = counted(len(progress.hopeless), "cell")
        yield (
            f"\n{counted(summary.not_run, 'further trial')} of {cells} did not run, because every "
            "config raised the same exception twice. Fix the cause and launch again."
        )
    more = len(by_cause) - CAUSES_SHOWN
    if more > 0:
        where = f"{results} --sweep-id {sweep_id}"
        yield f"and {counted(more, 'cause')} more: {options.program} query failures{where}"
    for reason in progress.reasons:
        yield f"\na worker gave up a trial: {reason}"
    for trial_id in progress.given_up:
        again = options.again(sweep_id, trial_id)
        yield f"\nEach worker that ran {trial_id} died. Run this trial alone:\n  {again}"


def _cause_lines(summary: Summary, failures: Sequence[Failure]) -> Iterator[str]:
    cells = {trial.trial_id: trial.cell.cell_id for trial in summary.session.own.trials}
    ids = dict.fromkeys(cells.get(each.trial_id, "") for each in failures)
    names = [name for cell_id in ids if (name := summary.names.get(cell_id))]
    where = f"in {counted(len(failures), 'trial')} of {counted(len(ids), 'cell')}"
    yield f"\n{failures[0].status} {where}: {failures[0].message}"
    if names:
        yield f"  {', '.join(names[:CELLS_NAMED])}{', ...' * (len(names) > CELLS_NAMED)}"


def _next_lines(summary: Summary, results: str, options: LaunchOptions) -> Iterator[str]:
    program, one = options.program, f"{results} --sweep-id {summary.session.sweep_id}"
    if not summary.is_complete:
        cells = {each.cell_id for each in summary.verdicts}
        has_begun = len(cells) == summary.session.of_cells
        what = third_blocks(summary.verdicts) if has_begun else None
        yield f"{options.command()}   # {what or 'runs the missing trials'}"
    if set(summary.statuses) - {"ok", "raced_out"}:
        yield f"{program} query failures{one}"
    if "ok" not in summary.statuses:
        return
    if not summary.session.plan.is_race:
        yield f"{program} report --format markdown{one}   # what was found, in words"
    for query in ("race",) if summary.session.plan.is_race else ("helps_or_hurts", "break_even"):
        yield f"{program} query {query}{one}"
    sql = "select workload, benchmark, median(steady_wall_ms) from records group by all"
    yield f'{program} query "{sql}"{results}'


def slow_gpu_lines(store: Store, sweep_id: str) -> Iterator[str]:
    one = attrgetter("gpu_uuid", "host", "gpu", "peers")
    off = [each for each in GpuSpeed.of(store, sweep_id) if each.finding not in ("alike", "alone")]
    for (uuid, host, gpu, peers), speeds in groupby(sorted(off, key=one), one):
        by = ", ".join(
            f"{each.measure} {percent(abs(1 - each.ratio), 1)} {'slow' if each.ratio < 1 else 'fast'}er"
            for each in speeds
        )
        yield f"{uuid} on {host}: {by} than its {counted(peers, 'peer')} ({gpu}): {GPU_ADVICE}"


def shard_lines(session: Session, there: Collection[StoredTrial]) -> Iterator[str]:
    """Yield a line on the session's shard. `there` has the recorded trials of all shards."""
    if session.shard is None:
        return
    own = {trial.trial_id for trial in session.own.trials}
    recorded = sum(trial.trial_id in own for trial in there)
    yield (
        f"Shard {session.shard}: {recorded} of its {len(own)} trials are recorded. "
        f"{session.plan_trials - len(own)} trials belong to other shards. "
        f"{len(there) - recorded} of these are recorded, too."
    )


def split_lines(stored: Collection[StoredTrial]) -> Iterator[str]:
    blocks = blocks_of(stored)
    if not blocks.split:
        return
    mended = sum(block.mended for block in blocks.split)
    yield (
        f"Split over GPUs or launches: {len(blocks.split)} of {blocks.begun} blocks "
        f"({percent(len(blocks.split) / blocks.begun, 1)}); {mended} of them were repeated as a whole."
    )


def verdict_label(verdict: Verdict, cells: Mapping[str, str]) -> str:
    return " ".join([cells[verdict.cell_id], *unusual_in(verdict.other_settings)])
