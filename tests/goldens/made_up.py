"""The made-up store: 3,000 trials from a seed, to which nearly every question has an answer.

Four nights of thirty cells. The third has other software; the fourth ran on other GPUs. Numbers mean nothing, and
are rounded, so that they are the same on every machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from cudnn_sweep.analysis.storing.schema import RunRecord, to_table
from cudnn_sweep.analysis.storing.store import open_store
from tests.analysis.conftest import COLD, RECORD

SEED = 7
BLOCKS = 5
FIRST_NIGHT = datetime(2026, 3, 1, 2, 30, tzinfo=UTC)
TRIAL = timedelta(seconds=3)
CONFIGS: list[dict[str, Any]] = [
    {},
    {"twin": 1},
    {"benchmark": True},
    {"benchmark": True, "benchmark_limit": 0},
    {"deterministic": True},
]
WITH_OTHER_SOFTWARE = (0, 7)  # cells that are measured with two softwares side by side
BESIDE = {"software": "last_good", "software_hash": "software-last-good"}
H200 = {"gpu": "NVIDIA H200", "env_hash": "env-h200"}
OLD = {"torch": "2.11.0", "cudnn": 91900, "driver": "570.1", "software_hash": "software-old"}
NEW = {"torch": "2.12.0", "cudnn": 92100, "driver": "580.2", "software_hash": "software-new"}
NIGHTS: list[dict[str, Any]] = [
    H200 | OLD,
    H200 | OLD,
    H200 | NEW,
    {"gpu": "NVIDIA B200", "env_hash": "env-b200"} | NEW,
]
SPEEDS = {"NVIDIA H200": 1.0, "NVIDIA B200": 0.7}
SLOW_GPU = 3  # of four
FAILED_SHARE, DOUBTFUL_SHARE, SPLIT_SHARE = 0.01, 0.02, 0.01
SEARCH_RATIOS = (1.0, 0.9, 0.6, 1.0, 1.15, 0.98)  # of benchmark=true; a cell has one of them
TIME_COLUMNS = ("steady_wall", "steady_device")


def write_made_up(folder: Path) -> None:
    """Store it below `folder`, a part a night."""
    store = open_store(str(folder))
    for night in range(len(NIGHTS)):
        trials = list(_night(night))
        store.write_part(trials[0].sweep_id, to_table(trials))


def _night(night: int) -> Iterator[RunRecord]:
    cells = list(_cells())
    position = 0
    for block in range(BLOCKS * len(cells)):
        number = block % len(cells)
        random = Random(f"{SEED} {night} {block}")
        shared = _block(random, night, block, number, len(cells))
        configs = CONFIGS[:4] + [BESIDE] if number in WITH_OTHER_SOFTWARE else CONFIGS
        for config in random.sample(configs, len(configs)):
            yield _trial(random, night, number, position, {**cells[number], **shared, **config})
            position += 1


def _cells() -> Iterator[dict[str, Any]]:
    """Ten convolutions of a network, six ways, and networks: those of a kind differ in one thing each."""
    ways: list[dict[str, Any]] = [
        {"precision": "bf16"},
        {"precision": "tf32"},
        {"precision": "fp32"},
        {"precision": "bf16", "layout": "channels_last"},
        {"precision": "bf16", "state": "checkpointed"},
        {"precision": "bf16", "regime": "fresh", "loop_kind": "open", "open_new_shapes": 20},
    ]
    for layer in range(4):
        for way in ways:
            shape = [32, 64 << layer, 56 >> layer, 56 >> layer]
            yield {
                "suite": "network.yaml",
                "problem": f"network/conv{layer}",
                "input_shape": shape,
                "out_channels": 64 << layer,
                "occurrences": 1 + layer,
                "direction": "forward" if layer % 2 else "forward_backward",
                **way,
            }
    for at, regime in enumerate(("fixed", "cycle", "fresh")):
        for direction in ("training", "inference"):
            yield {
                "suite": "models",
                "workload": "torchvision.models:resnet18",
                "problem": None,
                "input_shape": [32, 3, 224, 224],
                "model_arguments": {},
                "direction": direction,
                "precision": "amp_bf16",
                "layout": "channels_last",
                "regime": regime,
                "loop_kind": "open" if regime == "fresh" else "closed",
                "distinct_shapes": (1, 3, 20)[at],
                "regime_shapes": (1, 3, None)[at],
                "convolutions": 20,
                **(
                    {"loss": "cross_entropy", "optimiser": "sgd"} if direction == "training" else {}
                ),
            }


def _block(random: Random, night: int, block: int, number: int, cells: int) -> dict[str, Any]:
    """What the trials of a block share: the GPU, its speed, the state of the compute cache."""
    gpu = 4 * (night == len(NIGHTS) - 1) + random.randrange(4)
    slowed = 0.85 if gpu % 4 == SLOW_GPU else 1.0
    replicate = block // cells
    return {
        **NIGHTS[night],
        "cell_id": f"cell-{number:02}-{NIGHTS[night]['gpu'][-4:]}",
        "block": block,
        "replicate": replicate,
        "gpu_uuid": f"GPU-{gpu}",
        "slot": f"GPU-{gpu}",
        "host": f"node-{gpu // 2}",
        "compute_cache": "warm" if replicate else "empty",
        "compute_cache_entries_added": 0 if replicate else 12,
        "in_turns": number // 6 % 2 == 0,
        "calibration_copy_gbps": round(4000 * slowed * random.uniform(0.99, 1.01), 3),
        "calibration_matmul_tflops": round(700 * slowed * random.uniform(0.99, 1.01), 3),
    }


def _trial(
    random: Random, night: int, number: int, position: int, columns: dict[str, Any]
) -> RunRecord:
    searches = bool(columns.get("benchmark"))
    typical_ms = Random(f"{SEED} cell {number}").uniform(0.05, 20) * SPEEDS[columns["gpu"]]
    if searches:
        typical_ms *= SEARCH_RATIOS[number % len(SEARCH_RATIOS)]
    if columns.get("deterministic"):
        typical_ms *= 1.08
    if night == 2 and number % 7 == 0:
        typical_ms *= 1.1  # what the new software made worse
    if columns.get("loop_kind") == "open" and searches:
        typical_ms *= 12
    device_ms = typical_ms * (0.97 if number % 3 else 0.5)
    choice = f"{number}-{random.randrange(2) if searches else 0}-{searches}"
    first_ms = (900 if searches else 25) * (2 if columns["compute_cache"] == "empty" else 1)
    started_at = FIRST_NIGHT + timedelta(days=night) + position * TRIAL
    name = f"night-{FIRST_NIGHT.date() + timedelta(days=night)}-made-up"
    twin = columns.get("twin", 0)
    found: dict[str, Any] = {
        **columns,
        **_steady(random, "steady_wall", typical_ms),
        **_steady(random, "steady_device", device_ms),
        **_failure(random),
        "sweep_id": name,
        "trial_id": f"trial-{position:04}",
        "attempt_id": f"attempt-{night}-{position:04}",
        "launch_id": f"launch-{night}" + ("b" if random.random() < SPLIT_SHARE else ""),
        "plan_hash": "plan-made-up",
        "plan_trials": BLOCKS * 30 * len(CONFIGS) + 5,
        "position": position,
        "cold": [
            replace(COLD, first_ms=round(first_ms * random.uniform(0.9, 1.1), 4))
            for _ in range(columns.get("regime_shapes") or 1)
        ],
        "launch_bound": number % 3 == 0,
        "kernels_hash": f"kernels-{choice}",
        "fingerprint": f"bits-{choice}-{random.randrange(2) if number % 4 == 0 else 0}",
        "bitwise_repeatable": number % 4 != 0,
        "relative_l2_error": round(random.uniform(1e-4, 2e-3), 8),
        "relative_max_error": round(random.uniform(1e-3, 4e-3), 8),
        "logged_searches": 3 if searches else 0,
        "steady_peak_allocated_bytes": 10**9 + 10**8 * searches * (number % 3),
        "cold_peak_allocated_bytes": 10**9 + 10**9 * searches,
        "started_at": started_at,
        "ended_at": started_at + timedelta(seconds=round(random.uniform(1, 2.9), 3)),
        "twin": twin,
    }
    return replace(RECORD, **found)


def _steady(random: Random, columns: str, typical_ms: float) -> dict[str, Any]:
    process_ms = typical_ms * random.uniform(0.99, 1.01)
    samples = sorted(round(process_ms * random.uniform(0.99, 1.01), 6) for _ in range(5))
    return {
        f"{columns}_samples_ms": samples,
        f"{columns}_ms": samples[2],
        f"{columns}_p10_ms": samples[0],
        f"{columns}_p90_ms": samples[4],
    }


def _failure(random: Random) -> dict[str, Any]:
    """Most trials end well; some fail, some shared their GPU or were throttled."""
    luck = random.random()
    if luck < FAILED_SHARE:
        missing = ("_ms", "_samples_ms", "_p10_ms", "_p90_ms")
        nothing = {f"{name}{part}": None for name in TIME_COLUMNS for part in missing}
        status = random.choice(("crash", "timeout", "out_of_memory"))
        return {"status": status, "message": f"{status} of the made-up trial", **nothing}
    if luck < FAILED_SHARE + DOUBTFUL_SHARE:
        return {"warnings": [random.choice(("shared_gpu", "throttled"))]}
    return {}
