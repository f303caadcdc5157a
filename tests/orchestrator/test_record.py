"""From a trial to a row, and from rows to the verdict that was planted."""

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest

from cudnn_sweep.analysis.schema import RunRecord
from cudnn_sweep.analysis.store import open_store
from cudnn_sweep.analysis.verdicts import Verdict, verdicts
from cudnn_sweep.orchestrator.plan import Plan
from cudnn_sweep.orchestrator.record import DIFFERENT
from cudnn_sweep.orchestrator.session import session_of
from cudnn_sweep.orchestrator.slot import Slot
from cudnn_sweep.workloads.config import CudnnConfig
from cudnn_sweep.workloads.environment import Environment
from cudnn_sweep.workloads.measurement import Measurement, MeasureSpec

MakePlan = Callable[..., Plan]


def test_everything_measured_is_a_column() -> None:
    columns = {field.name for field in fields(RunRecord)}
    for source in (Measurement, Environment, CudnnConfig):
        assert {field.name for field in fields(source)} - DIFFERENT <= columns


@pytest.fixture
def shown(tmp_path: Path) -> Callable[[Plan], list[Verdict]]:
    """Run a plan's trials one after another, without Ray, and read the verdicts."""

    def run(plan: Plan) -> list[Verdict]:
        session = session_of(plan, "planted", tmp_path)
        store = open_store(str(tmp_path / "results"))
        slot = Slot(session, "cpu")
        for trial in plan.trials:
            record = slot.run(trial, 1)
            assert record.status == "ok", record.message
            store.write(record)
        slot.close()
        return verdicts(store)

    return run


def test_planted_slowdown_is_seen_by_the_statistics_alone(
    plan_of: MakePlan, shown: Callable[[Plan], list[Verdict]], faulty: str
) -> None:
    measure = MeasureSpec(warmup_s=0.02, steady_budget_s=0.3)
    plan = plan_of(f"{faulty}:slower_with_benchmark", replicates=5, measure=measure)
    (verdict,) = shown(plan)
    assert verdict.wall_verdict == "no_effect"
    assert verdict.no_effect_reason == "no_cuda"
    assert verdict.wall_statistical_verdict == "hurts"
    assert verdict.ratio == pytest.approx(1.2, rel=0.05)


def test_search_at_every_new_shape_hurts_an_open_loop(
    plan_of: MakePlan, shown: Callable[[Plan], list[Verdict]], faulty: str
) -> None:
    plan = plan_of(f"{faulty}:searches_for_new_shapes", replicates=4, regime="fresh")
    (verdict,) = shown(plan)
    assert verdict.loop_kind == "open"
    assert verdict.wall_statistical_verdict == "hurts"
    assert verdict.ratio == pytest.approx(3.0, rel=0.15)


def test_search_before_a_closed_loop_does_not_count_in_its_steady_time(
    plan_of: MakePlan, shown: Callable[[Plan], list[Verdict]], faulty: str
) -> None:
    measure = MeasureSpec(warmup_s=0.0, steady_budget_s=0.02)
    workload = f"{faulty}:searches_for_new_shapes"
    (verdict,) = shown(plan_of(workload, replicates=3, measure=measure))
    assert verdict.loop_kind == "closed"
    assert verdict.baseline_ms is not None and verdict.baseline_ms < 0.1
