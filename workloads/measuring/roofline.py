"""Roofline: the least time that a step's convolutions take at the ceilings that calibration found.

S. Williams, A. Waterman, D. Patterson, "Roofline", Communications of the ACM 52(4), 2009.
"""

from cudnn_sweep.workloads.cells.measurement import Calibration, Measurement
from cudnn_sweep.workloads.measuring.step_watch import ConvolutionWork


def note_roofline(work: list[ConvolutionWork], measured: Measurement) -> None:
    """The share is of device time, of wall time on a CPU; none where steps differ in shape."""
    least_ms = roofline_ms(work, measured.calibration)
    measured.choice.roofline_ms = least_ms
    step_ms = measured.device.steady_device_ms or measured.wall.steady_wall_ms
    if least_ms and step_ms and measured.loop_kind == "closed" and measured.regime_shapes == 1:
        measured.choice.roofline_share = least_ms / step_ms


def roofline_ms(work: list[ConvolutionWork], ceilings: Calibration) -> float | None:
    """Each convolution at its nearer ceiling, one after the other; None without any."""
    tflops, gbps = ceilings.calibration_matmul_tflops, ceilings.calibration_copy_gbps
    if not work or not tflops or not gbps:
        return None
    return sum(max(each.flops / (tflops * 1e9), each.bytes / (gbps * 1e6)) for each in work)
