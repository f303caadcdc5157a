"""Device time of a step: what it would take were the CPU never in its way."""

import warnings
from collections.abc import Callable
from statistics import fmean
from time import perf_counter

import torch
from torch.profiler import ProfilerActivity, profile

from cudnn_sweep.workloads.cells.measurement import MeasureSpec
from cudnn_sweep.workloads.measuring.cuda_graph import Graph, capture, replay_ms
from cudnn_sweep.workloads.measuring.sampling import Sampled, sample
from cudnn_sweep.workloads.measuring.telemetry import Telemetry
from cudnn_sweep.workloads.measuring.warm_up import warm_up

GRAPH_MS = 5.0  # a replay's least length: starting one (5 µs) is then 0.1% of it
MAX_CALLS = 1000  # of a step in one graph: capturing takes 30 to 100 µs each
BATCH_S = 0.03  # replays between two synchronises
PROFILED_S = 0.3

Step = Callable[[], object]


class Replays:
    """A graph of whole rounds of some steps, the L2 cache as the step before left it."""

    def __init__(self, steps: list[Step]) -> None:
        """Raises CannotCapture."""
        self._graph, rounds = _long_graph(steps)
        self.calls = rounds * len(steps)
        """Steps in one replay."""

    def run(self, count: int) -> float:
        """Seconds on the device for so many replays."""
        return sum(replay_ms(self._graph, count)) / 1e3

    def step_ms(self, count: int) -> list[float]:
        """Time of a step in each of so many replays."""
        return [duration / self.calls for duration in replay_ms(self._graph, count)]


def replays_of_batch(replay_s: float) -> int:
    """How many replays, of which each takes so long, are timed together."""
    return max(1, round(BATCH_S / replay_s))


def time_replays(steps: list[Step], spec: MeasureSpec, telemetry: Telemetry) -> Sampled:
    """Raises CannotCapture."""
    replays = Replays(steps)
    # The device was idle while steps were captured, and a cooler one runs faster for a while.
    batch = replays_of_batch(warm_up(replays.run, spec, telemetry).round_s)

    def take() -> list[float]:
        durations = replays.step_ms(batch)
        telemetry.note()
        return durations

    return sample(
        take, iterations=replays.calls, budget_s=spec.device_budget_s, error=spec.steady_error
    )


def time_flushed(
    steps: list[Step], counts: list[int], spec: MeasureSpec, telemetry: Telemetry
) -> Sampled:
    """Replays of single steps, the L2 cache cleared before each.

    A sample is the mean over `steps`, each as often as `counts` says. Raises CannotCapture.
    """
    graphs = [capture(step, after=step) for step in steps]
    cache_bytes = torch.cuda.get_device_properties().L2_cache_size
    clear = torch.empty(4 * cache_bytes, dtype=torch.uint8, device="cuda").zero_

    def rounds_of(count: int) -> list[list[float]]:
        return [replay_ms(graph, count, before_each=clear) for graph in graphs]

    def run(count: int) -> float:
        began = perf_counter()
        rounds_of(count)
        return perf_counter() - began

    warm = warm_up(run, spec, telemetry)
    batch = replays_of_batch(warm.round_s)

    def take() -> list[float]:
        return [fmean(durations, counts) for durations in zip(*rounds_of(batch), strict=True)]

    return sample(
        take, iterations=len(steps), budget_s=spec.device_budget_s, error=spec.steady_error
    )


def time_profiled(steps: list[Step]) -> Sampled | None:
    """Kernel times summed, of rounds of `steps`, for what a graph does not hold.

    Costs 2 s at a process's first use. None where the profiler sees nothing.
    """
    profiled_kernels(steps)  # the profiler's own start
    samples: list[float] = []
    began = perf_counter()
    while not samples or perf_counter() - began < PROFILED_S:
        total_ms = sum(duration_ms for _, duration_ms in profiled_kernels(steps))
        samples.append(total_ms / len(steps))
    if not min(samples):
        return None
    return Sampled(samples_ms=samples, iterations=len(steps) * len(samples), stop="budget")


def profiled_kernels(steps: list[Step]) -> list[tuple[str, float]]:
    """Name and milliseconds of each kernel and memory operation, in order."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*[Pp]rofiler")
        return _profiled(steps)


def _profiled(steps: list[Step]) -> list[tuple[str, float]]:
    with profile(activities=[ProfilerActivity.CUDA]) as profiled:
        for step in steps:
            step()
        torch.cuda.synchronize()
    events = [
        event
        for event in profiled.events()
        if event.device_type.name == "CUDA" and not event.is_user_annotation
    ]
    events.sort(key=lambda event: event.time_range.start)
    return [(event.name, event.device_time / 1e3) for event in events]


def _long_graph(steps: list[Step]) -> tuple[Graph, int]:
    def rounds_of(count: int) -> Step:
        def run() -> None:
            for _ in range(count):
                for step in steps:
                    step()

        return run

    once = rounds_of(1)
    graph = capture(once, after=once)
    rounds = min(round(GRAPH_MS / min(replay_ms(graph, 3))), MAX_CALLS // len(steps))
    if rounds <= 1:
        return graph, 1
    del graph  # its memory is free for another
    return capture(rounds_of(rounds), after=once), rounds
