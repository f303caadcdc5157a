"""A summary names GPUs that are off: which, where, by how much and what to do."""

from dataclasses import replace
from pathlib import Path

from cudnn_sweep.analysis.storing.store import open_store
from cudnn_sweep.orchestrator.planning.plan import Plan
from cudnn_sweep.orchestrator.planning.session import session_of
from cudnn_sweep.orchestrator.showing.summary import slow_gpu_lines
from tests.makers import MakePlan, RecordOf


def lines(folder: Path, plan: Plan, record_of: RecordOf, gbps: list[float]) -> list[str]:
    """Of a sweep on as many GPUs of one model, four trials each, with these speeds of the copy."""
    store, session = open_store(str(folder)), session_of(plan, "night", folder)
    for number, trial in enumerate(plan.trials):
        gpu = number % len(gbps)
        there = replace(
            record_of(session, trial, slot=f"GPU-{gpu}"),
            device="cuda",
            gpu="NVIDIA H200",
            gpu_uuid=f"GPU-{gpu}",
            host=f"node-{gpu}",
            calibration_copy_gbps=gbps[gpu],
            calibration_matmul_tflops=gbps[gpu] / 8,
        )
        store.write(there)
    return list(slow_gpu_lines(store, "night"))


def test_slow_gpu_is_named_with_what_to_do(
    tmp_path: Path, plan_of: MakePlan, record_of: RecordOf
) -> None:
    (line,) = lines(tmp_path, plan_of("noop", replicates=7), record_of, [4000, 4000, 3600])
    assert line.startswith(
        "GPU-2 on node-2: copy 10.0% slower, matmul tf32 10.0% slower than its 2 peers (NVIDIA H200): "
    )
    assert "nvidia-smi -q -i UUID" in line and "CUDA_VISIBLE_DEVICES" in line


def test_two_gpus_that_differ_are_both_named_and_none_is_blamed(
    tmp_path: Path, plan_of: MakePlan, record_of: RecordOf
) -> None:
    copy, product = lines(tmp_path, plan_of("noop", replicates=7), record_of, [3600, 4000])
    assert copy.startswith(
        "The 2 NVIDIA H200 differ by 10.0% in copy, from 3,600 GB/s (GPU-0 on node-0) to 4,000 GB/s "
        "(GPU-1 on node-1); with so few GPUs it is unclear which one is at fault: "
    )
    assert "differ by 10.0% in matmul tf32, from 450 TFLOP/s" in product
