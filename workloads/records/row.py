"""RunRecord: the row of one trial in the results.

A column's name contains its unit. A column that does not apply is null.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Final, Literal, TypeAlias

from cudnn_sweep.workloads.records import measured

SCHEMA_VERSION = 8
BUNDLED = "cudnn_sweep.workloads."  # omitted from names in output

SettingValue: TypeAlias = bool | int | float | str | Mapping[str, bool | int | float | str] | None
Part: TypeAlias = Literal["cell", "hardware", "software"]

CELL: Final = "cell"
HARDWARE: Final = "hardware"
SOFTWARE: Final = "software"


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """Mark of a config's setting. Trials with different values are never pooled."""

    usual: SettingValue
    """PyTorch's default. Config names omit this value. It is used if a row lacks the column."""
    read_by: Literal["cudnn", "cuda", "torch", "any"] = "cudnn"
    """Library that reads the setting. A setting of cuDNN has no effect on a step without cuDNN."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Axis:
    """Mark of a column that tells cells apart. Trials with different values are never pooled."""

    usual: str | None = None
    """Default value. Cell names omit this value. It is used if a row lacks the column."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedShape:
    shape: Annotated[list[int], "sizes of the input"]
    count: Annotated[int, "sum of the shape's `count` values in the regime's file"]


@dataclass(kw_only=True)
class Asked:
    """Request and outcome of a trial."""

    # identity
    schema_version: Annotated[int, "version of the schema of the row"]
    sweep_id: Annotated[str, "name of the sweep to which the trial belongs"]
    trial_id: Annotated[str, "hash that identifies the trial within its sweep"]
    attempt_id: Annotated[str, "id of the attempt; of several attempts, the first to end is used"]
    attempt: Annotated[int, "number of the attempt, from 1; a lost worker causes a new one"]
    retry: Annotated[int, "number of times that --retry-failed ran the trial again"]
    launch_id: Annotated[str, "launch that ran the trial; trials of two launches are never paired"]
    ends_launch: Annotated[bool, "whether the row is the last one of its launch"]
    plan_hash: Annotated[str, "hash of the plan's trials, their order and how they are measured"]
    plan_trials: Annotated[int, "number of trials in the plan; with `looks`, fewer may run"]
    plan_cells: Annotated[int, "number of cells in the plan"]
    plan_blocks: Annotated[int, "number of blocks in the plan; with `looks`, fewer may run"]
    looks: Annotated[list[int] | None, "numbers of blocks after which interim analyses take place"]
    shard: Annotated[int | None, "number of the shard that the launch ran, from 1; null: all"]
    shards: Annotated[int | None, "number of shards into which the plan was split"]
    suite: Annotated[str, "name of the suite; `inline` for cells in the launch file"]
    cell_id: Annotated[str, "hash that identifies the cell"]
    workload: Annotated[str, "name or import path of the code that is timed", Axis()]
    problem: Annotated[str | None, "name of the convolution problem; null for a model", Axis()]
    direction: Annotated[
        str,
        "timed part: forward, backward_data, backward_filter, forward_backward, training or "
        "inference",
        Axis(),
    ]
    input_shape: Annotated[list[int], "base input sizes: batch, channels, spatial sizes", Axis()]
    out_channels: Annotated[int | None, "number of the convolution's output channels", CELL]
    kernel_size: Annotated[list[int] | None, "filter sizes of the convolution problem", CELL]
    stride: Annotated[list[int] | None, "stride of the convolution problem", CELL]
    padding: Annotated[list[int] | None, "padding of the convolution problem", CELL]
    dilation: Annotated[list[int] | None, "dilation of the convolution problem", CELL]
    groups: Annotated[int | None, "number of the convolution's groups", CELL]
    bias: Annotated[bool | None, "whether the convolution problem has a bias", CELL]
    transposed: Annotated[bool | None, "whether the convolution problem is transposed", CELL]
    output_padding: Annotated[list[int] | None, "output padding of the convolution problem", CELL]
    occurrences: Annotated[int | None, "how often the convolution occurs in its network"]
    model_arguments: Annotated[dict[str, str] | None, "arguments of the model, each as JSON", CELL]
    model_inputs: Annotated[str | None, "inputs of the model as JSON; null: one float tensor", CELL]
    loss: Annotated[str | None, "loss function of the model", CELL]
    optimiser: Annotated[str | None, "optimiser of the model", CELL]
    optimiser_parameters: Annotated[dict[str, float] | None, "parameters of the optimiser", CELL]
    regime: Annotated[str, "rule by which input shapes arrive", Axis()]
    regime_parameters: Annotated[dict[str, float], "parameters of the regime, by name", CELL]
    listed_shapes: Annotated[list[ListedShape] | None, "shapes in the regime's file", CELL]
    state: Annotated[str, "name of the cell's state; plain if it has none", Axis(usual="plain")]
    state_parameters: Annotated[dict[str, float], "parameters of the state, by name", CELL]
    precision: Annotated[str, "precision: fp32, tf32, bf16, fp16, amp_bf16 or amp_fp16", Axis()]
    layout: Annotated[str, "contiguous, channels_last or weights", Axis(usual="contiguous")]
    ranks: Annotated[str, "GPUs that train a model together, such as 2_ranks", Axis(usual="1_rank")]
    placement: Annotated[
        str | None,
        "`strides` if a convolution has one channel or pixel, so that only strides show "
        "its layout; null otherwise",
        CELL,
    ]
    replicate: Annotated[int, "index of this repetition of the cell, from 0; twins share it"]
    twin: Annotated[int, "1 for the second trial of an A/A pair, else 0"]
    block: Annotated[int, "index of the trial's block in the plan"]
    position: Annotated[int, "position of the trial in the plan, from 0"]
    repeats_block: Annotated[int | None, "index of the block that the trial repeats, if any"]
    software: Annotated[str | None, "Python environment of the trial; null: the launch's own"]

    in_turns: Annotated[bool, "whether the process took turns with the others of its block"]
    alone_reason: Annotated[
        str | None,
        "reason why the process took no turns: `as asked`, `no other of its block`, `memory`, "
        "`lost before`, `open loop`, `state NAME`, `threads of its own` or `processes of its own`",
    ]
    turn_cpus: Annotated[str | None, "CPUs on which turns ran, such as 8-11; null if not limited"]

    # config
    enabled: Annotated[bool, "value of torch.backends.cudnn.enabled", Setting(usual=True)]
    benchmark: Annotated[bool, "value of torch.backends.cudnn.benchmark", Setting(usual=False)]
    benchmark_limit: Annotated[
        int | None,
        "value of torch.backends.cudnn.benchmark_limit; null if torch has none",
        Setting(usual=10),
    ]
    deterministic: Annotated[
        bool, "value of torch.backends.cudnn.deterministic", Setting(usual=False)
    ]
    heuristic_mode_b: Annotated[
        bool, "whether TORCH_CUDNN_USE_HEURISTIC_MODE_B is 1", Setting(usual=False)
    ]
    plan_cache_limit: Annotated[
        int | None,
        "value of TORCH_CUDNN_V8_API_LRU_CACHE_LIMIT; null if it is not set",
        Setting(usual=None),
    ]
    compute_cache_disabled: Annotated[
        bool, "whether CUDA_CACHE_DISABLE is 1", Setting(usual=False, read_by="cuda")
    ]
    backward_in_caller: Annotated[
        bool,
        "whether torch.autograd.set_multithreading_enabled(False) is in force",
        Setting(usual=False, read_by="torch"),
    ]
    errata: Annotated[
        str | None,
        "rules in CUDNN_ERRATA_JSON_FILE that ban plans; null if there are none",
        Setting(usual=None),
    ]
    environment: Annotated[
        dict[str, str], "other environment variables", Setting(usual={}, read_by="any")
    ]
    code: Annotated[
        str | None,
        "side of `sweep gate` whose code ran; null without a gate",
        Setting(usual=None, read_by="any"),
    ]
    config_layout: Annotated[
        str | None,
        "layout that the config uses instead of the cell's; null: the cell's",
        Setting(usual=None, read_by="any"),
    ]
    config_precision: Annotated[
        str | None,
        "precision that the config uses instead of the cell's; null: the cell's",
        Setting(usual=None, read_by="any"),
    ]
    execution: Annotated[
        str | None,
        "how steps ran, such as compile or cuda_graph; null: as written",
        Setting(usual=None, read_by="any"),
    ]

    # outcome
    status: Annotated[
        str, "result: ok, error, out_of_memory, crash, killed (SIGKILL), timeout or raced_out"
    ]
    message: Annotated[str | None, "explanation of any status other than ok"]
    last_output: Annotated[str | None, "last 4 KiB of the process's output; null if status is ok"]


@dataclass(kw_only=True)
class RunRecord(
    measured.Logged,
    measured.GpuTelemetry,
    measured.Computed,
    measured.Choice,
    measured.Ran,
    measured.SteadyDevice,
    measured.SteadyWall,
    measured.Calibration,
    measured.MemoryUse,
    measured.Measured,
    Asked,
):
    """Row of one trial: its request, outcome, measured values and machine."""

    # from the process that writes cuDNN's log
    logged_kernels_agree: Annotated[bool | None, "whether the logging process ran the same kernels"]
    logged_error: Annotated[str | None, "reason why a requested log is missing"]

    # durations of the trial's parts
    start_s: Annotated[float | None, "time from the fork to the start of the trial's code"]
    one_time_s: Annotated[float | None, "time of one-time costs, such as loading CUDA"]
    overlapped_s: Annotated[float | None, "part of one_time_s that overlaps another trial's"]
    build_s: Annotated[float | None, "time to build the step"]
    cold_s: Annotated[float | None, "time of the cold calls"]
    calibration_s: Annotated[float | None, "time of the calibration"]
    steady_s: Annotated[float | None, "time of the warm-up and the timed loop"]
    checks_s: Annotated[float | None, "time of the checks after the measurement"]
    log_s: Annotated[float | None, "lifetime of the process that writes cuDNN's log"]
    exit_s: Annotated[float | None, "time that the process took to exit after its result"]
    process_s: Annotated[float, "lifetime of the trial's process"]
    waited_s: Annotated[float | None, "part of process_s in which the process waited for its turn"]
    gap_s: Annotated[
        float | None, "time between the slot's previous process and this one; null if unknown"
    ]
    started_at: Annotated[datetime, "time at which the trial's process started, UTC"]
    ended_at: Annotated[datetime, "time at which the trial's process ended, UTC"]

    # environment
    device: Annotated[str, "device of the trial: cuda or cpu"]
    gpu: Annotated[str, "model of the GPU, or of the processor without CUDA", HARDWARE]
    gpu_uuid: Annotated[str | None, "UUID of the GPU"]
    gpu_memory_bytes: Annotated[int | None, "memory of the GPU", HARDWARE]
    mig_profile: Annotated[str | None, "MIG profile of the GPU; null if it is not sliced", HARDWARE]
    max_sm_clock_mhz: Annotated[int | None, "highest SM clock that the GPU may run at", HARDWARE]
    power_limit_w: Annotated[float | None, "power limit of the GPU", HARDWARE]
    driver: Annotated[str | None, "version of NVIDIA's driver", SOFTWARE]
    cuda: Annotated[str | None, "version of CUDA that torch was built with", SOFTWARE]
    cudnn: Annotated[int | None, "value of torch.backends.cudnn.version()", SOFTWARE]
    torch: Annotated[str, "version of PyTorch", SOFTWARE]
    ray: Annotated[str, "version of Ray", SOFTWARE]
    python: Annotated[str, "version of Python", SOFTWARE]
    os: Annotated[str, "operating system and version of its kernel"]
    host: Annotated[str, "name of the machine, with a hash of its boot id"]
    slot: Annotated[str, "UUID of the GPU that ran the trial; without a GPU, host and slot number"]
    cpu_model: Annotated[str | None, "model of the processor; null if unknown"]
    cpu_cores: Annotated[int, "number of CPUs that the trial's process was allowed to use"]
    pinned_cpus: Annotated[str | None, "CPUs reserved for the slot, such as 0-7; null if none are"]
    numa_node: Annotated[int | None, "NUMA node of the GPU; null if unknown or without pinned CPUs"]
    version: Annotated[str, "version of cudnn-sweep", SOFTWARE]
    commit: Annotated[str | None, "git commit of cudnn-sweep; null if unknown"]
    env_hash: Annotated[str, "hash of the columns that describe the hardware"]
    software_hash: Annotated[
        str, "hash of the versions of torch, CUDA, cuDNN, driver, Python, Ray and cudnn-sweep"
    ]
