"""What a trial is asked and what it yields; both cross a process boundary as JSON."""

from dataclasses import dataclass, field
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from cudnn_sweep.workloads.cell import Cell
from cudnn_sweep.workloads.config import CudnnConfig
from cudnn_sweep.workloads.problem import Shape

Seconds = Annotated[float, Field(ge=0)]


class MeasureSpec(BaseModel):
    """How long a trial measures, and when it is given up."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)

    cold_budget_s: Seconds = 60.0
    """No further shape is met cold after this long."""
    cold_shapes: Annotated[int, Field(ge=1)] = 64
    """At most so many shapes are met cold."""
    open_cold_shapes: Annotated[int, Field(ge=1)] = 4
    """Where shapes never end, so many are met cold before the loop."""
    warmup_s: Seconds = 0.3
    """The steady loop runs this long before it is timed, for clocks to settle."""
    steady_budget_s: Seconds = 1.0
    """Timing of a closed loop stops after this long,"""
    steady_error: Annotated[float, Field(ge=0)] = 0.002
    """or as soon as the standard error of the median is below this share of it."""
    open_steps: Annotated[int, Field(ge=1)] = 64
    """Steps of an open loop that are timed,"""
    open_budget_s: Seconds = 10.0
    """unless they take longer than this."""
    timeout_s: Annotated[float, Field(gt=0)] = 300.0
    """A trial's process that lives longer is ended, its descendants too."""
    host_memory_limit_mib: Annotated[int, Field(ge=1)] | None = None
    """Memory that a trial's process may allocate on the host; none: no limit."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TrialRequest:
    """All that a fresh process needs to know to measure."""

    cell: Cell
    config: CudnnConfig
    measure: MeasureSpec
    seed: int
    compute_cache: str | None
    """Folder for CUDA's compiled kernels; None: leave it alone."""


@dataclass(kw_only=True, slots=True)
class ColdCall:
    shape: Shape
    first_ms: float
    second_ms: float | None


@dataclass(kw_only=True, slots=True)
class Measurement:
    """What was measured so far: filled in as the trial goes, so that a failure keeps what came before it.

    Field by field as in the record, which explains them.
    """

    config: CudnnConfig | None = None
    conv_fp32_precision: str | None = None
    threads: int | None = None
    compute_cache: str | None = None
    compute_cache_entries_before: int | None = None
    compute_cache_entries_added: int | None = None
    loop_kind: str | None = None
    cold: list[ColdCall] | None = None
    distinct_shapes: int | None = None
    regime_shapes: int | None = None
    open_new_shapes: int | None = None
    steady_wall_samples_ms: list[float] | None = None
    steady_wall_ms: float | None = None
    steady_iterations: int | None = None
    steady_stop: str | None = None
    steady_device_ms: float | None = None
    cold_peak_allocated_bytes: int | None = None
    cold_peak_reserved_bytes: int | None = None
    steady_peak_allocated_bytes: int | None = None
    steady_peak_reserved_bytes: int | None = None
    peak_host_bytes: int | None = None
    convolutions: int | None = None
    routes: list[str] | None = None
    loss_first: float | None = None
    loss_last: float | None = None
    phases_s: dict[str, float] = field(default_factory=dict)
    """Seconds by phase: start, one_time, build, cold, steady, checks."""
