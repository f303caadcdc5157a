"""What a slot asks of its fork servers, which servers start anew, and on which device it runs, without any server."""

import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cudnn_sweep.orchestrator.errors import ServerError
from cudnn_sweep.orchestrator.planning.plan import LAST_GOOD, Plan
from cudnn_sweep.orchestrator.planning.session import CodeLocation, Session, session_of
from cudnn_sweep.orchestrator.process.protocol import LogJob, Outcome, TrialJob
from cudnn_sweep.orchestrator.slots import slot as slots
from cudnn_sweep.orchestrator.slots.slot import (
    OWN,
    ForkedSlot,
    _open,
    _server,
    server_of,
)
from cudnn_sweep.workloads.cells.config import CODE, Config
from cudnn_sweep.workloads.cells.measurement import MeasureSpec
from cudnn_sweep.workloads.hardware.environment import Environment
from tests.orchestrator.blank import blank
from tests.orchestrator.made_plan import made_plan

ON, OFF, GRAPH = Config(benchmark=True), Config(), Config(execution="compile")
MEASURE = MeasureSpec(reference_replicates=1, logged_replicates=2, calibrate=False, turn_cpus=2)


class Server:
    def __init__(self, outcome: Any) -> None:
        self.requests: list[Any] = []
        self.closed = 0
        self._outcome = outcome

    def begin(self, request: Any) -> int:
        self.requests.append(request)
        return len(self.requests)

    def run(self, request: Any) -> Any:
        self.requests.append(request)
        return self._outcome

    def close(self) -> None:
        self.closed += 1


@pytest.fixture(scope="module")
def plan() -> Plan:
    return made_plan(configs=[OFF, ON], suite={"replicates": 3, "measure": MEASURE})


def session(plan: Plan, **changes: Any) -> Session:
    return replace(session_of(plan, "june", Path("here")), **changes)


def where(**of: Any) -> Environment:
    return blank(Environment, **{"device": "cuda", "host": "host"} | of)


def placed(server: Any, **of: Any) -> Any:
    return slots.DeviceServer(
        server=server, environment=where(**of), gpu_uuids=("GPU-1",), cpus=frozenset({0})
    )


def slot(plan: Plan, *keys: Any, **of: Any) -> tuple[ForkedSlot, Server]:
    server = Server(Outcome(started_at=None, ended_at=None, process_s=1.0))  # type: ignore[arg-type]
    servers = {key: placed(server, **of) for key in keys or (OWN,)}
    return ForkedSlot(session(plan), "GPU-1", servers), server


def test_a_trial_is_asked_for_with_its_limits_and_its_reference(plan: Plan) -> None:
    of, server = slot(plan)
    trials = [trial for trial in plan.trials if not trial.twin]
    for trial in trials:
        of.start(trial, 1, takes_turns=trial.config == ON, beside=False)
    for trial, request in zip(trials, server.requests, strict=True):
        assert isinstance(request.job, TrialJob)
        assert request.job.takes_turns is (trial.config == ON)
        assert request.job.trial.reference is (trial.replicate < 1)
        assert request.timeout_s == MEASURE.timeout_s
        assert request.job.trial.seed == trial.seed


@pytest.mark.parametrize(
    ("device", "replicate", "twin", "logs"),
    [
        ("cuda", 0, 0, True),
        ("cuda", 1, 0, True),
        ("cuda", 2, 0, False),
        ("cuda", 0, 1, False),
        ("cpu", 0, 0, False),
    ],
)
def test_the_first_replicates_on_a_gpu_have_a_log_but_for_their_twins(
    plan: Plan, device: str, replicate: int, twin: int, logs: bool
) -> None:
    of, _ = slot(plan, device=device)
    trial = replace(plan.trials[0], replicate=replicate, twin=twin)
    assert of.logs(trial) is logs


@pytest.mark.parametrize(
    ("status", "replicate", "follows", "has_log", "gap_s"),
    [
        ("ok", 0, True, True, 0.5),
        ("ok", 0, False, True, None),
        ("ok", 2, True, False, 0.5),
        ("crash", 0, True, False, 0.5),
    ],
)
def test_a_record_has_a_log_of_a_trial_that_ran_and_a_gap_only_after_its_servers_last(
    monkeypatch: pytest.MonkeyPatch,
    plan: Plan,
    status: Any,
    replicate: int,
    follows: bool,
    has_log: bool,
    gap_s: float | None,
) -> None:
    made: list[Any] = []
    monkeypatch.setattr(slots, "make_record", lambda *of: made.append(of) or "record")  # type: ignore[func-returns-value]
    of, server = slot(plan)
    trial = replace(plan.trials[0], replicate=replicate, twin=0)
    outcome = Outcome(started_at=None, ended_at=None, process_s=1.0, status=status, gap_s=0.5)  # type: ignore[arg-type]
    running: Any = SimpleNamespace(
        trial=trial, outcome=outcome, follows=follows, attempt=2, cpus=(3, 4), overlapped_s=1.5
    )
    found: Any = of.record(running, in_turns=True, alone_reason="why")
    assert found == "record"
    ((_, _, recorded, environment, attempt, log),) = made
    assert (recorded.gap_s, log is not None) == (gap_s, has_log)
    assert [isinstance(each.job, LogJob) for each in server.requests] == [True] * has_log
    assert (attempt.attempt, attempt.in_turns, attempt.alone_reason) == (2, True, "why")
    assert (attempt.overlapped_s, attempt.slot, attempt.turn_cpus) == (1.5, "GPU-1", "3-4")
    assert environment.host == "host"
    of.record(SimpleNamespace(**vars(running) | {"cpus": ()}))  # type: ignore[arg-type]
    assert made[-1][4].turn_cpus is None


def test_a_process_follows_if_the_same_server_ran_last_and_none_is_beside(plan: Plan) -> None:
    other = replace(plan.trials[0], software=LAST_GOOD)
    of, _ = slot(plan, OWN, server_of(other))
    first = plan.trials[0]
    starts = [(first, False), (first, False), (first, True), (other, False), (other, False)]
    starts += [(first, False)]
    follows = [
        of.start(trial, 1, takes_turns=False, beside=beside).follows for trial, beside in starts
    ]
    assert follows == [True, True, False, False, True, False]


def test_compiled_kernels_have_a_folder_of_their_gpu_and_config(
    monkeypatch: pytest.MonkeyPatch, plan: Plan, tmp_path: Path
) -> None:
    of, _ = slot(plan)
    first = replace(plan.trials[0], config=OFF, twin=0)
    folder = of.compute_cache(first)
    assert folder is not None and Path(folder).parts[:3] == ("here", "scratch", "compute-cache")
    others = [
        replace(first, twin=1),
        replace(first, software=LAST_GOOD),
        replace(first, cache_generation=1),
        replace(first, config=ON),
    ]
    server = Server(None)
    of._servers[server_of(others[1])] = placed(server)
    assert len({folder, *map(of.compute_cache, others)}) == 5
    assert of.compute_cache(replace(first, replicate=9)) == folder
    on_cpu, _ = slot(plan, device="cpu")
    assert on_cpu.compute_cache(first) is None
    assert on_cpu.compute_cache(replace(first, config=GRAPH)) is not None
    newer, _ = slot(plan, driver="581")
    assert newer.compute_cache(first) != folder
    there = tmp_path / "cache"
    monkeypatch.setattr(of, "compute_cache", lambda _: str(there))
    assert of.start(first, 1, takes_turns=False, beside=False).new_cache
    there.mkdir()
    running = of.start(first, 1, takes_turns=False, beside=False)
    assert not running.new_cache
    of.forget(running)
    assert there.exists(), "what was there before stays"
    running.new_cache = True
    of.forget(running)
    assert not there.exists()


@pytest.mark.parametrize(
    ("wanted", "device", "cpus"),
    [(2, "cuda", (4, 6)), (1, "cuda", (6,)), (None, "cuda", ()), (2, "cpu", ())],
)
def test_turns_are_taken_on_the_last_cores_of_a_gpu(
    monkeypatch: pytest.MonkeyPatch, plan: Plan, wanted: int | None, device: str, cpus: Any
) -> None:
    cores = [SimpleNamespace(cpus=(number, number + 64)) for number in (2, 4, 6)]
    monkeypatch.setattr(slots, "read_cores", lambda _: cores)
    measure = MEASURE.model_copy(update={"turn_cpus": wanted})
    of, _ = slot(replace(plan, measure=measure), device=device)
    assert of.turn_cpus() == cpus


def test_servers_that_were_compared_start_anew_before_the_next_comparison(
    monkeypatch: pytest.MonkeyPatch, plan: Plan
) -> None:
    renewed: list[list[Any]] = []
    monkeypatch.setattr(slots, "Block", lambda *_: SimpleNamespace(measure=lambda: iter(())))
    first = plan.trials[0]
    other = replace(first, software=LAST_GOOD)
    of, _ = slot(plan, OWN, server_of(other))
    monkeypatch.setattr(of, "renew", lambda trials: renewed.append(list(trials)))
    begin: Any = None
    for trials in ([first, first], [first, other], [first, other], [other, other]):
        list(of.measure(trials, begin))
    assert renewed == [[], [first, other]]
    of.close()


def test_a_server_starts_anew_where_it_was(monkeypatch: pytest.MonkeyPatch, plan: Plan) -> None:
    pinned: list[Any] = []
    monkeypatch.setattr(os, "sched_setaffinity", lambda _, cpus: pinned.append(cpus))
    monkeypatch.setattr(slots, "_server", lambda *_: Server("new"))
    of, old = slot(plan)
    of.renew([plan.trials[0], plan.trials[1]])
    assert (old.closed, pinned) == (1, [frozenset({0})])
    new: Any = of._servers[OWN].server
    assert new is not old
    of.renew([])
    assert len(pinned) == 1


@pytest.mark.parametrize(
    ("needed", "others", "ranks", "error"),
    [
        ({OWN}, {}, 1, None),
        ({OWN, "good"}, {"good": {}}, 1, None),
        ({OWN, "good"}, {"good": {"gpu": "A100"}}, 1, "finds A100 , our own"),
        ({"good"}, {"good": {}}, 1, None),
    ],
)
def test_all_softwares_of_a_slot_find_one_device(
    monkeypatch: pytest.MonkeyPatch,
    plan: Plan,
    needed: set[Any],
    others: dict[str, Any],
    ranks: int,
    error: str | None,
) -> None:
    opened: list[tuple[Any, bool]] = []
    servers: list[Server] = []
    key = server_of(replace(plan.trials[0], software=LAST_GOOD))

    def open_one(_: Session, of: Any, *, survey_only: bool, early: object) -> Any:
        assert early is None
        opened.append((of, survey_only))
        servers.append(Server(None))
        return placed(servers[-1], **({} if of == OWN else others["good"]))

    monkeypatch.setattr(slots, "_open", open_one)
    softwares = ["" if each == OWN else LAST_GOOD for each in needed]
    trial = replace(plan.trials[0], twin=0)
    trials = tuple(replace(trial, software=software) for software in softwares)
    of = session(replace(plan, trials=trials))
    if error is not None:
        with pytest.raises(ServerError, match=error):
            ForkedSlot.open(of, "cpu")
        assert [server.closed for server in servers] == [1] * len(servers)
        return
    found = ForkedSlot.open(of, "cpu")
    assert found.name == "GPU-1"
    assert sorted(opened) == sorted(
        [(OWN, OWN not in needed), *([(key, False)] if "good" in needed else [])]
    )
    assert [server.closed for server in servers] == [0] * len(servers)


@pytest.mark.parametrize(
    ("uuids", "gpu", "ranks", "error"),
    [
        (["GPU-1"], "H200", 1, None),
        (["GPU-1", "GPU-2"], "H200", 1, None),
        (["GPU-1", "GPU-2"], "H200", 2, None),
        (["GPU-1"], "H200", 2, "this slot needs 2 GPUs, found GPU-1"),
        ([], "H200", 2, None),
        (["GPU-1"], "A100", 1, "the plan is for H200, this slot finds A100"),
    ],
)
def test_a_slot_has_the_plans_gpu_for_each_rank(
    monkeypatch: pytest.MonkeyPatch,
    plan: Plan,
    uuids: list[str],
    gpu: str,
    ranks: int,
    error: str | None,
) -> None:
    server: Any = Server(None)
    server.pin = lambda cpus: server.requests.append(cpus)
    pins = {"GPU-1": frozenset({1, 2}), "GPU-2": frozenset({3})}

    def pinning(uuid: str, _: object) -> Any:
        return SimpleNamespace(cpus=pins[uuid], node=7)

    found = SimpleNamespace(environment=where(gpu=gpu), gpu_uuids=uuids)
    monkeypatch.setattr(slots, "_server", lambda *_, **__: server)
    monkeypatch.setattr(slots, "survey", lambda *_: found)
    monkeypatch.setattr(slots, "pinning_of", pinning)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    cell = SimpleNamespace(rank_count=ranks, gpu="H200")
    trials: Any = [SimpleNamespace(cell=cell)]
    of: Any = SimpleNamespace(plan=SimpleNamespace(trials=trials), gpus=())
    if error is not None:
        with pytest.raises(ServerError, match=error):
            _open(of, OWN, survey_only=False, early=None)
        assert server.closed == 1
        return
    placed_at = _open(of, OWN, survey_only=False, early=None)
    own = uuids[:ranks]
    cpus = frozenset[int]().union(*(pins[uuid] for uuid in own))
    assert placed_at.gpu_uuids == tuple(own)
    assert placed_at.cpus == (cpus or {0, 1})
    assert server.requests == ([cpus] if own else [])
    assert placed_at.environment.numa_node == (7 if own else None)
    assert placed_at.environment.cpu_cores == (len(cpus) if own else 0)


def test_a_code_of_a_gate_has_its_own_folder_and_python(
    monkeypatch: pytest.MonkeyPatch, plan: Plan
) -> None:
    monkeypatch.setattr(slots, "ForkServer", lambda **of: of)
    code = CodeLocation(folder=Path("base"), python=Path("p"), variables={"A": "1"})
    pythons = {LAST_GOOD: Path("good")}
    of = session(plan, codes={"base": code}, pythons=pythons, folder=Path("here"))
    own: Any = _server(of, OWN)
    assert (own["python"], own["folder"], own["variables"]) == (None, Path("here"), {})
    good: Any = _server(of, (LAST_GOOD, (("B", "2"),), 0))
    assert (good["python"], good["variables"]) == (Path("good"), {"B": "2"})
    base: Any = _server(of, ("", ((CODE, "base"),), 0))
    assert (base["python"], base["folder"]) == (Path("p"), Path("base"))
    assert base["variables"] == {"A": "1", CODE: "base"}
    with pytest.raises(ServerError, match="code: found 'gone', allowed: null"):
        _server(of, ("", ((CODE, "gone"),), 0))
