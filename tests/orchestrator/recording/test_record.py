"""From a trial to a row, and from rows to the verdict that was planted."""

import os
from collections.abc import Callable
from dataclasses import fields, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cudnn_sweep.analysis.results.verdicts import Verdict
from cudnn_sweep.analysis.store.schema import RunRecord
from cudnn_sweep.analysis.store.store import open_store
from cudnn_sweep.orchestrator.planning.plan import Plan
from cudnn_sweep.orchestrator.planning.session import session_of
from cudnn_sweep.orchestrator.process.client import ForkServer
from cudnn_sweep.orchestrator.process.protocol import Outcome, Reply
from cudnn_sweep.orchestrator.recording.record import PARTS, Attempt, make_record
from cudnn_sweep.orchestrator.slots.slot import ForkedSlot
from cudnn_sweep.workloads.cells.config import Config
from cudnn_sweep.workloads.cells.measurement import LogPass, Measurement, MeasureSpec
from cudnn_sweep.workloads.hardware.environment import Environment
from cudnn_sweep.workloads.records.measured import Measured
from tests.makers import MakePlan

pytestmark = pytest.mark.measuring


def test_everything_measured_is_a_column() -> None:
    columns = {field.name for field in fields(RunRecord)}
    for source in (Environment, Config):
        assert {field.name for field in fields(source)} <= columns
    parts = {field.name for field in fields(Measurement)} - {
        field.name for field in fields(Measured)
    }
    assert parts == {*PARTS, "config", "phases_s"}, "a part that is filled is stored"


def test_a_trial_whose_banned_plan_ran_has_failed(
    plan_of: MakePlan, environment: Environment, tmp_path: Path
) -> None:
    config = Config(errata="ConvFwd:5")
    session = session_of(plan_of("noop", configs=(config,)), "banned", tmp_path)
    ran = LogPass(banned_ran=["ConvFwd_eng5, which ConvFwd:5 bans"])
    now = datetime.now(UTC)
    outcome = Outcome(started_at=now, ended_at=now, process_s=1.0)
    record = make_record(
        session,
        session.plan.trials[0],
        outcome,
        environment,
        Attempt(slot="s", attempt=1),
        log=replace(outcome, reply=Reply(log_pass=ran)),
    )
    assert record.status == "error"
    assert record.message == "errata: cuDNN ran ConvFwd_eng5, which ConvFwd:5 bans"


@pytest.fixture
def shown(
    tmp_path: Path, server: ForkServer, one_server_for_slots: None
) -> Callable[[Plan], list[Verdict]]:
    """Run a plan, without Ray and on one CPU, where no thread waits for another; read the verdicts."""

    def run(plan: Plan) -> list[Verdict]:
        session = session_of(plan, "planted", tmp_path)
        store = open_store(str(tmp_path / "results"))
        slot = ForkedSlot.open(session, "cpu")
        for _, trials in plan.blocks():
            for record in slot.measure(trials, lambda _: 1):
                assert record.status == "ok", record.message
                store.write(record)
        return Verdict.of(store)

    server.pin({max(os.sched_getaffinity(0))})
    return run


@pytest.mark.slow
def test_planted_slowdown_is_seen_by_the_statistics_alone(
    plan_of: MakePlan, shown: Callable[[Plan], list[Verdict]], faulty: str
) -> None:
    measure = MeasureSpec(warmup_s=0.02, warmup_limit_s=0.05, steady_budget_s=0.2, calibrate=False)
    plan = plan_of(f"{faulty}:slower_with_benchmark", replicates=5, measure=measure)
    (verdict,) = shown(plan)
    assert verdict.wall_verdict == "no_effect"
    assert verdict.no_effect_reason == "no_cuda"
    assert verdict.wall_statistical_verdict == "hurts"
    assert verdict.ratio == pytest.approx(1.2, rel=0.08), "neither 10% nor 30%"


@pytest.mark.long
def test_search_at_every_new_shape_hurts_an_open_loop(
    plan_of: MakePlan, shown: Callable[[Plan], list[Verdict]], faulty: str
) -> None:
    measure = MeasureSpec(open_cold_shapes=1, open_steps=5, open_budget_s=60.0, calibrate=False)
    plan = plan_of(
        f"{faulty}:searches_for_new_shapes", replicates=3, regime="fresh", measure=measure
    )
    (verdict,) = shown(plan)
    assert verdict.loop_kind == "open"
    assert verdict.wall_statistical_verdict == "hurts"
    assert verdict.ratio == pytest.approx(2.0, rel=0.2), "neither 1.5 nor 2.5 times"
