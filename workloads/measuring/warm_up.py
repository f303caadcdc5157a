"""Warm-up: running what will be timed until the device's clock has settled.

A clock that is steady at first proves nothing. At its power limit an H200 goes on at full clock for 0.25 to
0.4 s, then falls too low, and 0.2 s later is at its lasting clock.
"""

from collections.abc import Callable
from time import perf_counter

from cudnn_sweep.workloads.cells.measurement import MeasureSpec
from cudnn_sweep.workloads.measuring.telemetry import Telemetry

WINDOW_S = 0.05  # pace and clock are compared between windows of this length
SETTLED = 0.02  # windows whose clocks differ by less have settled: one step of boost is 15 MHz
CLOCK_WINDOWS = 4  # in a row with settled clocks
PACE_WINDOWS = 2  # in a row with a settled pace, if no clock is known: a pace is noisier


class WarmUp:
    """A warm-up that runs one window of time at each call."""

    def __init__(self, run: Callable[[int], float], telemetry: Telemetry) -> None:
        """Run one round. `run` runs so many rounds of the work and returns their seconds."""
        self._run = run
        self._telemetry = telemetry
        self.round_s = run(1)
        """Seconds of the fastest round so far."""
        self.seconds = self.round_s
        self.settled = False
        """Whether the clock, or the pace if no clock is known, was the same in the last windows."""
        self._speeds: list[float] = []

    def window(self) -> None:
        rounds = max(1, round(WINDOW_S / self.round_s))
        window_s = self._run(rounds)
        pace = window_s / rounds
        self.seconds += window_s
        self.round_s = min(self.round_s, pace)
        clock = self._telemetry.clock_mhz()
        self._speeds.append(clock or pace)
        windows = CLOCK_WINDOWS if clock else PACE_WINDOWS
        last = self._speeds[-windows:]
        self.settled = len(last) == windows and max(last) - min(last) <= SETTLED * last[0]


def warm_up(run: Callable[[int], float], spec: MeasureSpec, telemetry: Telemetry) -> WarmUp:
    """Run for `warmup_s`, then until settled or `warmup_limit_s`; only once if `warmup_s` is 0."""
    began = perf_counter()
    warm = WarmUp(run, telemetry)
    while (elapsed := perf_counter() - began) < max(spec.warmup_s, spec.warmup_limit_s):
        if spec.warmup_s == 0 or (warm.settled and elapsed >= spec.warmup_s):
            break
        warm.window()
    warm.seconds = perf_counter() - began
    return warm
