"""What a launch says at its end: first gathered as a value, then printed."""

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from rich.console import Console

from cudnn_sweep.analysis.cell_names import stored_names
from cudnn_sweep.analysis.progress import planned
from cudnn_sweep.analysis.store import Store
from cudnn_sweep.analysis.time_shares import TimeShare, time_shares
from cudnn_sweep.analysis.verdicts import BreakEven, Verdict
from cudnn_sweep.orchestrator.completeness import shard_lines, split_lines
from cudnn_sweep.orchestrator.contrast import break_evens_of, verdicts_of
from cudnn_sweep.orchestrator.gpus.slow import slow_gpu_lines
from cudnn_sweep.orchestrator.options import LaunchOptions
from cudnn_sweep.orchestrator.progress import Progress
from cudnn_sweep.orchestrator.say import say, warn
from cudnn_sweep.orchestrator.session import Session
from cudnn_sweep.orchestrator.spec import DEFAULT_RESULTS
from cudnn_sweep.orchestrator.sweep_choice import SweepChoice
from cudnn_sweep.orchestrator.tables.verdicts import verdict_table
from cudnn_sweep.workloads.measuring.warnings import ADVICE, WarningName

FAILURES_SHOWN = 10
LAUNCH_BOUND_NOTE = (
    "* The loop waits for the CPU: what the setting does shows in device time, not in wall time."
)
LEAST_SHARE = 0.005  # of the time: less shows as 0%


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    sweep_id: str
    plan_trials: int
    """Trials of the whole sweep's plan."""
    statuses: Mapping[str, int]
    """Recorded trials of the plan by status."""
    is_complete: bool
    """Whether all that this launch answers for is recorded."""
    completeness: Sequence[str]
    """Lines on shards and split blocks."""
    verdicts: list[Verdict]
    break_evens: list[BreakEven]
    cells: Mapping[str, str]
    """Their names by cell_id."""
    time_shares: Sequence[TimeShare]
    warnings: Mapping[WarningName, int]
    """Trials with each warning, the most frequent first."""
    trials: int
    """Records of the sweep, repeated trials included."""
    slow_gpus: Sequence[str]
    """Lines on GPUs that are off."""
    progress: Progress

    @classmethod
    def of(cls, store: Store, choice: SweepChoice, session: Session, progress: Progress) -> Self:
        """What the store says of the session's sweep now."""
        sweep_id = session.sweep_id
        stored = store.stored_trials(sweep_id).values()
        there = planned(stored)
        lists = store.snapshot(sweep_id).table(["warnings"])["warnings"].to_pylist()
        return cls(
            sweep_id=sweep_id,
            plan_trials=session.plan_trials,
            statuses=Counter(trial.status for trial in there),
            is_complete=choice.is_complete(stored),
            completeness=[*shard_lines(choice, there), *split_lines(stored)],
            verdicts=verdicts_of(store, sweep_id, session.contrasts),
            break_evens=break_evens_of(store, sweep_id, session.contrasts),
            cells=stored_names(store, sweep_id),
            time_shares=time_shares(store, sweep_id),
            warnings=dict(Counter(name for names in lists for name in names or ()).most_common()),
            trials=len(lists),
            slow_gpus=list(slow_gpu_lines(store, sweep_id)),
            progress=progress,
        )

    def counted(self) -> Iterator[str]:
        """How much is recorded, and how much of it counts."""
        outcomes = ", ".join(f"{count} {status}" for status, count in sorted(self.statuses.items()))
        yield (
            f"\nSweep {self.sweep_id}: {sum(self.statuses.values())} of {self.plan_trials} trials "
            "recorded" + (f" ({outcomes})." if outcomes else ".")
        )
        yield from self.completeness
        split = sum(verdict.split_blocks for verdict in self.verdicts)
        doubtful = sum(verdict.doubtful_blocks for verdict in self.verdicts)
        unpaired = sum(verdict.unpaired_blocks for verdict in self.verdicts)
        if split or doubtful or unpaired:
            yield (
                f"Left out of the verdicts: {split} blocks that were split over GPUs or interrupted, "
                f"{doubtful} on a throttled or shared GPU, {unpaired} that lack a trial."
            )
        yield from self._where_the_time_went()

    def _where_the_time_went(self) -> Iterator[str]:
        shares = [share for share in self.time_shares if share.share >= LEAST_SHARE]
        measuring = [share for share in shares if share.measuring]
        others = [share for share in shares if not share.measuring]
        if measuring:
            total = sum(share.share for share in measuring)
            yield (
                f"Where the time went: {total:.0%} measuring ({_listed(measuring)}); {_listed(others)}."
            )

    def warned(self) -> Iterator[str]:
        """What makes times doubtful, and what to do about it."""
        for name, count in self.warnings.items():
            yield f"{count} of {self.trials} trials: {name}: {ADVICE[name]}"
        yield from self.slow_gpus


def _listed(shares: Sequence[TimeShare]) -> str:
    return ", ".join(f"{share.part} {share.share:.0%}" for share in shares)


def print_summary(
    console: Console, summary: Summary, location: str, options: LaunchOptions
) -> None:
    """`location` is the results' place as it was typed."""
    console.print()
    if summary.verdicts:
        shown = (summary.verdicts, summary.break_evens, summary.cells)
        console.print(verdict_table(*shown, console.width))
    if any(verdict.launch_bound for verdict in summary.verdicts):
        say(console, LAUNCH_BOUND_NOTE)
    for line in summary.counted():
        say(console, line)
    for line in summary.warned():
        warn(console, line)
    _print_failures(console, summary, options)
    _print_next(console, summary, location, options)


def _print_failures(console: Console, summary: Summary, options: LaunchOptions) -> None:
    progress, sweep_id = summary.progress, summary.sweep_id
    if progress.lost or progress.repeated:
        say(
            console,
            f"{progress.lost} tries were lost with their worker; {progress.repeated} records came twice.",
        )
    for failure in progress.failures[:FAILURES_SHOWN]:
        console.print(f"\n{failure.status}", style="red", end=" ", highlight=False)
        say(console, failure.message)
        say(console, f"  {options.again(sweep_id, failure.trial_id)} --retry-failed")
    more = len(progress.failures) - FAILURES_SHOWN
    if more > 0:
        say(console, f"and {more} more: {options.program} query failures")
    for reason in progress.reasons:
        say(console, f"\na worker gave up a trial: {reason}")
    for trial_id in progress.given_up:
        say(console, "\nlost with its worker each time; alone:", "red")
        say(console, f"  {options.again(sweep_id, trial_id)}")


def _print_next(console: Console, summary: Summary, location: str, options: LaunchOptions) -> None:
    results = "" if location == DEFAULT_RESULTS else f" --results {shlex.quote(location)}"
    program = options.program
    say(console, "\nNext:", "bold")
    if not summary.is_complete:
        say(console, f"  {options.command()}   # runs what is missing")
    for query in ("helps_or_hurts", "break_even"):
        say(console, f"  {program} query {query}{results} --sweep-id {summary.sweep_id}")
    sql = "select workload, benchmark, median(steady_wall_ms) from records group by all"
    say(console, f'  {program} query "{sql}"{results}')
