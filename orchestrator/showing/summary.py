"""What a launch says at its end: first gathered as a value, then printed. Its verdicts are a table."""

import shlex
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Self

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cudnn_sweep.analysis.answering.cell_names import stored_names
from cudnn_sweep.analysis.answering.min_effect import MIN_EFFECT
from cudnn_sweep.analysis.answering.short_texts import short_names
from cudnn_sweep.analysis.answering.verdicts import (
    BreakEven,
    Verdict,
    blocks_left_out,
    gpu_speeds,
    headline,
    more_blocks,
    third_blocks,
    told_lines,
)
from cudnn_sweep.analysis.asking.settings import shortened, unusual_in
from cudnn_sweep.analysis.storing.progress import StoredTrial, blocks_of, planned
from cudnn_sweep.analysis.storing.store import Store
from cudnn_sweep.analysis.words import (
    counted,
    given,
    interval,
    number,
    percent,
    ratio,
    two_digits,
)
from cudnn_sweep.orchestrator.planning.options import LaunchOptions
from cudnn_sweep.orchestrator.planning.session import Session
from cudnn_sweep.orchestrator.planning.standing import (
    break_evens_of,
    standings,
    stopped_cells,
    verdicts_of,
)
from cudnn_sweep.orchestrator.recording.recorder import Failure, Progress, cause
from cudnn_sweep.orchestrator.showing.say import say, warn
from cudnn_sweep.workloads.warnings import ADVICE, WarningName

CAUSES_SHOWN = 5
LAUNCH_BOUND_NOTE = (
    "* The loop waits for the CPU: what the setting does shows in device time, not in wall time."
)
CELLS_NAMED = 3  # of a cause
GPU_ADVICE = (
    "check its clocks, power limit, temperature and memory errors (nvidia-smi -q -i UUID); until it is "
    "repaired, exclude it with CUDA_VISIBLE_DEVICES, or exclude its node from the cluster"
)
WIDE = 125
GAP = 2
LEAST_NAME = 36  # where there is less room it takes two lines
WIDEST = 100.0  # times its low end: an interval beyond it says no more than that
SHORT_VERDICTS = {"equivalent": "=", "inconclusive": "?", "undecided": "?", "no_effect": ""}
VERDICT_STYLES = {
    "helps": "bold green",
    "hurts": "bold red",
    "fails": "bold red",
    "equivalent": "cyan",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    sweep_id: str
    plan_trials: int
    """Trials of the whole sweep's plan."""
    statuses: Mapping[str, int]
    """Recorded trials of the plan by status."""
    is_complete: bool
    """Whether all that this launch answers for is recorded, or given up."""
    of_cells: int
    """Cells of the whole sweep's plan."""
    out_of_reach: int | None
    """Cells that get no more blocks though undecided; None where blocks are a fixed number."""
    plan_cells: Mapping[str, str]
    """The cell_id by trial_id, of the trials that this launch answers for."""
    not_run: int
    """Trials of cells that were given up."""
    completeness: Sequence[str]
    """Lines on shards and split blocks."""
    verdicts: list[Verdict]
    break_evens: list[BreakEven]
    cells: Mapping[str, str]
    """The cells' names by cell_id."""
    brief: Mapping[str, str]
    """Shorter ones."""
    warnings: Mapping[WarningName, int]
    """Trials with each warning, the most frequent first."""
    trials: int
    """Records of the sweep, repeated trials included."""
    slow_gpus: Sequence[str]
    """Lines on GPUs that are off."""
    progress: Progress

    @classmethod
    def of(cls, store: Store, session: Session, progress: Progress) -> Self:
        """What the store says of the session's sweep now."""
        sweep_id = session.sweep_id
        stored = store.stored_trials(sweep_id).values()
        there = planned(stored)
        lists = store.snapshot(sweep_id).table(["warnings"])["warnings"].to_pylist()
        cells, brief = stored_names(store, sweep_id)
        return cls(
            sweep_id=sweep_id,
            plan_trials=session.plan_trials,
            statuses=Counter(trial.status for trial in there),
            is_complete=not session.lacks(
                stored, {*progress.hopeless, *stopped_cells(store, session)}
            ),
            of_cells=session.of_cells,
            out_of_reach=(
                sum(each.is_out_of_reach for each in standings(store, session).values())
                if session.looks
                else None
            ),
            plan_cells={trial.trial_id: trial.cell.cell_id for trial in session.own.trials},
            not_run=sum(
                trial.cell.cell_id in progress.hopeless
                for trial in session.own.without({trial.trial_id for trial in stored}).trials
            ),
            completeness=[*shard_lines(session, there), *split_lines(stored)],
            verdicts=verdicts_of(store, sweep_id, session.contrasts),
            break_evens=break_evens_of(store, sweep_id, session.contrasts),
            cells=cells,
            brief=brief,
            warnings=dict(Counter(name for names in lists for name in names or ()).most_common()),
            trials=len(lists),
            slow_gpus=list(slow_gpu_lines(store, sweep_id)),
            progress=progress,
        )

    def undecided(self) -> Iterator[str]:
        """How many cells are decided, and what more blocks would tell."""
        for _, verdicts in groupby(self.verdicts, lambda each: each.contrast):
            yield headline(list(verdicts), MIN_EFFECT, self.of_cells)
        yield from more_blocks(self.verdicts)

    def counted(self) -> Iterator[str]:
        outcomes = ", ".join(f"{count} {status}" for status, count in sorted(self.statuses.items()))
        most = "at most " if self.out_of_reach is not None else ""
        yield (
            f"\nSweep {self.sweep_id}: {sum(self.statuses.values())} of {most}{self.plan_trials} trials "
            "recorded" + (f" ({outcomes})." if outcomes else ".")
        )
        if self.out_of_reach:
            yield f"{counted(self.out_of_reach, 'cell')} out of reach: no blocks left would decide more."
        yield from self.completeness
        yield from blocks_left_out(self.verdicts)

    def warned(self) -> Iterator[str]:
        """What makes times doubtful, and what to do about it."""
        for name, count in self.warnings.items():
            yield f"{count} of {self.trials} trials: {name}: {ADVICE[name]}"
        yield from self.slow_gpus


def print_summary(
    console: Console, summary: Summary, location: str, options: LaunchOptions
) -> None:
    """`location` is the results' place as it was typed."""
    console.print()
    if summary.verdicts:
        shown = (summary.verdicts, summary.break_evens, summary.cells, summary.brief)
        console.print(verdict_table(*shown, console.width))
    if any(verdict.launch_bound for verdict in summary.verdicts):
        say(console, LAUNCH_BOUND_NOTE)
    beside = told_lines(summary.verdicts, lambda each: verdict_label(each, summary.cells))
    for line in (*beside, *summary.undecided(), *summary.counted()):
        say(console, line)
    for line in summary.warned():
        warn(console, line)
    _print_failures(console, summary, location, options)
    _print_next(console, summary, location, options)


def _print_failures(
    console: Console, summary: Summary, location: str, options: LaunchOptions
) -> None:
    progress, sweep_id = summary.progress, summary.sweep_id
    if progress.lost or progress.repeated:
        say(
            console,
            f"{progress.lost} tries were lost with their worker; {progress.repeated} records came twice.",
        )
    by_cause: dict[tuple[str, str], list[Failure]] = {}
    for failure in progress.failures:
        by_cause.setdefault(cause(failure.status, failure.message), []).append(failure)
    for failures in list(by_cause.values())[:CAUSES_SHOWN]:
        _print_cause(console, summary, failures)
        say(console, f"  {options.again(sweep_id, failures[0].trial_id)} --retry-failed")
    if summary.not_run:
        cells = counted(len(progress.hopeless), "cell")
        say(
            console,
            f"\n{counted(summary.not_run, 'further trial')} of {cells} not run: every config raised the "
            "same exception twice. Launch again after mending it.",
        )
    more = len(by_cause) - CAUSES_SHOWN
    if more > 0:
        where = f"{_results(location, options)} --sweep-id {sweep_id}"
        say(console, f"and {counted(more, 'cause')} more: {options.program} query failures{where}")
    for reason in progress.reasons:
        say(console, f"\na worker gave up a trial: {reason}")
    for trial_id in progress.given_up:
        say(console, "\nlost with its worker each time; alone:", "red")
        say(console, f"  {options.again(sweep_id, trial_id)}")


def _print_cause(console: Console, summary: Summary, failures: Sequence[Failure]) -> None:
    first = failures[0]
    ids = dict.fromkeys(summary.plan_cells.get(each.trial_id, "") for each in failures)
    names = [summary.cells[cell_id] for cell_id in ids if cell_id in summary.cells]
    console.print(f"\n{first.status}", style="red", end=" ", highlight=False)
    where = f"in {counted(len(failures), 'trial')} of {counted(len(ids), 'cell')}"
    say(console, f"{where}: {first.message}")
    shown = ", ".join(names[:CELLS_NAMED]) + (", ..." if len(names) > CELLS_NAMED else "")
    if shown:
        say(console, f"  {shown}")


def _results(location: str, options: LaunchOptions) -> str:
    """The option that names them, where the command would look elsewhere."""
    return "" if location == options.results_asked else f" --results {shlex.quote(location)}"


def _print_next(console: Console, summary: Summary, location: str, options: LaunchOptions) -> None:
    results = _results(location, options)
    program = options.program
    one = f"{results} --sweep-id {summary.sweep_id}"
    say(console, "\nNext:", "bold")
    if not summary.is_complete:
        has_begun = len({each.cell_id for each in summary.verdicts}) == summary.of_cells
        what = third_blocks(summary.verdicts) if has_begun else None
        say(console, f"  {options.command()}   # {what or 'runs what is missing'}")
    if set(summary.statuses) - {"ok"}:
        say(console, f"  {program} query failures{one}")
    if "ok" not in summary.statuses:
        return
    say(console, f"  {program} report --format markdown{one}   # what was found, in words")
    for query in ("helps_or_hurts", "break_even"):
        say(console, f"  {program} query {query}{one}")
    sql = "select workload, benchmark, median(steady_wall_ms) from records group by all"
    say(console, f'  {program} query "{sql}"{results}')


def slow_gpu_lines(store: Store, sweep_id: str) -> Iterator[str]:
    """A line for each GPU that is off, one for each measure in which a model's GPUs are at odds."""
    speeds = gpu_speeds(store, sweep_id)
    off = attrgetter("gpu_uuid", "host", "gpu", "peers")
    slow_or_fast = (speed for speed in speeds if speed.finding in ("slow", "fast"))
    for (uuid, host, gpu, peers), found in groupby(sorted(slow_or_fast, key=off), off):
        by = ", ".join(
            f"{each.measure} {percent(abs(1 - each.ratio), 1)} {each.finding}er" for each in found
        )
        yield f"{uuid} on {host}: {by} than its {peers} peers ({gpu}): {GPU_ADVICE}"
    alike = attrgetter("gpu", "measure", "speed_unit")
    differing = (speed for speed in speeds if speed.finding == "differs")
    for (gpu, measure, unit), found in groupby(sorted(differing, key=alike), alike):
        ordered = sorted((each.speed, each.gpu_uuid, each.host) for each in found)
        each_one = ", ".join(f"{uuid} on {host} {given(speed)}" for speed, uuid, host in ordered)
        yield f"{gpu}s differ in {measure} ({unit}: {each_one}), too few to tell which is at fault: {GPU_ADVICE}"


def shard_lines(session: Session, there: Collection[StoredTrial]) -> Iterator[str]:
    """`there`: the trials of the plan that are recorded."""
    if session.shard is None:
        return
    own = {trial.trial_id for trial in session.own.trials}
    recorded = sum(trial.trial_id in own for trial in there)
    yield (
        f"Shard {session.shard}: {recorded} of its {len(own)} trials recorded; "
        f"{session.plan_trials - len(own)} belong to other shards; "
        f"{len(there) - recorded} of these are here."
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
    """The cell as `cells` calls it by cell_id, and the settings that both configs share where they are
    not PyTorch's defaults.
    """
    return " ".join([cells[verdict.cell_id], *unusual_in(verdict.other_settings)])


def device_text(verdict: Verdict) -> str:
    """The ratio of device times and its verdict in short; a star where the loop waits for the CPU."""
    if verdict.device_ratio is None or verdict.device_verdict is None:
        return ""
    short = SHORT_VERDICTS.get(verdict.device_verdict, verdict.device_verdict)
    return f"{ratio(verdict.device_ratio)} {short}{' *' if verdict.launch_bound else ''}"


def ratio_text(verdict: Verdict) -> str:
    """Candidate time / baseline time and its 95% interval."""
    if verdict.ratio_low is None or verdict.ratio_high is None:
        return ratio(verdict.ratio)
    if verdict.ratio_high > WIDEST * verdict.ratio_low:
        return f"{ratio(verdict.ratio)} (too few blocks)"
    return f"{ratio(verdict.ratio)}{interval(verdict.ratio_low, verdict.ratio_high, to='–')}"


def verdict_table(
    verdicts: list[Verdict],
    break_evens: list[BreakEven],
    cells: Mapping[str, str],
    brief: Mapping[str, str],
    width: int,
) -> Table:
    """A row a cell and contrast. Times are geometric means over blocks, wall time per iteration. `cells` are
    the cells' names by cell_id, `brief` those where there is no room for them.

    A terminal of less than WIDE columns has no room for the intervals.
    """
    wide = width >= WIDE
    contrasts = {shortened(verdict.contrast) for verdict in verdicts}
    both = len({verdict.in_turns for verdict in verdicts if verdict.loop_kind == "closed"}) > 1
    paid = {(row.identity, row.compute_cache): row for row in break_evens}
    columns: dict[str, list[str | Text]] = {}
    if len(contrasts) > 1:
        columns["contrast"] = [shortened(each.contrast) for each in verdicts]
    columns["baseline"] = [number(each.baseline_ms) for each in verdicts]
    columns["candidate"] = [number(each.candidate_ms) for each in verdicts]
    if wide:
        columns["ratio (95%)"] = [ratio_text(each) for each in verdicts]
    else:
        columns["ratio"] = [ratio(each.ratio) for each in verdicts]
    columns["verdict"] = [_in_words(each, wide=wide) for each in verdicts]
    if any(each.device_ratio is not None for each in verdicts):
        columns["device"] = [device_text(each) for each in verdicts]
    for state in sorted({row.compute_cache for row in break_evens if row.outcome != "no_effect"}):
        rows = (paid.get((each.identity, state)) for each in verdicts)
        head = f"break-even,\n{state}{' cache' if wide else ''}"
        columns[head] = [payback_text(row, wide=wide) for row in rows]
    table = Table(box=None, padding=(0, GAP, 0, 0), header_style="bold", title_justify="left")
    gpus = ", ".join(sorted({verdict.gpu for verdict in verdicts}))
    table.title = f"{gpus}, {', '.join(sorted(contrasts))}; milliseconds an iteration"
    table.add_column("cell", min_width=20)
    for head in columns:
        is_right = head in ("baseline", "candidate") or "\n" in head
        may_wrap = head == "contrast" or "\n" in head
        table.add_column(head, justify="right" if is_right else "left", no_wrap=not may_wrap)
    taken = sum(max(map(_wide, [head, *texts])) + GAP for head, texts in columns.items())
    room = max(LEAST_NAME, width - taken - GAP)
    for called in (cells, brief):
        names = [
            verdict_label(verdict, called) + (" in turns" if both and verdict.in_turns else "")
            for verdict in verdicts
        ]
        if max(map(cell_len, names)) <= room:
            break
    for row in zip(short_names(names, room), *columns.values(), strict=True):
        table.add_row(*row)
    return table


def _in_words(verdict: Verdict, *, wide: bool) -> Text:
    words = verdict.wall_in_words if wide else verdict.wall_in_words.replace(" (", "\n(")
    return Text(words, style=VERDICT_STYLES.get(verdict.wall_verdict, ""))


def _wide(cell: str | Text) -> int:
    return max(map(cell_len, str(cell).splitlines()), default=0)


def payback_text(row: BreakEven | None, *, wide: bool) -> str:
    """After how many iterations, in two digits; where there is room, with the interval if it has one."""
    if row is None or row.outcome in ("no_effect", "open loop"):
        return ""
    if row.outcome == "inconclusive":
        return "?"
    if row.break_even_iterations is None or row.outcome in ("never", "at once"):
        return row.outcome
    until = "until " if row.outcome == "until" else ""
    ends = interval(row.break_even_low, row.break_even_high, two_digits, "–")
    iterations = two_digits(row.break_even_iterations)
    return f"{until}{iterations}{ends if wide else ''}" if ends else f"{until}about {iterations}"
