"""What a step runs: operations and bytes against what the sizes give by hand, and its kernels by their names."""

import pytest
import torch
from torch.nn import functional

from cudnn_sweep.workloads.measuring.choice import kernels_hash, kind_of, roofline_ms
from cudnn_sweep.workloads.measuring.step_watch import ConvolutionWork, StepWatch
from cudnn_sweep.workloads.records.measured import Calibration, Kernel


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


def test_routes_of_backward_convolutions_count_where_there_are_no_others() -> None:
    watch = StepWatch()
    watch.backward_routes = ["Cudnn"]
    assert watch.selected_routes == ["Cudnn"]
    watch.routes = ["Slow2d"]
    assert watch.selected_routes == ["Slow2d"]


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


# As an H200's driver names them (cuDNN 9.19, torch 2.11), templates cut short.
TO_NHWC = "_ZN5cudnn19engines_precompiled16nchwToNhwcKernelI13__nv_bfloat16S2_fLb0ELb1EEE"
FPROP = "sm90_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x128x64"
MATMUL = "nvjet_sm90_tst_448x64_64x2_1x1_h_bz_coopB_NNN"
COPY = "_ZN2at6native18elementwise_kernelILi128ELi4EZNS0_22gpu_kernel_impl_nocastIZZZNS0_23direct_copy_kernel_cuda"
RELU = "_ZN2at6native29vectorized_elementwise_kernelILi4EZZZNS0_19launch_clamp_scalar"


@pytest.mark.parametrize(
    ("name", "operation", "kind"),
    [
        (FPROP, "convolution", "convolution"),
        (TO_NHWC, "convolution", "layout_conversion"),
        (MATMUL, "convolution_backward", "convolution"),  # of a 1x1 kernel
        (MATMUL, "addmm", "other"),
        (COPY, "convolution", "layout_conversion"),
        (COPY, "copy_", "other"),
        (RELU, "relu", "other"),
        ("memset", "convolution", "other"),
        (FPROP, None, "convolution"),
        (RELU, None, "other"),
        ("void tensorTransformGeneric<__half, __half, float>", None, "layout_conversion"),
    ],
)
def test_kernel_is_named_after_what_it_does_for_whom(
    name: str, operation: str | None, kind: str
) -> None:
    assert kind_of(name, operation) == kind


def launch(name: str, grid: int, kind: str = "convolution") -> Kernel:
    return Kernel(
        name=name,
        operation="convolution",
        kind=kind,
        grid=[grid, 1, 1],
        block=[128, 1, 1],
        shared_bytes=0,
    )


def test_hash_tells_kernels_grids_and_order_apart() -> None:
    first, second = launch(FPROP, 1), launch(MATMUL, 1)
    hashes = [
        kernels_hash(kernels)
        for kernels in ([first, second], [second, first], [launch(FPROP, 2), second], [first])
    ]
    assert len(set(hashes)) == 4
    assert kernels_hash([first, launch(RELU, 7, "other"), second]) == hashes[0]
    assert kernels_hash([launch(RELU, 7, "other")]) is None


@pytest.mark.parametrize("way", ["", "_transpose"])
@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_convolutions_of_all_dimensions_are_seen_without_autograd(
    way: str, dimensions: int
) -> None:
    """Under inference mode they reach a watcher whole."""
    images, weight = torch.ones(1, 4, *[5] * dimensions), torch.ones(4, 4, *[2] * dimensions)
    convolve = getattr(functional, f"conv{way}{dimensions}d")
    with torch.inference_mode(), StepWatch() as watch:
        made = convolve(images, weight)
    places = images if way else made
    assert [work.flops for work in watch.work] == [2 * places.numel() * 4 * 2**dimensions]
    assert len(watch.routes) == 1 and watch.inputs == {"float32 contiguous"}
