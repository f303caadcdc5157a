"""Precision: the type of numbers, and whether TF32 is used."""

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from cudnn_sweep.workloads.errors import WorkloadError, unknown

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, kw_only=True, slots=True)
class Precision:
    """How numbers are stored and multiplied. `tf32` is PyTorch's default: float32 with TF32 in
    convolutions and RNNs. `fp32` uses no TF32. The precisions that begin with `amp_` keep float32
    parameters and run under autocast."""

    name: str
    dtype: Literal["float32", "bfloat16", "float16"]
    conv_fp32: Literal["ieee", "tf32"]
    autocast: Literal["bfloat16", "float16"] | None = None

    def apply(self) -> None:
        """Turn TF32 on or off. Raises WorkloadError if the setting has no effect."""
        import torch
        from torch.backends import cudnn

        os.environ.pop("NVIDIA_TF32_OVERRIDE", None)  # it would override these settings
        operations: Any
        matmul: Any = torch.backends.cuda.matmul
        values = {cudnn.conv: self.conv_fp32, cudnn.rnn: self.conv_fp32, matmul: "ieee"}  # type: ignore[attr-defined]
        for operations, wanted in values.items():
            operations.fp32_precision = wanted
            if (in_force := operations.fp32_precision) != wanted:
                raise WorkloadError(f"precision {self.name} is not in force: found {in_force}")

    def torch_dtype(self) -> "torch.dtype":
        import torch

        return getattr(torch, self.dtype)  # type: ignore[no-any-return]


PrecisionName = Literal["fp32", "tf32", "bf16", "fp16", "amp_bf16", "amp_fp16"]
PRECISIONS = {
    precision.name: precision
    for precision in (
        Precision(name="fp32", dtype="float32", conv_fp32="ieee"),
        Precision(name="tf32", dtype="float32", conv_fp32="tf32"),
        Precision(name="bf16", dtype="bfloat16", conv_fp32="tf32"),
        Precision(name="fp16", dtype="float16", conv_fp32="tf32"),
        Precision(name="amp_bf16", dtype="float32", conv_fp32="tf32", autocast="bfloat16"),
        Precision(name="amp_fp16", dtype="float32", conv_fp32="tf32", autocast="float16"),
    )
}


def find_precision(name: str) -> Precision:
    if name not in PRECISIONS:
        of_8_bits = "; PyTorch has no fp8 convolution" if "8" in name else ""
        raise WorkloadError(f"{unknown('precision', name, list(PRECISIONS))}{of_8_bits}")
    return PRECISIONS[name]
