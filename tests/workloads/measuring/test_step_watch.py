"""Operations and bytes against what the sizes give by hand."""

import pytest
import torch
from torch.nn import functional

from cudnn_sweep.workloads.cells.measurement import Calibration
from cudnn_sweep.workloads.measuring.choice import roofline_ms
from cudnn_sweep.workloads.measuring.step_watch import ConvolutionWork, StepWatch


def test_forward_and_both_backward_passes_are_counted() -> None:
    images = torch.randn(2, 6, 10, 10, requires_grad=True)
    weight = torch.randn(8, 3, 3, 3, requires_grad=True)
    with StepWatch() as watch:
        functional.conv2d(images, weight, padding=1, groups=2).sum().backward()
    flops = 2 * (2 * 8 * 10 * 10) * (3 * 3 * 3)
    moved = 4 * (images.numel() + weight.numel() + 2 * 8 * 10 * 10)
    assert watch.work == [ConvolutionWork(flops=flops, bytes=moved)] * 3
    assert len(watch.routes) == 1


def test_gradients_that_nobody_wants_are_not_work() -> None:
    weight = torch.randn(4, 3, 3, 3, requires_grad=True)
    with StepWatch() as watch:
        functional.conv2d(torch.randn(1, 3, 8, 8), weight).sum().backward()
    assert len(watch.work) == 2


def test_backward_operation_alone_has_a_route() -> None:
    images, weight, gradient = (
        torch.randn(2, 3, 8, 8),
        torch.randn(4, 3, 3, 3),
        torch.randn(2, 4, 6, 6),
    )
    sizes = ([1, 1], [0, 0], [1, 1], False, [0, 0], 1)
    with StepWatch() as watch:
        asked = [False, True, False]
        torch.ops.aten.convolution_backward(gradient, images, weight, None, *sizes, asked)
    assert (watch.routes, len(watch.backward_routes), len(watch.work)) == ([], 1, 1)


def test_transposed_convolution_multiplies_at_its_input() -> None:
    images, weight = torch.randn(2, 5, 7, 7), torch.randn(5, 4, 3, 3)
    with StepWatch() as watch:
        output = functional.conv_transpose2d(images, weight, stride=2)
    (work,) = watch.work
    assert work.flops == 2 * images.numel() * 4 * 9
    assert work.bytes == 4 * (images.numel() + weight.numel() + output.numel())


def test_launches_are_counted_after_each_operation() -> None:
    counts = iter([3, 5])
    ones = torch.ones(2)
    with StepWatch(lambda: next(counts)) as watch:
        torch.sigmoid(torch.relu(ones))
    assert watch.launches == [("relu", 3), ("sigmoid", 5)]


def test_roofline_takes_the_nearer_ceiling_of_each_convolution() -> None:
    ceilings = Calibration(calibration_matmul_tflops=1.0, calibration_copy_gbps=100.0)
    dense = ConvolutionWork(flops=2 * 10**9, bytes=10**6)  # 2 ms of arithmetic
    sparse = ConvolutionWork(flops=10**6, bytes=3 * 10**8)  # 3 ms of copying
    assert roofline_ms([dense, sparse], ceilings) == pytest.approx(5.0)
    assert roofline_ms([], ceilings) is None
    assert roofline_ms([dense], Calibration()) is None
