"""A whole trial on the CPU, in a fork: alone, in turns, with shapes that never end; and what it warns of."""

import os
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path
from subprocess import Popen
from threading import Event, Thread
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch._dynamo  # a trial imports it: once for all forks

from cudnn_sweep.workloads.cells.cell import Cell
from cudnn_sweep.workloads.cells.config import Config
from cudnn_sweep.workloads.cells.expand import expand_cells
from cudnn_sweep.workloads.cells.measurement import Measurement, MeasureSpec, TrialRequest
from cudnn_sweep.workloads.errors import WorkloadError
from cudnn_sweep.workloads.find_workload import find_workload
from cudnn_sweep.workloads.measuring import trial as trial_process
from cudnn_sweep.workloads.measuring.computed import compute
from cudnn_sweep.workloads.measuring.trial import _have, _numbers, _why_alone, run_trial
from cudnn_sweep.workloads.measuring.turns import Said, Stage, Turn
from cudnn_sweep.workloads.problem import Shape
from cudnn_sweep.workloads.workload import TimedStep, Workload
from tests.forks import in_a_fork
from tests.workloads.made_up_cells import CPU, MODEL, one_cell, plain_context, suite_of

SPEC = MeasureSpec(
    warmup_s=0.0,
    steady_budget_s=0.02,
    device_budget_s=0.0,
    open_steps=6,
    open_cold_shapes=2,
    calibrate=False,
    telemetry="fake_calm",
)
STEPS = """
import os, torch
import torch._dynamo  # a trial imports it: once for all forks
from torch import nn
from cudnn_sweep.workloads.workload import TimedStep, workload

@workload(directions=("forward",), varies=("batch",), input_shape=(2, 3, 8, 8))
def other_shapes(context):
    return TimedStep(prepare=lambda shape: torch.zeros(1, 3, 8, 8), run=lambda x: x.sum())

class Nothing(nn.Module):
    def forward(self, x):
        return x

@workload(directions=("forward",), varies=("batch",), input_shape=(2, 3))
def compiles_a_kernel(context):
    def run(x):
        open(os.environ["CUDA_CACHE_PATH"] + "/kernel", "w").close()
        return x.sum()
    return TimedStep(prepare=context.random, run=run, examine=lambda x: {"output": x.exp()})
"""


@dataclass
class Leader:
    """A baton whose next turns are given."""

    stages: list[Stage]
    stopped: str = "precision"
    heard: list[Said] = field(default_factory=list)
    waited_s: float = 0.0

    def pass_on(self, said: Said, /) -> Turn:
        self.heard.append(said)
        self.waited_s += 100.0
        stage = self.stages.pop(0)
        rounds = sum(each.ms is not None for each in self.heard)
        stopped = self.stopped if stage in ("capture", "report") else None
        return Turn(stage=stage, round=7 + rounds, stopped=stopped)


class _Free:
    """One-time costs of any workload: none."""

    def __get__(self, workload: Workload | None, kind: type) -> Any:
        return lambda device: None

    def __set__(self, workload: Workload, costs: object) -> None:
        """An optimiser, which most pay for, would take each fork seconds."""


def _skip_one_time_costs() -> None:
    setattr(Workload, "pay_one_time_costs", _Free())  # noqa: B010  # a slot, to mypy


def trial(
    cell: Cell, leader: Leader | None = None, *, reference: bool = False, **spec: Any
) -> tuple[Measurement, list[Said], bool]:
    """What it measured, what it said, and whether it reported before its checks."""

    def run() -> tuple[Measurement, list[Said], bool]:
        _skip_one_time_costs()
        measured, reported = Measurement(), list[bool]()
        request = TrialRequest(
            cell=cell,
            config=Config(),
            measure=SPEC.model_copy(update=spec),
            seed=1,
            compute_cache=None,
            reference=reference,
        )
        run_trial(
            request, measured, lambda: reported.append(not measured.computed.fingerprint), leader
        )
        return measured, leader.heard if leader else [], reported == [True]

    return in_a_fork(run)


@pytest.mark.long
def test_a_closed_loop_is_timed_after_all_of_its_shapes_were_met() -> None:
    cell = one_cell("conv", regime={"cycle": {"sizes": 2, "step": 2}}, direction="forward_backward")
    found, _, reported_first = trial(cell, reference=True)
    assert reported_first
    assert (found.loop_kind, found.regime_shapes, found.distinct_shapes) == ("closed", 2, 2)
    shapes = cell.shapes().period(cell.input_shape)
    assert found.cold is not None and shapes is not None
    assert {tuple(each.shape) for each in found.cold} == set(shapes)
    for each in found.cold:
        parts_ms = each.first_ms, each.first_forward_ms, each.first_backward_ms
        whole, forward, backward = (ms or 0.0 for ms in parts_ms)
        assert 0 < forward < whole and 0 < backward < whole
        assert forward + backward <= whole
    assert found.wall.steady_iterations and found.wall.steady_iterations % 2 == 0
    assert found.wall.steady_wall_ms and found.wall.steady_stop in ("budget", "precision")
    assert list(found.phases_s) == [
        *("one_time", "build", "cold", "calibration", "steady", "checks"),
    ]
    assert found.choice.routes and found.choice.convolutions == 1
    assert found.computed.bitwise_repeatable and found.computed.relative_l2_error is not None
    assert found.checks_error is None and found.telemetry.warnings == []
    assert found.memory.peak_host_bytes is not None and found.memory.peak_host_bytes > 2**25
    assert found.calibration.calibration_matmul_tflops is None
    assert found.workload_hash is None and found.open_new_shapes is None


@pytest.mark.slow
def test_shapes_that_are_too_many_to_meet_make_an_open_loop() -> None:
    cell = one_cell("conv", regime={"cycle": {"sizes": 4, "step": 2}})
    found, _, _ = trial(cell, cold_shapes=3)
    assert (found.loop_kind, found.regime_shapes, found.distinct_shapes) == ("open", 4, 3)
    assert (found.wall.steady_iterations, found.open_new_shapes) == (6, 1)
    late, _, _ = trial(cell, cold_budget_s=0.0)
    assert (late.loop_kind, late.distinct_shapes) == ("open", 1)


@pytest.mark.long
def test_shapes_that_never_end_are_met_a_few_and_then_timed_alone() -> None:
    cell = one_cell("conv", problem="tutorials/rgb224", batch=1, regime={"fresh": {"multiple": 1}})
    found, said, _ = trial(cell, Leader(["meet", "alone"]))
    assert (found.loop_kind, found.regime_shapes, found.distinct_shapes) == ("open", None, 2)
    assert (found.wall.steady_iterations, found.open_new_shapes) == (6, 6)
    assert [each.alone for each in said] == [None, "open loop"]


def test_processes_in_turns_time_a_group_a_round_and_wait_for_the_baton() -> None:
    cell = one_cell("conv")
    stages: list[Stage] = ["meet", "warm_up", "wall", "wall", "wall", "capture", "report", "rest"]
    found, said, reported_first = trial(cell, Leader(stages))
    assert reported_first
    assert found.loop_kind == "closed"
    once, ready, settled, *walls, captured, end = said
    assert once.one_time_s == found.phases_s["one_time"] > 0
    assert ready.alone is None and ready.busy_cpus > 0 and settled.ms is None
    assert [each.ms for each in walls] == found.wall.steady_wall_samples_ms
    assert found.wall.steady_wall_rounds == [7, 8, 9]
    assert found.wall.steady_stop == "precision" and not captured.captured
    assert found.wall.steady_iterations is not None and found.wall.steady_iterations >= 3
    assert found.phases_s["steady"] < 100, "others had the baton the rest of the time"
    assert {each.pid for each in said} == {end.pid} and end.ms is None
    assert found.telemetry.power_w is None, "one counter of energy for all"
    assert found.computed.fingerprint is not None


def test_a_process_that_is_asked_to_measure_alone_does_so() -> None:
    found, said, _ = trial(one_cell("conv"), Leader(["meet", "alone"]))
    assert len(said) == 2
    assert found.wall.steady_wall_rounds is None and found.wall.steady_wall_ms


def test_calibration_is_part_of_a_trial_only_if_wanted() -> None:
    found, _, _ = trial(one_cell("noop"), calibrate=True)
    assert (found.calibration.calibration_matmul_tflops or 0) > 0
    assert (found.calibration.calibration_copy_gbps or 0) > 0


@pytest.fixture
def steps(tmp_path: Path) -> Path:
    file = tmp_path / "steps_of_test_trial.py"
    file.write_text(STEPS)
    return file


def test_inputs_of_other_sizes_than_asked_for_are_a_warning(steps: Path) -> None:
    found, _, _ = trial(one_cell(f"{steps}:other_shapes", (2, 3, 8, 8)))
    assert found.telemetry.warnings == ["other_shapes"]
    assert found.workload_hash is not None


@dataclass
class Together:
    """A rank beside one other, which says nothing."""

    rank: int
    of: int = 2
    done: list[str] = field(default_factory=list)

    def join(self, device: torch.device) -> None:
        self.done.append(f"joined {device}")

    def distribute(self, net: Any) -> Any:
        return net

    def leave(self) -> None:
        self.done.append("left")

    def gather(self, value: Any) -> list[Any]:
        self.done.append("gathered")
        return [value, replace(value, rank=1)] if self.rank == 0 else []


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_leaves_before_its_checks_and_only_the_first_compares_with_float64(
    tmp_path: Path, steps: Path, rank: int
) -> None:
    """In a compute cache that an earlier trial has filled."""
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "earlier").touch()
    cell = one_cell(f"{steps}:compiles_a_kernel", (2, 3))

    def run() -> tuple[Measurement, list[str]]:
        _skip_one_time_costs()
        measured, ranks = Measurement(), Together(rank=rank)
        request = TrialRequest(
            cell=cell,
            config=Config(),
            measure=SPEC,
            seed=1,
            compute_cache=str(tmp_path / "cache"),
            reference=True,
        )
        run_trial(request, measured, lambda: ranks.done.append("reported"), ranks=ranks)  # type: ignore[arg-type]
        return measured, ranks.done

    found, done = in_a_fork(run)
    assert found.checks_error is None and found.workload_hash is not None
    seed = int(cell.cell_id, 16) % 2**31  # the same in all processes
    workload, context = find_workload(cell.workload), plain_context("forward")
    alike, _ = compute(workload, context, (2, 3), seed, reference=False, flops=0)
    assert found.computed.fingerprint == alike.fingerprint
    assert done == ["joined cpu", "left", "gathered", "reported", "gathered"]
    assert (found.compute_cache, found.compute_cache_entries_before) == ("warm", 1)
    assert found.compute_cache_entries_added == 1
    assert (found.computed.relative_l2_error is not None) == (rank == 0)
    results = found.rank_results
    if rank:
        assert results is None
        return
    assert results is not None and [each.rank for each in results] == [0, 1]
    assert results[0].fingerprint == found.computed.fingerprint is not None


@pytest.mark.parametrize(
    ("first", "last", "is_finite", "warnings"),
    [
        (1.0, 0.5, True, []),
        (None, None, True, []),
        (1.0, 0.5, False, ["not_finite"]),
        (float("nan"), 0.5, True, ["not_finite"]),
        (1.0, float("inf"), True, ["diverged"]),
        (None, float("nan"), True, ["diverged"]),
    ],
)
def test_numbers_are_judged_from_first_to_last(
    first: float | None, last: float | None, is_finite: bool, warnings: list[str]
) -> None:
    measured = Measurement(loss_first=first, loss_last=last)
    assert _numbers(measured, is_finite=is_finite) == warnings


@pytest.mark.parametrize(
    ("sizes", "has"),
    [
        ([(2, 3, 8, 9)], True),
        ([(2, 9, 8, 3)], True),
        ([(3, 3, 8, 9)], False),
        ([(2, 3, 8, 8)], False),
        ([(2, 8, 3)], False),
        ([(3, 8, 9), (3, 8, 9)], True),
        ([(3, 8, 9)], False),
        ([(2,), (2, 3, 8, 9)], True),
        ([(8, 2, 9)], False),
    ],
)
def test_a_tensor_has_the_batch_and_the_space_or_each_image_has(
    sizes: list[Shape], has: bool
) -> None:
    assert _have((2, 3, 8, 9), [torch.zeros(each) for each in sizes]) == has


@pytest.mark.slow
def test_what_has_threads_or_processes_of_its_own_runs_alone() -> None:
    plain = one_cell("noop")

    def with_a_thread() -> str | None:
        end = Event()
        Thread(target=end.wait, daemon=True).start()
        reason = _why_alone(plain)
        end.set()
        return reason

    def with_a_process() -> str | None:
        child = Popen(["sleep", "60"])
        reason = _why_alone(plain)
        child.kill()
        return reason

    assert in_a_fork(lambda: _why_alone(plain)) is None
    assert in_a_fork(with_a_thread) == "threads of its own"
    assert in_a_fork(with_a_process) == "processes of its own"
    little = one_cell("conv", state={"little_memory": {"free_mib": 64}})
    assert in_a_fork(lambda: _why_alone(little)) == "state little_memory"


def test_a_model_without_parameters_has_to_run_something(steps: Path) -> None:
    workload = f"{steps}:Nothing"
    axes = {"precision": "fp32", "input": "2x3x8x8", "direction": "inference"}
    suite = suite_of(workload=workload, **axes)
    (nothing,) = expand_cells(suite, {workload: MODEL}, device="cpu", gpu="one")

    def failure() -> str:
        _skip_one_time_costs()
        try:
            request = TrialRequest(
                cell=nothing,
                config=Config(),
                measure=SPEC,
                seed=1,
                compute_cache=None,
            )
            run_trial(request, Measurement())
        except WorkloadError as error:
            return str(error)
        return f"measured in {os.getpid()}"

    assert "has no parameters and ran no operation" in in_a_fork(failure)


@pytest.mark.parametrize(
    ("state", "threads", "children", "why"),
    [
        ("plain", 1, ["", ""], None),
        ("plain", 2, ["", ""], "threads of its own"),
        ("plain", 1, ["", "17 "], "processes of its own"),
        ("plain", 1, ["17 ", ""], "processes of its own"),
        ("little_memory", 2, ["17"], "state little_memory"),
    ],
)
def test_a_process_with_company_of_its_own_measures_alone(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    state: str,
    threads: int,
    children: list[str],
    why: str | None,
) -> None:
    for number, text in enumerate(children):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "children").write_text(text)
    monkeypatch.setattr(trial_process, "Path", lambda _: tmp_path)
    monkeypatch.setattr(threading, "active_count", lambda: threads)
    assert _why_alone(one_cell("conv", state=state)) == why


@pytest.mark.parametrize(("waited_s", "spent_s"), [(None, 5.0), (3.0, 2.0)])
def test_a_phase_is_its_seconds_less_those_of_others(
    monkeypatch: pytest.MonkeyPatch, waited_s: float | None, spent_s: float
) -> None:
    moments = iter([100.0, 105.0])
    monkeypatch.setattr(trial_process, "perf_counter", lambda: next(moments))
    baton: Any = None if waited_s is None else SimpleNamespace(waited_s=20.0)
    measured = Measurement()
    with trial_process._phase(measured, "steady", baton):
        if baton:
            baton.waited_s += waited_s
    assert measured.phases_s == {"steady": spent_s}


@pytest.mark.parametrize(
    ("period", "spec", "met", "known"),
    [
        ([1, 2, 1], {}, [1, 2], 2),
        ([1, 2, 1, 3], {"cold_shapes": 2}, [1, 2], 3),
        ([1, 2, 3], {"cold_budget_s": 0.0}, [1], 3),
        (None, {}, [1, 1, 2, 3], None),
        (None, {"open_cold_shapes": 1}, [1], None),
    ],
)
def test_the_cold_part_meets_each_shape_of_a_loop_or_so_many_of_a_stream(
    period: list[int] | None, spec: dict[str, Any], met: list[int], known: int | None
) -> None:
    results = iter(range(100))
    times: list[int] = []
    step = TimedStep(
        prepare=lambda shape: shape,
        run=lambda _: torch.tensor(float(next(results))),
        own_times_ms=lambda: times.append(1) or {"own": len(times)},  # type: ignore[func-returns-value]
    )
    measured = Measurement()
    arriving = iter([(size,) for size in (1, 1, 2, 3, 4, 5)])
    shapes = None if period is None else [(size,) for size in period]
    trial_process._measure_cold(
        MeasureSpec(**spec), step, arriving, shapes, CPU, measured, compiling=None
    )
    assert [size for each in measured.cold or () for size in each.shape] == met
    assert (measured.distinct_shapes, measured.regime_shapes) == (len(met), known)
    assert (measured.loss_first, measured.own_times_ms) == (0.0, {"own": 1})
