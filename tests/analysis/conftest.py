"""Records made up for tests: `make_record` fills every column, `make_pair` makes a block's two."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

import pytest

from cudnn_sweep.analysis.answering.answers import Row
from cudnn_sweep.analysis.asking.database import open_database
from cudnn_sweep.analysis.asking.queries import Value, load_query
from cudnn_sweep.analysis.storing.schema import (
    SCHEMA_VERSION,
    ColdShape,
    ComputedTensor,
    Kernel,
    LoggedChoice,
    RunRecord,
    axes,
    settings,
)
from cudnn_sweep.analysis.storing.store import Store, open_store

MIDNIGHT = datetime(2025, 1, 1, tzinfo=UTC)

COLD = ColdShape(
    shape=[64, 256, 56, 56],
    first_ms=30.0,
    first_forward_ms=20.0,
    first_backward_ms=10.0,
    second_ms=9.0,
    second_forward_ms=3.0,
    second_backward_ms=6.0,
)
CONVERSION = Kernel(
    name="nchwToNhwcKernel",
    operation="convolution",
    kind="layout_conversion",
    grid=[98, 8, 64],
    block=[256, 1, 1],
    shared_bytes=None,
)
CONVOLUTION = Kernel(
    name="sm90_xmma_fprop_implicit_gemm_bf16",
    operation="convolution",
    kind="convolution",
    grid=[784, 1, 1],
    block=[384, 1, 1],
    shared_bytes=196_608,
)
CHOICE = LoggedChoice(
    operation="ConvFwd",
    engine="ConvFwd_eng62_k2=0",
    numeric_notes=["TENSOR_CORE"],
    behavior_notes=[],
    workspace_bytes=9216,
    plans_built=1,
    plans_timed=0,
    timed_ms=None,
)

USUAL_AXES: dict[str, Any] = {
    name: axis.usual for name, axis in axes().items() if axis.usual is not None
}
USUAL_CONFIG: dict[str, Any] = {name: setting.usual for name, setting in settings().items()}

_LACKING = """
looks shard shards model_arguments model_inputs loss optimiser optimiser_parameters
listed_shapes repeats_block software turn_cpus message workload_hash open_new_shapes loss_first
loss_last accuracy own_times_ms checks_error steady_wall_rounds steady_device_note
steady_device_rounds kernels_note reference_note logged_error mig_profile commit
"""
LACKING: dict[str, Any] = dict.fromkeys(_LACKING.split())  # what this trial has not

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
    transposed=False,
    output_padding=[0, 0],
    occurrences=2,
    regime="fixed",
    regime_parameters={"batch": 64.0},
    state_parameters={},
    **USUAL_AXES,
    loop_kind="closed",
    precision="bf16",
    replicate=0,
    twin=0,
    block=0,
    position=0,
    in_turns=False,
    alone_reason="as asked",
    **USUAL_CONFIG,
    **LACKING,
    status="ok",
    conv_fp32_precision="tf32",
    threads=8,
    compute_cache="warm",
    compute_cache_entries_before=3,
    compute_cache_entries_added=0,
    cold=[COLD],
    distinct_shapes=1,
    regime_shapes=1,
    cold_free_bytes=140_000_000_000,
    cold_allocated_bytes_before=500_000,
    cold_reserved_bytes_before=1_000_000,
    cold_peak_allocated_bytes=2_000_000,
    cold_peak_reserved_bytes=3_000_000,
    cold_allocated_bytes_after=800_000,
    cold_reserved_bytes_after=2_000_000,
    steady_allocated_bytes=800_000,
    steady_reserved_bytes=2_000_000,
    steady_peak_allocated_bytes=1_000_000,
    steady_peak_reserved_bytes=2_000_000,
    peak_host_bytes=500_000_000,
    calibration_matmul_tflops=700.0,
    calibration_copy_gbps=4000.0,
    warmup_s=0.3,
    warmup_settled=True,
    steady_wall_samples_ms=[10.0, 10.0, 10.0],
    steady_wall_ms=10.0,
    steady_wall_p10_ms=10.0,
    steady_wall_p90_ms=10.0,
    steady_wall_error=0.001,
    steady_iterations=30,
    steady_stop="precision",
    steady_device_source="graph",
    steady_device_samples_ms=[9.0, 9.0],
    steady_device_ms=9.0,
    steady_device_p10_ms=9.0,
    steady_device_p90_ms=9.0,
    steady_device_error=0.001,
    steady_device_iterations=40,
    steady_device_stop="precision",
    launch_bound=True,
    convolutions=1,
    routes=["Cudnn"],
    cudnn_operations=[],
    convolution_flops=700_000_000_000,
    convolution_bytes=700_000_000,
    roofline_ms=4.5,
    roofline_share=0.5,
    kernels_source="graph",
    kernels=[CONVERSION, CONVOLUTION],
    kernels_hash="kernels-heuristic",
    layout_conversions=1,
    layout_conversion_ms=0.9,
    computed=[
        ComputedTensor(
            tensor="output",
            elements=51_380_224,
            fingerprint="output-bits",
            relative_l2_error=0.002,
            relative_max_error=0.004,
        )
    ],
    fingerprint="bits-heuristic",
    bitwise_repeatable=True,
    relative_l2_error=0.002,
    relative_max_error=0.004,
    telemetry="nvml",
    telemetry_samples=20,
    sm_clock_mhz=1980.0,
    sm_clock_low_mhz=1965,
    sm_clock_high_mhz=1980,
    memory_clock_mhz=3201,
    power_w=400.0,
    energy_per_iteration_mj=4000.0,
    temperature_c=45,
    throttle_reasons=[],
    other_processes=0,
    warnings=[],
    logged_choices=[CHOICE],
    logged_searches=0,
    logged_workspace_bytes=9216,
    logged_largest_workspace_bytes=9216,
    logged_plans_dropped=0,
    logged_kernels_agree=True,
    start_s=0.01,
    one_time_s=0.5,
    overlapped_s=0.0,
    build_s=0.1,
    cold_s=0.1,
    calibration_s=0.1,
    steady_s=0.9,
    checks_s=0.2,
    log_s=1.5,
    exit_s=0.05,
    process_s=2.0,
    waited_s=0.0,
    gap_s=0.01,
    started_at=MIDNIGHT,
    ended_at=MIDNIGHT + timedelta(seconds=2),
    device="cuda",
    gpu="NVIDIA H200",
    gpu_uuid="GPU-0",
    gpu_memory_bytes=150_000_000_000,
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
    cpu_model="AMD EPYC 9654",
    cpu_cores=15,
    pinned_cpus="1-15",
    numa_node=0,
    version="0.1.0",
    env_hash="env-a",
    software_hash="software-a",
)


class Ask(Protocol):
    """The rows of a named question over the store, after these records were added to it."""

    def __call__(
        self, name: str, records: Iterable[RunRecord], **values: Value
    ) -> list[dict[str, Any]]: ...


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "results"))


@pytest.fixture
def ask(store: Store) -> Ask:
    def asked(name: str, records: Iterable[RunRecord], **values: Value) -> list[dict[str, Any]]:
        store.write(*records)
        question = load_query(name)
        with open_database(store) as database:
            rows: list[dict[str, Any]] = database.query(
                question.sql, question.values(values)
            ).to_pylist()
        return rows

    return asked


@pytest.fixture
def filled_store(store: Store) -> Store:
    """Two sweeps: one compacted, closed loops and a failure; one loose, an open loop on a CPU."""
    return _filled(store)


@pytest.fixture(scope="session")
def kept_store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """What `filled_store` has, for tests that only read it."""
    return _filled(open_store(str(tmp_path_factory.mktemp("kept"))))


@pytest.fixture(scope="session")
def answering_store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A store to which every question has an answer: cells that differ in one thing each."""
    store = open_store(str(tmp_path_factory.mktemp("answering")))
    cells: dict[str, dict[str, object]] = {
        "usual": {},
        "precise": {"precision": "fp32"},
        "turned": {"layout": "channels_last"},
        "elsewhere": {"gpu": "NVIDIA B200", "env_hash": "env-b"},
        "updated": {"torch": "2.12.0", "software_hash": "software-b"},
        "set": {"deterministic": True},
        "beside": {"software": "last_good", "software_hash": "software-0"},
    }
    for name, changes in cells.items():
        # neither another software nor another setting makes another cell
        cell_id = "cell-usual" if name in ("updated", "set", "beside") else f"cell-{name}"
        for block in range(3):
            for record in make_pair(block, 10.0 + block / 100, 12.0 - block / 100, **changes):
                later = record.started_at + timedelta(days=name == "updated")
                store.write(in_cell(record, name, cell_id=cell_id, started_at=later))
    for block in range(3):
        kept = replace(make_pair(block, 9.0, 9.0)[0], errata="ConvFwd:5")
        store.write(in_cell(kept, "frozen", cell_id="cell-usual"))
    return _with_a_failure_and_a_cpu(store)


def _filled(store: Store) -> Store:
    for block in range(4):
        for record in make_pair(block, 10.0 + block / 100, 12.0 - block / 100):
            store.write(record)
    return _with_a_failure_and_a_cpu(store)


def _with_a_failure_and_a_cpu(store: Store) -> Store:
    store.write(
        make_record(trial_id="lost", block=9, benchmark=True, status="crash", message="boom")
    )
    store.compact("night-1")
    cpu: dict[str, object] = {"sweep_id": "night-2", "cell_id": "cell-cpu", "device": "cpu"}
    cpu |= {"compute_cache": None, "steady_device_ms": None, "loop_kind": "open"}
    for block in range(3):
        for record in make_pair(block, 5.0, 5.0 + block, **cpu):
            store.write(record)
    return store


def make_record(**changes: object) -> RunRecord:
    """A good trial with some columns changed."""
    return replace(RECORD, **changes)  # type: ignore[arg-type]


def changed(row: Row, **columns: Any) -> Row:
    """An answer's row with other values in these columns."""
    return type(row)(**vars(row) | columns)


def make_pair(
    block: int, baseline_ms: float, candidate_ms: float, **changes: object
) -> list[RunRecord]:
    """A block of two good trials, benchmark off then on, with these steady wall and device times."""
    return [
        make_record(**_timed(block, False, baseline_ms, 30.0) | changes),
        make_record(**_timed(block, True, candidate_ms, 500.0) | changes),
    ]


def processes(name: str, times_ms: Iterable[float], **columns: object) -> list[RunRecord]:
    """Of one cell and config, a block each, with these wall times."""
    return [
        make_record(
            **{
                "trial_id": f"{name}-{block}",
                "attempt_id": f"{name}-{block}",
                "block": block,
                "steady_wall_ms": ms,
                "steady_device_ms": 0.9 * ms,
            }
            | columns
        )
        for block, ms in enumerate(times_ms)
    ]


def in_cell(record: RunRecord, cell_id: str, /, **changes: Any) -> RunRecord:
    """The trial as one of another cell, under ids of its own."""
    trial_id = f"{cell_id}-{record.trial_id}"
    own = {"cell_id": cell_id, "trial_id": trial_id, "attempt_id": trial_id}
    return replace(record, **own | changes)


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
        "kernels_hash": "kernels-search" if benchmark else "kernels-heuristic",
        "logged_searches": int(benchmark),
        "cold": [replace(COLD, first_ms=first_ms)],
        "started_at": started_at,
        "ended_at": started_at + timedelta(seconds=2),
    }
