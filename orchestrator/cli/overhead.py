"""`sweep overhead`."""

from typing import Annotated

import typer


def overhead(
    trials: Annotated[int, typer.Option(min=8, help="Number of no-op trials.")] = 100,
    training: Annotated[int, typer.Option(min=8, help="Number of MNIST trials.")] = 20,
    rivals: Annotated[
        int,
        typer.Option(
            min=0, help="Number of trials of plain Ray Tune and of a shell loop; 0: none."
        ),
    ] = 8,
) -> None:
    """Measure the overhead of a trial, compared with plain Ray Tune and a shell loop (some minutes)."""
    from rich.console import Console
    from rich.table import Table

    from cudnn_sweep.orchestrator.cli.failing import leave
    from cudnn_sweep.orchestrator.proving.overhead import measure_overhead
    from cudnn_sweep.orchestrator.showing.say import say
    from cudnn_sweep.orchestrator.showing.steps import steps

    console = Console(markup=False)
    with steps(console, total=3 if rivals else 2) as begins:
        found = measure_overhead(trials, training, rivals, begins)
    where = found.machine.environment
    say(console, f"{where.gpu}, torch {where.torch}, ray {where.ray}, {where.cpu_cores} CPU cores")
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("what")
    table.add_column("seconds per trial", justify="right")
    rows = {
        f"no-op trial, {found.noop.trials} of them": found.noop.trial_s,
        "  in its own process": found.noop.own_s,
        "  between processes": found.noop.trial_s - found.noop.own_s,
        f"MNIST trial without timing, {found.training.trials} of them": found.training.trial_s,
        "  until its first step is done": found.training_start_s,
        f"plain Ray Tune, a new actor per trial, {rivals} of them": found.plain_tune_s,
        f"shell loop, a new Python per trial, {rivals} of them": found.shell_loop_s,
    }
    for what, seconds in rows.items():
        if seconds is not None:
            table.add_row(what, f"{seconds:.3f}")
    console.print(table)
    quarters = ", ".join(f"{seconds:.1f}" for seconds in found.noop.quarters_s)
    say(console, f"Seconds for each quarter of the no-op trials: {quarters}")
    say(console, f"Peak memory of the driver: {found.noop.driver_mb:.0f} MB")
    leave(0)
