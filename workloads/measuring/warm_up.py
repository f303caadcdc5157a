"""Runs work before it is timed, until the clock of the device is steady.

The clock of an H200 at its power limit is steady after 0.45 to 0.6 s.
"""

from collections.abc import Callable

from cudnn_sweep.workloads.cells.measurement import MeasureSpec
from cudnn_sweep.workloads.measuring.ranks import agreed, now
from cudnn_sweep.workloads.measuring.telemetry import Telemetry

WINDOW_S = 0.05  # duration of a window
SETTLED = 0.02  # largest relative difference between windows if the device has settled
CLOCK_WINDOWS = 4  # number of windows in which the clock must be steady
PACE_WINDOWS = 2  # the same for the time of a round, if no clock is known


class WarmUp:
    """A warm-up. Each call of `window` runs the work for about `WINDOW_S`."""

    def __init__(self, run: Callable[[int], float], telemetry: Telemetry) -> None:
        """Run one round of the work. `run(n)` runs n rounds and returns their duration."""
        self._run = run
        self._telemetry = telemetry
        self.round_s = run(1)
        """Duration of a round in the fastest window so far."""
        self.seconds = self.round_s
        self.settled = False
        """Whether the last windows ran at a steady clock or, if it is unknown, at a steady speed."""
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
    """Call `run` until `warmup_s` has passed and the clock is steady, or until `warmup_limit_s`."""
    began = now()
    warm = WarmUp(run, telemetry)
    while (elapsed := now() - began) < max(spec.warmup_s, spec.warmup_limit_s):
        if spec.warmup_s == 0 or (warm.settled and elapsed >= spec.warmup_s):
            break
        warm.window()
    warm.seconds = now() - began
    return warm
