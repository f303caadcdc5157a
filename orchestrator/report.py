"""What a launch prints besides its progress: the plan before, the summary after."""

import shlex
from collections import Counter
from collections.abc import Mapping

from rich.console import Console
from rich.table import Table

from cudnn_sweep.analysis.progress import planned
from cudnn_sweep.analysis.store import Store
from cudnn_sweep.analysis.time_shares import TimeShare, time_shares
from cudnn_sweep.orchestrator.completeness import shard_lines, split_lines
from cudnn_sweep.orchestrator.contrast import break_evens_of, contrasts_of, verdicts_of
from cudnn_sweep.orchestrator.gpus.slow import slow_gpu_lines
from cudnn_sweep.orchestrator.options import LaunchOptions
from cudnn_sweep.orchestrator.plan import Plan
from cudnn_sweep.orchestrator.progress import Progress
from cudnn_sweep.orchestrator.session import Session
from cudnn_sweep.orchestrator.spec import DEFAULT_RESULTS
from cudnn_sweep.orchestrator.sweep_choice import SweepChoice
from cudnn_sweep.orchestrator.tables.verdicts import verdict_table
from cudnn_sweep.workloads.measuring.warnings import ADVICE
from cudnn_sweep.workloads.problem import sizes_text

FAILURES_SHOWN = 10
LAUNCH_BOUND_NOTE = (
    "* The loop waits for the CPU: what the setting does shows in device time, not in wall time."
)
LEAST_SHARE = 0.005  # of the time: less shows as 0%


def print_plan(console: Console, plan: Plan, slots: int, *, gpu: bool) -> None:
    """Cells with their contrasts, then the counts and the estimate."""
    ids = [trial.cell.cell_id for trial in plan.trials]
    cells = dict(zip(ids, (trial.cell for trial in plan.trials), strict=True))
    trials = Counter(ids)
    configs = plan.configs()
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for name in ("workload", "input", "regime", "precision"):
        table.add_column(name)
    table.add_column("trials", justify="right")
    for cell_id, cell in cells.items():
        table.add_row(
            f"{cell.problem.name if cell.problem else cell.workload} {cell.direction}",
            sizes_text(cell.input_shape),
            _with_numbers(cell.regime, cell.regime_parameters)
            + (
                ""
                if cell.state == "plain"
                else f", {_with_numbers(cell.state, cell.state_parameters)}"
            ),
            cell.precision + (" channels_last" if cell.layout != "contiguous" else ""),
            str(trials[cell_id]),
        )
    console.print(table)
    contrasts = "; ".join(map(str, contrasts_of(configs))) or "none"
    blocks = sum(1 for _ in plan.blocks())
    twins = sum(trial.twin for trial in plan.trials)
    minutes = plan.estimated_s(slots, gpu=gpu) / 60
    model = plan.trials[0].cell.gpu
    console.print(
        f"\n{len(plan.trials)} trials: {len(cells)} cells × {len(configs)} configs in {blocks} blocks, "
        f"{twins} of them with an A/A pair; contrasts: {contrasts}.\n"
        f"On {slots} × {model}, about {minutes:.1f} minutes.",
        highlight=False,
    )


def _with_numbers(name: str, numbers: Mapping[str, float]) -> str:
    text = ", ".join(f"{number} {value:g}" for number, value in numbers.items())
    return f"{name} ({text})" if text else name


def print_summary(
    console: Console,
    store: Store,
    location: str,
    choice: SweepChoice,
    session: Session,
    progress: Progress,
    options: LaunchOptions,
) -> None:
    """`location` is the results' place as it was typed."""
    found = verdicts_of(store, session.sweep_id, session.contrasts)
    console.print()
    if found:
        console.print(
            verdict_table(
                found, break_evens_of(store, session.sweep_id, session.contrasts), console.width
            )
        )
    if any(verdict.launch_bound for verdict in found):
        console.print(LAUNCH_BOUND_NOTE, highlight=False)
    stored = store.stored_trials(session.sweep_id).values()
    there = planned(stored)
    statuses = Counter(trial.status for trial in there)
    outcomes = ", ".join(f"{count} {status}" for status, count in sorted(statuses.items()))
    console.print(
        f"\nSweep {session.sweep_id}: {len(there)} of {session.plan_trials} trials recorded"
        + (f" ({outcomes})." if outcomes else "."),
        highlight=False,
    )
    for line in (*shard_lines(choice, there), *split_lines(stored)):
        console.print(line, highlight=False, soft_wrap=True)
    split = sum(verdict.split_blocks for verdict in found)
    doubtful = sum(verdict.doubtful_blocks for verdict in found)
    unpaired = sum(verdict.unpaired_blocks for verdict in found)
    if split or doubtful or unpaired:
        console.print(
            f"Left out of the verdicts: {split} blocks that were split over GPUs or interrupted, "
            f"{doubtful} on a throttled or shared GPU, {unpaired} that lack a trial.",
            highlight=False,
        )
    _print_shares(console, store, session.sweep_id)
    _print_warnings(console, store, session.sweep_id)
    for line in slow_gpu_lines(store, session.sweep_id):
        console.print(line, style="yellow", markup=False, highlight=False, soft_wrap=True)
    if progress.lost or progress.repeated:
        console.print(
            f"{progress.lost} tries were lost with their worker; {progress.repeated} records came twice."
        )
    _print_failures(console, session, progress, options)
    _print_next(console, location, session, options, complete=choice.is_complete(stored))


def _print_shares(console: Console, store: Store, sweep_id: str) -> None:
    """Where the slots' wall time went, measuring first."""
    shares = [share for share in time_shares(store, sweep_id) if share.share >= LEAST_SHARE]
    measuring = [share for share in shares if share.measuring]
    if not measuring:
        return
    others = [share for share in shares if not share.measuring]
    total = sum(share.share for share in measuring)
    console.print(
        f"Where the time went: {total:.0%} measuring ({_listed(measuring)}); {_listed(others)}.",
        highlight=False,
    )


def _listed(shares: list[TimeShare]) -> str:
    return ", ".join(f"{share.part} {share.share:.0%}" for share in shares)


def _print_warnings(console: Console, store: Store, sweep_id: str) -> None:
    """Each warning once, with how many trials it is about."""
    lists = store.snapshot(sweep_id).table(["warnings"])["warnings"].to_pylist()
    counts = Counter(name for names in lists for name in names or ())
    for name, count in counts.most_common():
        text = f"{count} of {len(lists)} trials: {name}: {ADVICE[name]}"
        console.print(text, style="yellow", markup=False, highlight=False, soft_wrap=True)


def _print_failures(
    console: Console, session: Session, progress: Progress, options: LaunchOptions
) -> None:
    for failure in progress.failures[:FAILURES_SHOWN]:
        console.print(f"\n{failure.status}", style="red", end=" ", highlight=False)
        console.print(failure.message, markup=False, highlight=False, soft_wrap=True)
        console.print(
            "  " + options.again(session.sweep_id, failure.trial_id) + " --retry-failed",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
    more = len(progress.failures) - FAILURES_SHOWN
    if more > 0:
        console.print(f"and {more} more: {options.program} query failures", highlight=False)
    for reason in progress.reasons:
        console.print(f"\na worker gave up a trial: {reason}", markup=False, soft_wrap=True)
    for trial_id in progress.given_up:
        console.print("\nlost with its worker each time; alone:", style="red")
        again = f"  {options.again(session.sweep_id, trial_id)}"
        console.print(again, markup=False, highlight=False, soft_wrap=True)


def _print_next(
    console: Console, location: str, session: Session, options: LaunchOptions, *, complete: bool
) -> None:
    results = "" if location == DEFAULT_RESULTS else f" --results {shlex.quote(location)}"
    console.print("\nNext:", style="bold")
    if not complete:
        console.print(
            f"  {options.command()}   # runs what is missing", highlight=False, soft_wrap=True
        )
    for query in ("helps_or_hurts", "break_even"):
        command = f"  {options.program} query {query}{results} --sweep-id {session.sweep_id}"
        console.print(command, highlight=False, soft_wrap=True)
    sql = "select workload, benchmark, median(steady_wall_ms) from records group by all"
    console.print(f'  {options.program} query "{sql}"{results}', highlight=False, soft_wrap=True)


def print_stopped(console: Console, location: str, progress: Progress) -> None:
    """Why no further trial was started, and where records are that could not be stored."""
    console.print(f"\nStopped: {progress.stopped}", style="bold red", markup=False, soft_wrap=True)
    for folder, count in progress.kept_in.items():
        console.print(
            f"{count} finished trials are kept in {folder}: copy what is in it into the results "
            f"({location}) and launch again.",
            markup=False,
            soft_wrap=True,
        )
    lost = progress.held - sum(progress.kept_in.values())
    if lost:
        console.print(f"{lost} finished trials found room nowhere and are lost.", style="bold red")
