"""Warm-up: runs the work, before any timing, until the device's clock has settled.

A clock may be steady at first and settle only later. An H200 at its power limit runs at its full
clock for 0.25 to 0.4 s. The clock then drops too low, and reaches its lasting value 0.2 s later.
"""

from collections.abc import Callable

from cudnn_sweep.workloads.cells.measurement import MeasureSpec
from cudnn_sweep.workloads.measuring.ranks import agreed, now
from cudnn_sweep.workloads.measuring.telemetry import Telemetry

WINDOW_S = 0.05  # pace and clock are compared between windows of this length
SETTLED = 0.02  # windows whose clocks differ by less have settled: one step of boost is 15 MHz
CLOCK_WINDOWS = 4  # in a row with settled clocks
PACE_WINDOWS = 2  # in a row with a settled pace, if no clock is known: a pace is noisier


class WarmUp:
    """A warm-up in windows: each call of `window` runs the work for about `WINDOW_S`."""

    def __init__(self, run: Callable[[int], float], telemetry: Telemetry) -> None:
        """Run one round of the work. `run(n)` runs n rounds and returns the seconds that they took."""
        self._run = run
        self._telemetry = telemetry
        self.round_s = run(1)
        """Seconds of a round, by the fastest window so far."""
        self.seconds = self.round_s
        self.settled = False
        """Whether the clock, or the time of a round if no clock is known, was steady over the last windows."""
        self._speeds: list[float] = []

    def window(self) -> None:
        rounds = max(1, round(WINDOW_S / self.round_s))
        window_s = self._run(rounds)
        pace = window_s / rounds
        self.seconds += window_s
        self.round_s = min(self.round_s, pace)
        clock = agreed(self._telemetry.clock_mhz)
        self._speeds.append(clock or pace)
        windows = CLOCK_WINDOWS if clock else PACE_WINDOWS
        last = self._speeds[-windows:]
        self.settled = len(last) == windows and max(last) - min(last) <= SETTLED * last[0]


def warm_up(run: Callable[[int], float], spec: MeasureSpec, telemetry: Telemetry) -> WarmUp:
    """Call `run` until `warmup_s` has passed and the device has settled.

    Stop at `warmup_limit_s` if it has not settled. If `warmup_s` is 0, call `run` once.
    """
    began = now()
    warm = WarmUp(run, telemetry)
    while (elapsed := now() - began) < max(spec.warmup_s, spec.warmup_limit_s):
        if spec.warmup_s == 0 or (warm.settled and elapsed >= spec.warmup_s):
            break
        warm.window()
    warm.seconds = now() - began
    return warm
