"""How many steps are timed together, and what is noted of the loop: by numbers, without a clock."""

from statistics import fmean
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from cudnn_sweep.workloads.cells.measurement import Measurement, MeasureSpec
from cudnn_sweep.workloads.measuring.choice import note_roofline
from cudnn_sweep.workloads.measuring.device import Device
from cudnn_sweep.workloads.measuring.device_time import replays_of_batch
from cudnn_sweep.workloads.measuring.sampling import Sampled, median_error, paired_error
from cudnn_sweep.workloads.measuring.steady import (
    GROUP_S,
    LEAD_IN_S,
    TURN_GROUP_S,
    Loop,
    loss_of,
    measure_open,
    note_device,
    note_launch_bound,
    note_samples,
    note_warm_up,
    periods_of_group,
)
from cudnn_sweep.workloads.measuring.step_watch import ConvolutionWork
from cudnn_sweep.workloads.measuring.telemetry import Telemetry
from cudnn_sweep.workloads.measuring.trial import _measure_steady, time_cold
from cudnn_sweep.workloads.measuring.turns import Said, Turn
from cudnn_sweep.workloads.measuring.warm_up import WarmUp
from cudnn_sweep.workloads.records.measured import (
    GpuTelemetry,
    SteadyDevice,
    SteadyWall,
)
from cudnn_sweep.workloads.workload import TimedStep

CPU = Device(torch=torch.device("cpu"))


@pytest.mark.parametrize(
    ("round_s", "group_s", "periods"),
    [
        (0.001, GROUP_S, 20),
        (0.001, TURN_GROUP_S, 5),
        (0.0019, TURN_GROUP_S, 4),
        (0.1, GROUP_S, 4),
        (0.13, GROUP_S, 4),
        (0.15, GROUP_S, 3),
        (0.5, GROUP_S, 1),
        (60.0, GROUP_S, 1),
    ],
)
def test_a_group_fills_its_time_and_leaves_room_for_five(
    round_s: float, group_s: float, periods: int
) -> None:
    spec = MeasureSpec(steady_budget_s=2.0)
    assert periods_of_group(round_s, spec, group_s) == periods


@pytest.mark.parametrize(("replay_s", "replays"), [(0.0051, 6), (0.029, 1), (2.0, 1)])
def test_a_batch_of_replays_fills_its_time(replay_s: float, replays: int) -> None:
    assert replays_of_batch(replay_s) == replays


@pytest.mark.parametrize(
    ("step_s", "steps"),
    [(LEAD_IN_S / 2.5, 3), (LEAD_IN_S, 1), (0.9 * GROUP_S, 1), (GROUP_S, 0), (1.0, 0)],
)
def test_a_turn_leads_in_with_short_steps_alone(step_s: float, steps: int) -> None:
    ran: list[Any] = []
    step = TimedStep(prepare=lambda shape: shape, run=ran.append)
    Loop(step, ((1,), (2,)), 1, CPU).lead_in(2 * step_s)
    assert len(ran) == steps


@pytest.mark.parametrize(("wall_ms", "bound"), [(1.09, False), (1.11, True), (None, None)])
def test_a_loop_is_launch_bound_from_a_tenth_over_its_device_time(
    wall_ms: float | None, bound: bool | None
) -> None:
    measured = Measurement()
    measured.wall.steady_wall_ms, measured.device.steady_device_ms = wall_ms, 1.0
    note_launch_bound(measured)
    assert measured.device.launch_bound is bound


@pytest.mark.parametrize(
    ("kind", "shapes", "device_ms", "share"),
    [
        ("closed", 1, 4.0, 0.25),
        ("closed", 1, None, 0.125),
        ("closed", 2, 4.0, None),
        ("open", None, 4.0, None),
    ],
)
def test_a_share_of_the_roofline_is_of_equal_steps_on_the_device(
    kind: str, shapes: int | None, device_ms: float | None, share: float | None
) -> None:
    measured = Measurement(loop_kind=kind, regime_shapes=shapes)
    measured.calibration.calibration_matmul_tflops = 1.0
    measured.calibration.calibration_copy_gbps = 1.0
    measured.wall.steady_wall_ms, measured.device.steady_device_ms = 8.0, device_ms
    note_roofline([ConvolutionWork(flops=10**9, bytes=5 * 10**5)], measured)
    assert measured.choice.roofline_ms == 1.0, "operations limit it, not bytes"
    assert measured.choice.roofline_share == share


def test_without_time_for_a_warm_up_it_is_unknown_whether_it_settled() -> None:
    warm = WarmUp(lambda rounds: 0.01 * rounds, Telemetry(None))
    for warmup_s, settled in ((0.0, None), (0.1, False)):
        wall = SteadyWall()
        note_warm_up(warm, MeasureSpec(warmup_s=warmup_s), wall)
        assert (wall.warmup_s, wall.warmup_settled) == (0.01, settled)


def test_the_error_of_turns_is_that_of_the_worst_pair() -> None:
    drift = [1.0, 1.3, 1.1, 1.6, 1.2, 1.5, 1.4]
    twin = [2 * sample for sample in drift]
    calm = [1.0, 1.01, 1.0, 1.01, 1.0, 1.01, 1.0]
    assert paired_error([drift, twin]) == pytest.approx(0, abs=1e-12), "a common drift cancels"
    worst = paired_error([drift, calm])
    assert worst > 0.05
    assert paired_error([drift, twin, calm]) == pytest.approx(worst)
    assert paired_error([drift]) == median_error(drift)


@pytest.mark.parametrize(("with_baton", "beside"), [(False, None), (True, (7, 8))])
def test_an_open_loop_counts_the_timed_shapes_that_were_new(
    with_baton: bool, beside: tuple[int, ...] | None
) -> None:
    said: list[Said] = []
    known: list[tuple[int, ...]] = []

    class Leader:
        waited_s = 0.0

        def pass_on(self, given: Said, /) -> Turn:
            said.append(given)
            return Turn(stage="alone", beside=(7, 8))

    telemetry: Any = SimpleNamespace(
        know=known.append,
        begin=lambda: None,
        note=lambda: None,
        end=lambda: None,
        summary=lambda iterations: GpuTelemetry(telemetry_samples=iterations),
    )
    step = TimedStep(prepare=lambda shape: shape, run=lambda _: torch.tensor(2.5))
    measured = Measurement(cold=[call for call, _ in time_cold(step, [(1,)], CPU)])
    request: Any = SimpleNamespace(measure=MeasureSpec(open_steps=4), cell=None)
    arriving = iter([(1,), (2,), (1,), (3,), (4,), (5,)])
    baton = Leader() if with_baton else None
    workload: Any = None
    took_turns = _measure_steady(
        request, workload, step, arriving, None, CPU, telemetry, measured, baton
    )
    assert took_turns is False and next(arriving) == (4,)
    assert (measured.wall.steady_iterations, measured.open_new_shapes) == (4, 2)
    assert (measured.wall.steady_stop, measured.loss_last) == ("horizon", 2.5)
    assert measured.telemetry.telemetry_samples == 4
    assert [each.alone for each in said] == ["open loop"] * with_baton
    assert known == [beside] * with_baton


@pytest.mark.parametrize(("budget_s", "timed", "stop"), [(0.0, 1, "budget"), (60.0, 3, "horizon")])
def test_an_open_loop_times_one_step_at_least(budget_s: float, timed: int, stop: str) -> None:
    measured = Measurement()
    step = TimedStep(prepare=lambda shape: shape, run=lambda shape: shape)
    spec = MeasureSpec(open_budget_s=budget_s)
    measure_open(step, [(1,), (2,), (3,)], spec, CPU, Telemetry(None), measured)
    wall = measured.wall
    assert (wall.steady_iterations, wall.steady_stop, wall.steady_wall_error) == (timed, stop, None)
    assert measured.loop_kind == "open" and measured.loss_last is None
    assert wall.steady_wall_ms == pytest.approx(fmean(wall.steady_wall_samples_ms or ()))


@pytest.mark.parametrize(
    ("period", "batches", "made"),
    [
        (((1,), (2,), (1,)), 1, [1, 2, 1]),
        (((1,), (2,)), 2, [1, 2]),
        (((1,), (2,)), 3, [1, 2, 1, 2]),
        (((1,),), 3, [1, 1, 1]),
    ],
)
def test_a_loop_has_at_least_so_many_inputs_in_whole_periods(
    period: tuple[tuple[int, ...], ...], batches: int, made: list[int]
) -> None:
    step = TimedStep(prepare=lambda shape: [*shape], run=lambda _: None)
    loop = Loop(step, period, batches, CPU)
    assert [size for (size,) in loop.inputs] == made and loop.period == len(period)
    distinct = {id(each) for each in loop.inputs}
    assert len(distinct) == (len(set(period)) if batches == 1 else len(made))


@pytest.mark.parametrize(
    ("result", "loss"),
    [
        (torch.tensor(2.5), 2.5),
        (torch.tensor(3), 3.0),
        (torch.tensor([2.5]), None),
        (2.5, None),
        (None, None),
    ],
)
def test_a_loss_is_a_single_number_of_torchs(result: object, loss: float | None) -> None:
    assert loss_of(result) == loss


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ([5.0, 5.0, 5.0], 0.0),
        ([0.0, 0.0], 0.0),
        # Ranks 1.5 and 2.5 of four sorted samples, half of their distance, as a share of the median.
        ([1.0, 2.0, 4.0, 8.0], (6.0 - 1.5) / 2 / 3.0),
        ([8.0, 1.0, 4.0, 2.0], (6.0 - 1.5) / 2 / 3.0),
        ([1.0, 3.0], (3.0 - 1.0) / 2 / 2.0),
    ],
)
def test_the_medians_error_is_half_the_distance_of_two_ranks(
    values: list[float], error: float
) -> None:
    assert median_error(values) == pytest.approx(error)


def test_a_group_of_samples_is_summed_up_as_columns() -> None:
    timed = Sampled(samples_ms=[3.0, 1.0, 2.0], iterations=30, stop="budget")
    wall, device = SteadyWall(), SteadyDevice()
    note_samples(timed, wall)
    note_device(timed, "graph", device)
    assert (wall.steady_wall_ms, wall.steady_wall_p10_ms, wall.steady_wall_p90_ms) == (
        2.0,
        1.2,
        2.8,
    )
    assert (wall.steady_iterations, wall.steady_stop) == (30, "budget")
    found = device.steady_device_ms, device.steady_device_p10_ms, device.steady_device_p90_ms
    assert found == (2.0, 1.2, 2.8) and device.steady_device_source == "graph"
    assert device.steady_device_error == wall.steady_wall_error == timed.error
