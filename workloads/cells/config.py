"""Defines, applies and reads back a config: cuDNN's flags, layout, precision and execution."""

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
# Variables that `environment` must not set, with their owners.
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
# Settings that cells have too, each with its own column for a config's value.
OF_CELL = {"layout": "config_layout", "precision": "config_precision"}
# Settings that are applied where a step is built. An id leaves them out while they are null, so that ids stay.
OF_STEP = (*OF_CELL, "execution")
# Torch reads these when it is imported.
ALLOCATORS = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_NO_CUDA_MEMORY_CACHING")


def _errata(given: object, info: ValidationInfo) -> object:
    return read_errata(given, Path(info.context["folder"]) if info.context else None)


def _variables(given: dict[str, str]) -> dict[str, str]:
    for name, value in given.items():
        if name in OWNERS:
            raise ValueError(f"found {name}, which belongs to {OWNERS[name]}; remove it here")
        if (
            not name.isidentifier()
            or name.startswith(("PYTHON", "RAY_", "SWEEP_"))
            or "\0" in value
        ):
            raise ValueError(
                f"found {name!r}, allowed: names except PYTHON*, RAY_*, SWEEP_*; values without NUL"
            )
    return dict(sorted(given.items()))


@dataclass(frozen=True, kw_only=True, slots=True)
class Config:
    """Settings of one process: cuDNN's flags and variables, and how steps run. A layout or
    precision here replaces the cell's.

    TF32 is no setting of its own: `Precision` alone sets it.
    """

    __pydantic_config__: ClassVar = ConfigDict(strict=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _has_no_tf32(cls, given: Any) -> Any:
        if isinstance(given, dict) and "allow_tf32" in given:
            raise ValueError("found allow_tf32; write `precision: tf32` (on) or `fp32` (off)")
        return given

    enabled: bool = True
    """False moves convolutions, batch norm, RNNs and CTC off cuDNN."""
    benchmark: bool = False
    """Time several plans at a shape's first call and keep the fastest."""
    benchmark_limit: Annotated[int, Field(ge=0)] = 10
    """Number of plans that benchmark mode tries. 0 means all plans."""
    deterministic: bool = False
    """Use only engines that give the same bits each time."""
    heuristic_mode_b: bool = False
    """TORCH_CUDNN_USE_HEURISTIC_MODE_B: cuDNN's other heuristic, used if benchmark is off."""
    plan_cache_limit: int | None = None
    """TORCH_CUDNN_V8_API_LRU_CACHE_LIMIT: the number of plans that torch keeps. 0 sets no limit. A
    negative number keeps no plan. null means torch's default."""
    compute_cache_disabled: bool = False
    """CUDA_CACHE_DISABLE: each process compiles its kernels anew instead of using CUDA's cache on
    disk."""
    backward_in_caller: bool = False
    """torch.autograd.set_multithreading_enabled(False): the backward pass runs in the thread that
    calls it, not in autograd's own."""
    errata: Annotated[
        str | None, BeforeValidator(_errata, json_schema_input_type=str | list[str] | None)
    ] = None
    """Plans that cuDNN must not take: a list of rules, such as `[ConvFwd:5, pin ConvBwdData:1]`, or a file that
    `sweep freeze` made, relative to the YAML file that names it. null: PyTorch's own rules alone."""
    environment: Annotated[dict[str, str], AfterValidator(_variables)] = field(
        default_factory=dict, hash=False
    )
    """Further environment variables of the process, except those of another setting. Results store
    them, so they must not be secret."""

    code: str | None = None
    """Side of `sweep gate` whose code runs. null, as in suites, means the launch's folder."""
    layout: Layout | None = None
    """Layout of this config's trials. null or an equal value keeps the cell's layout."""
    precision: PrecisionName | None = None
    """Precision of this config's trials. null or an equal value keeps the cell's precision."""
    execution: ExecutionName | None = None
    """How steps run: as written (`eager`, or null), with the model in torch.compile, or as a CUDA graph of the whole
    step."""

    def beside(self, layout: str | None, precision: str | None) -> "Config":
        """Return the config with null for values that equal `layout`, `precision` or `eager`."""
        own = {"layout": layout, "precision": precision, "execution": EAGER}
        equal: dict[str, Any] = {name: None for name in own if getattr(self, name) == own[name]}
        return replace(self, **equal)

    def columns(self) -> dict[str, Any]:
        return {OF_CELL.get(name, name): value for name, value in asdict(self).items()}

    def identity(self) -> dict[str, Any]:
        """Return the settings by name. Omit layout, precision and execution if they are null."""
        return {name: value for name, value in asdict(self).items() if value or name not in OF_STEP}

    @property
    def how(self) -> Execution:
        return EXECUTIONS[self.execution or EAGER]

    @property
    def at_import(self) -> dict[str, str]:
        """Variables that torch reads at import and, in a gate, the variable that names the side."""
        read = {name: self.environment[name] for name in ALLOCATORS if name in self.environment}
        return read if self.code is None else read | {CODE: self.code}

    @property
    def variables(self) -> dict[str, str]:
        """Environment variables of all settings but `errata` and `code`."""
        limit = self.plan_cache_limit
        return {
            **({HEURISTIC_MODE_B: "1"} if self.heuristic_mode_b else {}),
            **({} if limit is None else {PLAN_CACHE_LIMIT: str(limit)}),
            **({COMPUTE_CACHE_DISABLED: "1"} if self.compute_cache_disabled else {}),
            **self.environment,
        }

    def apply(self) -> None:
        """Set variables and flags. Call this before the first CUDA call.

        Autograd's flag applies to this thread alone. cuDNN's flags are set as attributes, since
        `cudnn.flags(benchmark=True)` would turn cuDNN off.
        """
        from torch.autograd.grad_mode import set_multithreading_enabled
        from torch.backends import cudnn

        for name in (HEURISTIC_MODE_B, PLAN_CACHE_LIMIT, COMPUTE_CACHE_DISABLED):
            os.environ.pop(name, None)  # the user's shell may export another value
        use_errata(self.errata)
        os.environ.update(self.variables)
        cudnn.enabled = self.enabled
        cudnn.benchmark = self.benchmark
        cudnn.benchmark_limit = self.benchmark_limit
        cudnn.deterministic = self.deterministic
        set_multithreading_enabled(not self.backward_in_caller)


def read_back(variables: Iterable[str]) -> Config:
    """Return the settings in force in this process. Read `variables` into `environment`."""
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
    """Apply `config` and return the config read back. Raises WorkloadError if the two differ.

    Layout, precision and execution are not read back here. `Precision.apply` checks TF32.
    A record's columns show the layouts of convolutions, and how steps ran.
    """
    config.apply()
    of_step = {name: getattr(config, name) for name in OF_STEP}
    in_force = replace(read_back(config.environment), **of_step)
    if in_force != config:
        raise WorkloadError(f"the config is not in force: requested {config}, found {in_force}")
    return in_force
