"""Capturing a step in a CUDA graph, whose replays are free of launch gaps, and reading what it launches."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import torch

Graph = torch.cuda.CUDAGraph


HEAD_START_CYCLES = 200_000  # 0.1 ms at 1980 MHz: to queue a replay takes 10 µs


class CannotCapture(Exception):
    """This step does something that a CUDA graph does not hold; says what."""


def capture(run: Callable[[], object], *, after: Callable[[], object]) -> Graph:
    """The work that `run` launches, instantiated.

    `after` does the same work, perhaps fewer times, and is called before: what only a first call does,
    a search for one, must not be captured. Raises CannotCapture with the reason; the process can go on.
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


def check_capturable(run: Callable[[], object]) -> None:
    """Raises CannotCapture where `run` waits for the device: a capture that fails leaves more behind."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")  # an error would leave the step half done
        try:
            run()
        finally:
            torch.cuda.set_sync_debug_mode("default")
    if any("synchronizing CUDA operation" in str(warning.message) for warning in seen):
        raise CannotCapture("the step waits for the device, as .item() does")


def replay_ms(
    graph: Graph, replays: int, *, before_each: Callable[[], object] | None = None
) -> list[float]:
    """Device time of each of so many replays, back to back; `before_each` launches work between them.

    The device waits until the first ones are queued: no launch is waited for inside a time.
    """
    torch.cuda._sleep(HEAD_START_CYCLES)
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(2 * replays)]
    pairs = list(zip(marks[::2], marks[1::2], strict=True))
    for before, after in pairs:
        if before_each is not None:
            before_each()
        before.record()
        graph.replay()
        after.record()
    torch.cuda.synchronize()
    return [before.elapsed_time(after) for before, after in pairs]


def _warm_on_a_side_stream(run: Callable[[], object]) -> None:
    """Autograd remembers the stream of a graph that is alive; a capture may not touch the default one."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        run()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()


@contextmanager
def _surviving_failure(pool: tuple[int, int]) -> Iterator[None]:
    """A failed capture leaves the random generator and the allocator as if it still went on."""
    device = torch.cuda.current_device()
    generator = torch.cuda.default_generators[device]
    state = generator.clone_state()
    try:
        yield
    except Exception as error:
        generator.graphsafe_set_state(state)
        with suppress(RuntimeError):  # where the allocator had left the graph's pool
            torch._C._cuda_endAllocateToPool(device, pool)
        if not isinstance(error, RuntimeError):
            raise
        lines = str(error).splitlines()
        raise CannotCapture(lines[0] if lines else type(error).__name__) from error
