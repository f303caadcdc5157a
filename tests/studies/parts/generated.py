"""A made-up store of any size, to measure how questions scale: its numbers mean nothing.

Four sweeps of one plan: twice, then with other software, then on another GPU. In each, 25 trials a
cell: five blocks of five configs. Drawn column by column, so that 30 million samples take seconds;
what no question asks for is random too, so that the bytes on disk are no fewer than a real store's.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cudnn_sweep.analysis.store.schema import SCHEMA_VERSION, arrow_schema, settings
from cudnn_sweep.analysis.store.store import Store

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Columns = dict[str, pa.Array]

PART_TRIALS = 5000  # as compaction leaves them
BLOCKS = 5
CONFIGS: list[dict[str, bool | int]] = [
    {},
    {"twin": 1},
    {"benchmark": True},
    {"benchmark": True, "benchmark_limit": 0},
    {"deterministic": True},
]
SWEEPS: list[dict[str, str | int]] = [
    {"gpu": "NVIDIA H200", "driver": "570.1", "cudnn": 91900, "torch": "2.11.0"},
    {"gpu": "NVIDIA H200", "driver": "570.1", "cudnn": 91900, "torch": "2.11.0"},
    {"gpu": "NVIDIA H200", "driver": "580.2", "cudnn": 92100, "torch": "2.12.0"},
    {"gpu": "NVIDIA B200", "driver": "580.2", "cudnn": 92100, "torch": "2.12.0"},
]
EVERYWHERE: dict[str, str | int | bool | None] = {
    "schema_version": SCHEMA_VERSION,
    "attempt": 1,
    "retry": 0,
    "repeats_block": None,
    "shard": None,
    "shards": None,
    "suite": "nightly",
    "state": "plain",
    "ranks": "1_rank",
    "out_channels": 64,
    "groups": 1,
    "bias": False,
    "transposed": False,
    "occurrences": 1,
    "workload_hash": None,
    "in_turns": False,
    "conv_fp32_precision": "tf32",
    "steady_stop": "precision",
    "steady_device_source": "graph",
    "steady_device_stop": "precision",
    "kernels_source": "graph",
    "telemetry": "nvml",
    "logged_kernels_agree": True,
    "threads": 16,
    "device": "cuda",
    "gpu_uuid": "GPU-00000000-0000-0000-0000-000000000000",
    "gpu_memory_bytes": 150_000_000_000,
    "cuda": "13.0",
    "ray": "2.60.0",
    "python": "3.12.3",
    "os": "Linux 6.8",
    "host": "node-0",
    "slot": "GPU-00000000-0000-0000-0000-000000000000",
    "cpu_model": "AMD EPYC 9654",
    "cpu_cores": 16,
    "version": "0.1.0",
}
PRECISIONS = ["fp32", "tf32", "bf16"]
LAYOUTS = ["contiguous", "channels_last"]
FIRST_NIGHT_US = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1e6)
DAY_US = 86_400_000_000
TRIAL_US = 2_500_000
FAILED_SHARE = 1 / 400
MODEL_SHARE = 0.2
MODEL_CONVOLUTIONS, MODEL_KERNELS = 20, 60  # a step of a small network
CONVOLUTION_KERNELS = 4
PROCESS_NOISE = 0.01
SAMPLE_NOISE = 0.02


class _Cells:
    """What the trials of a cell share. Each cell has two choices: the heuristic's and the search's."""

    def __init__(self, random: np.random.Generator, count: int) -> None:
        numbers = np.arange(count)
        problem = numbers // (len(PRECISIONS) * len(LAYOUTS))
        self.count = count
        self.shapes = np.where(problem % 5 < 2, 1, 8)
        self.typical_ms = random.lognormal(0, 1.5, count)
        self.search_ratio = np.where(numbers % 2, random.lognormal(-0.1, 0.15, count), 1.0)
        is_model = problem >= problem.max() * (1 - MODEL_SHARE)
        launches = np.where(is_model, MODEL_KERNELS, CONVOLUTION_KERNELS)
        convolutions = np.where(is_model, MODEL_CONVOLUTIONS, 1)
        self.columns: Columns = {
            "workload": _either(is_model, "conv", "resnet18"),
            "problem": pa.array([f"networks/layer{at}" for at in problem]),
            "direction": _either(problem % 3 == 0, "forward_backward", "forward"),
            "input_shape": _typed("input_shape", [[32, 64, 8 + at, 56] for at in problem]),
            "regime": _either(self.shapes == 1, "batch_cycle", "fixed"),
            "loop_kind": _either(problem % 10 == 9, "closed", "open"),
            "precision": _chosen(PRECISIONS, numbers),
            "layout": _chosen(LAYOUTS, numbers // len(PRECISIONS)),
            "distinct_shapes": pa.array(self.shapes),
            "regime_shapes": pa.array(self.shapes),
            "convolutions": pa.array(convolutions),
            "routes": _typed("routes", [["Cudnn"]] * count),
        }
        choices = range(2 * count)
        self.by_choice: Columns = {
            "kernels": _typed("kernels", [_kernels(at, launches[at // 2]) for at in choices]),
            "kernels_hash": pa.array([f"kernels {at:016}" for at in choices]),
            "computed": _typed("computed", [_computed(at) for at in choices]),
            "fingerprint": pa.array([f"bits {at:032}" for at in choices]),
            "logged_choices": _typed(
                "logged_choices", [_logged(at, convolutions[at // 2]) for at in choices]
            ),
        }


def write_generated(store: Store, *, trials: int, samples: int) -> None:
    """Store `trials` trials of `samples` samples each, two thirds wall times, one third device times."""
    random = np.random.default_rng(0)
    planned = -(-trials // len(SWEEPS))
    cells = _Cells(random, max(1, planned // (BLOCKS * len(CONFIGS))))
    for sweep in range(len(SWEEPS)):
        last = min(planned, trials - sweep * planned)
        for first in range(0, last, PART_TRIALS):
            places = np.arange(first, min(first + PART_TRIALS, last))
            columns = {"plan_trials": _same(planned, len(places))}
            columns |= _trials(random, cells, sweep, places, samples)
            store.write_part(f"night-{sweep}", _whole(random, columns, len(places)))


def _trials(
    random: np.random.Generator, cells: _Cells, sweep: int, places: Integers, samples: int
) -> Columns:
    count, config, block = len(places), places % len(CONFIGS), places // len(CONFIGS)
    cell = block % cells.count
    searches = np.array([bool(each.get("benchmark")) for each in CONFIGS])[config]
    typical_ms = cells.typical_ms[cell] * np.where(searches, cells.search_ratio[cell], 1)
    typical_ms *= 1 + PROCESS_NOISE * random.standard_normal(count)
    failed = random.random(count) < FAILED_SHARE
    choice = pa.array(2 * cell + searches, mask=failed)
    first_ms = typical_ms * np.where(searches, 80, 9)
    return {
        **{name: _same(value, count) for name, value in (EVERYWHERE | SWEEPS[sweep]).items()},
        **{name: column.take(pa.array(cell)) for name, column in cells.columns.items()},
        **{name: column.take(choice) for name, column in cells.by_choice.items()},
        **_identity(random, sweep, places),
        **_configs(config),
        **_steady(random, typical_ms, samples, failed),
        "cell_id": pa.array([f"cell {number:08} on {SWEEPS[sweep]['gpu']}" for number in cell]),
        "block": pa.array(block),
        "replicate": pa.array(block // cells.count),
        "status": _either(failed, "ok", "crash"),
        "message": _either(failed, None, "signal 11"),
        "cold": _cold(random, cells.shapes[cell], first_ms, failed),
        "compute_cache": _either(block < cells.count, "warm", "empty"),
        "steady_iterations": pa.array(random.integers(samples // 3, 2 * samples // 3 + 1, count)),
        "logged_searches": pa.array(searches.astype(np.int64), mask=failed),
        "warnings": _typed(
            "warnings", [["shared_gpu"] if place % 97 == 0 else [] for place in places]
        ),
    }


def _identity(random: np.random.Generator, sweep: int, places: Integers) -> Columns:
    started_us = FIRST_NIGHT_US + sweep * DAY_US + TRIAL_US * places
    return {
        "sweep_id": _same(f"night-{sweep}", len(places)),
        "trial_id": pa.array([f"trial {place:010}" for place in places]),
        "attempt_id": pa.array([random.bytes(16).hex() for _ in places]),
        "launch_id": _same(f"launch-{sweep}", len(places)),
        "plan_hash": _same("plan-0", len(places)),
        "position": pa.array(places),
        "env_hash": _same(f"hardware of {SWEEPS[sweep]['gpu']}", len(places)),
        "software_hash": _same(f"software with {SWEEPS[sweep]['torch']}", len(places)),
        "started_at": pa.array(started_us).cast(pa.timestamp("us", tz="UTC")),
        "ended_at": pa.array(started_us + TRIAL_US).cast(pa.timestamp("us", tz="UTC")),
    }


def _configs(config: Integers) -> Columns:
    usual = {name: setting.usual for name, setting in settings().items()}
    return {
        name: _typed(name, [each.get(name, value) for each in CONFIGS]).take(pa.array(config))
        for name, value in (usual | {"twin": 0}).items()
    }


def _steady(
    random: np.random.Generator, typical_ms: Floats, samples: int, failed: Flags
) -> Columns:
    wall_samples = 2 * samples // 3
    wall, wall_ms = _samples(random, typical_ms, wall_samples, failed)
    device, device_ms = _samples(random, 0.9 * typical_ms, samples - wall_samples, failed)
    return {
        "steady_wall_samples_ms": wall,
        "steady_wall_ms": wall_ms,
        "steady_device_samples_ms": device,
        "steady_device_ms": device_ms,
    }


def _samples(
    random: np.random.Generator, typical_ms: Floats, samples: int, failed: Flags
) -> tuple[pa.Array, pa.Array]:
    """Noisy samples around each trial's typical time, and their medians."""
    noise = random.standard_normal((len(typical_ms), samples))
    drawn = typical_ms[:, np.newaxis] * (1 + SAMPLE_NOISE * noise)
    offsets = pa.array(samples * np.arange(len(drawn) + 1), pa.int32())
    lists = pa.ListArray.from_arrays(offsets, drawn.ravel(), mask=pa.array(failed))
    return lists, pa.array(np.median(drawn, axis=1), mask=failed)


def _cold(
    random: np.random.Generator, shapes: Integers, first_ms: Floats, failed: Flags
) -> pa.Array:
    kind = arrow_schema().field("cold").type
    count = int(shapes.sum())
    times = np.repeat(first_ms, shapes) * (1 + PROCESS_NOISE * random.standard_normal(count))
    parts = {field.name: pa.array(times * random.random()) for field in kind.value_type}
    parts["first_ms"] = pa.array(times)
    parts["shape"] = pa.array([[32, 64, 56, 56]] * count, pa.list_(pa.int64()))
    values = pa.StructArray.from_arrays(list(parts.values()), fields=list(kind.value_type))
    offsets = pa.array(np.concatenate([[0], np.cumsum(shapes)]), pa.int32())
    return pa.ListArray.from_arrays(offsets, values, mask=pa.array(failed)).cast(kind)


def _kernels(choice: int, launches: int) -> list[dict[str, object]]:
    return [
        {
            "name": f"sm90_xmma_fprop_implicit_gemm_tilesize_{choice % 40}x{at}_cudnn_kernel",
            "operation": "aten::cudnn_convolution",
            "kind": "convolution" if at % 3 == 0 else "other",
            "grid": [choice % 1000, 1, 1],
            "block": [384, 1, 1],
            "shared_bytes": 196_608,
        }
        for at in range(launches)
    ]


def _computed(choice: int) -> list[dict[str, object]]:
    return [
        {
            "tensor": tensor,
            "elements": 1_000_000,
            "fingerprint": f"{tensor} {choice:032}",
            "relative_l2_error": 1e-3,
            "relative_max_error": 1e-2,
        }
        for tensor in ("output", "input gradient", "weight gradient")
    ]


def _logged(choice: int, convolutions: int) -> list[dict[str, object]]:
    return [
        {
            "operation": "ConvFwd",
            "engine": f"ConvFwd_eng{choice % 60}_k2={at}",
            "numeric_notes": ["TENSOR_CORE"],
            "behavior_notes": [],
            "workspace_bytes": 9216,
            "plans_built": 1,
            "plans_timed": 8 * (choice % 2),
            "timed_ms": None,
        }
        for at in range(convolutions)
    ]


def _whole(random: np.random.Generator, columns: Columns, rows: int) -> pa.Table:
    """A table of every column; those that are not given hold noise, or nothing."""
    arrays = [
        columns[field.name].cast(field.type)
        if field.name in columns
        else _noise(random, field, rows)
        for field in arrow_schema()
    ]
    return pa.Table.from_arrays(arrays, schema=arrow_schema())


def _noise(random: np.random.Generator, field: pa.Field, rows: int) -> pa.Array:
    if pa.types.is_floating(field.type):
        return pa.array(random.lognormal(size=rows))
    if pa.types.is_integer(field.type):
        return pa.array(random.integers(1, 1_000_000, rows))
    if pa.types.is_boolean(field.type):
        return pa.array(random.random(rows) < 0.5)
    if field.nullable:
        return pa.nulls(rows, field.type)
    return pa.array([[]] * rows, field.type)  # lists and maps


def _typed(column: str, values: Sequence[object]) -> pa.Array:
    return pa.array(values, arrow_schema().field(column).type)


def _chosen(names: list[str], numbers: Integers) -> pa.Array:
    return pa.array(names).take(pa.array(numbers % len(names)))


def _either(flags: Flags, no: str | None, yes: str) -> pa.Array:
    return pa.array([no, yes]).take(pa.array(flags.astype(np.int64)))


def _same(value: str | int | None, rows: int) -> pa.Array:
    return pa.repeat(pa.scalar(value), rows)
