"""What only a GPU can show."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cudnn_sweep.analysis.schema import RunRecord
from cudnn_sweep.orchestrator.plan import Plan
from cudnn_sweep.orchestrator.process.protocol import Outcome
from cudnn_sweep.orchestrator.session import session_of
from cudnn_sweep.orchestrator.slot import Slot
from cudnn_sweep.workloads.config import CudnnConfig

pytestmark = pytest.mark.gpu

MakePlan = Callable[..., Plan]
RunTrial = Callable[..., Outcome]
Measure = Callable[[Plan], list[RunRecord]]

BENCHMARK = CudnnConfig(benchmark=True)
RGB: dict[str, Any] = {"problem": "tutorials/rgb224"}


@pytest.fixture
def measure(tmp_path: Path) -> Measure:
    """Run a plan's trials one after another, without Ray, with a scratch folder of their own."""

    def run(plan: Plan) -> list[RunRecord]:
        session = session_of(plan, "gpu", tmp_path)
        slot = Slot(session, "0")
        records = [slot.run(trial, 1) for trial in plan.trials]
        slot.close()
        assert [record.status for record in records] == ["ok"] * len(records)
        return records

    return run


def cold_ms(record: RunRecord) -> float:
    assert record.cold is not None
    return sum(shape.first_ms for shape in record.cold)


def users_cache() -> dict[Path, int]:
    folder = Path.home() / ".nv"
    return {file: file.stat().st_mtime_ns for file in folder.rglob("*") if file.is_file()}


def test_cold_cost_depends_on_the_compute_cache_which_is_ours(
    plan_of: MakePlan, measure: Measure
) -> None:
    before = users_cache()
    plan = plan_of("conv", replicates=3, configs=(BENCHMARK,), **RGB)
    records = [record for record in measure(plan) if not record.twin]
    states = [(record.compute_cache, record.compute_cache_entries_before) for record in records]
    assert states[0] == ("empty", 0)
    assert all(state == "warm" and entries for state, entries in states[1:])
    assert records[0].compute_cache_entries_added
    assert all(cold_ms(records[0]) > 2 * cold_ms(warm) for warm in records[1:])
    assert users_cache() == before


def test_other_cells_leave_a_compute_cache_alone(plan_of: MakePlan, measure: Measure) -> None:
    plan = plan_of("conv", configs=(BENCHMARK,), precision=["tf32", "bf16"], **RGB)
    assert {record.compute_cache for record in measure(plan)} == {"empty"}


@pytest.mark.parametrize("fault", ["allocates_too_much_of_the_gpu", "asserts_on_the_gpu"])
def test_cuda_fault_ends_its_process_alone(run_trial: RunTrial, faulty: str, fault: str) -> None:
    status, message = {
        "allocates_too_much_of_the_gpu": ("out_of_memory", "CUDA out of memory"),
        "asserts_on_the_gpu": ("error", "device-side assert"),
    }[fault]
    outcome = run_trial(f"{faulty}:{fault}")
    assert outcome.status == status
    assert message in (outcome.message or "")
    assert run_trial("conv", **RGB).status == "ok"


def test_route_is_cudnn_only_where_it_is_enabled(run_trial: RunTrial) -> None:
    for enabled in (True, False):
        outcome = run_trial("conv", config=CudnnConfig(enabled=enabled), **RGB)
        assert outcome.reply is not None and outcome.reply.measured is not None
        assert outcome.reply.measured.convolutions == 1
        assert (outcome.reply.measured.routes == ["Cudnn"]) is enabled


def test_memory_and_environment_are_recorded(plan_of: MakePlan, measure: Measure) -> None:
    record = measure(plan_of("conv", configs=(BENCHMARK,), **RGB))[0]
    smallest = 4 * 64 * 224 * 224  # bytes of the output alone
    for peak in (record.cold_peak_allocated_bytes, record.steady_peak_allocated_bytes):
        assert peak is not None and peak >= smallest
    assert record.device == "cuda"
    assert record.gpu_uuid is not None and record.gpu_uuid.startswith("GPU-")
    assert record.slot == record.gpu_uuid
    assert None not in (record.cudnn, record.cuda, record.gpu_memory_bytes)


def test_search_is_paid_by_the_first_call_of_a_shape(plan_of: MakePlan, measure: Measure) -> None:
    plan = plan_of("conv", replicates=2, regime={"cycle": {"sizes": 3, "step": 16}}, **RGB)
    last = {record.benchmark: record for record in measure(plan) if record.replicate == 1}
    for record in last.values():
        assert record.cold is not None and len(record.cold) == 3
    assert cold_ms(last[True]) > 3 * cold_ms(last[False])
    assert all(
        shape.second_ms is not None and shape.second_ms < shape.first_ms / 3
        for shape in last[True].cold or ()
    )
