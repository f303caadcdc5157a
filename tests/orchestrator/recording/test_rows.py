"""What a trial's row says of its launch, its log and its cell, of outcomes that are made up."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cudnn_sweep.orchestrator.planning.plan import LAST_GOOD, Plan, Shard
from cudnn_sweep.orchestrator.planning.session import session_of
from cudnn_sweep.orchestrator.process.protocol import Outcome, Reply
from cudnn_sweep.orchestrator.recording.record import Attempt, cell_columns, make_record, raced_out
from cudnn_sweep.workloads.cells.config import Config
from cudnn_sweep.workloads.cells.measurement import LogPass, Measurement
from cudnn_sweep.workloads.hardware.environment import Environment
from cudnn_sweep.workloads.records.measured import Choice
from tests.orchestrator.blank import blank
from tests.orchestrator.made_plan import made_plan

WHERE = blank(Environment, device="cpu")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
RAN = Outcome(started_at=NOW, ended_at=NOW, process_s=2.0)
MODEL: dict[str, Any] = {
    "direction": "training",
    "input": "8x3x4x4",
    "model": {"arguments": {"width": 4}},
}


@pytest.fixture(scope="module")
def plan() -> Plan:
    return made_plan("conv", problem="tutorials/rgb224")


def row(plan: Plan, outcome: Outcome = RAN, log: Outcome | None = None, **session: Any) -> Any:
    launch = replace(session_of(plan, "june", Path()), **session)
    trial = replace(plan.trials[0], software=session.pop("software", ""))
    return make_record(launch, trial, outcome, WHERE, Attempt(slot="s", attempt=3), log=log)


def test_a_row_says_which_part_of_which_launch_it_is(plan: Plan) -> None:
    alone = row(plan)
    assert (alone.shard, alone.shards, alone.looks, alone.retry) == (None, None, None, 0)
    assert (alone.attempt, alone.ends_launch, alone.software) == (3, False, None)
    trial_id = plan.trials[0].trial_id
    part = row(plan, shard=Shard(number=2, of=5), looks=(3, 6), retries={trial_id: 1})
    assert (part.shard, part.shards, part.looks, part.retry) == (2, 5, [3, 6], 1)
    launch = session_of(plan, "june", Path())
    other = replace(plan.trials[0], software=LAST_GOOD)
    made = make_record(launch, other, RAN, WHERE, Attempt(slot="s", attempt=1))
    assert made.software == LAST_GOOD
    out = raced_out(launch, other, WHERE, "s", NOW)
    assert (out.status, out.attempt, out.process_s, out.steady_wall_ms) == (
        "raced_out",
        1,
        0.0,
        None,
    )


def test_a_trial_that_reported_its_config_has_that_one_and_any_other_the_made_plan(
    plan: Plan,
) -> None:
    reported = Measurement(config=Config(benchmark=True), phases_s={"build": 0.5})
    measured = row(plan, replace(RAN, reply=Reply(measured=reported)))
    assert (measured.benchmark, measured.build_s, measured.cold_s) == (True, 0.5, None)
    for outcome in (
        RAN,
        replace(RAN, reply=Reply()),
        replace(RAN, reply=Reply(measured=Measurement())),
    ):
        assert row(plan, outcome).benchmark is False


def logged(kernels: str | None = None, banned: tuple[str, ...] = (), **of: Any) -> Outcome:
    log_pass = LogPass(kernels_hash=kernels, banned_ran=list(banned), logged_searches=4)
    return replace(RAN, reply=Reply(log_pass=log_pass), process_s=7.0, **of)


FAILED = replace(RAN, status="crash", message="SIGSEGV")


@pytest.mark.parametrize(
    ("log", "agree", "searches", "error", "log_s"),
    [
        (None, None, None, None, None),
        (logged(), None, 4, None, 7.0),
        (logged("k"), True, 4, None, 7.0),
        (logged("other"), False, 4, None, 7.0),
        (logged("k", status="error", message="odd"), True, 4, "odd", 7.0),
        (RAN, None, None, None, 2.0),
        (replace(RAN, reply=Reply()), None, None, None, 2.0),
        (FAILED, None, None, "SIGSEGV", 2.0),
    ],
)
def test_a_log_is_compared_with_the_kernels_that_were_timed(
    plan: Plan,
    log: Outcome | None,
    agree: bool | None,
    searches: int | None,
    error: str | None,
    log_s: float | None,
) -> None:
    measured = Measurement(choice=Choice(kernels_hash="k"))
    made = row(plan, replace(RAN, reply=Reply(measured=measured)), log)
    found = (made.logged_kernels_agree, made.logged_searches, made.logged_error, made.log_s)
    assert found == (agree, searches, error, log_s)


@pytest.mark.parametrize(
    ("log", "status", "message"),
    [
        (None, "crash", "SIGSEGV"),
        (RAN, "crash", "SIGSEGV"),
        (replace(RAN, reply=Reply()), "crash", "SIGSEGV"),
        (logged(), "crash", "SIGSEGV"),
        (logged(banned=("a", "b")), "error", "errata: cuDNN ran a; b"),
    ],
)
def test_a_trial_ends_as_its_process_did_unless_a_banned_plan_ran(
    plan: Plan, log: Outcome | None, status: str, message: str
) -> None:
    made = row(plan, FAILED, log)
    assert (made.status, made.message) == (status, message)


def test_a_cells_columns_are_those_of_its_problem_or_of_its_model(plan: Plan) -> None:
    conv = cell_columns(plan.trials[0].cell)
    assert (conv["problem"], conv["kernel_size"]) == ("tutorials/rgb224", [3, 3])
    assert conv["cell_id"] == plan.trials[0].cell.cell_id
    for name in ("model_arguments", "model_inputs", "listed_shapes", "placement"):
        assert conv[name] is None
    noop = cell_columns(made_plan("noop").trials[0].cell)
    assert (noop["problem"], noop["kernel_size"]) == (None, None)
    given = MODEL | {"model": {"arguments": {"width": 4}, "inputs": {"x": {"shape": ["batch", 3]}}}}
    model = cell_columns(made_plan("nets:Net", **given).trials[0].cell)
    assert model["model_arguments"] == {"width": "4"}
    assert '"shape": ["batch", 3]' in model["model_inputs"]
    plain = cell_columns(made_plan("nets:Net", **MODEL).trials[0].cell)
    assert (plain["model_inputs"], plain["problem"], plain["loss"]) == (None, None, "mean_square")
    forward = cell_columns(made_plan("nets:Net", **MODEL | {"direction": "forward"}).trials[0].cell)
    assert forward["loss"] is None, "nothing is minimised"
