"""What one row of the results says: `RunRecord`, the Arrow schema made from it, and its documentation.

One flat row a trial. A unit is part of the column's name; a column that does not apply is null.
`python -m cudnn_sweep.analysis.schema` prints the data dictionary that docs/records.md holds.
"""

from dataclasses import asdict, dataclass, fields
from datetime import datetime
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, get_args, get_origin, get_type_hints

import pyarrow as pa

SCHEMA_VERSION = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class ColdShape:
    """The cold cost of one input shape, in order of arrival."""

    shape: Annotated[list[int], "the input's sizes"]
    first_ms: Annotated[float, "wall time of the first call, synchronised"]
    second_ms: Annotated[float | None, "wall time of the second call, synchronised"]


@dataclass(frozen=True, kw_only=True, slots=True)
class RunRecord:
    """One trial: what was asked, what came of it, what was measured and where."""

    # identity
    schema_version: Annotated[int, "version of this row's layout"]
    sweep_id: Annotated[str, "one run of a plan, resumed as often as needed"]
    trial_id: Annotated[str, "hash of the cell, config, replicate and twin; with sweep_id the key"]
    attempt_id: Annotated[
        str, "unique to each try: of two for one key, the first durable one counts"
    ]
    attempt: Annotated[int, "1, or more where earlier tries were lost to their worker"]
    retry: Annotated[int, "how often --retry-failed ran this trial again; the highest counts"]
    launch_id: Annotated[
        str, "one launch of the sweep: trials of a block interrupted between two are not paired"
    ]
    plan_hash: Annotated[str, "hash of the plan: its trials, their order, how they measure"]
    plan_trials: Annotated[int, "trials in the plan: a sweep with as many keys is finished"]
    suite: Annotated[str, "name of the suite, or `inline`"]
    cell_id: Annotated[
        str, "hash of workload, problem, direction, input, regime, precision, layout, gpu"
    ]
    workload: Annotated[str, "code that is timed, by name"]
    problem: Annotated[str | None, "name of the convolution problem; null for a model"]
    direction: Annotated[str, "forward, forward_backward, training (with optimiser) or inference"]
    input_shape: Annotated[list[int], "base input sizes: batch, channels, then space"]
    out_channels: Annotated[int | None, "filters of the convolution problem"]
    kernel_size: Annotated[
        list[int] | None, "of the convolution problem, one number a spatial dimension"
    ]
    stride: Annotated[list[int] | None, "of the convolution problem"]
    padding: Annotated[list[int] | None, "of the convolution problem"]
    dilation: Annotated[list[int] | None, "of the convolution problem"]
    groups: Annotated[int | None, "of the convolution problem"]
    bias: Annotated[bool | None, "whether the convolution problem adds a bias"]
    regime: Annotated[str, "the rule by which input shapes arrive"]
    regime_parameters: Annotated[dict[str, float], "the rule's numbers, by name"]
    loop_kind: Annotated[
        str | None, "closed: all shapes were met, then timed; open: new shapes kept arriving"
    ]
    precision: Annotated[str, "fp32 (IEEE), tf32, bf16, fp16, amp_bf16 or amp_fp16"]
    layout: Annotated[str, "contiguous or channels_last"]
    replicate: Annotated[
        int, "number of this process among the cell's repetitions, from 0 in running order"
    ]
    twin: Annotated[int, "1 for the second trial of an A/A pair, else 0"]
    block: Annotated[int, "the cell's configs once each, back to back; a number within the plan"]
    position: Annotated[int, "place in the plan, from 0"]

    # config
    enabled: Annotated[bool, "torch.backends.cudnn.enabled, read back"]
    benchmark: Annotated[bool, "torch.backends.cudnn.benchmark, read back"]
    benchmark_limit: Annotated[
        int | None, "torch.backends.cudnn.benchmark_limit, read back; null: torch has none here"
    ]
    deterministic: Annotated[bool, "torch.backends.cudnn.deterministic, read back"]
    heuristic_mode_b: Annotated[bool, "TORCH_CUDNN_USE_HEURISTIC_MODE_B=1 in the process"]
    plan_cache_limit: Annotated[
        int | None, "TORCH_CUDNN_V8_API_LRU_CACHE_LIMIT in the process; null: torch's own"
    ]

    # outcome
    status: Annotated[str, "ok, error, out_of_memory, crash (signal), killed (SIGKILL) or timeout"]
    message: Annotated[str | None, "what went wrong, for any status but ok"]

    # measurement
    conv_fp32_precision: Annotated[
        str | None, "torch.backends.cudnn.conv.fp32_precision, read back"
    ]
    threads: Annotated[int | None, "CPU threads torch used"]
    compute_cache: Annotated[
        str | None, "empty or warm: CUDA's on-disk kernel cache as found; null without CUDA"
    ]
    compute_cache_entries_before: Annotated[int | None, "files in that cache when the trial began"]
    compute_cache_entries_added: Annotated[int | None, "files that the trial added to it"]
    cold: Annotated[
        list[ColdShape] | None, "cold cost of each distinct shape met, in order of arrival"
    ]
    distinct_shapes: Annotated[int | None, "distinct shapes met in the cold part"]
    regime_shapes: Annotated[int | None, "distinct shapes that the regime has; null: without end"]
    open_new_shapes: Annotated[int | None, "steps of an open loop that met a new shape"]
    steady_wall_samples_ms: Annotated[
        list[float] | None,
        "wall time per iteration: of each timed group (closed loop) or of each step, searches included (open loop)",
    ]
    steady_wall_ms: Annotated[
        float | None,
        "wall time per iteration: median of the samples (closed loop), their mean (open loop)",
    ]
    steady_iterations: Annotated[int | None, "iterations behind the samples"]
    steady_stop: Annotated[str | None, "why timing stopped: precision, budget or horizon"]
    steady_device_ms: Annotated[float | None, "device time per iteration, free of launch gaps"]
    cold_peak_allocated_bytes: Annotated[
        int | None, "peak of allocated device memory in the cold part"
    ]
    cold_peak_reserved_bytes: Annotated[
        int | None, "peak of reserved device memory in the cold part"
    ]
    steady_peak_allocated_bytes: Annotated[
        int | None, "peak of allocated device memory in the steady part"
    ]
    steady_peak_reserved_bytes: Annotated[
        int | None, "peak of reserved device memory in the steady part"
    ]
    peak_host_bytes: Annotated[int | None, "peak resident memory of the trial's process"]
    convolutions: Annotated[int | None, "convolution calls in one step, backward not counted"]
    routes: Annotated[
        list[str] | None, "distinct backends PyTorch selects for them, for example Cudnn"
    ]
    loss_first: Annotated[float | None, "loss of the first training step"]
    loss_last: Annotated[float | None, "loss of the last training step"]

    # where the trial's own time went
    start_s: Annotated[float | None, "from the fork to the trial's first own line"]
    one_time_s: Annotated[
        float | None, "CUDA context, libraries, first backward, on an unrelated operation"
    ]
    build_s: Annotated[float | None, "making the workload and its inputs"]
    cold_s: Annotated[float | None, "cold part"]
    steady_s: Annotated[float | None, "warm-up and steady part"]
    checks_s: Annotated[float | None, "untimed part after the measurement"]
    exit_s: Annotated[float | None, "from the result to the process being gone"]
    process_s: Annotated[float, "whole life of the trial's process, fork to gone"]
    gap_s: Annotated[float | None, "from the slot's last process gone to this one forked"]
    started_at: Annotated[datetime, "when the trial's process was forked, UTC"]
    ended_at: Annotated[datetime, "when it was gone, UTC"]

    # environment
    device: Annotated[str, "cuda or cpu"]
    gpu: Annotated[str, "GPU model; without CUDA the processor's"]
    gpu_uuid: Annotated[str | None, "the GPU's UUID"]
    gpu_memory_bytes: Annotated[int | None, "the GPU's memory"]
    mig_profile: Annotated[str | None, "MIG slice, where the GPU is sliced"]
    max_sm_clock_mhz: Annotated[int | None, "highest SM clock that the GPU may run at"]
    power_limit_w: Annotated[float | None, "enforced power limit"]
    driver: Annotated[str | None, "NVIDIA driver's version"]
    cuda: Annotated[str | None, "CUDA version torch was built with"]
    cudnn: Annotated[int | None, "torch.backends.cudnn.version()"]
    torch: Annotated[str, "PyTorch's version"]
    ray: Annotated[str, "Ray's version"]
    python: Annotated[str, "Python's version"]
    os: Annotated[str, "operating system and kernel"]
    host: Annotated[str, "name of the machine that measured"]
    slot: Annotated[str, "what measured: the GPU's UUID, else host and number of the slot"]
    cpu_cores: Annotated[int, "CPU cores the trial's process might use"]
    version: Annotated[str, "version of cudnn-sweep"]
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
def arrow_schema() -> pa.Schema:
    """The Parquet files' schema: a field a column, its meaning under the metadata key `meaning`."""
    return pa.schema([_arrow_field(name, hint) for name, hint in _hints(RunRecord).items()])


def to_table(records: list[RunRecord]) -> pa.Table:
    return pa.Table.from_pylist([asdict(record) for record in records], schema=arrow_schema())


def data_dictionary() -> str:
    """The documentation of every column, in Markdown."""
    lines = [
        "# Columns of `records`",
        "",
        "One row a trial. Made by `python -m cudnn_sweep.analysis.schema`; a test holds it to the code.",
        "",
        "| column | type | null | meaning |",
        "|---|---|---|---|",
    ]
    for field in arrow_schema():
        assert field.metadata is not None
        null = "yes" if field.nullable else ""
        meaning = field.metadata[b"meaning"].decode()
        lines.append(f"| `{field.name}` | {field.type} | {null} | {meaning} |")
    return "\n".join(lines) + "\n"


def _hints(record_type: type) -> dict[str, object]:
    hints = get_type_hints(record_type, include_extras=True)
    return {field.name: hints[field.name] for field in fields(record_type)}


def _arrow_field(name: str, hint: object) -> pa.Field:
    python_type, meaning = get_args(hint)
    nullable = NoneType in get_args(python_type)
    return pa.field(name, _arrow_type(python_type), nullable, metadata={"meaning": meaning})


def _arrow_type(python_type: object) -> pa.DataType:
    if isinstance(python_type, UnionType):
        (python_type,) = (kind for kind in get_args(python_type) if kind is not NoneType)
    if get_origin(python_type) is list:
        return pa.list_(_arrow_type(get_args(python_type)[0]))
    if get_origin(python_type) is dict:
        return pa.map_(*map(_arrow_type, get_args(python_type)))
    if python_type is ColdShape:
        return pa.struct([_arrow_field(name, hint) for name, hint in _hints(ColdShape).items()])
    return ARROW_TYPES[python_type]  # type: ignore[index]


if __name__ == "__main__":
    print(data_dictionary(), end="")
