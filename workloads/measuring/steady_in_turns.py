"""Measures the processes of a block in turns. In each turn, one process times a group of steps.

A change in the speed of the host then affects all processes of the block.
"""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from statistics import fmean

from cudnn_sweep.workloads.cells.measurement import Measurement, MeasureSpec
from cudnn_sweep.workloads.measuring import steady
from cudnn_sweep.workloads.measuring.device_time import Replays, replays_of_batch
from cudnn_sweep.workloads.measuring.sampling import Sampled
from cudnn_sweep.workloads.measuring.steady import Loop
from cudnn_sweep.workloads.measuring.telemetry import Telemetry
from cudnn_sweep.workloads.measuring.turns import Baton, Said, Turn
from cudnn_sweep.workloads.measuring.warm_up import WarmUp


def measure_in_turns(
    loop: Loop,
    spec: MeasureSpec,
    telemetry: Telemetry,
    measured: Measurement,
    baton: Baton,
    turn: Turn,
) -> None:
    """Do the work of each turn and pass the baton on, until the stage is `report`."""
    everywhere = os.sched_getaffinity(0)
    measured.loop_kind = "closed"
    part = SteadyInTurns(loop, spec, telemetry, measured)
    if turn.cpus:
        _confine(turn.cpus)
    while turn.stage != "report":
        turn = baton.pass_on(part.take(turn))
        telemetry.know(turn.beside)
    part.close(turn.stopped)
    if turn.cpus:
        _confine(everywhere)


@dataclass
class SteadyInTurns:
    _loop: Loop
    _spec: MeasureSpec
    _telemetry: Telemetry
    _measured: Measurement
    _warming: WarmUp | None = None
    _wall: list[float] = field(default_factory=list)
    _wall_rounds: list[int] = field(default_factory=list)
    _wall_steps: int = 0
    _replays: Replays | None = None
    _replays_warming: WarmUp | None = None
    _device: list[float] = field(default_factory=list)
    _device_rounds: list[int] = field(default_factory=list)
    _device_steps: int = 0

    def take(self, turn: Turn) -> Said:
        if turn.stage == "warm_up":
            self._warming = self._warm_up(self._warming, self._loop.run)
            return Said(settled=self._warming.settled)
        if turn.stage == "wall":
            return Said(ms=self._time_group(turn))
        if turn.stage == "capture":
            self._end_wall(turn.stopped)
            return Said(captured=self._capture())
        assert self._replays is not None
        if turn.stage == "device_warm_up":
            self._replays_warming = self._warm_up(self._replays_warming, self._replays.run)
            return Said(settled=self._replays_warming.settled)
        return Said(ms=self._time_replays(self._replays, turn.round))

    def close(self, stopped: str | None) -> None:
        if self._replays is not None and self._device:
            part = self._measured.device
            timed = _sampled(self._device, self._device_steps, stopped)
            steady.note_device(timed, self._replays.source, part)
            part.steady_device_rounds = self._device_rounds
            self._replays = None  # frees memory for the other processes
        steady.note_launch_bound(self._measured)

    def _warm_up(self, warming: WarmUp | None, run: Callable[[int], float]) -> WarmUp:
        if warming is None:
            warming = WarmUp(run, self._telemetry)
        if self._spec.warmup_s > 0:
            warming.window()
        return warming

    def _time_group(self, turn: Turn) -> float:
        assert self._warming is not None
        if not self._wall:
            self._loop.device.forget_peak()
            self._telemetry.begin(energy=False)
        round_s = self._warming.round_s
        self._loop.lead_in(round_s)
        periods = steady.periods_of_group(round_s, self._spec, steady.TURN_GROUP_S)
        steps = periods * self._loop.period
        ms = self._loop.run(periods) * 1e3 / steps
        self._telemetry.note()
        self._wall.append(ms)
        self._wall_rounds.append(turn.round)
        self._wall_steps += steps
        return ms

    def _end_wall(self, stopped: str | None) -> None:
        assert self._warming is not None
        wall, loop = self._measured.wall, self._loop
        steady.note_warm_up(self._warming, self._spec, wall)
        loop.device.note_memory(self._measured.memory, "steady_{}_bytes")
        steady.note_samples(_sampled(self._wall, self._wall_steps, stopped), wall)
        wall.steady_wall_rounds = self._wall_rounds
        self._measured.loss_last = steady.loss_of(loop.result)
        loop.result = None  # its autograd graph would disturb a capture

    def _capture(self) -> bool:
        if self._loop.device.is_cuda and self._spec.device_budget_s:
            self._replays = steady.capture_loop(self._loop, self._measured.device)
        return self._replays is not None

    def _time_replays(self, replays: Replays, number: int) -> float:
        assert self._replays_warming is not None
        replay_s = self._replays_warming.round_s
        if replay_s < steady.GROUP_S:
            replays.run(1)
        batch = replays.step_ms(replays_of_batch(replay_s))
        self._telemetry.note()
        self._device.append(fmean(batch))
        self._device_rounds.append(number)
        self._device_steps += len(batch) * replays.calls
        return self._device[-1]


def _sampled(samples_ms: list[float], iterations: int, stopped: str | None) -> Sampled:
    return Sampled(samples_ms=samples_ms, iterations=iterations, stop=stopped or "budget")


def _confine(cpus: Iterable[int]) -> None:
    """Confine all threads of this process to these CPUs."""
    for thread in os.listdir("/proc/self/task"):
        os.sched_setaffinity(int(thread), cpus)
