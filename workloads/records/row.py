"""`RunRecord`, the flat row of one trial in the results, and marks of columns, such as `Setting`.

A column's name contains its unit; a column that does not apply is null.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Final, Literal, TypeAlias

from cudnn_sweep.workloads.records import measured

SCHEMA_VERSION = 8
BUNDLED = "cudnn_sweep.workloads."  # left out of our networks' names in output and queries

SettingValue: TypeAlias = bool | int | float | str | Mapping[str, bool | int | float | str] | None
Part: TypeAlias = Literal["cell", "hardware", "software"]

CELL: Final = "cell"
HARDWARE: Final = "hardware"
SOFTWARE: Final = "software"


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """Marks a column as a setting of the config: trials that differ in it are never pooled."""

    usual: SettingValue
    """PyTorch's default. Config names omit it. Rows without the column get it when read."""
    read_by: Literal["cudnn", "cuda", "torch", "any"] = "cudnn"
    """Library that reads the setting; cuDNN's settings cannot affect a step that runs without cuDNN."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Axis:
    """Marks a column as an axis of a cell: answers show it, and never pool cells that differ in it."""

    usual: str | None = None
    """Default, if any. Cell names omit it. Rows without the column get it when read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedShape:
    shape: Annotated[list[int], "the input's sizes"]
    count: Annotated[int, "count of the shape in the regime's file"]


@dataclass(kw_only=True)
class Asked:
    """What a trial was asked to do, and how it ended."""

    # identity
    schema_version: Annotated[int, "version of the row's schema"]
    sweep_id: Annotated[str, "one run of a plan, resumed as often as needed"]
    trial_id: Annotated[
        str,
        "hash of cell, config, replicate, twin and `software`; the key is sweep_id and trial_id",
    ]
    attempt_id: Annotated[str, "unique to each try; if a key has two rows, the first to end counts"]
    attempt: Annotated[int, "1, or more if earlier tries were lost with their worker"]
    retry: Annotated[int, "how often --retry-failed ran the trial again; only the last run counts"]
    launch_id: Annotated[str, "one launch of the sweep; trials of two launches are not paired"]
    ends_launch: Annotated[
        bool,
        "whether the row ends its launch; if false in a sweep's or shard's last row, more may come",
    ]
    plan_hash: Annotated[str, "hash of the plan: its trials, their order, how they measure"]
    plan_trials: Annotated[
        int,
        "trials in the plan; with `looks`, fewer may run; a sweep with a row for each is complete",
    ]
    plan_cells: Annotated[int, "cells in the plan"]
    plan_blocks: Annotated[int, "blocks in the plan; an upper limit with `looks`"]
    looks: Annotated[list[int] | None, "block counts after which a cell may be decided; null: none"]
    shard: Annotated[int | None, "part of the plan that the launch ran, counted from 1; null: all"]
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
    input_shape: Annotated[list[int], "base input sizes: batch, channels, spatial sizes", Axis()]
    out_channels: Annotated[int | None, "filters of the convolution problem", CELL]
    kernel_size: Annotated[list[int] | None, "filter of the problem, one size per dimension", CELL]
    stride: Annotated[list[int] | None, "of the convolution problem", CELL]
    padding: Annotated[list[int] | None, "of the convolution problem", CELL]
    dilation: Annotated[list[int] | None, "of the convolution problem", CELL]
    groups: Annotated[int | None, "of the convolution problem", CELL]
    bias: Annotated[bool | None, "whether the convolution problem adds a bias", CELL]
    transposed: Annotated[bool | None, "whether it is a transposed convolution", CELL]
    output_padding: Annotated[list[int] | None, "of a transposed convolution problem", CELL]
    occurrences: Annotated[int | None, "how often the convolution occurs in the network"]
    model_arguments: Annotated[dict[str, str] | None, "a model's arguments, each as JSON", CELL]
    model_inputs: Annotated[str | None, "a model's inputs, as JSON; null: one float tensor", CELL]
    loss: Annotated[str | None, "the model's loss", CELL]
    optimiser: Annotated[str | None, "the model's optimiser", CELL]
    optimiser_parameters: Annotated[dict[str, float] | None, "the optimiser's parameters", CELL]
    regime: Annotated[str, "the rule by which input shapes arrive", Axis()]
    regime_parameters: Annotated[dict[str, float], "the rule's numbers, by name", CELL]
    listed_shapes: Annotated[list[ListedShape] | None, "all shapes of a regime's file", CELL]
    state: Annotated[str, "name of the code that surrounds a step, or plain", Axis(usual="plain")]
    state_parameters: Annotated[dict[str, float], "the state's numbers, by name", CELL]
    precision: Annotated[str, "fp32 (IEEE), tf32, bf16, fp16, amp_bf16 or amp_fp16", Axis()]
    layout: Annotated[str, "contiguous, channels_last or weights", Axis(usual="contiguous")]
    ranks: Annotated[str, "GPUs that train together on a host: 2_ranks, ...", Axis(usual="1_rank")]
    placement: Annotated[
        str | None,
        "`strides` if a convolution is channels_last only by the strides of tensors with one "
        "channel or one pixel; null otherwise, and in all rows before schema version 3",
        CELL,
    ]
    replicate: Annotated[int, "number of the process in its cell, from 0, in the order of running"]
    twin: Annotated[int, "1 for the second trial of an A/A pair, else 0"]
    block: Annotated[int, "number of the block in the plan; a block is a cell's configs, each once"]
    position: Annotated[int, "place in the plan, from 0"]
    repeats_block: Annotated[int | None, "`block` of the split block that the trial repeats"]
    software: Annotated[
        str | None,
        "which of a sweep's two Python environments ran the trial, such as last_good; null: the "
        "launch's own environment",
    ]

    in_turns: Annotated[bool, "its process took turns with the others of its block"]
    alone_reason: Annotated[
        str | None,
        "why the process took no turns: `as asked`, `no other of its block`, `memory`, "
        "`lost before`, `open loop`, `state NAME`, `threads of its own` or `processes of its own`; "
        "null if the process ended before its first turn",
    ]
    turn_cpus: Annotated[str | None, "CPUs on which turns ran, as Linux lists them; null: all CPUs"]

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
        "TORCH_CUDNN_V8_API_LRU_CACHE_LIMIT in the process; null: torch's default",
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
        "rules in CUDNN_ERRATA_JSON_FILE, which ban plans; null: only PyTorch's own rules",
        Setting(usual=None),
    ]
    environment: Annotated[
        dict[str, str], "further environment variables", Setting(usual={}, read_by="any")
    ]
    code: Annotated[
        str | None,
        "side of `sweep gate` whose code ran; null: the launch's folder",
        Setting(usual=None, read_by="any"),
    ]
    config_layout: Annotated[
        str | None,
        "the config's layout, in place of the cell's; null: the cell's",
        Setting(usual=None, read_by="any"),
    ]
    config_precision: Annotated[
        str | None,
        "the config's precision, in place of the cell's; null: the cell's",
        Setting(usual=None, read_by="any"),
    ]
    execution: Annotated[
        str | None,
        "how steps ran, such as compile or cuda_graph; null: as written (eager)",
        Setting(usual=None, read_by="any"),
    ]

    # outcome
    status: Annotated[
        str, "ok, error, out_of_memory, crash (signal), killed (SIGKILL), timeout or raced_out"
    ]
    message: Annotated[str | None, "what went wrong, for any status but ok"]
    last_output: Annotated[str | None, "last 4 KiB that its process printed, for any status but ok"]


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
    """One trial: request, outcome, measurement and machine. Columns of the last base class come first."""

    # of the process that logs
    logged_kernels_agree: Annotated[bool | None, "whether the log pass ran the same kernels"]
    logged_error: Annotated[str | None, "why a requested log is missing"]

    # where the trial's own time went
    start_s: Annotated[float | None, "time from the fork to the first line of the trial's code"]
    one_time_s: Annotated[float | None, "one-time costs (CUDA, libraries), paid on another network"]
    overlapped_s: Annotated[float | None, "part of one_time_s during another trial's one_time_s"]
    build_s: Annotated[float | None, "time to make the workload"]
    cold_s: Annotated[float | None, "time of the cold part"]
    calibration_s: Annotated[float | None, "time of the calibration"]
    steady_s: Annotated[float | None, "time of the warm-up and the steady part"]
    checks_s: Annotated[float | None, "time of the checks after the measurement"]
    log_s: Annotated[float | None, "time from fork to end of the process that logs cuDNN's choices"]
    exit_s: Annotated[float | None, "time from the result to the end of the process"]
    process_s: Annotated[float, "life of the trial's process, from fork to end, without log_s"]
    waited_s: Annotated[float | None, "part of process_s in which the process waited for its turn"]
    gap_s: Annotated[
        float | None,
        "time from the end of the slot's previous process to the fork of this process; null if "
        "another process of the block was alive, or the previous trial had another fork server",
    ]
    started_at: Annotated[datetime, "when the trial's process was forked, UTC"]
    ended_at: Annotated[datetime, "when the trial's process was gone, UTC"]

    # environment
    device: Annotated[str, "cuda or cpu"]
    gpu: Annotated[str, "GPU model; without CUDA the processor's", HARDWARE]
    gpu_uuid: Annotated[str | None, "the GPU's UUID"]
    gpu_memory_bytes: Annotated[int | None, "the GPU's memory", HARDWARE]
    mig_profile: Annotated[str | None, "MIG profile, if the GPU is sliced", HARDWARE]
    max_sm_clock_mhz: Annotated[int | None, "highest SM clock that the GPU may run at", HARDWARE]
    power_limit_w: Annotated[float | None, "enforced power limit", HARDWARE]
    driver: Annotated[str | None, "NVIDIA driver's version", SOFTWARE]
    cuda: Annotated[str | None, "CUDA version torch was built with", SOFTWARE]
    cudnn: Annotated[int | None, "torch.backends.cudnn.version()", SOFTWARE]
    torch: Annotated[str, "PyTorch's version", SOFTWARE]
    ray: Annotated[str, "Ray's version", SOFTWARE]
    python: Annotated[str, "Python's version", SOFTWARE]
    os: Annotated[str, "operating system and kernel"]
    host: Annotated[str, "name of the machine that measured, and a hash of its boot id"]
    slot: Annotated[str, "place that measured: the GPU's UUID, else host and slot number"]
    cpu_model: Annotated[str | None, "the processor's model; null if unknown"]
    cpu_cores: Annotated[int, "number of CPUs that the trial's process was allowed to use"]
    pinned_cpus: Annotated[str | None, "CPUs reserved for the slot, as Linux lists them, if any"]
    numa_node: Annotated[int | None, "the GPU's NUMA node, if CPUs are pinned; null: unknown"]
    version: Annotated[str, "version of cudnn-sweep", SOFTWARE]
    commit: Annotated[str | None, "git commit of cudnn-sweep, where known"]
    env_hash: Annotated[str, "hash of the hardware: a change opens a new baseline"]
    software_hash: Annotated[str, "hash of torch, CUDA, cuDNN, driver, Python, Ray and our version"]
