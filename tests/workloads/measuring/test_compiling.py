"""What torch.compile does in a trial is counted, timed and named; what it leaves to Python ends the trial.

Its cheapest backend stands in for inductor here, except in the trial at the end.
"""

import math
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

from cudnn_sweep.orchestrator.process.client import ForkServer
from cudnn_sweep.orchestrator.process.protocol import Request, TrialJob
from cudnn_sweep.workloads import execution
from cudnn_sweep.workloads.cells.config import Config
from cudnn_sweep.workloads.cells.measurement import Measurement, TrialRequest
from cudnn_sweep.workloads.errors import WorkloadError
from cudnn_sweep.workloads.execution import Execution
from cudnn_sweep.workloads.measuring.captured import executed
from cudnn_sweep.workloads.measuring.compiling import CompileWatch
from cudnn_sweep.workloads.measuring.step_watch import StepWatch
from cudnn_sweep.workloads.measuring.trial import time_cold
from cudnn_sweep.workloads.records.measured import Ran
from cudnn_sweep.workloads.workload import Context, TimedStep
from tests.workloads.made_up_cells import CPU, GENERATOR, QUICK, one_cell, plain_context

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:.*torch.jit.script_method:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning"),
]

MOST_S = 400.0  # inductor takes 50 to 170 s on two cores that others use, too
SHAPE = (2, 3, 12, 12)


@pytest.fixture(autouse=True)
def _cheap(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(
        execution.EXECUTIONS, "compile", Execution(compiled={"backend": "aot_eager"})
    )
    yield
    torch._dynamo.reset()
    torch._dynamo.config.fail_on_recompile_limit_hit = False


class Breaking(nn.Conv2d):
    """A graph break that its author planted."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        output = super().forward(input)
        torch._dynamo.graph_break(msg="planted here")
        return output.relu()


class Counting(nn.Conv2d):
    """Python that differs in each call: a recompilation each."""

    calls = "."

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        self.calls += "."
        return super().forward(input) * len(self.calls)


class Opaque(nn.Conv2d):
    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return super().forward(input)


def compiled(net: nn.Module) -> tuple[Context, TimedStep, CompileWatch]:
    context = plain_context("training", execution="compile")

    def run(images: torch.Tensor) -> torch.Tensor:
        loss: torch.Tensor = context.forward(net, images).square().mean()
        loss.backward()
        return loss.detach()

    step = TimedStep(prepare=context.random, run=run)
    return context, executed(step, "compile"), CompileWatch("compile")


def met(step: TimedStep, watch: CompileWatch, *shapes: tuple[int, ...]) -> Ran:
    """Each shape called as in a trial's cold part, with watched backward passes."""
    ran = Ran()
    for _ in time_cold(step, shapes, CPU):
        watch.note_shape(ran)
    watch.note(ran)
    return ran


def test_compile_time_and_recompiles_are_those_of_each_shape() -> None:
    _, step, watch = compiled(nn.Conv2d(3, 4, 3))
    ran = met(step, watch, SHAPE, (4, 3, 12, 12), (5, 3, 12, 12))
    assert ran.cold_compiles == [1, 1, 0], "the second shape is compiled for any batch"
    first, second, third = ran.cold_compile_ms or []
    assert min(first, second) > 0 == third
    assert (ran.compiled_graphs, ran.graph_breaks, ran.fallbacks) == (2, [], [])
    with watch.nothing_more():
        step.run(step.prepare((3, 3, 12, 12)))


def test_a_planted_graph_break_is_named() -> None:
    _, step, watch = compiled(Breaking(3, 4, 3))
    ran = met(step, watch, SHAPE)
    assert (ran.compiled_graphs or 0) > 1, "before and after it"
    assert any("graph_break" in reason for reason in ran.graph_breaks or ())


def test_a_recompile_while_the_loop_is_timed_is_named_with_its_reason() -> None:
    _, step, watch = compiled(Counting(3, 4, 3))
    met(step, watch, SHAPE)
    told = "execution compile: the model was recompiled while it was timed: .*calls"
    with pytest.raises(WorkloadError, match=told), watch.nothing_more():
        step.run(step.prepare(SHAPE))


def test_torchs_recompile_limit_does_not_leave_a_step_to_python_in_silence() -> None:
    _, step, watch = compiled(Counting(3, 4, 3))
    with pytest.raises(Exception, match="fail_on_recompile_limit_hit"):
        met(step, watch, *[SHAPE] * 10)


def test_a_model_of_which_nothing_is_compiled_is_no_compiled_one() -> None:
    _, step, watch = compiled(Opaque(3, 4, 3))
    with pytest.raises(
        WorkloadError, match="compile was not in force: torch.compile compiled nothing"
    ):
        met(step, watch, SHAPE)


def test_a_step_past_the_door_is_not_compiled() -> None:
    context = plain_context("training", execution="compile")
    with pytest.raises(
        WorkloadError, match="execution compile was not in force: .* without `context"
    ):
        context.check_in_force()


def test_operations_are_seen_as_written_and_no_watch_compiles_anew() -> None:
    _, step, watch = compiled(nn.Conv2d(3, 4, 3))
    met(step, watch, SHAPE)
    assert step.as_written is not None
    with StepWatch() as seen, watch.nothing_more():
        step.as_written(step.prepare(SHAPE))
    assert len(seen.routes) == len(seen.backward_routes) == 1


def test_a_reference_is_not_compiled() -> None:
    net = nn.Conv2d(3, 4, 3).double()
    context = plain_context("training", execution="compile", reference=True)
    watch = CompileWatch("compile")
    context.forward(net, context.random(SHAPE))
    with pytest.raises(WorkloadError, match="compiled nothing"):
        watch.note(Ran())


def test_the_compilers_processes_and_threads_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU the compiler has processes, a thread that reads from them, and one that waits for 30 s."""
    watch, before = CompileWatch("compile"), set(threading.enumerate())
    from torch._inductor.async_compile import AsyncCompile
    from torch._inductor.compile_worker.subproc_pool import SubprocPool

    monkeypatch.setattr(torch._inductor.config, "worker_start_method", "subprocess")
    pool = AsyncCompile.process_pool()
    assert isinstance(pool, SubprocPool)
    assert pool.submit(math.sqrt, 4.0).result() == 2.0
    assert set(threading.enumerate()) > before
    watch.end_workers()
    assert set(threading.enumerate()) == before
    assert pool.process.poll() is not None


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_compiled_trial_has_its_compiler_in_folders_of_its_own(
    server: ForkServer, tmp_path: Path
) -> None:
    trial = TrialRequest(
        cell=one_cell(GENERATOR, direction="inference"),
        config=Config(execution="compile"),
        measure=QUICK,
        seed=1,
        compute_cache=str(tmp_path / "cache"),
        reference=True,
    )

    def run() -> Measurement:
        outcome = server.run(Request(job=TrialJob(trial=trial), timeout_s=MOST_S))
        assert (outcome.status, outcome.message) == ("ok", None)
        assert outcome.reply is not None and outcome.reply.measured is not None
        assert outcome.reply.measured.checks_error is None
        return outcome.reply.measured

    empty, warm = run(), run()
    assert (empty.compute_cache, warm.compute_cache) == ("empty", "warm")
    assert list((tmp_path / "cache" / "torch-compile" / "inductor").rglob("*.so"))
    assert empty.compute_cache_entries_added == 0, "CUDA's own files alone are counted"
    assert empty.ran.compiled_graphs == warm.ran.compiled_graphs == 1
    (cold,), (again,) = empty.ran.cold_compile_ms or [], warm.ran.cold_compile_ms or []
    assert empty.cold and 0 < again < cold < empty.cold[0].first_ms
    assert empty.choice.convolutions and (empty.computed.relative_l2_error or 1) < 1e-4
