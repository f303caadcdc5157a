"""The request for a trial, and the results of a trial. Processes exchange them as JSON."""

from dataclasses import dataclass, field
from typing import Annotated

from pydantic import BaseModel, Field

from cudnn_sweep.workloads.cells.cell import Cell
from cudnn_sweep.workloads.cells.config import Config
from cudnn_sweep.workloads.hardware.monitor import MonitorKind
from cudnn_sweep.workloads.records import measured
from cudnn_sweep.workloads.strict import STRICT

Seconds = Annotated[float, Field(ge=0)]


class MeasureSpec(BaseModel):
    """Time limits and other settings of a trial's measurement."""

    model_config = STRICT

    cold_budget_s: Seconds = 150.0
    """Time limit in seconds for the first calls of all shapes. After it, the loop counts as open."""
    cold_shapes: Annotated[int, Field(ge=1)] = 64
    """Largest number of shapes whose first calls are timed. With more, the loop counts as open."""
    open_cold_shapes: Annotated[int, Field(ge=1)] = 4
    """Number of shapes whose first calls are timed if the regime's shapes do not repeat."""
    warmup_s: Seconds = 0.4
    """Shortest duration of the warm-up, in seconds."""
    warmup_limit_s: Seconds = 1.5
    """Longest duration of the warm-up in seconds. It ends earlier if the GPU's clocks settle."""
    steady_budget_s: Seconds = 2.0
    """Time limit in seconds for measuring the wall time of a closed loop."""
    device_budget_s: Seconds = 0.5
    """Time limit in seconds for measuring the device time. 0 means that it is not measured."""
    steady_error: Annotated[float, Field(ge=0)] = 0.002
    """Relative standard error of the median below which wall and device timing stop early."""
    in_turns: bool = True
    """Whether the processes of a block take turns. If false, each process starts after the end of
    the previous one."""
    start_together: bool = False
    """Whether processes that take turns start at the same time. If false, they start one after
    another."""
    turn_cpus: Annotated[int, Field(ge=1)] | None = 1
    """Number of CPUs for the processes that take turns on a GPU. null means all CPUs of the slot.
    Processes that keep several CPUs busy also get all CPUs."""
    open_steps: Annotated[int, Field(ge=1)] = 64
    """Number of timed steps in an open loop."""
    open_budget_s: Seconds = 10.0
    """Time limit in seconds for measuring an open loop."""
    calibrate: bool = True
    """Whether a trial measures how fast the device multiplies matrices and copies memory."""
    reference_replicates: Annotated[int, Field(ge=0)] = 1
    """Number of a cell's first replicates that also compare their results with float64."""
    logged_replicates: Annotated[int, Field(ge=0)] = 1
    """Number of a cell's replicates in which an untimed process logs the plans of cuDNN."""
    telemetry: MonitorKind = "nvml"
    """Source of readings such as clocks and power: `nvml`, `off` for none, or made-up readings."""
    timeout_s: Annotated[float, Field(gt=0)] = 300.0
    """Time limit in seconds after which a trial's process and its descendants are ended."""
    host_memory_limit_mib: Annotated[int, Field(ge=1)] | None = None
    """Host memory in MiB that a trial's process may allocate. null means no limit."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TrialRequest:
    cell: Cell
    config: Config
    measure: MeasureSpec
    seed: int
    compute_cache: str | None
    """Folder for the kernels that CUDA compiles, or None for CUDA's default folder."""
    reference: bool = False
    """Whether to compare the results of the step with results in float64."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TimedPlan:
    """A plan of cuDNN. `ms` is its time in a search, or None if no search timed it."""

    engine: str
    ms: float | None


@dataclass(kw_only=True)
class LogPass(measured.Logged):
    """Results of the log pass. It is an untimed process that logs the plans of cuDNN."""

    kernels_hash: str | None = None
    plans: list[list[TimedPlan]] = field(default_factory=list)
    """Plans of each operation of `logged_choices`, in the order in which PyTorch tries them."""
    calls: list[int] = field(default_factory=list)
    """Number of calls of each operation of `logged_choices` in one step at each shape."""
    banned_ran: list[str] = field(default_factory=list)
    """Messages about plans that ran although a rule of `errata` bans them."""


@dataclass(kw_only=True)
class Measurement(measured.Measured):
    """Results of a trial. A failed trial keeps the values that it measured before the failure."""

    config: Config | None = None
    memory: measured.MemoryUse = field(default_factory=measured.MemoryUse)
    calibration: measured.Calibration = field(default_factory=measured.Calibration)
    wall: measured.SteadyWall = field(default_factory=measured.SteadyWall)
    device: measured.SteadyDevice = field(default_factory=measured.SteadyDevice)
    choice: measured.Choice = field(default_factory=measured.Choice)
    ran: measured.Ran = field(default_factory=measured.Ran)
    computed: measured.Computed = field(default_factory=measured.Computed)
    telemetry: measured.GpuTelemetry = field(default_factory=measured.GpuTelemetry)
    phases_s: dict[str, float] = field(default_factory=dict)
    """Seconds of the phases start, one_time, build, cold, calibration, steady and checks."""
