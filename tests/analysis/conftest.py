"""Records made up for tests: `make_record` fills every column, `make_pair` makes a block's two."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cudnn_sweep.analysis.schema import SCHEMA_VERSION, ColdShape, RunRecord
from cudnn_sweep.analysis.store import Store, open_store

MIDNIGHT = datetime(2025, 1, 1, tzinfo=UTC)

RECORD = RunRecord(
    schema_version=SCHEMA_VERSION,
    sweep_id="night-1",
    trial_id="trial-0",
    attempt_id="attempt-0",
    launch_id="launch-1",
    attempt=1,
    retry=0,
    plan_hash="plan-a",
    plan_trials=4,
    suite="quick",
    cell_id="cell-a",
    workload="conv2d",
    problem="vgg_256_56",
    direction="forward_backward",
    input_shape=[64, 256, 56, 56],
    out_channels=256,
    kernel_size=[3, 3],
    stride=[1, 1],
    padding=[1, 1],
    dilation=[1, 1],
    groups=1,
    bias=False,
    regime="fixed",
    regime_parameters={"batch": 64.0},
    loop_kind="closed",
    precision="bf16",
    layout="contiguous",
    replicate=0,
    twin=0,
    block=0,
    position=0,
    enabled=True,
    benchmark=False,
    benchmark_limit=10,
    deterministic=False,
    heuristic_mode_b=False,
    plan_cache_limit=None,
    status="ok",
    message=None,
    conv_fp32_precision="tf32",
    threads=8,
    compute_cache="warm",
    compute_cache_entries_before=3,
    compute_cache_entries_added=0,
    cold=[ColdShape(shape=[64, 256, 56, 56], first_ms=30.0, second_ms=9.0)],
    distinct_shapes=1,
    regime_shapes=1,
    open_new_shapes=None,
    steady_wall_samples_ms=[10.0, 10.0, 10.0],
    steady_wall_ms=10.0,
    steady_iterations=30,
    steady_stop="precision",
    steady_device_ms=9.0,
    cold_peak_allocated_bytes=2_000_000,
    cold_peak_reserved_bytes=3_000_000,
    steady_peak_allocated_bytes=1_000_000,
    steady_peak_reserved_bytes=2_000_000,
    peak_host_bytes=500_000_000,
    convolutions=1,
    routes=["Cudnn"],
    loss_first=None,
    loss_last=None,
    start_s=0.01,
    one_time_s=0.5,
    build_s=0.1,
    cold_s=0.1,
    steady_s=1.0,
    checks_s=0.2,
    exit_s=0.05,
    process_s=2.0,
    gap_s=0.01,
    started_at=MIDNIGHT,
    ended_at=MIDNIGHT + timedelta(seconds=2),
    device="cuda",
    gpu="NVIDIA H200",
    gpu_uuid="GPU-0",
    gpu_memory_bytes=150_000_000_000,
    mig_profile=None,
    max_sm_clock_mhz=1980,
    power_limit_w=700.0,
    driver="570.1",
    cuda="13.0",
    cudnn=91900,
    torch="2.11.0",
    ray="2.54.0",
    python="3.12.1",
    os="Linux 6.8",
    host="node-0",
    slot="GPU-0",
    cpu_cores=16,
    version="0.1.0",
    commit=None,
    env_hash="env-a",
    software_hash="software-a",
)


MakeRecord = Callable[..., RunRecord]
MakePair = Callable[..., list[RunRecord]]


@pytest.fixture
def make_record() -> MakeRecord:
    """A good trial with some columns changed."""
    return _record


@pytest.fixture
def make_pair() -> MakePair:
    """A block of two good trials, benchmark off then on, with these steady wall and device times."""
    return _pair


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "results"))


@pytest.fixture
def filled_store(store: Store) -> Store:
    """Two sweeps: one compacted, closed loops and a failure; one loose, an open loop on a CPU."""
    for block in range(4):
        for record in _pair(block, 10.0 + block / 100, 12.0 - block / 100):
            store.write(record)
    store.write(_record(trial_id="lost", block=9, benchmark=True, status="crash", message="boom"))
    store.compact("night-1")
    cpu: dict[str, object] = {"sweep_id": "night-2", "cell_id": "cell-cpu", "device": "cpu"}
    cpu |= {"compute_cache": None, "steady_device_ms": None, "loop_kind": "open"}
    for block in range(3):
        for record in _pair(block, 5.0, 5.0 + block, **cpu):
            store.write(record)
    return store


def _record(**changes: object) -> RunRecord:
    return replace(RECORD, **changes)  # type: ignore[arg-type]


def _pair(
    block: int, baseline_ms: float, candidate_ms: float, **changes: object
) -> list[RunRecord]:
    return [
        _record(**_timed(block, False, baseline_ms, 30.0) | changes),
        _record(**_timed(block, True, candidate_ms, 500.0) | changes),
    ]


def _timed(block: int, benchmark: bool, wall_ms: float, first_ms: float) -> dict[str, object]:
    started_at = MIDNIGHT + timedelta(minutes=block, seconds=10 * benchmark)
    return {
        "trial_id": f"trial-{block}-{benchmark}".lower(),
        "attempt_id": f"attempt-{block}-{benchmark}".lower(),
        "block": block,
        "replicate": block,
        "benchmark": benchmark,
        "steady_wall_ms": wall_ms,
        "steady_wall_samples_ms": [wall_ms] * 3,
        "steady_device_ms": 0.9 * wall_ms,
        "cold": [ColdShape(shape=[64, 256, 56, 56], first_ms=first_ms, second_ms=None)],
        "started_at": started_at,
        "ended_at": started_at + timedelta(seconds=2),
    }
