"""What a trial is asked and what it yields; both cross a process boundary as JSON."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from cudnn_sweep.workloads.cells.cell import Cell
from cudnn_sweep.workloads.cells.config import CudnnConfig
from cudnn_sweep.workloads.hardware.monitor import MonitorKind
from cudnn_sweep.workloads.problem import Shape
from cudnn_sweep.workloads.strict import STRICT

Seconds = Annotated[float, Field(ge=0)]
KernelKind = Literal["convolution", "layout_conversion", "other"]


class MeasureSpec(BaseModel):
    """How long a trial measures, and when it is given up."""

    model_config = STRICT

    cold_budget_s: Seconds = 150.0
    """No further shape is called cold after this time; the loop is then an open one."""
    cold_shapes: Annotated[int, Field(ge=1)] = 64
    """At most this many shapes are called cold."""
    open_cold_shapes: Annotated[int, Field(ge=1)] = 4
    """If shapes never end, this many are called cold before the loop."""
    warmup_s: Seconds = 0.4
    """The steady loop runs this long before it is timed."""
    warmup_limit_s: Seconds = 1.5
    """The warm-up continues until the clocks have settled, for at most this long."""
    steady_budget_s: Seconds = 2.0
    """Timing of a closed loop's wall time stops after this long."""
    device_budget_s: Seconds = 0.5
    """Timing of the device time stops after this long; 0: it is not timed."""
    steady_error: Annotated[float, Field(ge=0)] = 0.002
    """Both stop earlier, once the standard error of the median is below this share of it."""
    in_turns: bool = True
    """The processes of a block live side by side and take turns; otherwise they run one after
    another."""
    start_together: bool = False
    """Processes that take turns pay their one-time costs side by side, before the first one calls
    its shapes; otherwise one after another."""
    turn_cpus: Annotated[int, Field(ge=1)] | None = 1
    """With a GPU, the processes of a block take turns on this many CPUs, the same for all; null: on
    all CPUs of the slot. Loops that keep more than one CPU busy keep all of them."""
    open_steps: Annotated[int, Field(ge=1)] = 64
    """Steps of an open loop that are timed."""
    open_budget_s: Seconds = 10.0
    """Timing of an open loop stops after this time, however many steps are timed."""
    calibrate: bool = True
    """Measure the device's matrix-product and copy speed before the steady part."""
    reference_replicates: Annotated[int, Field(ge=0)] = 1
    """This many of a cell's replicates compare their results with float64."""
    logged_replicates: Annotated[int, Field(ge=0)] = 1
    """This many are followed by an untimed process that logs the engines that cuDNN chooses."""
    telemetry: MonitorKind = "nvml"
    """Source of clocks, power and other processes: nvml, off, or a fake one to try out warnings."""
    timeout_s: Annotated[float, Field(gt=0)] = 300.0
    """A trial's process that runs longer is ended, together with its descendants."""
    host_memory_limit_mib: Annotated[int, Field(ge=1)] | None = None
    """Host memory that a trial's process may allocate; null: no limit."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TrialRequest:
    """All that a fresh process needs to know to measure."""

    cell: Cell
    config: CudnnConfig
    measure: MeasureSpec
    seed: int
    compute_cache: str | None
    """Folder for CUDA's compiled kernels; None: leave it alone."""
    reference: bool = False
    """Compare what the step computes with float64."""


@dataclass(kw_only=True, slots=True)
class ColdCall:
    """Forward is what comes before the backward pass, or all where there is none."""

    shape: Shape
    first_ms: float
    first_forward_ms: float
    first_backward_ms: float | None
    second_ms: float
    second_forward_ms: float
    second_backward_ms: float | None


@dataclass(kw_only=True, slots=True)
class MemoryUse:
    cold_free_bytes: int | None = None
    cold_allocated_bytes_before: int | None = None
    cold_reserved_bytes_before: int | None = None
    cold_peak_allocated_bytes: int | None = None
    cold_peak_reserved_bytes: int | None = None
    cold_allocated_bytes_after: int | None = None
    cold_reserved_bytes_after: int | None = None
    steady_allocated_bytes: int | None = None
    steady_reserved_bytes: int | None = None
    steady_peak_allocated_bytes: int | None = None
    steady_peak_reserved_bytes: int | None = None
    peak_host_bytes: int | None = None


@dataclass(kw_only=True, slots=True)
class Calibration:
    calibration_matmul_tflops: float | None = None
    calibration_copy_gbps: float | None = None


@dataclass(kw_only=True, slots=True)
class SteadyWall:
    warmup_s: float | None = None
    warmup_settled: bool | None = None
    steady_wall_samples_ms: list[float] | None = None
    steady_wall_rounds: list[int] | None = None
    steady_wall_ms: float | None = None
    steady_wall_p10_ms: float | None = None
    steady_wall_p90_ms: float | None = None
    steady_wall_error: float | None = None
    steady_iterations: int | None = None
    steady_stop: str | None = None


@dataclass(kw_only=True, slots=True)
class SteadyDevice:
    steady_device_source: str | None = None
    steady_device_note: str | None = None
    steady_device_samples_ms: list[float] | None = None
    steady_device_rounds: list[int] | None = None
    steady_device_ms: float | None = None
    steady_device_p10_ms: float | None = None
    steady_device_p90_ms: float | None = None
    steady_device_error: float | None = None
    steady_device_iterations: int | None = None
    steady_device_stop: str | None = None
    launch_bound: bool | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class KernelLaunch:
    name: str
    operation: str | None
    kind: KernelKind
    grid: list[int] | None
    block: list[int] | None
    shared_bytes: int | None


@dataclass(kw_only=True, slots=True)
class Choice:
    """What was chosen, and the work that it was chosen for."""

    convolutions: int | None = None
    routes: list[str] | None = None
    cudnn_operations: list[str] | None = None
    convolution_flops: int | None = None
    convolution_bytes: int | None = None
    roofline_ms: float | None = None
    roofline_share: float | None = None
    kernels_source: str | None = None
    kernels_note: str | None = None
    kernels: list[KernelLaunch] | None = None
    kernels_hash: str | None = None
    layout_conversions: int | None = None
    layout_conversion_ms: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ComputedTensor:
    tensor: str
    elements: int
    fingerprint: str
    relative_l2_error: float | None
    relative_max_error: float | None


@dataclass(kw_only=True, slots=True)
class Computed:
    computed: list[ComputedTensor] | None = None
    fingerprint: str | None = None
    bitwise_repeatable: bool | None = None
    relative_l2_error: float | None = None
    relative_max_error: float | None = None
    reference_note: str | None = None


@dataclass(kw_only=True, slots=True)
class GpuTelemetry:
    telemetry: str | None = None
    telemetry_samples: int | None = None
    sm_clock_mhz: float | None = None
    sm_clock_low_mhz: int | None = None
    sm_clock_high_mhz: int | None = None
    memory_clock_mhz: int | None = None
    power_w: float | None = None
    energy_per_iteration_mj: float | None = None
    temperature_c: int | None = None
    throttle_reasons: list[str] | None = None
    other_processes: int | None = None
    warnings: list[str] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class LoggedChoice:
    """What cuDNN's frontend said of one operation at its first call."""

    operation: str
    engine: str
    numeric_notes: list[str]
    behavior_notes: list[str]
    workspace_bytes: int
    plans_built: int = 1
    plans_timed: int = 0
    timed_ms: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TimedPlan:
    """A plan that was built for an operation, and the time that a search saw for it."""

    engine: str
    ms: float | None


@dataclass(kw_only=True, slots=True)
class LogPass:
    """What the untimed process yields."""

    logged_choices: list[LoggedChoice] | None = None
    logged_searches: int | None = None
    logged_workspace_bytes: int | None = None
    logged_largest_workspace_bytes: int | None = None
    logged_plans_dropped: int | None = None
    kernels_hash: str | None = None
    plans: list[list[TimedPlan]] = field(default_factory=list)
    """Of each operation of `logged_choices`, in the order in which PyTorch tries them."""
    calls: list[int] = field(default_factory=list)
    """How often a step calls each of these operations, all its shapes together; empty where that is unknown."""
    banned_ran: list[str] = field(default_factory=list)
    """Plans that ran though the config's errata ban them."""


@dataclass(kw_only=True, slots=True)
class Measurement:
    """What was measured so far: filled in as the trial goes, so that a failure keeps what came before it.

    Its fields, and those of its parts, are columns of the record by their names; the record explains
    them.
    """

    config: CudnnConfig | None = None
    workload_hash: str | None = None
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
    loss_first: float | None = None
    loss_last: float | None = None
    accuracy: float | None = None
    own_times_ms: dict[str, float] | None = None
    checks_error: str | None = None
    memory: MemoryUse = field(default_factory=MemoryUse)
    calibration: Calibration = field(default_factory=Calibration)
    wall: SteadyWall = field(default_factory=SteadyWall)
    device: SteadyDevice = field(default_factory=SteadyDevice)
    choice: Choice = field(default_factory=Choice)
    computed: Computed = field(default_factory=Computed)
    telemetry: GpuTelemetry = field(default_factory=GpuTelemetry)
    phases_s: dict[str, float] = field(default_factory=dict)
    """Seconds by phase: start, one_time, build, cold, calibration, steady, checks."""
