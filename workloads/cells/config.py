"""CudnnConfig: one setting of cuDNN's flags, applied to the process that measures and read back."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field

from cudnn_sweep.workloads.errors import WorkloadError

HEURISTIC_MODE_B = "TORCH_CUDNN_USE_HEURISTIC_MODE_B"
PLAN_CACHE_LIMIT = "TORCH_CUDNN_V8_API_LRU_CACHE_LIMIT"
COMPUTE_CACHE_DISABLED = "CUDA_CACHE_DISABLE"


@dataclass(frozen=True, kw_only=True, slots=True)
class CudnnConfig:
    """Values of `torch.backends.cudnn`, and the environment variables that belong to it.

    TF32 is not here: Precision alone sets it.
    """

    __pydantic_config__: ClassVar = ConfigDict(strict=True, extra="forbid")

    enabled: bool = True
    """False moves convolutions, batch norm, RNNs and CTC off cuDNN."""
    benchmark: bool = False
    """Time several plans at a shape's first call and keep the fastest."""
    benchmark_limit: Annotated[int, Field(ge=0)] = 10
    """How many plans benchmark mode times; 0: all."""
    deterministic: bool = False
    """Use only engines that give the same bits each time."""
    heuristic_mode_b: bool = False
    """TORCH_CUDNN_USE_HEURISTIC_MODE_B: cuDNN's other heuristic, used if benchmark is off."""
    plan_cache_limit: int | None = None
    """TORCH_CUDNN_V8_API_LRU_CACHE_LIMIT: number of plans kept; 0: unlimited, negative: none, null:
    torch's default."""
    compute_cache_disabled: bool = False
    """CUDA_CACHE_DISABLE: each process compiles its kernels anew instead of using CUDA's cache on
    disk."""
    backward_in_caller: bool = False
    """torch.autograd.set_multithreading_enabled(False): the backward pass runs in the thread that asks for
    it, not in autograd's own."""

    def apply(self) -> None:
        """Set variables (before the process's first CUDA call), then flags; autograd's for this thread.

        By attribute: `cudnn.flags(benchmark=True)` would turn cuDNN off.
        """
        from torch.autograd.grad_mode import set_multithreading_enabled
        from torch.backends import cudnn

        limit = self.plan_cache_limit
        _set_or_unset(HEURISTIC_MODE_B, "1" if self.heuristic_mode_b else None)
        _set_or_unset(PLAN_CACHE_LIMIT, None if limit is None else str(limit))
        _set_or_unset(COMPUTE_CACHE_DISABLED, "1" if self.compute_cache_disabled else None)
        cudnn.enabled = self.enabled
        cudnn.benchmark = self.benchmark
        cudnn.benchmark_limit = self.benchmark_limit
        cudnn.deterministic = self.deterministic
        set_multithreading_enabled(not self.backward_in_caller)


def read_back(environment: Mapping[str, str]) -> CudnnConfig:
    """The config that is in force in this process, once it was applied."""
    import torch
    from torch.backends import cudnn

    plan_cache_limit = environment.get(PLAN_CACHE_LIMIT)
    return CudnnConfig(
        enabled=bool(cudnn.enabled),
        benchmark=bool(cudnn.benchmark),
        benchmark_limit=int(cudnn.benchmark_limit),
        deterministic=bool(cudnn.deterministic),
        heuristic_mode_b=environment.get(HEURISTIC_MODE_B) == "1",
        plan_cache_limit=None if plan_cache_limit is None else int(plan_cache_limit),
        backward_in_caller=not torch._C._is_multithreading_enabled(),
        compute_cache_disabled=environment.get(COMPUTE_CACHE_DISABLED) == "1",
    )


def apply_config(config: CudnnConfig) -> CudnnConfig:
    """Apply `config` and return what was read back.

    Raises WorkloadError where the process does not show what was asked for: such a trial would
    measure something else.
    """
    config.apply()
    found = read_back(os.environ)
    if found != config:
        raise WorkloadError(f"cuDNN's flags did not take: asked for {config}, found {found}")
    return found


def _set_or_unset(variable: str, value: str | None) -> None:
    """What the user's shell exports must not change what a trial says it measured."""
    if value is None:
        os.environ.pop(variable, None)
    else:
        os.environ[variable] = value
