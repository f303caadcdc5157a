"""Measured values of a trial. The fields of these dataclasses are columns of the trial's record.

A field's name contains its unit. A value that was not measured is null.
"""

# ruff: noqa: RUF009  # `column` makes a new field at each call

from dataclasses import dataclass, field
from typing import Annotated, Any


def column(meaning: str) -> Any:
    """Declare a dataclass field for a column. The field is None until it is measured."""
    return field(default=None, metadata={"meaning": meaning})


@dataclass(frozen=True, kw_only=True, slots=True)
class ColdShape:
    """Wall times of the first two calls at one input shape, with the device synchronised."""

    shape: Annotated[list[int], "sizes of the input"]
    first_ms: Annotated[float, "wall time of the first call"]
    first_forward_ms: Annotated[float | None, "wall time of the forward pass in the first call"]
    first_backward_ms: Annotated[float | None, "wall time of the backward pass in the first call"]
    second_ms: Annotated[float | None, "wall time of the second call"]
    second_forward_ms: Annotated[float | None, "wall time of the forward pass in the second call"]
    second_backward_ms: Annotated[float | None, "wall time of the backward pass in the second call"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Kernel:
    """A kernel or memory operation that a step launched."""

    name: Annotated[str, "name of the kernel; a C++ name is mangled"]
    operation: Annotated[str | None, "PyTorch operation that launched the kernel; null if unknown"]
    kind: Annotated[str, "kind of the kernel: convolution, layout_conversion or other"]
    grid: Annotated[list[int] | None, "number of thread blocks in x, y and z"]
    block: Annotated[list[int] | None, "number of threads per block in x, y and z"]
    shared_bytes: Annotated[int | None, "dynamic shared memory per block"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ComputedTensor:
    """An output or gradient of a step whose inputs and weights are fixed random numbers."""

    tensor: Annotated[str, "name of the output or gradient"]
    elements: Annotated[int, "number of the tensor's elements"]
    fingerprint: Annotated[str, "hash of the tensor's bits"]
    relative_l2_error: Annotated[float | None, "relative error in the L2 norm, against float64"]
    relative_max_error: Annotated[float | None, "relative error in the max norm, against float64"]


@dataclass(frozen=True, kw_only=True, slots=True)
class LoggedChoice:
    """A plan that was chosen at the first call of a convolution, from cuDNN's log."""

    operation: Annotated[str, "operation of cuDNN: ConvFwd, ConvBwdData or ConvBwdFilter"]
    engine: Annotated[str, "tag of the chosen plan"]
    numeric_notes: Annotated[list[str], "numerical notes of the chosen plan"]
    behavior_notes: Annotated[list[str], "behaviour notes of the chosen plan"]
    workspace_bytes: Annotated[int, "workspace of the chosen plan"]
    plans_built: Annotated[int, "number of plans that were built"] = 1
    plans_timed: Annotated[int, "number of plans that a search timed; 0 without a search"] = 0
    timed_ms: Annotated[float | None, "time that a search measured for the chosen plan"] = None


@dataclass(frozen=True, kw_only=True, slots=True)
class RankResult:
    """Values that one rank of a trial measured."""

    rank: Annotated[int, "number of the rank, counted from 0"]
    gpu_uuid: Annotated[str | None, "UUID of the rank's GPU; null for a CPU"]
    device_ms: Annotated[float | None, "`steady_device_ms` of the rank"]
    wait_ms: Annotated[float | None, "`steady_wait_ms` of the rank"]
    kernels_hash: Annotated[str | None, "`kernels_hash` of the rank"]
    fingerprint: Annotated[str | None, "`fingerprint` of the rank"]
    cold_peak_reserved_bytes: Annotated[int | None, "`cold_peak_reserved_bytes` of the rank"]
    steady_peak_reserved_bytes: Annotated[int | None, "`steady_peak_reserved_bytes` of the rank"]


@dataclass(kw_only=True)
class Measured:
    """Measured values that are in none of the dataclasses below."""

    loop_kind: str | None = column("closed if all shapes were called before timing, else open")
    workload_hash: str | None = column("hash of the user's own code; null if the cell has none")
    conv_fp32_precision: str | None = column("value of torch.backends.cudnn.conv.fp32_precision")
    threads: int | None = column("number of CPU threads that torch used")
    compute_cache: str | None = column("compute cache before the trial: empty, warm or disabled")
    compute_cache_entries_before: int | None = column("file count of CUDA's cache before the trial")
    compute_cache_entries_added: int | None = column("number of files added to CUDA's cache")
    cold: list[ColdShape] | None = column("times of the first two calls at each distinct shape")
    distinct_shapes: int | None = column("number of distinct shapes in the cold calls")
    regime_shapes: int | None = column("number of distinct shapes in the regime; null if unlimited")
    open_new_shapes: int | None = column("number of shapes in an open loop that no cold call had")
    loss_first: float | None = column("loss of the first training step")
    loss_last: float | None = column("loss of the last training step")
    accuracy: float | None = column("accuracy on held-back examples after training, from 0 to 1")
    own_times_ms: dict[str, float] | None = column("times that the workload itself measured")
    checks_error: str | None = column("error in the checks that run after the measurement")
    rank_results: list[RankResult] | None = column("results of each rank; null for a single rank")
    rank_variables: dict[str, str] | None = column("variables NCCL_*, TORCH_SYMM_MEM_*, NVSHMEM_*")


@dataclass(kw_only=True)
class MemoryUse:
    """GPU memory that PyTorch's allocator uses, and host memory of the process."""

    cold_free_bytes: int | None = column("free GPU memory before the cold calls")
    cold_allocated_bytes_before: int | None = column("allocated GPU memory before the cold calls")
    cold_reserved_bytes_before: int | None = column("reserved GPU memory before the cold calls")
    cold_peak_allocated_bytes: int | None = column("peak allocated GPU memory in the cold calls")
    cold_peak_reserved_bytes: int | None = column("peak reserved GPU memory in the cold calls")
    cold_allocated_bytes_after: int | None = column("allocated GPU memory after the cold calls")
    cold_reserved_bytes_after: int | None = column("reserved GPU memory after the cold calls")
    steady_allocated_bytes: int | None = column("allocated GPU memory after the timed loop")
    steady_reserved_bytes: int | None = column("reserved GPU memory after the timed loop")
    steady_peak_allocated_bytes: int | None = column("peak allocated GPU memory in the timed loop")
    steady_peak_reserved_bytes: int | None = column("peak reserved GPU memory in the timed loop")
    peak_host_bytes: int | None = column("peak resident memory of the trial's process")


@dataclass(kw_only=True)
class Calibration:
    """Speed of the device in two fixed tasks, measured shortly before the timed loop."""

    calibration_matmul_tflops: float | None = column(
        "speed of a matrix product in the trial's precision, in 10^12 operations per second"
    )
    calibration_copy_gbps: float | None = column(
        "speed of a copy in device memory, in 10^9 bytes read and written per second"
    )


@dataclass(kw_only=True)
class SteadyWall:
    warmup_s: float | None = column("duration of the warm-up before the timed loop")
    warmup_settled: bool | None = column("whether the device's speed was steady after the warm-up")
    steady_wall_samples_ms: list[float] | None = column("samples of wall time per iteration")
    steady_wall_rounds: list[int] | None = column("index of the round of each wall time sample")
    steady_wall_ms: float | None = column("median wall time per iteration; mean in an open loop")
    steady_wall_p10_ms: float | None = column("10th percentile of the wall time samples")
    steady_wall_p90_ms: float | None = column("90th percentile of the wall time samples")
    steady_wall_error: float | None = column("relative standard error of the median wall time")
    steady_iterations: int | None = column("number of iterations in the wall time samples")
    steady_stop: str | None = column("reason why the timing ended: precision, budget or horizon")


@dataclass(kw_only=True)
class SteadyDevice:
    steady_device_source: str | None = column(
        "source of device time: graph (captured for timing), own_graph (of the config) or profiler"
    )
    steady_device_note: str | None = column("reason why device time was not measured with a graph")
    steady_device_samples_ms: list[float] | None = column("samples of device time per iteration")
    steady_wait_ms: float | None = column("time that NCCL's kernels take per iteration")
    steady_device_rounds: list[int] | None = column("index of the round of each device time sample")
    steady_device_ms: float | None = column("median device time per iteration")
    steady_device_p10_ms: float | None = column("10th percentile of the device time samples")
    steady_device_p90_ms: float | None = column("90th percentile of the device time samples")
    steady_device_error: float | None = column("relative standard error of the median device time")
    steady_device_iterations: int | None = column("number of iterations in the device time samples")
    steady_device_stop: str | None = column("reason why the timing ended: precision or budget")
    launch_bound: bool | None = column("whether wall time is more than 1.1 times the device time")


@dataclass(kw_only=True)
class Ran:
    """Compilation or capture of the step. All fields are null if the step ran as written."""

    cold_compile_ms: list[float] | None = column("time to compile or capture, for each shape")
    cold_compiles: list[int] | None = column("number of compilations in each shape's cold calls")
    compiled_graphs: int | None = column("number of graphs that torch.compile made of the model")
    graph_breaks: list[str] | None = column("distinct reasons why torch.compile split the model")
    graph_replays: int | None = column("number of replays of the step's own CUDA graphs")
    fallbacks: list[str] | None = column("reasons why the step did not run as its execution says")
    triton: str | None = column("version of Triton; null if nothing was compiled")


@dataclass(kw_only=True)
class Choice:
    """Convolutions of a step at the base shape, and the kernels that the process chose."""

    convolutions: int | None = column("number of convolutions; forward and backward count as one")
    routes: list[str] | None = column("backends that PyTorch chose for convolutions, such as Cudnn")
    convolution_inputs: list[str] | None = column("types and layouts of the convolutions' inputs")
    convolution_weights: list[str] | None = column("types and layouts of the convolutions' weights")
    layout_losses: list[str] | None = column("operations that turn channels_last into contiguous")
    cudnn_operations: list[str] | None = column("other operations of cuDNN, such as _cudnn_rnn")
    convolution_flops: int | None = column("floating-point operations of the convolutions per step")
    convolution_bytes: int | None = column("least bytes that the convolutions must read and write")
    roofline_ms: float | None = column("lower bound of the convolutions' time, by the calibration")
    roofline_share: float | None = column("roofline_ms divided by device time or else wall time")
    kernels_source: str | None = column("source of `kernels`: graph (a CUDA graph) or profiler")
    kernels_note: str | None = column("reason why `kernels` comes from the profiler, not a graph")
    kernels: list[Kernel] | None = column("kernels that a step launches, in order")
    kernels_hash: str | None = column("hash of the convolutions' kernels, their order and grids")
    layout_conversions: int | None = column("number of layout conversions that a step launches")
    layout_conversion_ms: float | None = column("device time of a step's layout conversions")


@dataclass(kw_only=True)
class Computed:
    computed: list[ComputedTensor] | None = column("outputs and gradients of one step")
    fingerprint: str | None = column("hash of the bits of all tensors in `computed`")
    bitwise_repeatable: bool | None = column("whether a second run of the step gave the same bits")
    relative_l2_error: float | None = column("largest `relative_l2_error` in `computed`")
    relative_max_error: float | None = column("largest `relative_max_error` in `computed`")
    reference_note: str | None = column("reason why a requested float64 reference is missing")


@dataclass(kw_only=True)
class GpuTelemetry:
    """Readings of the GPU during the timed loop, and warnings about the trial."""

    telemetry: str | None = column("source of the GPU's readings: nvml or a fake; null if none")
    telemetry_samples: int | None = column("number of the GPU's readings")
    sm_clock_mhz: float | None = column("median of the SM clock")
    sm_clock_low_mhz: int | None = column("lowest reading of the SM clock")
    sm_clock_high_mhz: int | None = column("highest reading of the SM clock")
    memory_clock_mhz: int | None = column("last reading of the memory clock")
    power_w: float | None = column("mean power by NVML's counter; null if processes took turns")
    energy_per_iteration_mj: float | None = column("energy per iteration; null if turns were taken")
    temperature_c: int | None = column("highest reading of the GPU's temperature")
    throttle_reasons: list[str] | None = column("NVML's names of the reasons for lower clocks")
    other_processes: int | None = column("largest number of other programs' processes on the GPU")
    warnings: list[str] | None = column(
        "warnings about the trial: shared_gpu, throttled, power_capped, clocks_unsettled, "
        "other_shapes, own_loss_unused, not_finite or diverged"
    )


@dataclass(kw_only=True)
class Logged:
    """Contents of cuDNN's log. A separate process writes it, and may choose different plans."""

    logged_choices: list[LoggedChoice] | None = column("plan chosen for each logged convolution")
    logged_searches: int | None = column("number of logged convolutions whose plans were timed")
    logged_workspace_bytes: int | None = column("largest workspace of the chosen plans")
    logged_largest_workspace_bytes: int | None = column("largest workspace of any plan in a search")
    logged_plans_dropped: int | None = column("number of searched plans that exceed free memory")
