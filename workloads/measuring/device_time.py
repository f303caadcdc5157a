"""Measures the device time of a step: its duration if the device never waits for the CPU."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from statistics import median

import torch
from torch.profiler import ProfilerActivity, profile

from cudnn_sweep.workloads.cells.measurement import MeasureSpec
from cudnn_sweep.workloads.measuring.ranks import meet, now
from cudnn_sweep.workloads.measuring.sampling import Sampled, sample
from cudnn_sweep.workloads.measuring.telemetry import Telemetry
from cudnn_sweep.workloads.measuring.warm_up import warm_up
from cudnn_sweep.workloads.workload import TimedStep

Graph = torch.cuda.CUDAGraph

HEAD_START_CYCLES = 200_000  # the GPU waits this long while calls are queued
GRAPH_MS = 5.0  # shortest duration of a replay, if possible
MAX_CALLS = 1000  # largest number of steps in one graph
BATCH_S = 0.03  # duration of the replays between two synchronisations
PROFILED_S = 0.3
NCCL = "nccl"  # prefix of the names of NCCL's kernels

Step = Callable[[], object]


class CannotCapture(Exception):
    """Error of a step that no CUDA graph can capture. Its text is the reason."""


def capture(run: Callable[[], object], *, after: Callable[[], object]) -> Graph:
    """Capture `run` in a CUDA graph, and return the graph. Raises CannotCapture.

    `after` is called on another stream before the capture, as a warm-up with the work of `run`.
    """
    graph = Graph(keep_graph=True)
    pool = torch.cuda.graph_pool_handle()
    with _surviving_failure(pool), warnings.catch_warnings():
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            after()
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        warnings.filterwarnings("ignore", message="The CUDA Graph is empty")
        with torch.cuda.graph(graph, pool=pool):
            run()
        graph.instantiate()
    return graph


def check_capturable(step: TimedStep, run: Callable[[], object]) -> None:
    """Run one step. Raises CannotCapture if no CUDA graph can capture the step."""
    if not step.capturable:
        raise CannotCapture("the step uses several threads, or a compiler that makes CUDA graphs")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")  # an error would stop the step halfway
        try:
            run()
        finally:
            torch.cuda.set_sync_debug_mode("default")
    if any("synchronizing CUDA operation" in str(warning.message) for warning in seen):
        raise CannotCapture("the step waits for the device, for example in .item()")


def queued_ms(launch: Step, count: int) -> list[float]:
    """Call `launch` `count` times, and return the device time of each call in milliseconds."""
    torch.cuda._sleep(HEAD_START_CYCLES)
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(2 * count)]
    pairs = list(zip(marks[::2], marks[1::2], strict=True))
    for before, after in pairs:
        before.record()
        launch()
        after.record()
    torch.cuda.synchronize()
    return [before.elapsed_time(after) for before, after in pairs]


@contextmanager
def _surviving_failure(pool: tuple[int, int]) -> Iterator[None]:
    """Restore the random generator and the allocator if a capture in the `with` block fails."""
    device = torch.cuda.current_device()
    generator = torch.cuda.default_generators[device]
    state = generator.clone_state()
    try:
        yield
    except Exception as error:
        generator.graphsafe_set_state(state)
        with suppress(RuntimeError):  # the allocator may not be using the pool
            torch._C._cuda_endAllocateToPool(device, pool)
        if not isinstance(error, RuntimeError):
            raise
        lines = str(error).splitlines()
        raise CannotCapture(lines[0] if lines else type(error).__name__) from error


class Replays:
    """A CUDA graph that runs all `steps` one or more times."""

    source = "graph"

    def __init__(self, steps: list[Step]) -> None:
        once = partial(_run, steps, 1)
        graph = capture(once, after=once)
        most = MAX_CALLS // len(steps)
        rounds = max(1, min(round(GRAPH_MS / min(queued_ms(graph.replay, 3))), most))
        if rounds > 1:
            del graph  # frees memory for the longer graph
            graph = capture(partial(_run, steps, rounds), after=once)
        self._launch: Step = graph.replay
        self.calls = rounds * len(steps)
        """Number of steps in one replay."""

    def run(self, count: int) -> float:
        """Replay the graph `count` times, and return the device time in seconds."""
        return sum(queued_ms(self._launch, count)) / 1e3

    def step_ms(self, count: int) -> list[float]:
        """Replay the graph `count` times. Return the mean device time of a step in each replay."""
        return [duration / self.calls for duration in queued_ms(self._launch, count)]


class OwnReplays(Replays):
    """Replays of steps that use CUDA graphs already. The times include copying the inputs."""

    source = "own_graph"

    def __init__(self, steps: list[Step]) -> None:
        self.calls = len(steps)
        self._launch = partial(_run, steps, 1)


def replays_of_batch(replay_s: float) -> int:
    return max(1, round(BATCH_S / replay_s))


def time_replays(replays: Replays, spec: MeasureSpec, telemetry: Telemetry) -> Sampled:
    # The device cools during the capture, and a cool device is faster at first.
    batch = replays_of_batch(warm_up(replays.run, spec, telemetry).round_s)

    def take() -> list[float]:
        durations = replays.step_ms(batch)
        telemetry.note()
        return durations

    return sample(
        take, iterations=replays.calls, budget_s=spec.device_budget_s, error=spec.steady_error
    )


def time_profiled(steps: list[Step]) -> tuple[Sampled, float] | None:
    """Measure the kernel time of `steps` with the profiler, without NCCL's kernels.

    Also return the median time of NCCL's kernels in a step. Return None if no other kernel ran.
    """
    profiled_kernels(steps)  # starts the profiler
    samples: list[float] = []
    waits: list[float] = []
    began = now()
    while not samples or now() - began < PROFILED_S:
        kernels = profiled_kernels(steps)
        wait_ms = sum(duration_ms for name, duration_ms in kernels if name.startswith(NCCL))
        waits.append(wait_ms / len(steps))
        samples.append(sum(duration_ms for _, duration_ms in kernels) / len(steps) - waits[-1])
    if not min(samples):
        return None
    timed = Sampled(samples_ms=samples, iterations=len(steps) * len(samples), stop="budget")
    return timed, median(waits)


@contextmanager
def profiler(*activities: ProfilerActivity) -> Iterator[profile]:
    """Profile the `with` block, without the profiler's warnings."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*[Pp]rofiler")
        with profile(activities=activities) as profiled:
            yield profiled
            torch.cuda.synchronize()


def profiled_kernels(steps: list[Step]) -> list[tuple[str, float]]:
    """Run `steps`. Return the name and milliseconds of each kernel and memory operation."""
    with profiler(ProfilerActivity.CUDA) as profiled:
        meet()
        now()  # all ranks begin at the same time
        for step in steps:
            step()
    events = [
        event
        for event in profiled.events()
        if event.device_type.name == "CUDA" and not event.is_user_annotation
    ]
    events.sort(key=lambda event: event.time_range.start)
    return [(event.name, event.device_time / 1e3) for event in events]


def _run(steps: list[Step], rounds: int) -> None:
    for _ in range(rounds):
        for step in steps:
            step()
