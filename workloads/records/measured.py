"""The values that a trial's process measures, in dataclasses whose fields are columns of a record.

A field's name contains its unit. The trial fills the fields in; a value that was not measured is null.
"""

# ruff: noqa: RUF009  # `column` makes a new field at each call

from dataclasses import dataclass, field
from typing import Annotated, Any


def column(meaning: str) -> Any:
    """Declare a field for a column with this meaning. The field is null until it is measured."""
    return field(default=None, metadata={"meaning": meaning})


@dataclass(frozen=True, kw_only=True, slots=True)
class ColdShape:
    """The cold cost of one input shape: wall times of its first two calls, with the device synchronised.

    A call's forward part ends where a backward pass begins. The optimiser runs after that pass.
    """

    shape: Annotated[list[int], "the input's sizes"]
    first_ms: Annotated[float, "wall time of the first call"]
    first_forward_ms: Annotated[float | None, "time of the first call before its backward pass"]
    first_backward_ms: Annotated[float | None, "time of the first call's backward pass"]
    second_ms: Annotated[float | None, "wall time of the second call"]
    second_forward_ms: Annotated[float | None, "time of the second call before its backward pass"]
    second_backward_ms: Annotated[float | None, "time of the second call's backward pass"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Kernel:
    """A kernel or memory operation that a step launched."""

    name: Annotated[str, "name in the driver, mangled if C++"]
    operation: Annotated[str | None, "PyTorch operation that launched the kernel; null if unknown"]
    kind: Annotated[str, "convolution, layout_conversion or other"]
    grid: Annotated[list[int] | None, "blocks in x, y and z"]
    block: Annotated[list[int] | None, "threads of a block in x, y and z"]
    shared_bytes: Annotated[int | None, "dynamic shared memory of a block"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ComputedTensor:
    """An output or gradient that a step computes from fixed random inputs and weights."""

    tensor: Annotated[str, "name of the tensor in the workload"]
    elements: Annotated[int, "numbers in it"]
    fingerprint: Annotated[str, "hash of its bits"]
    relative_l2_error: Annotated[float | None, "‖x − x64‖₂ / ‖x64‖₂ against float64"]
    relative_max_error: Annotated[float | None, "max |x − x64| / max |x64|"]


@dataclass(frozen=True, kw_only=True, slots=True)
class LoggedChoice:
    """What cuDNN's log says about the plan that was chosen at a convolution's first call."""

    operation: Annotated[str, "ConvFwd, ConvBwdData or ConvBwdFilter"]
    engine: Annotated[str, "tag of the chosen plan"]
    numeric_notes: Annotated[list[str], "its numerical notes"]
    behavior_notes: Annotated[list[str], "its behaviour notes"]
    workspace_bytes: Annotated[int, "its workspace"]
    plans_built: Annotated[int, "plans built, the chosen plan included"] = 1
    plans_timed: Annotated[int, "plans that a search timed; 0: no search"] = 0
    timed_ms: Annotated[float | None, "time that a search measured for the chosen plan"] = None


@dataclass(frozen=True, kw_only=True, slots=True)
class RankResult:
    """Values that one rank of a trial over several GPUs measured. All ranks share the trial's wall time."""

    rank: Annotated[int, "from 0"]
    gpu_uuid: Annotated[str | None, "its GPU; null: a CPU"]
    device_ms: Annotated[float | None, "as `steady_device_ms`"]
    wait_ms: Annotated[float | None, "as `steady_wait_ms`"]
    kernels_hash: Annotated[str | None, "as the trial's column"]
    fingerprint: Annotated[str | None, "as the trial's column"]
    cold_peak_reserved_bytes: Annotated[int | None, "as the trial's column"]
    steady_peak_reserved_bytes: Annotated[int | None, "as the trial's column"]


@dataclass(kw_only=True)
class Measured:
    """Measured values that belong to none of the dataclasses below."""

    loop_kind: str | None = column("closed: all shapes were called before timing; open: not all")
    workload_hash: str | None = column("hash of the user's code in the cell; null: none")
    conv_fp32_precision: str | None = column("torch.backends.cudnn.conv.fp32_precision, read back")
    threads: int | None = column("CPU threads torch used")
    compute_cache: str | None = column(
        "state of CUDA's and torch.compile's cache: empty, warm or disabled; null: no cache"
    )
    compute_cache_entries_before: int | None = column("count of files CUDA cached before the trial")
    compute_cache_entries_added: int | None = column("count of files CUDA cached in the trial")
    cold: list[ColdShape] | None = column("cold cost of each distinct shape, in order of arrival")
    distinct_shapes: int | None = column("distinct shapes called in the cold part")
    regime_shapes: int | None = column("distinct shapes of the regime; null: they never end")
    open_new_shapes: int | None = column("shapes that are new in the timed open loop")
    loss_first: float | None = column("loss of the first training step")
    loss_last: float | None = column("loss of the last training step")
    accuracy: float | None = column("share of right answers on held-back examples after training")
    own_times_ms: dict[str, float] | None = column("first call's times by the workload's own clock")
    checks_error: str | None = column("error in the untimed checks after measuring")
    rank_results: list[RankResult] | None = column("results of each rank; null: one rank")
    rank_variables: dict[str, str] | None = column(
        "variables NCCL_*, TORCH_SYMM_MEM_*, NVSHMEM_*; null: one rank"
    )


@dataclass(kw_only=True)
class MemoryUse:
    """Device memory of PyTorch's caching allocator, and the process's host memory."""

    cold_free_bytes: int | None = column("device memory that was free before cold calls")
    cold_allocated_bytes_before: int | None = column("device memory allocated before cold calls")
    cold_reserved_bytes_before: int | None = column("memory reserved before the cold part")
    cold_peak_allocated_bytes: int | None = column("peak of allocated memory in the cold part")
    cold_peak_reserved_bytes: int | None = column("peak of reserved memory in the cold part")
    cold_allocated_bytes_after: int | None = column("memory allocated at the end of the cold part")
    cold_reserved_bytes_after: int | None = column(
        "memory reserved at the end of the cold part; searches may have freed some"
    )
    steady_allocated_bytes: int | None = column("memory allocated at the end of the timed loop")
    steady_reserved_bytes: int | None = column("memory reserved at the end of the timed loop")
    steady_peak_allocated_bytes: int | None = column("peak of allocated memory in the timed loop")
    steady_peak_reserved_bytes: int | None = column("peak of reserved memory in the timed loop")
    peak_host_bytes: int | None = column("peak resident memory of the trial's process")


@dataclass(kw_only=True)
class Calibration:
    """The device's speed at two fixed tasks, measured between the cold and the steady part."""

    calibration_matmul_tflops: float | None = column(
        "speed of a fixed matrix product in the trial's precision, in 10^12 operations per second"
    )
    calibration_copy_gbps: float | None = column(
        "speed of a fixed copy in device memory, in 10^9 bytes read and written per second"
    )


@dataclass(kw_only=True)
class SteadyWall:
    warmup_s: float | None = column("how long the loop ran before it was timed")
    warmup_settled: bool | None = column("whether the clock or, if unknown, the step time settled")
    steady_wall_samples_ms: list[float] | None = column(
        "wall time per iteration: of each timed group (closed loop) or of each step, searches included (open loop)"
    )
    steady_wall_rounds: list[int] | None = column("index of the round that gave each sample")
    steady_wall_ms: float | None = column(
        "wall time per iteration: median of the samples (closed loop), their mean (open loop)"
    )
    steady_wall_p10_ms: float | None = column("10th percentile of the samples")
    steady_wall_p90_ms: float | None = column("90th percentile of the samples")
    steady_wall_error: float | None = column("relative standard error of the process's median")
    steady_iterations: int | None = column("iterations behind the samples")
    steady_stop: str | None = column("why timing stopped: precision, budget or horizon")


@dataclass(kw_only=True)
class SteadyDevice:
    steady_device_source: str | None = column(
        "graph (a CUDA graph of steps), own_graph (one made by execution cuda_graph) or profiler"
    )
    steady_device_note: str | None = column("why there is no graph, or no device time at all")
    steady_device_samples_ms: list[float] | None = column(
        "device time per iteration, without launch gaps; one sample for each replay or each turn"
    )
    steady_wait_ms: float | None = column(
        "time per iteration of NCCL's kernels, which device time leaves out; null: one rank"
    )
    steady_device_rounds: list[int] | None = column("index of the round that gave each sample")
    steady_device_ms: float | None = column("median of the samples")
    steady_device_p10_ms: float | None = column("10th percentile of the samples")
    steady_device_p90_ms: float | None = column("90th percentile of the samples")
    steady_device_error: float | None = column("relative standard error of the process's median")
    steady_device_iterations: int | None = column("iterations behind the samples")
    steady_device_stop: str | None = column("why timing stopped: precision or budget")
    launch_bound: bool | None = column("whether wall time is above 1.1 × device time (CPU-bound)")


@dataclass(kw_only=True)
class Ran:
    """How an execution compiled or captured the step. All fields are null if it ran as written."""

    cold_compile_ms: list[float] | None = column(
        "time of torch.compile, or of capturing a graph, within each shape's calls in `cold`"
    )
    cold_compiles: list[int] | None = column(
        "compilations in each shape's calls; after the first shape, recompilations"
    )
    compiled_graphs: int | None = column("graphs that torch.compile made of the model")
    graph_breaks: list[str] | None = column("distinct reasons why torch.compile split the model")
    graph_replays: int | None = column("replays of the step's own CUDA graphs")
    fallbacks: list[str] | None = column(
        "why the execution was not in force; the trial has status error"
    )
    triton: str | None = column("Triton's version, if compiled")


@dataclass(kw_only=True)
class Choice:
    """Backends and kernels that the timed process chose for the base shape; FLOPs and bytes."""

    convolutions: int | None = column("number of forward (if none, backward) convolutions per step")
    routes: list[str] | None = column("distinct backends of the convolutions, such as Cudnn")
    convolution_inputs: list[str] | None = column(
        "types and layouts (by strides) of the convolutions' inputs, such as bfloat16 channels_last"
    )
    convolution_weights: list[str] | None = column("types and layouts of the convolutions' weights")
    layout_losses: list[str] | None = column(
        "layers and operations that take channels_last and return contiguous, if a convolution or copy converts back; "
        "null in layout contiguous"
    )
    cudnn_operations: list[str] | None = column("other operations of cuDNN, such as _cudnn_rnn")
    convolution_flops: int | None = column("2 × multiply-adds of convolutions in all directions")
    convolution_bytes: int | None = column("least bytes moved: each operand once in each direction")
    roofline_ms: float | None = column("least time of the convolutions at the calibrated speeds")
    roofline_share: float | None = column("roofline_ms / device time (if unknown, wall time)")
    kernels_source: str | None = column("source of `kernels`: graph (a captured step) or profiler")
    kernels_note: str | None = column("why `kernels` comes from the profiler, not from a graph")
    kernels: list[Kernel] | None = column("kernels that the step launches, in order")
    kernels_hash: str | None = column("hash of the convolutions' kernels, their order and grids")
    layout_conversions: int | None = column("launches of kind layout_conversion")
    layout_conversion_ms: float | None = column("device time saved if conversions are left out")


@dataclass(kw_only=True)
class Computed:
    computed: list[ComputedTensor] | None = column("outputs and gradients of one step")
    fingerprint: str | None = column("hash of the bits of all of `computed`")
    bitwise_repeatable: bool | None = column("whether a second run gave the same bits")
    relative_l2_error: float | None = column("largest `relative_l2_error` in `computed`")
    relative_max_error: float | None = column("largest `relative_max_error` in `computed`")
    reference_note: str | None = column("why a requested float64 reference is missing")


@dataclass(kw_only=True)
class GpuTelemetry:
    """Readings of the GPU in the steady part, and all warnings about the trial."""

    telemetry: str | None = column("source of the readings: nvml or a fake; null: none")
    telemetry_samples: int | None = column("number of readings")
    sm_clock_mhz: float | None = column("median SM clock")
    sm_clock_low_mhz: int | None = column("lowest SM clock seen")
    sm_clock_high_mhz: int | None = column("highest SM clock seen")
    memory_clock_mhz: int | None = column("memory clock at the end")
    power_w: float | None = column("mean power from NVML's energy counter; null if `in_turns`")
    energy_per_iteration_mj: float | None = column("energy per timed iteration; null if `in_turns`")
    temperature_c: int | None = column("highest temperature seen")
    throttle_reasons: list[str] | None = column("what slowed the clocks, as NVML names it")
    other_processes: int | None = column("largest number of others' processes on the GPU")
    warnings: list[str] | None = column(
        "warnings that apply: shared_gpu, throttled, power_capped, clocks_unsettled, other_shapes, "
        "own_loss_unused, not_finite or diverged"
    )


@dataclass(kw_only=True)
class Logged:
    """cuDNN's log of an untimed process. The timed process may choose other plans than this one."""

    logged_choices: list[LoggedChoice] | None = column(
        "entries of cuDNN's log about each convolution's first call"
    )
    logged_searches: int | None = column("logged convolutions whose plans were timed")
    logged_workspace_bytes: int | None = column("largest workspace of the chosen plans")
    logged_largest_workspace_bytes: int | None = column("largest workspace of plans in searches")
    logged_plans_dropped: int | None = column("number of searched plans that exceed free memory")
