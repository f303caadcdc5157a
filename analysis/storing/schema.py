"""What one row of the results says: `RunRecord`, the Arrow schema made from it, and its documentation.

One flat row a trial. A unit is part of the column's name; a column that does not apply is null.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from datetime import datetime
from functools import cache
from types import NoneType, UnionType
from typing import (
    Annotated,
    Final,
    Literal,
    TypeAlias,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

import pyarrow as pa

SCHEMA_VERSION = 4

SettingValue: TypeAlias = bool | int | float | str | Mapping[str, bool | int | float | str] | None
Part: TypeAlias = Literal["cell", "hardware", "software"]

CELL: Final = "cell"
HARDWARE: Final = "hardware"
SOFTWARE: Final = "software"


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """Marks a column as a setting of the config: trials that differ in it are never taken together."""

    usual: SettingValue
    """PyTorch's own value: a config's name leaves it out, and rows from before the column have it."""
    read_by: Literal["cudnn", "cuda", "torch", "any"] = "cudnn"
    """The library that reads it: one of cuDNN's cannot matter to a step that does not run in cuDNN."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Axis:
    """Marks a column as an axis of a cell: answers list it, and cells that differ in it are never taken together."""

    usual: str | None = None
    """The value that a cell's name leaves out, and that rows from before the column have."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ColdShape:
    """The cold cost of one input shape, in order of arrival; all wall time, synchronised.

    Forward is what comes before the backward pass, or all where there is none; after both a
    training's optimiser is what is left.
    """

    shape: Annotated[list[int], "the input's sizes"]
    first_ms: Annotated[float, "the first call"]
    first_forward_ms: Annotated[float | None, "of it, until the backward pass"]
    first_backward_ms: Annotated[float | None, "of it, the backward pass"]
    second_ms: Annotated[float | None, "the second call"]
    second_forward_ms: Annotated[float | None, "of it, until the backward pass"]
    second_backward_ms: Annotated[float | None, "of it, the backward pass"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedShape:
    """A shape of a regime's file."""

    shape: Annotated[list[int], "the input's sizes"]
    count: Annotated[int, "how often the file counts it"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Kernel:
    """One kernel or memory operation that a step launches, in order."""

    name: Annotated[str, "as the driver has it, mangled where it is C++"]
    operation: Annotated[str | None, "PyTorch's operation that launched it; null where unknown"]
    kind: Annotated[str, "convolution, layout_conversion or other"]
    grid: Annotated[list[int] | None, "blocks in x, y and z"]
    block: Annotated[list[int] | None, "threads of a block in x, y and z"]
    shared_bytes: Annotated[int | None, "dynamic shared memory of a block"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ComputedTensor:
    """One output or gradient of a step from fixed random inputs and weights."""

    tensor: Annotated[str, "its name in the workload"]
    elements: Annotated[int, "numbers in it"]
    fingerprint: Annotated[str, "hash of its bits"]
    relative_l2_error: Annotated[float | None, "‖x − x64‖₂ / ‖x64‖₂ against float64"]
    relative_max_error: Annotated[float | None, "max |x − x64| / max |x64|"]


@dataclass(frozen=True, kw_only=True, slots=True)
class LoggedChoice:
    """What cuDNN's log says of one convolution operation at its first call."""

    operation: Annotated[str, "ConvFwd, ConvBwdData or ConvBwdFilter"]
    engine: Annotated[str, "tag of the plan that was taken"]
    numeric_notes: Annotated[list[str], "its numerical notes"]
    behavior_notes: Annotated[list[str], "its behaviour notes"]
    workspace_bytes: Annotated[int, "its workspace"]
    plans_built: Annotated[int, "plans built before one was taken"]
    plans_timed: Annotated[int, "plans that a search timed; 0: no search"]
    timed_ms: Annotated[float | None, "the time that the search saw for it"]


@dataclass(frozen=True, kw_only=True, slots=True)
class RunRecord:
    """One trial: what was asked, what came of it, what was measured and where."""

    # identity
    schema_version: Annotated[int, "version of this row's layout"]
    sweep_id: Annotated[str, "one run of a plan, resumed as often as needed"]
    trial_id: Annotated[str, "hash of the cell, config, replicate and twin; with sweep_id the key"]
    attempt_id: Annotated[str, "unique to each try: of two for one key, the first durable counts"]
    attempt: Annotated[int, "1, or more where earlier tries were lost to their worker"]
    retry: Annotated[int, "how often --retry-failed ran this trial again; the highest counts"]
    launch_id: Annotated[str, "one launch of the sweep: trials of a block from two are not paired"]
    ends_launch: Annotated[
        bool,
        "whether its launch ended with this trial; while the last row of a sweep, or of a shard, has false, more may come",
    ]
    plan_hash: Annotated[str, "hash of the plan: its trials, their order, how they measure"]
    plan_trials: Annotated[
        int,
        "trials in the plan, with `looks` at most: a sweep with as many keys is finished, those of repeats left out",
    ]
    plan_cells: Annotated[int, "cells in the plan"]
    plan_blocks: Annotated[int, "blocks in the plan, with `looks` at most"]
    looks: Annotated[list[int] | None, "blocks after which a cell may be decided; null: fixed"]
    shard: Annotated[int | None, "part of the plan that its launch ran, from 1; null: all of it"]
    shards: Annotated[int | None, "into how many parts the plan was split"]
    suite: Annotated[str, "name of the suite, or `inline`"]
    cell_id: Annotated[str, "hash of what is timed: axes, problem, model, parameters, gpu"]
    workload: Annotated[str, "code that is timed, by name or import path", Axis()]
    problem: Annotated[str | None, "name of the convolution problem; null for a model", Axis()]
    direction: Annotated[
        str,
        "forward, backward_data, backward_filter, forward_backward, training (with optimiser) or inference",
        Axis(),
    ]
    input_shape: Annotated[list[int], "base input sizes: batch, channels, then space", Axis()]
    out_channels: Annotated[int | None, "filters of the convolution problem", CELL]
    kernel_size: Annotated[list[int] | None, "of the problem, a number per spatial dimension", CELL]
    stride: Annotated[list[int] | None, "of the convolution problem", CELL]
    padding: Annotated[list[int] | None, "of the convolution problem", CELL]
    dilation: Annotated[list[int] | None, "of the convolution problem", CELL]
    groups: Annotated[int | None, "of the convolution problem", CELL]
    bias: Annotated[bool | None, "whether the convolution problem adds a bias", CELL]
    transposed: Annotated[bool | None, "whether it is a transposed convolution", CELL]
    output_padding: Annotated[list[int] | None, "of a transposed convolution problem", CELL]
    occurrences: Annotated[int | None, "how often the problem's network has it"]
    model_arguments: Annotated[dict[str, str] | None, "a model's arguments, each as JSON", CELL]
    model_inputs: Annotated[str | None, "a model's inputs, as JSON; null: one float tensor", CELL]
    loss: Annotated[str | None, "that model's loss", CELL]
    optimiser: Annotated[str | None, "that model's optimiser", CELL]
    optimiser_parameters: Annotated[dict[str, float] | None, "its numbers, by name", CELL]
    regime: Annotated[str, "the rule by which input shapes arrive", Axis()]
    regime_parameters: Annotated[dict[str, float], "the rule's numbers, by name", CELL]
    listed_shapes: Annotated[list[ListedShape] | None, "all shapes of a regime's file", CELL]
    loop_kind: Annotated[str | None, "closed: all shapes met, then timed; open: more came"]
    state: Annotated[str, "what surrounds a step at equal shapes, or plain", Axis(usual="plain")]
    state_parameters: Annotated[dict[str, float], "the state's numbers, by name", CELL]
    precision: Annotated[str, "fp32 (IEEE), tf32, bf16, fp16, amp_bf16 or amp_fp16", Axis()]
    layout: Annotated[str, "contiguous or channels_last", Axis(usual="contiguous")]
    placement: Annotated[
        str | None,
        "`strides` if a convolution is channels_last only by the strides that tensors of one channel or one pixel "
        "have since version 3; null: none is",
        CELL,
    ]
    replicate: Annotated[int, "number of this process among its cell's, from 0 in running order"]
    twin: Annotated[int, "1 for the second trial of an A/A pair, else 0"]
    block: Annotated[int, "the cell's configs once each, back to back; a number within the plan"]
    position: Annotated[int, "place in the plan, from 0"]
    repeats_block: Annotated[int | None, "the plan's split block that this one repeats, else null"]
    software: Annotated[
        str | None,
        "which other environment's Python measured, as last_good, in a sweep that interleaves two; "
        "null: the launch's own",
    ]

    in_turns: Annotated[bool, "its process took turns with the others of its block"]
    alone_reason: Annotated[
        str | None,
        "why it took none: as asked, no other of its block, memory, lost before, open loop, its "
        "state, or threads or processes of its own; null where it ended before its first turn",
    ]
    turn_cpus: Annotated[str | None, "CPUs of its block's turns, as Linux lists them; null: all"]

    # config
    enabled: Annotated[bool, "torch.backends.cudnn.enabled, read back", Setting(usual=True)]
    benchmark: Annotated[bool, "torch.backends.cudnn.benchmark, read back", Setting(usual=False)]
    benchmark_limit: Annotated[
        int | None,
        "torch.backends.cudnn.benchmark_limit, read back; null: torch has none here",
        Setting(usual=10),
    ]
    deterministic: Annotated[
        bool, "torch.backends.cudnn.deterministic, read back", Setting(usual=False)
    ]
    heuristic_mode_b: Annotated[bool, "TORCH_CUDNN_USE_HEURISTIC_MODE_B=1", Setting(usual=False)]
    plan_cache_limit: Annotated[
        int | None,
        "TORCH_CUDNN_V8_API_LRU_CACHE_LIMIT in the process; null: torch's own",
        Setting(usual=None),
    ]
    compute_cache_disabled: Annotated[
        bool, "CUDA_CACHE_DISABLE=1", Setting(usual=False, read_by="cuda")
    ]
    backward_in_caller: Annotated[
        bool,
        "the backward pass ran in the loop's own thread: "
        "torch.autograd.set_multithreading_enabled(False), read back",
        Setting(usual=False, read_by="torch"),
    ]
    errata: Annotated[
        str | None,
        "rules by which plans were banned, read back from CUDNN_ERRATA_JSON_FILE; null: PyTorch's own alone",
        Setting(usual=None),
    ]
    environment: Annotated[
        dict[str, str], "further environment variables", Setting(usual={}, read_by="any")
    ]
    code: Annotated[
        str | None,
        "side of a gate; null: the launch's folder",
        Setting(usual=None, read_by="any"),
    ]

    # outcome
    status: Annotated[str, "ok, error, out_of_memory, crash (signal), killed (SIGKILL) or timeout"]
    message: Annotated[str | None, "what went wrong, for any status but ok"]

    # measurement
    workload_hash: Annotated[str | None, "hash of a user's sources of workload and loss, else null"]
    conv_fp32_precision: Annotated[str | None, "torch.backends.cudnn.conv.fp32_precision, as read"]
    threads: Annotated[int | None, "CPU threads torch used"]
    compute_cache: Annotated[str | None, "CUDA's disk cache: empty, warm, disabled; null: no CUDA"]
    compute_cache_entries_before: Annotated[int | None, "files in that cache when the trial began"]
    compute_cache_entries_added: Annotated[int | None, "files that the trial added to it"]
    cold: Annotated[list[ColdShape] | None, "cold cost of each distinct shape, in order of arrival"]
    distinct_shapes: Annotated[int | None, "distinct shapes met in the cold part"]
    regime_shapes: Annotated[int | None, "distinct shapes that the regime has; null: without end"]
    open_new_shapes: Annotated[int | None, "steps of an open loop that met a new shape"]
    loss_first: Annotated[float | None, "loss of the first training step"]
    loss_last: Annotated[float | None, "loss of the last training step"]
    accuracy: Annotated[float | None, "share of right answers on held-back examples after training"]
    own_times_ms: Annotated[dict[str, float] | None, "by the workload's own clock, at first call"]

    checks_error: Annotated[str | None, "what went wrong in untimed checks, after measuring"]

    # memory of the caching allocator, and the host's
    cold_free_bytes: Annotated[int | None, "device memory no process held before the cold part"]
    cold_allocated_bytes_before: Annotated[int | None, "device memory allocated before it"]
    cold_reserved_bytes_before: Annotated[int | None, "reserved by PyTorch's allocator before it"]
    cold_peak_allocated_bytes: Annotated[int | None, "peak of allocated memory in it"]
    cold_peak_reserved_bytes: Annotated[int | None, "peak of reserved memory in it"]
    cold_allocated_bytes_after: Annotated[int | None, "allocated when it ended"]
    cold_reserved_bytes_after: Annotated[int | None, "reserved after it: a search frees the unused"]
    steady_allocated_bytes: Annotated[int | None, "allocated after the timed loop"]
    steady_reserved_bytes: Annotated[int | None, "reserved after the timed loop"]
    steady_peak_allocated_bytes: Annotated[int | None, "peak of allocated memory in the timed loop"]
    steady_peak_reserved_bytes: Annotated[int | None, "peak of reserved memory in the timed loop"]
    peak_host_bytes: Annotated[int | None, "peak resident memory of the trial's process"]

    # calibration: what the device can do at that moment
    calibration_matmul_tflops: Annotated[
        float | None, "a fixed matrix product in the trial's precision, 10^12 operations a second"
    ]
    calibration_copy_gbps: Annotated[
        float | None, "a fixed copy in device memory, 10^9 bytes read and written a second"
    ]

    # steady state, as a user's loop has it
    warmup_s: Annotated[float | None, "how long the loop ran before it was timed"]
    warmup_settled: Annotated[bool | None, "whether its pace and clock had settled by then"]
    steady_wall_samples_ms: Annotated[
        list[float] | None,
        "wall time per iteration: of each timed group (closed loop) or of each step, searches included (open loop)",
    ]
    steady_wall_rounds: Annotated[list[int] | None, "each sample's round, which its block shares"]
    steady_wall_ms: Annotated[
        float | None,
        "wall time per iteration: median of the samples (closed loop), their mean (open loop)",
    ]
    steady_wall_p10_ms: Annotated[float | None, "10% of the samples are below"]
    steady_wall_p90_ms: Annotated[float | None, "90% of the samples are below"]
    steady_wall_error: Annotated[float | None, "relative standard error of the process's median"]
    steady_iterations: Annotated[int | None, "iterations behind the samples"]
    steady_stop: Annotated[str | None, "why timing stopped: precision, budget or horizon"]

    # steady state, on the device alone
    steady_device_source: Annotated[str | None, "graph (replays of a CUDA graph), or profiler"]
    steady_device_note: Annotated[str | None, "why there is no graph, or no device time at all"]
    steady_device_samples_ms: Annotated[
        list[float] | None,
        "device time per iteration, free of launch gaps, of each replay, or of each turn's",
    ]
    steady_device_rounds: Annotated[list[int] | None, "each sample's round, which its block shares"]
    steady_device_ms: Annotated[float | None, "their median"]
    steady_device_p10_ms: Annotated[float | None, "10% of the samples are below"]
    steady_device_p90_ms: Annotated[float | None, "90% of the samples are below"]
    steady_device_error: Annotated[float | None, "relative standard error of the process's median"]
    steady_device_iterations: Annotated[int | None, "iterations behind the samples"]
    steady_device_stop: Annotated[str | None, "why timing stopped: precision or budget"]
    launch_bound: Annotated[bool | None, "wall time over 1.1 × device time: the loop is CPU-bound"]

    # what was chosen, by the process that was timed; of one step at the base input shape
    convolutions: Annotated[int | None, "convolution calls of a step; backward ones if no other"]
    routes: Annotated[list[str] | None, "distinct backends that PyTorch selects for them, as Cudnn"]
    cudnn_operations: Annotated[list[str] | None, "other operations run by cuDNN, as _cudnn_rnn"]
    convolution_flops: Annotated[int | None, "2 × multiply-adds of convolutions, each direction"]
    convolution_bytes: Annotated[int | None, "bytes they must move: each operand once a direction"]
    roofline_ms: Annotated[float | None, "least time for them, each at the ceiling that limits it"]
    roofline_share: Annotated[float | None, "roofline_ms / device time (wall time without CUDA)"]
    kernels_source: Annotated[str | None, "graph (the timed process's own) or profiler"]
    kernels_note: Annotated[str | None, "why they are not from the graph, or not known at all"]
    kernels: Annotated[list[Kernel] | None, "what the step launches, in order"]
    kernels_hash: Annotated[str | None, "hash of the convolutions' kernels, their order and grids"]
    layout_conversions: Annotated[int | None, "launches of kind layout_conversion"]
    layout_conversion_ms: Annotated[float | None, "device time that a step would save without them"]

    # what it computes, from fixed random inputs and weights
    computed: Annotated[list[ComputedTensor] | None, "outputs and gradients of one step"]
    fingerprint: Annotated[str | None, "hash of the bits of all of them"]
    bitwise_repeatable: Annotated[bool | None, "whether a second run gave the same bits"]
    relative_l2_error: Annotated[float | None, "largest of their relative L2 errors to float64"]
    relative_max_error: Annotated[float | None, "largest of their relative maximum errors"]
    reference_note: Annotated[str | None, "why there is no float64 reference where one was asked"]

    # the GPU beside the steady part, and what it makes doubtful
    telemetry: Annotated[str | None, "where it was read: nvml, or a fake; null where unread"]
    telemetry_samples: Annotated[int | None, "times that it was read"]
    sm_clock_mhz: Annotated[float | None, "median SM clock"]
    sm_clock_low_mhz: Annotated[int | None, "lowest SM clock seen"]
    sm_clock_high_mhz: Annotated[int | None, "highest SM clock seen"]
    memory_clock_mhz: Annotated[int | None, "memory clock at the end"]
    power_w: Annotated[float | None, "mean power, by an energy counter of 0.1 s; null in turns"]
    energy_per_iteration_mj: Annotated[float | None, "energy of the wall loop; null in turns"]
    temperature_c: Annotated[int | None, "highest temperature seen"]
    throttle_reasons: Annotated[list[str] | None, "what slowed the clocks, as NVML names it"]
    other_processes: Annotated[int | None, "most processes of others seen on the GPU"]
    warnings: Annotated[
        list[str] | None,
        "of shared_gpu, throttled, power_capped, clocks_unsettled, other_shapes, own_loss_unused, not_finite and "
        "diverged those that were seen",
    ]

    # an untimed process of its own, which drew its own choice
    logged_choices: Annotated[
        list[LoggedChoice] | None, "what cuDNN's log says of each convolution's first call"
    ]
    logged_searches: Annotated[int | None, "how many of them timed plans"]
    logged_workspace_bytes: Annotated[int | None, "the largest workspace of the plans taken"]
    logged_largest_workspace_bytes: Annotated[int | None, "largest workspace of the plans built"]
    logged_plans_dropped: Annotated[int | None, "how many of these needed more than was free"]
    logged_kernels_agree: Annotated[bool | None, "whether it launched the timed process's kernels"]
    logged_error: Annotated[str | None, "why there is no log where one was asked for"]

    # where the trial's own time went
    start_s: Annotated[float | None, "from the fork to the trial's first own line"]
    one_time_s: Annotated[float | None, "CUDA context, libraries, first backward, on other work"]
    overlapped_s: Annotated[float | None, "of one_time_s, beside others of a block; null: unknown"]
    build_s: Annotated[float | None, "making the workload"]
    cold_s: Annotated[float | None, "cold part"]
    calibration_s: Annotated[float | None, "calibration"]
    steady_s: Annotated[float | None, "warm-up and steady part"]
    checks_s: Annotated[float | None, "untimed part after the measurement"]
    log_s: Annotated[float | None, "whole life of the untimed process that logs"]
    exit_s: Annotated[float | None, "from the result to the process being gone"]
    process_s: Annotated[float, "life of the trial's process, fork to gone, without the log's"]
    waited_s: Annotated[float | None, "of it, what others of its block did their turns in"]
    gap_s: Annotated[
        float | None,
        "from the slot's last process gone to this one forked; null beside another of its block, or "
        "after one of another `software`",
    ]
    started_at: Annotated[datetime, "when the trial's process was forked, UTC"]
    ended_at: Annotated[datetime, "when it was gone, UTC"]

    # environment
    device: Annotated[str, "cuda or cpu"]
    gpu: Annotated[str, "GPU model; without CUDA the processor's", HARDWARE]
    gpu_uuid: Annotated[str | None, "the GPU's UUID"]
    gpu_memory_bytes: Annotated[int | None, "the GPU's memory", HARDWARE]
    mig_profile: Annotated[str | None, "MIG slice, where the GPU is sliced", HARDWARE]
    max_sm_clock_mhz: Annotated[int | None, "highest SM clock that the GPU may run at", HARDWARE]
    power_limit_w: Annotated[float | None, "enforced power limit", HARDWARE]
    driver: Annotated[str | None, "NVIDIA driver's version", SOFTWARE]
    cuda: Annotated[str | None, "CUDA version torch was built with", SOFTWARE]
    cudnn: Annotated[int | None, "torch.backends.cudnn.version()", SOFTWARE]
    torch: Annotated[str, "PyTorch's version", SOFTWARE]
    ray: Annotated[str, "Ray's version", SOFTWARE]
    python: Annotated[str, "Python's version", SOFTWARE]
    os: Annotated[str, "operating system and kernel"]
    host: Annotated[str, "name of the machine that measured, and a mark of its boot"]
    slot: Annotated[str, "what measured: the GPU's UUID, else host and number of the slot"]
    cpu_model: Annotated[str | None, "the processor's model; null where unknown"]
    cpu_cores: Annotated[int, "CPU cores the trial's process might use"]
    pinned_cpus: Annotated[
        str | None, "CPUs of its slot alone, as Linux lists them; null: not pinned"
    ]
    numa_node: Annotated[int | None, "NUMA node of the GPU they are near; null where unknown"]
    version: Annotated[str, "version of cudnn-sweep", SOFTWARE]
    commit: Annotated[str | None, "git commit of cudnn-sweep, where known"]
    env_hash: Annotated[str, "hash of the hardware: a change opens a new baseline"]
    software_hash: Annotated[str, "hash of torch, CUDA, cuDNN, driver, Python, Ray and our version"]


ARROW_TYPES = {
    str: pa.string(),
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    datetime: pa.timestamp("us", tz="UTC"),
}


@cache
def settings() -> Mapping[str, Setting]:
    """The settings of a config, by column, in the columns' order."""
    return _marked(Setting)


@cache
def axes() -> Mapping[str, Axis]:
    """The axes of a cell, by column, in the columns' order."""
    return _marked(Axis)


@cache
def columns_of(part: Part) -> tuple[str, ...]:
    """The columns that make a cell, a software or a hardware, in the columns' order."""
    marked = {**_marked(str), **dict.fromkeys(axes(), CELL)}
    return tuple(name for name in arrow_schema().names if marked.get(name) == part)


@cache
def arrow_schema() -> pa.Schema:
    """The Parquet files' schema: a field a column, its meaning under the metadata key `meaning`."""
    return pa.schema([_arrow_field(name, hint) for name, hint in _hints(RunRecord).items()])


def to_table(records: list[RunRecord]) -> pa.Table:
    """Not by asdict, which copies each number of a list."""
    names = arrow_schema().names
    rows = [{name: _plain(getattr(record, name)) for name in names} for record in records]
    return pa.Table.from_pylist(rows, schema=arrow_schema())


def _plain(value: object) -> object:
    """A record's value as Arrow takes it: dataclasses in its lists are dictionaries there."""
    if isinstance(value, list) and value and is_dataclass(value[0]):
        return [asdict(each) for each in value]
    return value


def _hints(record_type: type) -> dict[str, object]:
    hints = get_type_hints(record_type, include_extras=True)
    return {field.name: hints[field.name] for field in fields(record_type)}


Mark = TypeVar("Mark")


def _marked(kind: type[Mark]) -> dict[str, Mark]:
    """The columns that have such a mark behind their type and meaning."""
    marks = ((name, get_args(hint)[2:]) for name, hint in _hints(RunRecord).items())
    return {name: mark for name, found in marks for mark in found if isinstance(mark, kind)}


def _arrow_field(name: str, hint: object) -> pa.Field:
    python_type, meaning, *_marks = get_args(hint)
    nullable = NoneType in get_args(python_type)
    return pa.field(name, _arrow_type(python_type), nullable, metadata={"meaning": meaning})


def _arrow_type(python_type: object) -> pa.DataType:
    if isinstance(python_type, UnionType):
        (python_type,) = (kind for kind in get_args(python_type) if kind is not NoneType)
    if get_origin(python_type) is list:
        return pa.list_(_arrow_type(get_args(python_type)[0]))
    if get_origin(python_type) is dict:
        return pa.map_(*map(_arrow_type, get_args(python_type)))
    if is_dataclass(python_type):
        assert isinstance(python_type, type)
        return pa.struct([_arrow_field(name, hint) for name, hint in _hints(python_type).items()])
    return ARROW_TYPES[python_type]  # type: ignore[index]
