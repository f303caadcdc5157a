"""Why torch finds no GPU, in words."""

import pytest

from cudnn_sweep.workloads.survey import reason_without_cuda


@pytest.mark.parametrize(
    ("cuda", "driver", "said"),
    [
        (None, None, "torch 2.13.0 is built without it: install one"),
        ("13.0", None, "torch 2.13.0, built for CUDA 13.0, finds no GPU, and NVML no driver: see"),
        ("13.0", "570.195.03", "finds no GPU: driver 570.195.03 is older than 580.65.06, which CUDA 13 needs;"),
        ("13.0", "570.195.03", "install a torch for an older CUDA: pip install torch --index-url"),
        ("12.8", "515.105.01", "driver 515.105.01 is older than 525.60.13, which CUDA 12 needs; update it"),
        ("13.0", "580.65.06", "with driver 580.65.06: see that CUDA_VISIBLE_DEVICES hides none"),
        ("12.8", "570.195.03", "with driver 570.195.03: see that CUDA_VISIBLE_DEVICES hides none"),
        ("14.1", "580.65.06", "with driver 580.65.06: see that CUDA_VISIBLE_DEVICES hides none"),
    ],
)  # fmt: skip
def test_driver_and_cuda_are_named(cuda: str | None, driver: str | None, said: str) -> None:
    assert said in reason_without_cuda("2.13.0", cuda, driver)
