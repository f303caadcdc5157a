"""What the actor of a slot runs of its block, and what it reports to Tune, without a Ray."""

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import ray
from ray import tune

from cudnn_sweep.orchestrator.planning.plan import Trial
from cudnn_sweep.orchestrator.planning.session import Session, session_of
from cudnn_sweep.orchestrator.recording.recorder import MAX_LOST
from cudnn_sweep.orchestrator.slots import tune_host
from cudnn_sweep.orchestrator.slots.block import BeginTrial
from cudnn_sweep.orchestrator.slots.tune_host import BlockRunner, Host, Slots, UntilLost
from tests.makers import MakePlan


class Recorder:
    """A recorder in this process: `wanted` are the trials of a block that are neither recorded nor given up."""

    def __init__(self, wanted: Sequence[str], *, durable: bool = True) -> None:
        self.begun: list[str] = []
        self.recorded: list[str] = []
        self.lost: list[str] = []
        self.slots_up = 0
        self._wanted = set(wanted)
        self._durable = durable

    def __getattr__(self, name: str) -> Any:
        return SimpleNamespace(remote=getattr(self, f"on_{name}"))

    def on_wanted(self, cells: dict[str, str]) -> set[str]:
        return self._wanted & set(cells)

    def on_begin(self, trial_id: str, slot: str) -> int:
        self.begun.append(trial_id)
        return 1

    def on_record(self, record: str) -> bool:
        self.recorded.append(record)
        return self._durable

    def on_trial_lost(self, reason: str) -> None:
        self.lost.append(reason)

    def on_slot_failed(self, reason: str) -> bool:
        self.lost.append(reason)
        return self.lost.count(reason) > 1

    def on_wait_for_all_slots(self) -> None:
        self.slots_up += 1


class Slot:
    """A slot whose records are texts; `gives`: how many trials it runs before it ends."""

    def __init__(self, gives: int = 99) -> None:
        self.name, self._gives, self.closed = "fake/0", gives, False

    def measure(self, trials: Sequence[Trial], begin: BeginTrial) -> Iterator[Any]:
        for trial in trials[: self._gives]:
            begin(trial)
            yield f"ran {trial.trial_id}"

    def leave_out(self, trial: Trial) -> Any:
        return f"left out {trial.trial_id}"

    def close(self) -> None:
        self.closed = True


Make = Callable[..., BlockRunner]


@pytest.fixture
def session(plan_of: MakePlan, tmp_path: Path) -> Session:
    return session_of(plan_of("noop", replicates=1), "runner", tmp_path)


@pytest.fixture
def runner_of(session: Session, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Return an actor of the session's only block. `gpus`: those that Ray gives to it."""
    ticks = count(100.0, 5.0)
    monkeypatch.setattr(tune_host, "monotonic", lambda: next(ticks))

    def make(
        recorder: Recorder, make_slot: Any, raced_out: Sequence[str] = (), gpus: Sequence[int] = ()
    ) -> BlockRunner:
        near = SimpleNamespace(get=lambda answer: answer, get_gpu_ids=lambda: list(gpus))
        monkeypatch.setattr(tune_host, "ray", near)
        runner = object.__new__(BlockRunner)
        ((block, _),) = session.plan.blocks()
        runner.config = {"block": block, "raced_out": list(raced_out)}
        runner.setup(runner.config, session, make_slot, recorder)
        return runner

    return make


def ids(session: Session) -> list[str]:
    return [trial.trial_id for trial in session.plan.trials]


@pytest.mark.parametrize(("gpus", "name"), [((), "cpu"), ((3,), "3"), ((0, 2), "0-2")])
def test_a_slot_is_named_after_the_gpus_that_ray_gives_it(
    session: Session, runner_of: Make, gpus: Sequence[int], name: str
) -> None:
    names = []

    def make_slot(_: Session, accelerator: str) -> Slot:
        names.append(accelerator)
        return Slot()

    recorder = Recorder(ids(session))
    runner_of(recorder, make_slot, gpus=gpus)
    assert (names, recorder.slots_up) == ([name], 1)


def test_each_step_makes_a_record_and_the_last_ends_the_block(
    session: Session, runner_of: Make
) -> None:
    recorder, slot, trials = Recorder(ids(session)), Slot(), ids(session)
    runner = runner_of(recorder, lambda *_: slot)
    reports = [runner.step() for _ in trials]
    assert recorder.recorded == [f"ran {trial}" for trial in trials]
    assert recorder.begun == trials
    assert [report["done"] for report in reports] == [False] * (len(trials) - 1) + [True]
    assert not any(report["stopped"] for report in reports)
    assert [report["took_s"] for report in reports] == [5.0 * n for n in range(1, len(trials) + 1)]
    runner.reset_config(runner.config)
    assert not runner.step()["done"], "another block begins"
    runner.cleanup()
    assert slot.closed


def test_what_lost_the_race_is_left_out_before_the_others_run(
    session: Session, runner_of: Make
) -> None:
    first, second, *_ = trials = ids(session)
    recorder = Recorder(trials)
    runner = runner_of(recorder, lambda *_: Slot(), raced_out=[second])
    while not runner.step()["done"]:
        pass
    assert recorder.recorded[:2] == [f"left out {second}", f"ran {first}"]
    assert len(recorder.recorded) == len(trials) == len(set(recorder.recorded))


def test_trials_that_are_recorded_do_not_run_again(session: Session, runner_of: Make) -> None:
    recorder = Recorder(ids(session)[1:2])
    assert runner_of(recorder, lambda *_: Slot()).step()["done"]
    assert recorder.recorded == [f"ran {ids(session)[1]}"]
    none = Recorder([])
    report = runner_of(none, lambda *_: Slot()).step()
    assert (report["done"], report["stopped"], none.recorded) == (True, False, [])


@pytest.mark.parametrize(("gives", "durable"), [(1, True), (99, False)])
def test_a_slot_stops_once_no_record_comes_or_one_is_not_durable(
    session: Session, runner_of: Make, gives: int, durable: bool
) -> None:
    recorder = Recorder(ids(session), durable=durable)
    runner = runner_of(recorder, lambda *_: Slot(gives))
    reports = [runner.step() for _ in range(2 if durable else 1)]
    assert [(report["done"], report["stopped"]) for report in reports] == [(False, False)] * (
        len(reports) - 1
    ) + [(True, True)]
    assert len(recorder.recorded) == 1


def test_a_trial_that_takes_its_worker_along_is_reported(session: Session, runner_of: Make) -> None:
    def broken(trials: Sequence[Trial], begin: BeginTrial) -> Iterator[Any]:
        raise OSError("gone")
        yield

    slot, recorder = Slot(), Recorder(ids(session))
    runner = runner_of(recorder, lambda *_: slot)
    slot.measure = broken  # type: ignore[method-assign]
    with pytest.raises(OSError, match="gone"):
        runner.step()
    assert recorder.lost == ["OSError: gone"]


def test_a_slot_that_does_not_come_up_is_tried_again_once(
    session: Session, runner_of: Make
) -> None:
    def fails(*_: Any) -> Slot:
        raise OSError("no CUDA")

    recorder = Recorder(ids(session))
    with pytest.raises(OSError, match="no CUDA"):
        runner_of(recorder, fails)
    runner = runner_of(recorder, fails)
    assert recorder.lost == ["OSError: no CUDA"] * 2
    assert runner.step() == {"done": True, "stopped": True}
    assert recorder.slots_up == 0
    runner.cleanup()


@pytest.mark.parametrize(
    ("slots", "bundle", "where"),
    [
        (Slots(count=4, gpu=False), {"CPU": 1.0}, ""),
        (Slots(count=4, gpu=False, ranks=2), {"CPU": 1.0}, ""),
        (Slots(count=4, gpu=True), {"CPU": 1.0, "GPU": 1.0}, ""),
        (Slots(count=1, gpu=True, ranks=2), {"CPU": 2.0, "GPU": 2.0}, ""),
        (
            Slots(count=2, gpu=True, nodes={"a1": "w1", "a2": "w2"}),
            {"CPU": 1.0, "GPU": 1.0},
            "in(a1,a2)",
        ),
    ],
)
def test_a_slot_has_a_cpu_for_each_gpu_on_the_nodes_of_the_sweep(
    slots: Slots, bundle: dict[str, float], where: str
) -> None:
    resources = slots.resources()
    assert resources.bundles == [bundle]
    selector = resources._kwargs.get("bundle_label_selector")
    assert selector == ([{"ray.io/node-id": where}] if where else None)


@pytest.mark.parametrize(
    ("nodes", "budget_s", "patience_s", "watched"),
    [
        ({}, None, tune_host.OWN_GONE_S, {"own": "this machine"}),
        ({"a1": "w1"}, 60.0, tune_host.GONE_S, {"a1": "w1"}),
    ],
)
def test_a_run_has_its_deadline_its_nodes_and_as_many_failures_as_its_largest_block_may_have(
    session: Session,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    nodes: dict[str, str],
    budget_s: float | None,
    patience_s: float,
    watched: dict[str, str],
) -> None:
    given: dict[str, Any] = {}

    class Tuner:
        def __init__(self, trainable: Any, **options: Any) -> None:
            given.update(options)

        def fit(self) -> None:
            pass

    host, recorder = object.__new__(Host), Mock()
    host._session, host._results, host.recorder = session, str(tmp_path), recorder
    host._slots = Slots(count=3, gpu=False, nodes=nodes)
    monkeypatch.setattr(tune_host, "_own_node", lambda: "own")
    monkeypatch.setattr(tune_host, "monotonic", lambda: 1000.0)
    monkeypatch.setattr(tune_host, "ray", Mock(exceptions=ray.exceptions))
    monkeypatch.setattr(tune, "Tuner", Tuner)
    monkeypatch.setattr(tune, "with_parameters", lambda *_, **__: None)
    monkeypatch.setattr(tune, "with_resources", lambda *_: None)
    host.run(tmp_path, budget_s)
    assert not tune_host.ray.get.called, "slots start while the recorder does"  # type: ignore[attr-defined]
    recorder.expect_slots.remote.assert_called_once_with(1)  # the plan has one block
    searcher, run_config = given["tune_config"].search_alg, given["run_config"]
    assert searcher._deadline == (budget_s and 1060.0)
    assert run_config.failure_config.max_failures == MAX_LOST * len(session.plan.trials)
    lost = run_config.stop
    assert isinstance(lost, UntilLost)
    assert (lost._nodes, lost._patience_s) == (watched, patience_s)
    recorder.stop.remote.assert_not_called()
