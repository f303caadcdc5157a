"""Our device time beside Triton's timers, problem by problem, in one process.

Like with like: replays of a graph against `do_bench_cudagraph`, which leaves the L2 cache as it is, too.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from statistics import median
from typing import Annotated, Any

import torch
import typer

from cudnn_sweep.orchestrator.cli.failing import leave
from cudnn_sweep.workloads.cells.measurement import MeasureSpec
from cudnn_sweep.workloads.errors import WorkloadError
from cudnn_sweep.workloads.find_workload import find_workload
from cudnn_sweep.workloads.measuring.device_time import Replays, Step, time_replays
from cudnn_sweep.workloads.measuring.telemetry import Telemetry
from cudnn_sweep.workloads.precision import find_precision
from cudnn_sweep.workloads.problem import load_problems
from cudnn_sweep.workloads.workload import Context
from tests.studies.parts.command import run

ROUNDS = 3  # of both timers in turn, so that a drift of the clock meets both
SPEC = MeasureSpec(warmup_s=0.1, warmup_limit_s=0.3, device_budget_s=0.15, steady_error=0.0)
TOLERANCE, TOLERANCE_MS = 0.02, 0.003


# Together from 10 µs to 30 ms: small and large where they are fastest, the large where they are slowest.
CASES = (
    (("convnet_benchmarks/", "networks/", "tutorials/"), "bf16", "channels_last"),
    (("convnet_benchmarks/",), "fp32", "contiguous"),
)

Problems = Annotated[
    list[str] | None, typer.Option(help="Only this problem; repeat for more.", metavar="NAME")
]


@dataclass(frozen=True, kw_only=True, slots=True)
class TimerRow:
    problem: str
    direction: str
    precision: str
    layout: str
    ours_ms: float
    triton_ms: float

    @property
    def agrees(self) -> bool:
        apart = abs(self.ours_ms - self.triton_ms)
        return apart <= max(TOLERANCE * self.triton_ms, TOLERANCE_MS)


def compare_timers(problems: list[str]) -> Iterator[TimerRow]:
    """These problems, or those of CASES, forward and with both backward passes.

    Raises WorkloadError without CUDA or Triton.
    """
    triton = _triton_timers()
    for files, precision, layout in CASES:
        find_precision(precision).apply()
        for problem in problems or load_problems():
            if problem.startswith(files) or problems:
                yield _row(triton, problem, "forward", precision, layout)
                yield _row(triton, problem, "forward_backward", precision, layout)


def _triton_timers() -> Any:
    if not torch.cuda.is_available():
        raise WorkloadError("comparing timers needs CUDA; torch finds none on this machine")
    try:
        return import_module("triton.testing")
    except ImportError as error:
        raise WorkloadError(f"comparing timers needs the package triton: {error}") from error


def _row(triton: Any, problem: str, direction: str, precision: str, layout: str) -> TimerRow:
    context = Context(
        device=torch.device("cuda"),
        precision=find_precision(precision),
        layout=layout,
        direction=direction,
        problem=load_problems()[problem],
    )
    step = find_workload("conv").build(context)
    run = partial(step.run, step.prepare(load_problems()[problem].input_shape))
    pairs = [_pair(run, triton.do_bench_cudagraph) for _ in range(ROUNDS)]
    ours_ms, triton_ms = (median(times) for times in zip(*pairs, strict=True))
    return TimerRow(
        problem=problem,
        direction=direction,
        precision=precision,
        layout=layout,
        ours_ms=ours_ms,
        triton_ms=triton_ms,
    )


def _pair(run: Step, do_bench_cudagraph: Callable[..., float]) -> tuple[float, float]:
    ours = time_replays(Replays([run]), SPEC, Telemetry(None)).median_ms
    return ours, do_bench_cudagraph(run, return_mode="median")


def timers(problem: Problems = None) -> None:
    """Compare device times on this GPU with Triton's timers, problem by problem (4 minutes).

    Exit code 1: a problem differs by more than 2% and 3 µs.
    """
    line = "{:36} {:16} {:5} {:14}{:>10} {:>10} {:>8}"
    names = ("problem", "direction", "", "layout", "ours, ms", "triton, ms", "apart")
    typer.echo(line.format(*names))
    agree = total = 0
    for row in compare_timers(problem or []):
        total += 1
        agree += row.agrees
        apart = f"{row.ours_ms / row.triton_ms - 1:+.1%}{'' if row.agrees else ' !'}"
        times = (f"{row.ours_ms:.4f}", f"{row.triton_ms:.4f}")
        case = (row.problem, row.direction, row.precision, row.layout)
        typer.echo(line.format(*case, *times, apart))
    typer.echo(f"{agree} of {total} agree within 2% or 3 µs.")
    leave(0 if agree == total else 1)


if __name__ == "__main__":
    run(timers)
