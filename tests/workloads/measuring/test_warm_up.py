"""When a warm-up has settled: by the clock if a monitor reads it, else by the pace."""

from collections.abc import Iterator
from itertools import repeat

import pytest

from cudnn_sweep.workloads.hardware.monitor import FakeMonitor
from cudnn_sweep.workloads.measuring.telemetry import Telemetry
from cudnn_sweep.workloads.measuring.warm_up import CLOCK_WINDOWS, WarmUp

ROUND_S = 0.05


def warming(paces_s: Iterator[float], telemetry: Telemetry) -> WarmUp:
    """A warm-up whose rounds take these seconds, one after another."""
    return WarmUp(lambda rounds: rounds * next(paces_s), telemetry)


@pytest.mark.parametrize(("drift", "settled"), [(0.019, True), (0.021, False), (-0.019, True)])
def test_two_windows_within_two_percent_have_settled(drift: float, settled: bool) -> None:
    warm = warming(iter([ROUND_S, ROUND_S, ROUND_S * (1 + drift)]), Telemetry(None))
    warm.window()
    assert not warm.settled, "a single window has no other to be compared with"
    warm.window()
    assert warm.settled is settled
    assert warm.round_s == pytest.approx(min(ROUND_S, ROUND_S * (1 + drift)))


def test_a_clock_settles_over_more_windows_than_a_pace() -> None:
    warm = warming(repeat(ROUND_S), Telemetry(FakeMonitor("fake_calm")))
    settled = []
    for _ in range(CLOCK_WINDOWS):
        warm.window()
        settled.append(warm.settled)
    assert settled == [False, False, False, True]


def test_a_clock_that_jumps_does_not_settle_at_an_even_pace() -> None:
    warm = warming(repeat(ROUND_S), Telemetry(FakeMonitor("fake_unsettled")))
    for _ in range(3 * CLOCK_WINDOWS):
        warm.window()
    assert not warm.settled
