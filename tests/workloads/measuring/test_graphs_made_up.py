"""How often a graph is replayed, what a profiler's kernels add up to, and when a step is captured, without a GPU."""

import errno
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
import torch

from cudnn_sweep.workloads.cells.measurement import Measurement, MeasureSpec
from cudnn_sweep.workloads.errors import WorkloadError
from cudnn_sweep.workloads.hardware import cuda_driver
from cudnn_sweep.workloads.hardware.cuda_driver import GraphNode
from cudnn_sweep.workloads.measuring import captured as capturing
from cudnn_sweep.workloads.measuring import choice as choosing
from cudnn_sweep.workloads.measuring import device_time, steady, steady_in_turns
from cudnn_sweep.workloads.measuring.captured import CapturedStep, executed
from cudnn_sweep.workloads.measuring.choice import (
    CONVERSION,
    MAX_REPLAYS,
    ROUNDS,
    _from_graph,
    _note_kernels,
    _operations,
    _saved_ms,
    read_choice,
)
from cudnn_sweep.workloads.measuring.compiling import CompileWatch
from cudnn_sweep.workloads.measuring.device_time import (
    MAX_CALLS,
    CannotCapture,
    OwnReplays,
    Replays,
    check_capturable,
    profiled_kernels,
    queued_ms,
    time_profiled,
)
from cudnn_sweep.workloads.measuring.log_pass import _calls
from cudnn_sweep.workloads.measuring.sampling import Sampled
from cudnn_sweep.workloads.measuring.steady import GROUP_S, capture_loop
from cudnn_sweep.workloads.measuring.steady_in_turns import SteadyInTurns
from cudnn_sweep.workloads.measuring.step_watch import StepWatch
from cudnn_sweep.workloads.measuring.turns import Turn
from cudnn_sweep.workloads.records.measured import Choice, Kernel, Ran, SteadyDevice
from cudnn_sweep.workloads.workload import TimedStep


@pytest.fixture
def marks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was done in order: the n-th mark is at n squared ms."""
    done: list[str] = []

    class Event:
        def __init__(self, **_: bool) -> None:
            self.at_ms = 0.0

        def record(self) -> None:
            done.append("mark")
            self.at_ms = float(done.count("mark") ** 2)

        def elapsed_time(self, later: "Event") -> float:
            return later.at_ms - self.at_ms

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "_sleep", lambda _: done.append("sleep"))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: done.append("wait"))
    return done


def test_each_queued_launch_lies_between_two_marks(marks: list[str]) -> None:
    assert queued_ms(lambda: marks.append("launch"), 2) == [3.0, 7.0]
    assert marks == ["sleep", *["mark", "launch", "mark"] * 2, "wait"]


@pytest.mark.parametrize(
    ("step_ms", "steps", "rounds"),
    [
        ([2.5, 2.0, 9.0], 1, 2),
        ([0.5, 0.5, 0.5], 2, 10),
        ([5.0, 5.0, 5.0], 1, 1),
        ([9.0, 9.0, 9.0], 1, 1),
        ([0.001] * 3, 2, MAX_CALLS // 2),
    ],
)
def test_a_long_graph_fills_its_time_with_rounds(
    monkeypatch: pytest.MonkeyPatch, step_ms: list[float], steps: int, rounds: int
) -> None:
    ran: list[int] = []
    captures: list[int] = []

    def capture(run: Callable[[], object], *, after: Callable[[], object]) -> Any:
        ran.clear()
        after()
        assert ran == list(range(steps)), "one round before"
        ran.clear()
        run()
        captures.append(len(ran) // steps)
        return SimpleNamespace(replay=None)

    def queued_ms(_: Any, count: int) -> list[float]:
        assert count == 3
        return step_ms

    monkeypatch.setattr(device_time, "capture", capture)
    monkeypatch.setattr(device_time, "queued_ms", queued_ms)
    replays = Replays([lambda number=number: ran.append(number) for number in range(steps)])  # type: ignore[misc]
    assert captures == ([1] if rounds == 1 else [1, rounds])
    assert replays.calls == rounds * steps


def test_a_replay_of_several_steps_is_their_mean_time(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    def queued(launch: Callable[[], object], count: int) -> list[float]:
        for _ in range(count):
            launch()
        return [4.0] * count

    monkeypatch.setattr(device_time, "queued_ms", queued)
    replays = OwnReplays([lambda: ran.append("a"), lambda: ran.append("b")])
    assert (replays.source, replays.calls) == ("own_graph", 2)
    assert replays.step_ms(2) == [2.0, 2.0]
    assert replays.run(3) == 0.012
    assert ran == ["a", "b"] * 5


@pytest.mark.parametrize(
    ("messages", "waits"),
    [
        ([], False),
        (["anything"], False),
        (["called a synchronizing CUDA operation"], True),
        (["anything", "called a synchronizing CUDA operation"], True),
    ],
)
def test_a_step_that_waits_for_the_device_is_not_captured(
    monkeypatch: pytest.MonkeyPatch, messages: Sequence[str], waits: bool
) -> None:
    modes: list[str] = []
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", modes.append)

    def run() -> None:
        import warnings

        for message in messages:
            warnings.warn(message, stacklevel=1)

    with pytest.raises(CannotCapture, match="waits for the device") if waits else nullcontext():
        check_capturable(doubled(), run)
    assert modes == ["warn", "default"]


def rounds_of(
    monkeypatch: pytest.MonkeyPatch, kernels: list[tuple[str, float]], round_s: float
) -> list[int]:
    """Let each profiled round have these kernels and take so long; return the rounds' numbers of steps."""
    rounds: list[int] = []
    now_s = [0.0]

    def profiled(steps: Sequence[Any]) -> list[tuple[str, float]]:
        rounds.append(len(steps))
        now_s[0] += round_s
        return kernels

    monkeypatch.setattr(device_time, "profiled_kernels", profiled)
    monkeypatch.setattr(device_time, "now", lambda: now_s[0])
    return rounds


@pytest.mark.parametrize(
    ("round_s", "timed"),
    [(8.0, 1), (4.0, 1), (2.0, 2), (1.5, 3)],
)
def test_the_profiler_times_rounds_until_its_time_is_up(
    monkeypatch: pytest.MonkeyPatch, round_s: float, timed: int
) -> None:
    """Of four seconds here. Its first round, which starts it, does not count."""
    monkeypatch.setattr(device_time, "PROFILED_S", 4.0)
    kernels = [("conv", 3.0), ("ncclAllReduce", 1.0), ("relu", 1.0)]
    rounds = rounds_of(monkeypatch, kernels, round_s)
    found = time_profiled([lambda: None, lambda: None])
    assert found is not None
    sampled, wait_ms = found
    assert len(rounds) == timed + 1
    assert sampled.samples_ms == [2.0] * timed, "without NCCL's kernels"
    assert (sampled.iterations, wait_ms) == (2 * timed, 0.5)


def test_a_round_without_kernels_has_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds_of(monkeypatch, [], 1.0)
    assert time_profiled([lambda: None]) is None


def test_kernels_are_those_of_the_device_in_the_order_of_their_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def event(name: str, start: int, device: str = "CUDA", annotation: bool = False) -> Any:
        return SimpleNamespace(
            name=name,
            device_type=SimpleNamespace(name=device),
            is_user_annotation=annotation,
            time_range=SimpleNamespace(start=start),
            device_time=2000.0,
        )

    events = [event("b", 2), event("a", 1), event("cpu", 0, "CPU"), event("range", 0, "CUDA", True)]

    @contextmanager
    def profiler(*_: Any) -> Iterator[Any]:
        yield SimpleNamespace(events=lambda: events)

    monkeypatch.setattr(device_time, "profiler", profiler)
    monkeypatch.setattr(device_time, "meet", lambda: None)
    assert profiled_kernels([]) == [("a", 2.0), ("b", 2.0)]


@pytest.mark.parametrize(
    ("replay_ms", "replays"), [(1.0, 5), (0.01, MAX_REPLAYS), (9.0, 1), (20.0, 1)]
)
def test_conversions_cost_what_replays_without_them_save(
    monkeypatch: pytest.MonkeyPatch, replay_ms: float, replays: int
) -> None:
    asked: list[int] = []
    on = [True]

    def times(_: Any, count: int) -> list[float]:
        asked.append(count)
        if len(asked) == 1:
            return [replay_ms]
        return [99.0] + [replay_ms + 0.25 * on[0]] * (count - 1)

    def enable(_: Any, node: Any, enabled: bool) -> None:
        on[0] = enabled

    monkeypatch.setattr(device_time, "queued_ms", times)
    monkeypatch.setattr(cuda_driver, "set_enabled", enable)
    graph: Any = MagicMock()
    assert _saved_ms(graph, []) == 0.0
    assert _saved_ms(graph, [GraphNode(handle=1, name="nchwToNhwc")]) == pytest.approx(0.25)
    assert asked == [1, *[1 + replays] * (2 * ROUNDS)]


def kernel(kind: str, name: str = "k") -> Kernel:
    return Kernel(name=name, operation=None, kind=kind, grid=None, block=None, shared_bytes=None)


def test_layout_conversions_are_counted() -> None:
    choice = Choice()
    _note_kernels(choice, "graph", [kernel(CONVERSION), kernel("convolution"), kernel(CONVERSION)])
    assert (choice.layout_conversions, choice.kernels_source) == (2, "graph")


def test_nodes_belong_to_the_operations_that_launched_them() -> None:
    watch: Any = SimpleNamespace(launches=[("empty", 0), ("conv", 2), ("relu", 3)])
    assert _operations(watch, 5) == ["conv", "conv", "relu", None, None]
    assert _operations(watch, 3) == ["conv", "conv", "relu"]


def test_only_conversions_are_replayed_without(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [GraphNode(handle=1, name="sm90_fprop"), GraphNode(handle=2, name="nchwToNhwcKernel")]
    without: list[list[GraphNode]] = []

    def saved(_: Any, given: list[GraphNode]) -> float:
        without.append(given)
        return 0.5

    monkeypatch.setattr(device_time, "capture", lambda run, *, after: MagicMock())
    monkeypatch.setattr(cuda_driver, "graph_nodes", lambda _: nodes)
    monkeypatch.setattr(choosing, "_saved_ms", saved)
    choice, _ = _from_graph(lambda: None, StepWatch)
    assert without == [nodes[1:]]
    assert (choice.layout_conversions, choice.layout_conversion_ms) == (1, 0.5)


@pytest.mark.parametrize("capturable", [True, False])
def test_a_step_that_cannot_be_captured_is_profiled_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, capturable: bool
) -> None:
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", lambda _: None)
    monkeypatch.setattr(choosing, "_from_graph", lambda *_: (Choice(kernels_source="graph"), []))
    monkeypatch.setattr(device_time, "profiled_kernels", lambda _: [("sm90_fprop", 1.0)])
    step = TimedStep(prepare=lambda _: None, run=lambda _: None, capturable=capturable)
    device: Any = SimpleNamespace(is_cuda=True)
    choice, _ = read_choice(step, (1,), device)
    assert choice.kernels_source == ("graph" if capturable else "profiler")
    assert (choice.kernels_note is None) == capturable


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The graphs that are made, on a device that does what it is told at once."""
    made: list[Any] = []

    def capture(run: Callable[[], object], *, after: Callable[[], object]) -> Any:
        after()
        run()
        made.append(MagicMock())
        return made[-1]

    ticks = iter(range(1000))
    monkeypatch.setattr(capturing, "capture", capture)
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", lambda _: None)
    monkeypatch.setattr(capturing, "perf_counter", lambda: float(next(ticks)))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    return made


def doubled(*, capturable: bool = True) -> TimedStep:
    return TimedStep(
        prepare=lambda shape: torch.ones(shape), run=lambda x: 2 * x, capturable=capturable
    )


def test_a_shape_is_captured_once_and_replayed_then(graphs: list[Any]) -> None:
    step = CapturedStep(doubled())
    results = [step(torch.ones(size)) for size in (2, 2, 3, 2)]
    assert (len(graphs), step.replays) == (2, 2)
    assert [graph.replay.call_count for graph in graphs] == [2, 0]
    assert [len(result) for result in results] == [2, 2, 3, 2]
    ran = Ran()
    step.note_shape(ran)
    step.note_shape(ran)
    assert ran.cold_compile_ms == [2000.0, 0.0]


def test_a_graphs_own_inputs_are_filled_before_its_replay(graphs: list[Any]) -> None:
    held: list[torch.Tensor] = []

    def run(inputs: Any) -> None:
        held.append(inputs[0])

    step = CapturedStep(TimedStep(prepare=lambda _: None, run=run))
    step((torch.ones(2), "mode"))
    step((torch.full((2,), 7.0), "mode"))
    assert held[0].tolist() == [7.0, 7.0]
    assert len(graphs) == 1


def test_a_step_that_no_graph_can_hold_is_an_error(graphs: list[Any]) -> None:
    with pytest.raises(WorkloadError, match="execution cuda_graph: the step cannot be captured"):
        CapturedStep(doubled(capturable=False))(torch.ones(2))
    assert graphs == []


@pytest.mark.parametrize(
    ("execution", "capturable", "expected"),
    [
        ("compile", True, True),
        ("compile", False, False),
        ("reduce_overhead", True, False),
        ("reduce_overhead", False, False),
    ],
)
def test_compiled_code_that_makes_graphs_of_its_own_is_not_captured(
    monkeypatch: pytest.MonkeyPatch, execution: str, capturable: bool, expected: bool
) -> None:
    monkeypatch.setattr(torch.compiler, "set_stance", lambda _: lambda run: run)
    step = executed(doubled(capturable=capturable), execution)
    assert step.capturable is expected
    assert step.as_written is not None


@pytest.mark.parametrize(
    ("together", "capturable", "note"),
    [(True, True, "several ranks"), (False, False, "several threads"), (False, True, None)],
)
def test_a_loop_is_profiled_with_the_reason_if_no_graph_holds_it(
    monkeypatch: pytest.MonkeyPatch, together: bool, capturable: bool, note: str | None
) -> None:
    monkeypatch.setattr(steady, "is_together", lambda: together)
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", lambda _: None)
    monkeypatch.setattr(steady, "Replays", lambda steps: "replays")
    monkeypatch.setattr(device_time, "time_profiled", lambda _: None)
    loop: Any = SimpleNamespace(step=doubled(capturable=capturable), inputs=[torch.ones(1)])
    part = SteadyDevice()
    found: Any = capture_loop(loop, part)
    if note is None:
        assert (found, part.steady_device_note) == ("replays", None)
        return
    assert found is None
    assert note in (part.steady_device_note or "")
    assert (part.steady_device_note or "").endswith("; the profiler found no kernels")


class FakeReplays:
    source, calls = "graph", 4

    def __init__(self, replay_s: float) -> None:
        self.ran: list[int] = []
        self.replay_s = replay_s

    def run(self, count: int) -> float:
        self.ran.append(count)
        return count * self.replay_s

    def step_ms(self, count: int) -> list[float]:
        return [float(number) for number in range(count)]


@pytest.mark.parametrize(("replay_s", "led_in"), [(0.001, [1]), (GROUP_S, [])])
def test_turns_of_short_replays_lead_in_with_one(
    monkeypatch: pytest.MonkeyPatch, replay_s: float, led_in: list[int]
) -> None:
    replays: Any = FakeReplays(replay_s)
    loop: Any = SimpleNamespace(device=SimpleNamespace(is_cuda=True), run=lambda count: 0.1 * count)
    monkeypatch.setattr(steady, "capture_loop", lambda *_: replays)
    monkeypatch.setattr(steady_in_turns, "replays_of_batch", lambda _: 3)
    monkeypatch.setattr(SteadyInTurns, "_end_wall", lambda *_: None)
    telemetry: Any = MagicMock()
    measured = Measurement()
    part = SteadyInTurns(loop, MeasureSpec(), telemetry, measured)
    assert part.take(Turn(stage="capture")).captured
    replays.ran.clear()
    part._replays_warming = SimpleNamespace(round_s=replay_s)  # type: ignore[assignment]
    assert [part.take(Turn(stage="device", round=number)).ms for number in (0, 4)] == [1.0, 1.0]
    assert replays.ran == led_in * 2
    part.close("budget")
    device = measured.device
    assert (device.steady_device_rounds, device.steady_device_samples_ms) == ([0, 4], [1.0, 1.0])
    assert device.steady_device_source == "graph"


def test_turns_that_end_before_a_replay_is_timed_have_no_device_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As if the block's time was up after the capture."""
    loop: Any = SimpleNamespace(device=SimpleNamespace(is_cuda=True))
    monkeypatch.setattr(steady, "capture_loop", lambda *_: FakeReplays(0.001))
    monkeypatch.setattr(SteadyInTurns, "_end_wall", lambda *_: None)
    measured = Measurement()
    part = SteadyInTurns(loop, MeasureSpec(), MagicMock(), measured)
    assert part.take(Turn(stage="capture")).captured
    part.close("limit")
    assert measured.device == SteadyDevice()


def test_turns_without_a_gpu_capture_nothing() -> None:
    loop: Any = SimpleNamespace(device=SimpleNamespace(is_cuda=False))
    for spec in (MeasureSpec(), MeasureSpec(device_budget_s=0.0)):
        part = SteadyInTurns(loop, spec, MagicMock(), Measurement())
        assert part._capture() is False


def test_calls_are_counted_by_operation_if_the_log_has_the_same_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = [("ConvFwd", 1), ("ConvFwd", 2), ("ConvFwd", 1)]

    class Watch(nullcontext[Any]):
        def __enter__(self) -> Any:
            return SimpleNamespace(cudnn_calls=calls)

    monkeypatch.setattr("cudnn_sweep.workloads.measuring.log_pass.StepWatch", Watch)
    same: Any = [SimpleNamespace(operation="ConvFwd")] * 2
    assert _calls(doubled(), [(1,)], same) == [2, 1]
    assert _calls(doubled(), [(1,)], same[:1]) == []


def compile_watch(**counted: Any) -> CompileWatch:
    """A watch of a compiler that counted so much."""
    watch = object.__new__(CompileWatch)
    usual: dict[str, Any] = {
        "stats": {"unique_graphs": 1},
        "graph_break": {},
        "inductor": {"cudagraph_skips": 0},
    }
    watch._execution = "compile"
    setattr(watch, "_counters", usual | counted)  # noqa: B010
    watch._seconds, watch._compiles, watch._began = 0.0, 0, 0.0
    return watch


def test_compilations_count_for_the_shape_that_starts_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ticks = iter(range(100, 200, 3))
    monkeypatch.setattr(
        "cudnn_sweep.workloads.measuring.compiling.perf_counter", lambda: float(next(ticks))
    )
    watch, ran = compile_watch(), Ran()
    for trigger in ("DYNAMO", "LAZY_BACKWARD", "DYNAMO"):
        watch._begin(SimpleNamespace(callback_trigger=SimpleNamespace(name=trigger)))
        watch._end(None)
    watch.note_shape(ran)
    watch.note_shape(ran)
    assert (ran.cold_compile_ms, ran.cold_compiles) == ([9000.0, 0.0], [2, 0])


@pytest.mark.parametrize(
    ("counted", "fault"),
    [
        ({}, None),
        ({"stats": {"unique_graphs": 0}}, "torch.compile compiled nothing$"),
        ({"inductor": {"cudagraph_skips": 2}}, "the compiler left out CUDA graphs$"),
        (
            {"stats": {"unique_graphs": 0}, "graph_break": {"print\nhere": 1, " ": 1}},
            "torch.compile compiled nothing; print; unknown$",
        ),
    ],
)
def test_steps_that_did_not_run_as_compiled_are_an_error(
    counted: dict[str, Any], fault: str | None
) -> None:
    ran = Ran()
    with pytest.raises(WorkloadError, match=fault) if fault else nullcontext():
        compile_watch(**counted).note(ran)
    assert ran.compiled_graphs == (0 if fault and "nothing" in fault else 1)


@pytest.mark.parametrize(
    ("error", "match"),
    [
        (RuntimeError("Detected recompile\n - size changed"), "while it was timed: size changed$"),
        (RuntimeError("out of luck"), "^out of luck$"),
    ],
)
def test_a_recompile_while_timing_is_named(
    monkeypatch: pytest.MonkeyPatch, error: Exception, match: str
) -> None:
    monkeypatch.setattr(torch.compiler, "set_stance", lambda _: nullcontext())
    with pytest.raises(Exception, match=match), compile_watch().nothing_more():
        raise error


@pytest.mark.parametrize(
    ("cache", "text", "match"),
    [
        ("/cache", os.strerror(errno.ENOSPC), r"compile: /cache: No space left on device: free"),
        (None, os.strerror(errno.ENOSPC), r"compile: its cache: No space left on device: free"),
        ("/cache", "bad", "^bad$"),
    ],
)
def test_a_full_disk_is_named_with_the_compilers_cache(
    cache: str | None, text: str, match: str
) -> None:
    with pytest.raises(Exception, match=match), compile_watch().naming_a_full_disk(cache):
        raise OSError(text)


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (None, None, ""),
        (RuntimeError("no graph\nin lines"), CannotCapture, "^no graph$"),
        (RuntimeError(), CannotCapture, "^RuntimeError$"),
        (ValueError("the step's own"), ValueError, "^the step's own$"),
        (CannotCapture("waits"), CannotCapture, "^waits$"),
    ],
)
@pytest.mark.parametrize("has_left", [False, True])
def test_a_failed_capture_gives_back_the_generator_and_the_pool(
    monkeypatch: pytest.MonkeyPatch,
    error: Exception | None,
    kind: type[Exception] | None,
    text: str,
    has_left: bool,
) -> None:
    done: list[Any] = []

    def end(*given: Any) -> None:
        done.append(given)
        if has_left:
            raise RuntimeError("the allocator has left the pool")

    generator = SimpleNamespace(clone_state=lambda: "before", graphsafe_set_state=done.append)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    monkeypatch.setattr(torch.cuda, "default_generators", [None, generator])
    monkeypatch.setattr(torch._C, "_cuda_endAllocateToPool", end, raising=False)
    fails = pytest.raises(kind, match=text) if kind else nullcontext()
    with fails, device_time._surviving_failure((3, 4)):
        if error:
            raise error
    assert done == (["before", (1, (3, 4))] if error else [])


@pytest.mark.parametrize(
    ("is_cuda", "budget_s", "captured", "timed"),
    [
        (True, 0.5, True, True),
        (True, 0.5, False, False),
        (True, 0.0, True, False),
        (False, 0.5, True, False),
    ],
)
def test_a_closed_loop_alone_is_replayed_where_a_graph_holds_it(
    monkeypatch: pytest.MonkeyPatch, is_cuda: bool, budget_s: float, captured: bool, timed: bool
) -> None:
    wall = Sampled(samples_ms=[3.0, 3.0], iterations=20, stop="budget")
    device = Sampled(samples_ms=[2.0, 2.0], iterations=40, stop="precision")
    replays = SimpleNamespace(source="graph") if captured else None
    asked: list[Any] = []

    def capture(*given: Any) -> Any:
        asked.append(given)
        return replays

    monkeypatch.setattr(
        steady, "warm_up", lambda *_: SimpleNamespace(round_s=1, seconds=2, settled=True)
    )
    monkeypatch.setattr(steady, "time_closed", lambda *_: wall)
    monkeypatch.setattr(steady, "capture_loop", capture)
    monkeypatch.setattr(device_time, "time_replays", lambda *_: device)
    on: Any = MagicMock(is_cuda=is_cuda)
    loop: Any = SimpleNamespace(device=on, run=None, result=torch.tensor(7.0))
    measured = Measurement()
    steady.measure_closed(loop, MeasureSpec(device_budget_s=budget_s), MagicMock(), measured)
    assert (measured.loop_kind, measured.loss_last, loop.result) == ("closed", 7.0, None)
    assert (measured.wall.steady_wall_ms, measured.wall.steady_iterations) == (3.0, 20)
    assert bool(asked) == (is_cuda and budget_s > 0)
    assert measured.device.steady_device_ms == (2.0 if timed else None)
    assert measured.device.launch_bound == (True if timed else None)


def test_a_batch_of_replays_is_as_long_after_the_warm_up_as_its_pace_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(device_time, "warm_up", lambda *_: SimpleNamespace(round_s=0.01))
    replays: Any = FakeReplays(0.01)
    telemetry = MagicMock()
    spec = MeasureSpec(device_budget_s=0.0)
    timed = device_time.time_replays(replays, spec, telemetry)
    assert (timed.samples_ms, timed.iterations, timed.stop) == ([0.0, 1.0, 2.0], 12, "budget")
    assert telemetry.note.call_count == 1


@pytest.mark.parametrize("pools", [0, 1])
def test_only_what_the_compiler_started_is_ended(
    monkeypatch: pytest.MonkeyPatch, pools: int
) -> None:
    done: list[Any] = []
    pool = MagicMock(return_value=SimpleNamespace(shutdown=lambda: done.append("pool")))
    pool.cache_info.return_value = SimpleNamespace(currsize=pools)
    compiler: Any = SimpleNamespace(
        AsyncCompile=SimpleNamespace(pool=pool),
        shutdown_compile_workers=lambda: done.append("workers"),
    )
    monkeypatch.setitem(sys.modules, "torch._inductor.async_compile", compiler)
    before, after = MagicMock(), MagicMock()
    monkeypatch.setattr(threading, "enumerate", lambda: [before, after])
    watch = compile_watch()
    watch._threads = {before}
    watch.end_workers()
    assert done == ["workers", *["pool"] * pools]
    assert pool.cache_clear.call_count == pools
    assert (before.join.call_count, after.join.call_count) == (0, 1)
