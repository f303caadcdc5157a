"""How many steps are timed together, and what is noted of the loop: by numbers, without a clock."""

from typing import Any

import pytest
import torch

from cudnn_sweep.workloads.cells.measurement import Measurement, MeasureSpec
from cudnn_sweep.workloads.measuring.choice import note_roofline
from cudnn_sweep.workloads.measuring.device import Device
from cudnn_sweep.workloads.measuring.device_time import replays_of_batch
from cudnn_sweep.workloads.measuring.sampling import median_error, paired_error
from cudnn_sweep.workloads.measuring.steady import (
    GROUP_S,
    LEAD_IN_S,
    TURN_GROUP_S,
    Loop,
    note_launch_bound,
    note_warm_up,
    periods_of_group,
)
from cudnn_sweep.workloads.measuring.step_watch import ConvolutionWork
from cudnn_sweep.workloads.measuring.telemetry import Telemetry
from cudnn_sweep.workloads.measuring.warm_up import WarmUp
from cudnn_sweep.workloads.records.measured import SteadyWall
from cudnn_sweep.workloads.workload import TimedStep

CPU = Device(torch=torch.device("cpu"))


@pytest.mark.parametrize(
    ("round_s", "group_s", "periods"),
    [
        (0.001, GROUP_S, 20),
        (0.001, TURN_GROUP_S, 5),
        (0.0019, TURN_GROUP_S, 4),
        (0.1, GROUP_S, 4),
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
