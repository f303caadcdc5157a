"""Measures the current speed of the device with a matrix product and a memory copy."""

import math
from collections.abc import Callable
from contextlib import nullcontext, suppress
from statistics import median
from time import perf_counter

import torch

from cudnn_sweep.workloads.measuring.device import Device
from cudnn_sweep.workloads.precision import Precision
from cudnn_sweep.workloads.records.measured import Calibration

SAMPLES = 5  # timed samples of each operation
SAMPLE_S = {"cuda": 0.005, "cpu": 0.002}  # shortest duration of a sample
MATRIX = {"cuda": 8192, "cpu": 512}  # rows and columns of each matrix
COPIED_BYTES = {"cuda": 2**28, "cpu": 2**25}  # more than the device's caches


def calibrate(device: Device, precision: Precision) -> Calibration:
    """Measure the speeds of a matrix product and a copy. They stay None if memory runs out."""
    ceilings = Calibration()
    # A separate memory pool leaves the workload's cached memory unchanged.
    pool = torch.cuda.use_mem_pool(torch.cuda.MemPool()) if device.is_cuda else nullcontext()
    with suppress(torch.OutOfMemoryError), pool:
        ceilings.calibration_matmul_tflops = _matmul_tflops(device, precision)
        ceilings.calibration_copy_gbps = _copy_gbps(device)
    return ceilings


def _matmul_tflops(device: Device, precision: Precision) -> float:
    size = MATRIX[device.torch.type]
    kind = getattr(torch, precision.autocast or precision.dtype)
    left, right = (torch.randn(size, size, device=device.torch, dtype=kind) for _ in range(2))
    product = torch.empty_like(left)
    matmul = torch.backends.cuda.matmul
    before, matmul.fp32_precision = matmul.fp32_precision, precision.conv_fp32
    try:
        seconds = _median_s(lambda: torch.mm(left, right, out=product), device)
    finally:
        matmul.fp32_precision = before
    return 2 * size**3 / seconds / 1e12


def _copy_gbps(device: Device) -> float:
    count = COPIED_BYTES[device.torch.type]
    source = torch.ones(count, dtype=torch.uint8, device=device.torch)
    target = torch.empty_like(source)
    return 2 * count / _median_s(lambda: target.copy_(source), device) / 1e9


def _median_s(run: Callable[[], object], device: Device) -> float:
    _device_s(run, 1, device)
    calls = max(1, math.ceil(SAMPLE_S[device.torch.type] / _device_s(run, 1, device)))
    _device_s(run, calls, device)
    return median(_device_s(run, calls, device) / calls for _ in range(SAMPLES))


def _device_s(run: Callable[[], object], calls: int, device: Device) -> float:
    if not device.is_cuda:
        began = perf_counter()
        for _ in range(calls):
            run()
        return perf_counter() - began
    before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    before.record()
    for _ in range(calls):
        run()
    after.record()
    after.synchronize()
    return float(before.elapsed_time(after)) / 1e3
