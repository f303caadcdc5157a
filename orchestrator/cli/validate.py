"""`sweep validate`."""

from typing import Annotated

import typer


def validate(
    problem: Annotated[
        list[str] | None, typer.Option(help="Only this problem; may be repeated.", metavar="NAME")
    ] = None,
) -> None:
    """Compare device times on this GPU with Triton's timers, problem by problem (2 minutes).

    Exit code 1 where one differs by more than 2% and 3 µs.
    """
    from cudnn_sweep.orchestrator.cli.failing import leave, mistakes_exit
    from cudnn_sweep.workloads.measuring.timer_validation import compare_timers

    line = "{:36} {:16} {:5} {:14} {:8}{:>10} {:>10} {:>8}"
    names = ("problem", "direction", "", "layout", "L2", "ours, ms", "triton, ms", "apart")
    typer.echo(line.format(*names))
    agree = total = 0
    with mistakes_exit():
        for row in compare_timers(problem or []):
            total += 1
            agree += row.agrees
            apart = f"{row.ours_ms / row.triton_ms - 1:+.1%}{'' if row.agrees else ' !'}"
            times = (f"{row.ours_ms:.4f}", f"{row.triton_ms:.4f}")
            case = (row.problem, row.direction, row.precision, row.layout, row.cache)
            typer.echo(line.format(*case, *times, apart))
    typer.echo(f"{agree} of {total} agree within 2% or 3 µs.")
    leave(0 if agree == total else 1)
