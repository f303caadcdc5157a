"""Prints the plan of a launch: cells, contrasts, counts and the estimated time."""

from collections import Counter
from collections.abc import Iterable

from rich.console import Console

from cudnn_sweep.analysis.results.cell_names import CellRow, names_apart, whole_names
from cudnn_sweep.analysis.words import counted, two_digits
from cudnn_sweep.orchestrator.planning.decided import contrasts_in, deciding_in
from cudnn_sweep.orchestrator.planning.options import LaunchOptions
from cudnn_sweep.orchestrator.planning.plan import Plan
from cudnn_sweep.orchestrator.recording.record import cell_columns
from cudnn_sweep.orchestrator.terminal.say import plain_table, say
from cudnn_sweep.workloads.cells.cell import Cell
from cudnn_sweep.workloads.problem import sizes_text


def cell_labels(cells: Iterable[Cell]) -> dict[str, str]:
    """Return a unique name for each cell, by cell_id."""
    return names_apart(as_row(cell) for cell in cells)


def as_row(cell: Cell) -> CellRow:
    sizes = sizes_text(cell.input_shape)
    return {**cell_columns(cell), "input_shape": sizes, "gpu": cell.gpu}


def print_part(
    console: Console, chosen: Plan, options: LaunchOptions, slots: int | None, *, gpu: bool
) -> None:
    """Print what the launch will run. `slots` is None if the number of slots is unknown."""
    plan = options.part(chosen)
    cells = whole_names(as_row(trial.cell) for trial in plan.trials)
    trials = Counter(trial.cell.cell_id for trial in plan.trials)
    rows = [[cells[cell_id], str(count)] for cell_id, count in trials.items()]
    console.print(plain_table(["cell", "trials"], rows, right=("trials",)))
    contrasts = "; ".join(map(str, contrasts_in(plan))) or "none"
    blocks = sum(1 for _ in plan.blocks())
    twins = sum(trial.twin for trial in plan.trials)
    parts = (plan.first_look(), plan)
    least, most = (part.estimated_s(slots or 1, gpu=gpu) / 60 for part in parts)
    minutes = f"{f'{two_digits(least)} to ' if plan.looks else ''}{two_digits(most)}"
    model = plan.trials[0].cell.gpu
    where, unit = (f"{slots} × {model}", "minutes") if slots else (model, "GPU minutes")
    say(
        console,
        f"\n{len(plan.trials)} trials: {counted(len(cells), 'cell')} × {len(plan.configs())} configs in {blocks} blocks, "
        f"{twins} of them with an A/A pair; contrasts: {contrasts}.\n"
        f"On {where}, about {minutes} {unit}.",
    )
    if plan.looks:
        looks = ", ".join(map(str, plan.looks))
        if plan.decided_by:
            say(console, f"Contrasts that decide a cell: {'; '.join(map(str, deciding_in(plan)))}.")
        more = "A decided cell gets no more blocks."
        say(console, f"Each cell is examined after {looks} blocks. {more}")
    if options.shard is not None:
        say(console, f"Shard {options.own_shard} of all {len(chosen.trials)} trials.")
