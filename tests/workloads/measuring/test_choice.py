import pytest

from cudnn_sweep.workloads.cells.measurement import KernelKind, KernelLaunch
from cudnn_sweep.workloads.measuring.choice import kernels_hash, kind_of

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


def launch(name: str, grid: int, kind: KernelKind = "convolution") -> KernelLaunch:
    return KernelLaunch(
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
