"""The request for a trial and the trial's results; both go from process to process as JSON."""

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
    """How long a trial measures, and when it is given up."""

    model_config = STRICT

    cold_budget_s: Seconds = 150.0
    """Time for the first calls of all shapes; if it runs out, the loop counts as open."""
    cold_shapes: Annotated[int, Field(ge=1)] = 64
    """Largest number of shapes whose first calls are timed; with more, the loop counts as open."""
    open_cold_shapes: Annotated[int, Field(ge=1)] = 4
    """Number of shapes whose first calls are timed before an open loop."""
    warmup_s: Seconds = 0.4
    """The steady loop runs this long before it is timed."""
    warmup_limit_s: Seconds = 1.5
    """The warm-up continues until the clocks have settled, for at most this long."""
    steady_budget_s: Seconds = 2.0
    """Timing of a closed loop's wall time stops after this long."""
    device_budget_s: Seconds = 0.5
    """Device timing stops after this long. 0 means no device timing."""
    steady_error: Annotated[float, Field(ge=0)] = 0.002
    """Wall and device timing stop early once the median's relative standard error is below this."""
    in_turns: bool = True
    """Whether the processes of a block live side by side and take turns. If false, they run one
    after another."""
    start_together: bool = False
    """Whether processes that take turns pay their one-time costs at the same time, before the first
    step at any shape. If false, they pay one after another."""
    turn_cpus: Annotated[int, Field(ge=1)] | None = 1
    """Number of CPUs on which a block's processes take turns on a GPU. If null, or if a trial has
    several ranks or keeps more than 1.5 CPUs busy, the block runs on all CPUs of the slot."""
    open_steps: Annotated[int, Field(ge=1)] = 64
    """Number of timed steps in an open loop."""
    open_budget_s: Seconds = 10.0
    """Timing of an open loop stops after this time, however many steps are timed."""
    calibrate: bool = True
    """Measure the device's matrix-product and copy speed before the steady part."""
    reference_replicates: Annotated[int, Field(ge=0)] = 1
    """This many of a cell's replicates compare their results with float64."""
    logged_replicates: Annotated[int, Field(ge=0)] = 1
    """In this many of a cell's replicates, an untimed process logs cuDNN's choice of engines."""
    telemetry: MonitorKind = "nvml"
    """Source of readings (clocks, power, other processes): nvml, off (none), or fixed fake ones."""
    timeout_s: Annotated[float, Field(gt=0)] = 300.0
    """A trial's process is ended after this long, together with its descendants."""
    host_memory_limit_mib: Annotated[int, Field(ge=1)] | None = None
    """Host memory that a trial's process may allocate; null: no limit."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TrialRequest:
    cell: Cell
    config: Config
    measure: MeasureSpec
    seed: int
    compute_cache: str | None
    """Folder for CUDA's compiled kernels, or None for CUDA's default folder."""
    reference: bool = False
    """Whether to compare the step's results with those in float64."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TimedPlan:
    """A cuDNN engine plan. `ms` is its time in the search, or None if the plan was not timed."""

    engine: str
    ms: float | None


@dataclass(kw_only=True)
class LogPass(measured.Logged):
    """Results of the log pass, an untimed process that logs cuDNN's choice of engines."""

    kernels_hash: str | None = None
    plans: list[list[TimedPlan]] = field(default_factory=list)
    """For each operation of `logged_choices`, its plans in the order in which PyTorch tries them."""
    calls: list[int] = field(default_factory=list)
    """For each operation of `logged_choices`, the sum of its calls over one step at each shape.
    Empty if the calls are unknown."""
    banned_ran: list[str] = field(default_factory=list)
    """Texts about banned plans that ran: each names a plan and the rule of errata that bans it."""


@dataclass(kw_only=True)
class Measurement(measured.Measured):
    """Values measured so far. The trial fills them in as it runs, so a failed trial keeps them."""

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
    """Seconds that each phase took: start, one_time, build, cold, calibration, steady, checks."""
