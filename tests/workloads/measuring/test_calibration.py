"""How often a calibration calls what it times, and what it makes of the seconds."""

from collections.abc import Callable

import pytest
import torch

from cudnn_sweep.workloads.measuring import calibration
from cudnn_sweep.workloads.measuring.calibration import _device_s, _median_s, calibrate
from cudnn_sweep.workloads.precision import find_precision
from tests.workloads.made_up_cells import CPU


@pytest.mark.parametrize(("call_s", "calls"), [(0.0005, 4), (0.0015, 2), (0.002, 1), (9.0, 1)])
def test_a_sample_fills_its_time_with_calls(
    monkeypatch: pytest.MonkeyPatch, call_s: float, calls: int
) -> None:
    """The first call, the one that is measured, and a whole sample come before the five that count."""
    asked: list[int] = []

    def seconds(run: Callable[[], object], count: int, device: object) -> float:
        asked.append(count)
        return count * (call_s if len(asked) > 1 else 99.0) * (3.0 if len(asked) == 5 else 1.0)

    monkeypatch.setattr(calibration, "_device_s", seconds)
    assert _median_s(lambda: None, CPU) == pytest.approx(call_s)
    assert asked == [1, 1, *[calls] * 6]


def test_seconds_are_of_all_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    moments, ran = iter([10.0, 12.5]), list[int]()
    monkeypatch.setattr(calibration, "perf_counter", lambda: next(moments))
    assert _device_s(lambda: ran.append(1), 3, CPU) == 2.5
    assert len(ran) == 3


def test_speeds_count_each_operation_and_each_byte_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A product takes a multiplication and an addition; a copied byte is read and written."""
    modes: list[str] = []

    def second(run: Callable[[], object], device: object) -> float:
        modes.append(torch.backends.cuda.matmul.fp32_precision)
        return 1.0

    before = torch.backends.cuda.matmul.fp32_precision
    monkeypatch.setattr(calibration, "_median_s", second)
    for name, mode in (("fp32", "ieee"), ("tf32", "tf32"), ("bf16", "tf32")):
        modes.clear()
        found = calibrate(CPU, find_precision(name))
        assert found.calibration_matmul_tflops == 2 * 512**3 / 1e12
        assert found.calibration_copy_gbps == 2 * 2**25 / 1e9
        assert modes == [mode, before]
