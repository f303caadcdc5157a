"""Device time of a step: the time that a step would take if the device never waited for the CPU."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
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

HEAD_START_CYCLES = 200_000  # 0.1 ms at 1980 MHz: to queue a replay takes 10 µs
GRAPH_MS = 5.0  # a replay's least length: starting one (5 µs) is then 0.1% of it
MAX_CALLS = 1000  # of a step in one graph: capturing takes 30 to 100 µs each
BATCH_S = 0.03  # replays between two synchronises
PROFILED_S = 0.3
NCCL = "nccl"  # prefix of its kernels' names

Step = Callable[[], object]


class CannotCapture(Exception):
    """A CUDA graph cannot hold this step; the text is the reason."""


def capture(run: Callable[[], object], *, after: Callable[[], object]) -> Graph:
    """Capture `run` and return the instantiated graph. Raises CannotCapture; the process stays usable.

    `after` does the same work, perhaps fewer times, and is called before the capture. The graph
    then lacks what only first calls do, such as a search.
    """
    graph = Graph(keep_graph=True)
    pool = torch.cuda.graph_pool_handle()
    with _surviving_failure(pool), warnings.catch_warnings():
        _warm_on_a_side_stream(after)
        warnings.filterwarnings("ignore", message="The CUDA Graph is empty")
        with torch.cuda.graph(graph, pool=pool):
            run()
        graph.instantiate()
    return graph


def check_capturable(step: TimedStep, run: Callable[[], object]) -> None:
    """Run one step. Raises CannotCapture if a capture of the step would fail and do harm."""
    if not step.capturable:
        raise CannotCapture(
            "the step launches from several threads, or a compiler replays graphs of its own"
        )
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")  # an error would leave the step half done
        try:
            run()
        finally:
            torch.cuda.set_sync_debug_mode("default")
    if any("synchronizing CUDA operation" in str(warning.message) for warning in seen):
        raise CannotCapture("the step waits for the device, as .item() does")


def queued_ms(launch: Step, count: int) -> list[float]:
    """Call `launch` `count` times and return the device time of each call.

    A call only queues a graph's replay. The device first waits until some replays are queued, so
    the times do not include queueing.
    """
    torch.cuda._sleep(HEAD_START_CYCLES)
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(2 * count)]
    pairs = list(zip(marks[::2], marks[1::2], strict=True))
    for before, after in pairs:
        before.record()
        launch()
        after.record()
    torch.cuda.synchronize()
    return [before.elapsed_time(after) for before, after in pairs]


def _warm_on_a_side_stream(run: Callable[[], object]) -> None:
    """Call `run` on a side stream, so that autograd avoids the default stream in a capture."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        run()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()


@contextmanager
def _surviving_failure(pool: tuple[int, int]) -> Iterator[None]:
    """Reset the random generator and the allocator if a capture in the `with` block fails."""
    device = torch.cuda.current_device()
    generator = torch.cuda.default_generators[device]
    state = generator.clone_state()
    try:
        yield
    except Exception as error:
        generator.graphsafe_set_state(state)
        with suppress(RuntimeError):  # the allocator may have left the graph's pool
            torch._C._cuda_endAllocateToPool(device, pool)
        if not isinstance(error, RuntimeError):
            raise
        lines = str(error).splitlines()
        raise CannotCapture(lines[0] if lines else type(error).__name__) from error


class Replays:
    """A graph of rounds of `steps`. Each step finds the L2 cache as its predecessor left it."""

    source = "graph"

    def __init__(self, steps: list[Step]) -> None:
        graph, rounds = _long_graph(steps)
        self._launch: Step = graph.replay
        self.calls = rounds * len(steps)
        """Number of steps in one replay."""

    def run(self, count: int) -> float:
        """Replay `count` times and return the seconds on the device."""
        return sum(queued_ms(self._launch, count)) / 1e3

    def step_ms(self, count: int) -> list[float]:
        """Return, for each of `count` replays, the mean device time of its steps."""
        return [duration / self.calls for duration in queued_ms(self._launch, count)]


class OwnReplays(Replays):
    """Rounds of steps, each of which replays its own graph. Times include copying the inputs."""

    source = "own_graph"

    def __init__(self, steps: list[Step]) -> None:
        self.calls = len(steps)
        self._steps = steps
        self._launch = self._round

    def _round(self) -> None:
        for step in self._steps:
            step()


def replays_of_batch(replay_s: float) -> int:
    return max(1, round(BATCH_S / replay_s))


def time_replays(replays: Replays, spec: MeasureSpec, telemetry: Telemetry) -> Sampled:
    # The device cooled while steps were captured, and a cooler device runs faster for a while.
    batch = replays_of_batch(warm_up(replays.run, spec, telemetry).round_s)

    def take() -> list[float]:
        durations = replays.step_ms(batch)
        telemetry.note()
        return durations

    return sample(
        take, iterations=replays.calls, budget_s=spec.device_budget_s, error=spec.steady_error
    )


def time_profiled(steps: list[Step]) -> tuple[Sampled, float] | None:
    """Measure with the profiler how long rounds of `steps` take, if no graph can hold the steps.

    A sample is the mean kernel time of a round's steps. It excludes NCCL's kernels, in which a rank
    communicates or waits. Return the samples and the median time of NCCL's kernels per step. Return
    None if a round has no kernels except NCCL's. The first call in a process takes 2 s.
    """
    profiled_kernels(steps)  # the profiler's own start
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
    """Run `steps` and return name and ms of each kernel and memory operation, in order of start."""
    with profiler(ProfilerActivity.CUDA) as profiled:
        meet()
        now()  # ranks begin together: the profiler starts earlier in one than in another
        for step in steps:
            step()
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
    rounds = min(round(GRAPH_MS / min(queued_ms(graph.replay, 3))), MAX_CALLS // len(steps))
    if rounds <= 1:
        return graph, 1
    del graph  # frees its memory for the longer graph
    return capture(rounds_of(rounds), after=once), rounds
