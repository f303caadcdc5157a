"""Warm-up: running what will be timed until the device's clock has settled.

A GPU that reaches its power limit goes on at full clock for 0.25 to 0.4 s, then falls too low, and is
back at the clock that it keeps 0.2 s later (H200): a clock that is steady at first says nothing.
"""

from collections.abc import Callable
from time import perf_counter

from cudnn_sweep.workloads.cells.measurement import MeasureSpec
from cudnn_sweep.workloads.measuring.telemetry import Telemetry

WINDOW_S = 0.05  # pace and clock are compared between windows of this length
SETTLED = 0.02  # windows whose clocks differ by less have settled: one step of boost is 15 MHz
CLOCK_WINDOWS, PACE_WINDOWS = (
    4,
    2,
)  # so many in a row; a pace is noisier, and no power limit is behind it


class WarmUp:
    """A warm-up, a window at a time."""

    def __init__(self, run: Callable[[int], float], telemetry: Telemetry) -> None:
        """`run` runs so many rounds of what is to be timed and returns the seconds that they took."""
        self._run = run
        self._telemetry = telemetry
        self.round_s = run(1)
        """The fastest round."""
        self.seconds = self.round_s
        self.settled = False
        """Whether clock, or pace where no clock is known, was the same in the last windows."""
        self._speeds: list[float] = []

    def window(self) -> None:
        rounds = max(1, round(WINDOW_S / self.round_s))
        window_s = self._run(rounds)
        pace = window_s / rounds
        self.seconds += window_s
        self.round_s = min(self.round_s, pace)
        clock = self._telemetry.clock_mhz()
        self._speeds.append(clock or pace)
        self.settled = _settled(self._speeds, CLOCK_WINDOWS if clock else PACE_WINDOWS)


def warm_up(run: Callable[[int], float], spec: MeasureSpec, telemetry: Telemetry) -> WarmUp:
    """Run for the warm-up's time, and on until it has settled; once where it is given no time."""
    began = perf_counter()
    warm = WarmUp(run, telemetry)
    while (elapsed := perf_counter() - began) < max(spec.warmup_s, spec.warmup_limit_s):
        if spec.warmup_s == 0 or (warm.settled and elapsed >= spec.warmup_s):
            break
        warm.window()
    warm.seconds = perf_counter() - began
    return warm


def _settled(speeds: list[float], windows: int) -> bool:
    last = speeds[-windows:]
    return len(last) == windows and max(last) - min(last) <= SETTLED * last[0]
