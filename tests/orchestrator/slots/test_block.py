"""A slot's place and device; a block's processes live side by side: what one does ends it alone, and who cannot take
turns says why.
"""

import os
import shutil
import signal
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from cudnn_sweep.analysis.store.schema import RunRecord
from cudnn_sweep.orchestrator.errors import ServerError
from cudnn_sweep.orchestrator.gpus.cpu_pinning import Pinning
from cudnn_sweep.orchestrator.planning.plan import Plan, Trial
from cudnn_sweep.orchestrator.planning.session import session_of
from cudnn_sweep.orchestrator.process.client import ForkServer, survey
from cudnn_sweep.orchestrator.process.protocol import Outcome, Request, TrialJob
from cudnn_sweep.orchestrator.slots import slot
from cudnn_sweep.workloads.cells.config import Config
from cudnn_sweep.workloads.cells.measurement import MeasureSpec, TrialRequest
from cudnn_sweep.workloads.measuring.turns import Said, Stage, Turn

MakePlan = Callable[..., Plan]
Measure = Callable[..., list[RunRecord]]

SHORT = MeasureSpec(
    warmup_s=0.0,
    steady_budget_s=0.15,
    calibrate=False,
    reference_replicates=0,
    telemetry="off",
    timeout_s=20.0,
)
TOGETHER = SHORT.model_copy(update={"start_together": True})


@pytest.fixture
def measure(tmp_path: Path, plan_of: MakePlan, one_server_for_slots: None) -> Measure:
    """The records of the first block of a workload's plan: off, on and off again."""

    def run(
        workload: str,
        *,
        spec: MeasureSpec = SHORT,
        begin: Callable[[Trial], int | None] = lambda _: 1,
        trials: int = 3,
        **axes: str,
    ) -> list[RunRecord]:
        plan = plan_of(workload, measure=spec, **axes)
        place = slot.ForkedSlot.open(session_of(plan, "block", tmp_path), "0")
        return list(place.measure(plan.trials[:trials], begin))

    return run


def test_processes_of_a_block_take_turns(measure: Measure, faulty: str) -> None:
    records = measure(f"{faulty}:takes_a_while")
    assert [record.status for record in records] == ["ok"] * 3
    assert {(record.in_turns, record.alone_reason) for record in records} == {(True, None)}
    for record in records:
        assert record.steady_wall_rounds == list(range(len(record.steady_wall_samples_ms or [])))
        assert record.waited_s is not None and record.waited_s > 0.3, "others had their turns"
        assert record.steady_s is not None and record.steady_s < record.process_s - record.waited_s
    assert max(each.started_at for each in records) < min(each.ended_at for each in records)


NET = """
from torch import nn

class Net(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(144, 2))
"""


@pytest.mark.slow
@pytest.mark.parametrize("in_turns", [True, pytest.param(False, marks=pytest.mark.long)])
def test_ranks_of_a_trial_take_a_turn_together(
    measure: Measure, tmp_path: Path, in_turns: bool
) -> None:
    file = tmp_path / "net.py"
    file.write_text(NET)
    spec = SHORT.model_copy(update={"in_turns": in_turns, "warmup_s": 0.05})
    records = measure(f"{file}:Net", spec=spec, input="4x3x8x8", ranks="2")
    assert [(record.status, record.ranks) for record in records] == [("ok", "2_ranks")] * 3
    assert {(record.in_turns, record.turn_cpus) for record in records} == {(in_turns, None)}
    assert {len(record.rank_results or ()) for record in records} == {2}
    assert len({record.fingerprint for record in records}) == 1
    if in_turns:
        rounds = [record.steady_wall_rounds for record in records]
        assert rounds == [list(range(len(rounds[0] or ())))] * 3


def test_processes_of_a_block_get_ready_side_by_side(
    measure: Measure, server: ForkServer, faulty: str
) -> None:
    records = measure(f"{faulty}:gets_ready_with_two_others", spec=TOGETHER)
    shutil.rmtree(Path(tempfile.gettempdir(), f"sweep-started-{server.pid}"))
    assert [record.status for record in records] == ["ok"] * 3
    first, *others = sorted(records, key=lambda record: record.started_at)
    assert first.overlapped_s == 0.0
    for record in others:
        assert record.overlapped_s is not None and record.one_time_s is not None
        assert 0.0 < record.overlapped_s <= record.one_time_s


def test_processes_of_a_block_get_ready_one_after_another_unless_asked_otherwise(
    measure: Measure, faulty: str
) -> None:
    records = measure(f"{faulty}:fine")
    assert {(record.in_turns, record.overlapped_s) for record in records} == {(True, 0.0)}
    for before, after in pairwise(sorted(records, key=lambda record: record.started_at)):
        met_s = (before.one_time_s or 0.0) + (before.cold_s or 0.0)
        assert (after.started_at - before.started_at).total_seconds() > met_s > 0


def test_process_that_dies_while_it_gets_ready_ends_alone(measure: Measure, faulty: str) -> None:
    found = {
        (record.benchmark, record.status, record.in_turns)
        for record in measure(f"{faulty}:dies_while_it_gets_ready", spec=TOGETHER)
    }
    assert found == {(True, "killed", False), (False, "ok", True)}


def test_all_of_a_block_take_their_turns_on_the_same_cpus(
    measure: Measure, faulty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = max(os.sched_getaffinity(0))
    monkeypatch.setattr(slot.ForkedSlot, "turn_cpus", lambda _: (last,))
    records = measure(f"{faulty}:counts_its_cpus")
    assert {(record.status, record.turn_cpus) for record in records} == {("ok", str(last))}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "status"), [("is_killed_when_timed", "killed"), ("hangs_when_timed", "timeout")]
)
def test_fault_in_a_turn_ends_its_process_alone(
    measure: Measure, faulty: str, fault: str, status: str
) -> None:
    spec = SHORT.model_copy(update={"timeout_s": 2.0})
    by_benchmark: dict[bool, list[RunRecord]] = {True: [], False: []}
    for record in measure(f"{faulty}:{fault}", spec=spec):
        by_benchmark[record.benchmark].append(record)
    assert [record.status for record in by_benchmark[True]] == [status]
    for record in by_benchmark[False]:
        assert (record.status, record.in_turns) == ("ok", True)
        assert record.steady_wall_rounds


@pytest.mark.slow
def test_time_that_a_trial_waits_is_none_of_its_own(measure: Measure, faulty: str) -> None:
    spec = SHORT.model_copy(update={"timeout_s": 3.0, "steady_budget_s": 1.1})
    records = measure(f"{faulty}:takes_a_while", spec=spec)
    assert [record.status for record in records] == ["ok"] * 3
    assert max(record.process_s for record in records) > 3.0


def test_process_that_dies_while_it_waits_is_told_of_when_it_is_asked(
    server: ForkServer, plan_of: MakePlan, faulty: str
) -> None:
    (trial, *_) = plan_of(f"{faulty}:fine").trials
    request = TrialRequest(
        cell=trial.cell, config=trial.config, measure=SHORT, seed=0, compute_cache=None
    )
    whole = Request(job=TrialJob(trial=request, takes_turns=True), timeout_s=20)
    waits, works = server.begin(whole), server.begin(whole)

    def take(number: int, stage: Stage) -> Said | Outcome:
        server.pass_on(number, Turn(stage=stage))
        return server.hear(number)

    said = server.hear(waits)
    assert isinstance(said, Said) and said.one_time_s > 0
    os.kill(said.pid, signal.SIGKILL)
    assert isinstance(server.hear(works), Said)
    met = take(works, "meet")
    assert isinstance(met, Said) and met.alone is None
    ended = take(works, "alone")
    assert isinstance(ended, Outcome) and ended.status == "ok"
    gone = take(waits, "meet")
    assert isinstance(gone, Outcome) and gone.status == "killed"


@pytest.mark.parametrize(
    ("workload", "axes", "reason"),
    [
        ("has_a_thread", {}, "threads of its own"),
        ("has_a_process", {}, "processes of its own"),
        ("fine", {"regime": "fresh"}, "open loop"),
    ],
)
def test_step_that_cannot_take_turns_runs_alone_and_says_why(
    measure: Measure,
    server: ForkServer,
    faulty: str,
    workload: str,
    axes: dict[str, str],
    reason: str,
) -> None:
    records = measure(f"{faulty}:{workload}", **axes)
    assert [record.status for record in records] == ["ok"] * 3
    assert {(record.in_turns, record.alone_reason) for record in records} == {(False, reason)}
    assert all(record.steady_wall_rounds is None for record in records)
    assert one_after_another(records)
    children = Path(f"/proc/{server.pid}/task/{server.pid}/children")
    assert children.read_text() == "", "those that were ready beside it have gone"


def one_after_another(records: list[RunRecord]) -> bool:
    ordered = sorted(records, key=lambda record: record.started_at)
    return all(before.ended_at <= after.started_at for before, after in pairwise(ordered))


def test_block_runs_one_after_another_where_that_is_asked(measure: Measure, faulty: str) -> None:
    records = measure(f"{faulty}:fine", spec=SHORT.model_copy(update={"in_turns": False}))
    assert {record.alone_reason for record in records} == {"as asked"}
    assert one_after_another(records)


def test_block_that_lacked_memory_is_measured_again_alone(
    measure: Measure, server: ForkServer, faulty: str
) -> None:
    mark = Path(tempfile.gettempdir(), f"sweep-found-no-memory-{server.pid}")
    records = measure(f"{faulty}:finds_no_memory_once")
    assert [record.status for record in records] == ["ok"] * 3
    mark.unlink()
    assert {(record.in_turns, record.alone_reason) for record in records} == {(False, "memory")}


def test_block_that_lost_its_worker_twice_runs_one_after_another(
    measure: Measure, faulty: str
) -> None:
    """So that the trial that is to blame shows."""
    records = measure(f"{faulty}:fine", begin=lambda _: 3)
    assert {(record.attempt, record.alone_reason) for record in records} == {(3, "lost before")}


@pytest.mark.long
def test_trial_that_kills_its_fork_server_each_time_has_a_record(
    tmp_path: Path, plan_of: MakePlan, faulty: str
) -> None:
    """So that its sweep ends. The others of its block have a new server."""
    plan = plan_of(f"{faulty}:kills_its_server", measure=SHORT)
    place = slot.ForkedSlot.open(session_of(plan, "block", tmp_path), "0")
    with closing(place):
        records = list(place.measure(plan.trials[:3], lambda _: 3))
        died = "the fork server died, exit code -9"
        why = f"{died}, while this trial ran alone after 2 lost attempts"
        ends = {(record.benchmark, record.status, record.message) for record in records}
        assert ends == {(False, "ok", None), (True, "crash", why)}
        assert len(records) == 3
        with pytest.raises(ServerError, match=died):
            list(place.measure(plan.trials[:3], lambda _: 2))


def test_trial_that_is_left_by_itself_goes_on_alone(measure: Measure, faulty: str) -> None:
    begun: list[str] = []

    def once(trial: Trial) -> int | None:
        begun.append(trial.trial_id)
        return 1 if len(begun) == 1 else None

    (record,) = measure(f"{faulty}:fine", begin=once)
    assert (record.status, record.alone_reason) == ("ok", "no other of its block")
    assert len(begun) == 2, "no third is begun where the second must not start"


@pytest.mark.usefixtures("one_server_for_slots")
def test_trials_run_where_their_slot_is_pinned(
    tmp_path: Path, plan_of: MakePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = max(os.sched_getaffinity(0))
    there = Pinning(cpus=frozenset({last}), node=0)
    monkeypatch.setattr(slot, "survey", lambda *of: replace(survey(*of), gpu_uuids=["GPU-0"]))
    monkeypatch.setattr(slot, "pinning_of", lambda gpu_uuid, gpus: there)
    plan = plan_of("noop")
    pinned = slot.ForkedSlot.open(session_of(plan, "pinned", tmp_path), "0")
    (record,) = pinned.measure(plan.trials[:1], lambda _: 1)
    assert (record.pinned_cpus, record.numa_node) == (str(last), 0)
    assert (record.cpu_cores, record.threads) == (1, 1)


@pytest.mark.usefixtures("one_server_for_slots")
def test_another_device_than_the_plans_is_refused(tmp_path: Path, plan_of: MakePlan) -> None:
    plan = plan_of("noop")
    trials = [replace(trial, cell=replace(trial.cell, gpu="NVIDIA H200")) for trial in plan.trials]
    session = session_of(replace(plan, trials=tuple(trials)), "other", tmp_path)
    with pytest.raises(ServerError, match="the plan is for NVIDIA H200, this slot finds"):
        slot.ForkedSlot.open(session, "0")


@pytest.mark.usefixtures("one_server_for_slots")
def test_what_torch_reads_at_its_import_has_a_fork_server_of_its_own(
    plan_of: MakePlan, server: ForkServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "PYTORCH_NO_CUDA_MEMORY_CACHING"
    configs = (Config(), Config(environment={name: "1", "CUDNN_LOGLEVEL_DBG": "0"}))
    session = session_of(plan_of("noop", configs=configs), "allocators", tmp_path)
    started = []

    def start(**options: Any) -> ForkServer:
        started.append(options["variables"])
        return server

    monkeypatch.setattr("cudnn_sweep.orchestrator.slots.slot.ForkServer", start)
    monkeypatch.setattr("cudnn_sweep.orchestrator.slots.slot.OPENED_AT_ONCE", 1)  # it is one
    monkeypatch.setattr(server, "close", lambda: None)
    opened = slot.ForkedSlot.open(session, "0")
    read = {name: "1"}
    assert sorted(started, key=len) == [{}, {}, read], "one for the baseline's twin, too"
    of_block = [trial for trial in session.plan.trials if not trial.replicate and not trial.twin]
    records = list(opened.measure(of_block, lambda _: 1))
    assert [record.environment for record in records] == [
        trial.config.environment for trial in of_block
    ]
    assert len(started) == 3, "they are new"
    list(opened.measure(of_block, lambda _: 1))
    assert sorted(started[3:], key=len) == [{}, read]


@pytest.mark.slow
def test_a_fork_server_has_the_variables_that_it_is_given() -> None:
    with ForkServer(survey_only=True, variables={"GIVEN": "yes"}) as server:
        assert b"GIVEN=yes" in Path(f"/proc/{server.pid}/environ").read_bytes().split(b"\0")
