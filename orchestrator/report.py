"""What a launch prints besides its progress: the plan before, and why it was stopped."""

from collections import Counter
from collections.abc import Mapping

from rich.console import Console
from rich.table import Table

from cudnn_sweep.orchestrator.contrast import contrasts_of
from cudnn_sweep.orchestrator.plan import Plan
from cudnn_sweep.orchestrator.progress import Progress
from cudnn_sweep.orchestrator.say import say
from cudnn_sweep.workloads.problem import sizes_text


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
    say(
        console,
        f"\n{len(plan.trials)} trials: {len(cells)} cells × {len(configs)} configs in {blocks} blocks, "
        f"{twins} of them with an A/A pair; contrasts: {contrasts}.\n"
        f"On {slots} × {model}, about {minutes:.1f} minutes.",
    )


def _with_numbers(name: str, numbers: Mapping[str, float]) -> str:
    text = ", ".join(f"{number} {value:g}" for number, value in numbers.items())
    return f"{name} ({text})" if text else name


def print_stopped(console: Console, location: str, progress: Progress) -> None:
    """Why no further trial was started, and where records are that could not be stored."""
    say(console, f"\nStopped: {progress.stopped}", "bold red")
    for folder, count in progress.kept_in.items():
        say(
            console,
            f"{count} finished trials are kept in {folder}: copy what is in it into the results "
            f"({location}) and launch again.",
        )
    lost = progress.held - sum(progress.kept_in.values())
    if lost:
        say(console, f"{lost} finished trials found room nowhere and are lost.", "bold red")
