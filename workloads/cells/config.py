"""Configs, and functions that apply a config to a process and read it back."""

import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    model_validator,
)

from cudnn_sweep.workloads.cells.errata import ERRATA_FILE, errata_in_force, read_errata, use_errata
from cudnn_sweep.workloads.errors import WorkloadError
from cudnn_sweep.workloads.execution import EAGER, EXECUTIONS, Execution, ExecutionName
from cudnn_sweep.workloads.layout import Layout
from cudnn_sweep.workloads.precision import PrecisionName

HEURISTIC_MODE_B = "TORCH_CUDNN_USE_HEURISTIC_MODE_B"
PLAN_CACHE_LIMIT = "TORCH_CUDNN_V8_API_LRU_CACHE_LIMIT"
COMPUTE_CACHE_DISABLED = "CUDA_CACHE_DISABLE"
CODE = "SWEEP_CODE"
# Variables that `environment` must not set, and what they are reserved for.
OWNERS = {
    HEURISTIC_MODE_B: "the setting heuristic_mode_b",
    PLAN_CACHE_LIMIT: "the setting plan_cache_limit",
    COMPUTE_CACHE_DISABLED: "the setting compute_cache_disabled",
    ERRATA_FILE: "the setting errata",
    **dict.fromkeys(("NVIDIA_TF32_OVERRIDE", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE"), "precision"),
    **dict.fromkeys(
        (
            "CUDA_CACHE_PATH",
            "TORCHINDUCTOR_CACHE_DIR",
            "TRITON_CACHE_DIR",
            "CUDA_VISIBLE_DEVICES",
            "CUDNN_FRONTEND_LOG_FILE",
            "CUDNN_FRONTEND_LOG_INFO",
            "OMP_NUM_THREADS",
            "OPENBLAS_NUM_THREADS",
            "MKL_NUM_THREADS",
        ),
        "cudnn-sweep itself",
    ),
    **dict.fromkeys(("LD_LIBRARY_PATH", "LD_PRELOAD"), "the dynamic loader"),
}
# Settings that cells also have, and the column of a config's value.
OF_CELL = {"layout": "config_layout", "precision": "config_precision"}
# Settings that are applied when a step is built. An id leaves them out if they are null.
OF_STEP = (*OF_CELL, "execution")
# Torch reads these when it is imported.
ALLOCATORS = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_NO_CUDA_MEMORY_CACHING")


def _errata(given: object, info: ValidationInfo) -> object:
    return read_errata(given, Path(info.context["folder"]) if info.context else None)


def _variables(given: dict[str, str]) -> dict[str, str]:
    for name, value in given.items():
        if name in OWNERS:
            raise ValueError(
                f"found {name}, which is reserved for {OWNERS[name]}; remove it from `environment`"
            )
        if (
            not name.isidentifier()
            or name.startswith(("PYTHON", "RAY_", "SWEEP_"))
            or "\0" in value
        ):
            raise ValueError(
                f"found {name!r}, allowed: names that do not begin with PYTHON, RAY_ or SWEEP_; "
                "their values must not contain NUL"
            )
    return dict(sorted(given.items()))


@dataclass(frozen=True, kw_only=True, slots=True)
class Config:
    """Settings of a trial's process: cuDNN's flags, variables, and how its steps run."""

    __pydantic_config__: ClassVar = ConfigDict(strict=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _has_no_tf32(cls, given: Any) -> Any:
        if isinstance(given, dict) and "allow_tf32" in given:
            raise ValueError("found allow_tf32; write `precision: tf32` or `precision: fp32`")
        return given

    enabled: bool = True
    """Whether PyTorch uses cuDNN for convolutions, batch norm, RNNs and the CTC loss."""
    benchmark: bool = False
    """Whether PyTorch times several plans at the first call of a shape and keeps the fastest."""
    benchmark_limit: Annotated[int, Field(ge=0)] = 10
    """Number of plans that `benchmark` times. 0 means all plans."""
    deterministic: bool = False
    """Whether PyTorch uses only engines whose results are the same in every call."""
    heuristic_mode_b: bool = False
    """Whether cuDNN's other heuristic is used (TORCH_CUDNN_USE_HEURISTIC_MODE_B)."""
    plan_cache_limit: int | None = None
    """Number of plans that PyTorch keeps (TORCH_CUDNN_V8_API_LRU_CACHE_LIMIT). 0 means no limit.
    A negative number means that no plan is kept. null means PyTorch's default."""
    compute_cache_disabled: bool = False
    """Whether CUDA's cache of compiled kernels on disk is turned off (CUDA_CACHE_DISABLE)."""
    backward_in_caller: bool = False
    """Whether the backward pass runs in the thread that calls it, not in autograd's own."""
    errata: Annotated[
        str | None, BeforeValidator(_errata, json_schema_input_type=str | list[str] | None)
    ] = None
    """Rules that ban plans of cuDNN, such as `[ConvFwd:5, pin ConvBwdData:1]`, or the path of a
    file of rules, relative to the YAML file. null means only PyTorch's own rules."""
    environment: Annotated[dict[str, str], AfterValidator(_variables)] = field(
        default_factory=dict, hash=False
    )
    """Further environment variables of the process. Their values must not be secret, because they
    are stored with the results."""

    code: str | None = None
    """Side of `sweep gate` whose code runs. null means the code in the launch's folder."""
    layout: Layout | None = None
    """Layout of tensors in memory. null means the layout of the cell."""
    precision: PrecisionName | None = None
    """Precision of the numbers. null means the precision of the cell."""
    execution: ExecutionName | None = None
    """How steps run: `eager`, as a CUDA graph of the whole step (`cuda_graph`), or in a mode of
    torch.compile. null means `eager`."""

    def beside(self, layout: str | None, precision: str | None) -> "Config":
        """Return a copy in which settings equal to `layout`, `precision` or `eager` are None."""
        own = {"layout": layout, "precision": precision, "execution": EAGER}
        equal: dict[str, Any] = {name: None for name in own if getattr(self, name) == own[name]}
        return replace(self, **equal)

    def columns(self) -> dict[str, Any]:
        return {OF_CELL.get(name, name): value for name, value in asdict(self).items()}

    def identity(self) -> dict[str, Any]:
        """Return the settings by name. Omit layout, precision and execution if they are None."""
        return {name: value for name, value in asdict(self).items() if value or name not in OF_STEP}

    @property
    def how(self) -> Execution:
        return EXECUTIONS[self.execution or EAGER]

    @property
    def at_import(self) -> dict[str, str]:
        """Environment variables that must be set before torch is imported."""
        read = {name: self.environment[name] for name in ALLOCATORS if name in self.environment}
        return read if self.code is None else read | {CODE: self.code}

    @property
    def variables(self) -> dict[str, str]:
        """Environment variables of all settings except `errata` and `code`."""
        limit = self.plan_cache_limit
        return {
            **({HEURISTIC_MODE_B: "1"} if self.heuristic_mode_b else {}),
            **({} if limit is None else {PLAN_CACHE_LIMIT: str(limit)}),
            **({COMPUTE_CACHE_DISABLED: "1"} if self.compute_cache_disabled else {}),
            **self.environment,
        }

    def apply(self) -> None:
        """Set variables and flags. Call this before the first CUDA call."""
        from torch.autograd.grad_mode import set_multithreading_enabled
        from torch.backends import cudnn

        for name in (HEURISTIC_MODE_B, PLAN_CACHE_LIMIT, COMPUTE_CACHE_DISABLED):
            os.environ.pop(name, None)  # the user's shell may export another value
        use_errata(self.errata)
        os.environ.update(self.variables)
        cudnn.enabled = self.enabled  # `cudnn.flags(benchmark=True)` would set this to False
        cudnn.benchmark = self.benchmark
        cudnn.benchmark_limit = self.benchmark_limit
        cudnn.deterministic = self.deterministic
        set_multithreading_enabled(not self.backward_in_caller)  # only for this thread


def read_back(variables: Iterable[str]) -> Config:
    """Return the settings of this process. `variables` are names for `environment`."""
    import torch
    from torch.backends import cudnn

    environment = os.environ
    plan_cache_limit = environment.get(PLAN_CACHE_LIMIT)
    return Config(
        enabled=bool(cudnn.enabled),
        benchmark=bool(cudnn.benchmark),
        benchmark_limit=int(cudnn.benchmark_limit),
        deterministic=bool(cudnn.deterministic),
        heuristic_mode_b=environment.get(HEURISTIC_MODE_B) == "1",
        plan_cache_limit=None if plan_cache_limit is None else int(plan_cache_limit),
        backward_in_caller=not torch._C._is_multithreading_enabled(),
        errata=errata_in_force(),
        environment={name: environment[name] for name in variables if name in environment},
        compute_cache_disabled=environment.get(COMPUTE_CACHE_DISABLED) == "1",
        code=environment.get(CODE),
    )


def apply_config(config: Config) -> Config:
    """Apply `config`, and read it back. Raises WorkloadError if a setting did not take effect.

    Layout, precision and execution are not checked here.
    """
    config.apply()
    of_step = {name: getattr(config, name) for name in OF_STEP}
    in_force = replace(read_back(config.environment), **of_step)
    if in_force != config:
        raise WorkloadError(f"the config did not take effect: wanted {config}, found {in_force}")
    return in_force
