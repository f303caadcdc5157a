"""Ray Tune as the scheduler: every slot works, lost workers are replaced, nothing is doubled."""

import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import ray

from cudnn_sweep.analysis.store.progress import blocks_of
from cudnn_sweep.analysis.store.schema import RunRecord
from cudnn_sweep.analysis.store.store import open_store
from cudnn_sweep.orchestrator.errors import ServerError
from cudnn_sweep.orchestrator.planning.plan import Plan, Trial
from cudnn_sweep.orchestrator.planning.session import Session, session_of
from cudnn_sweep.orchestrator.process.protocol import Outcome
from cudnn_sweep.orchestrator.recording.record import Attempt, make_record, raced_out
from cudnn_sweep.orchestrator.recording.recorder import MAX_LOST, Progress
from cudnn_sweep.orchestrator.slots import tune_host
from cudnn_sweep.orchestrator.slots.block import BeginTrial
from cudnn_sweep.orchestrator.slots.slot import ForkedSlot, Slot
from cudnn_sweep.orchestrator.slots.tune_host import Host, SlotMaker, Slots
from cudnn_sweep.workloads.hardware.environment import Environment
from tests.makers import MakePlan, Need

pytestmark = [pytest.mark.clustered, pytest.mark.slow]

Row = dict[str, Any]
MakeSlot = Callable[..., SlotMaker]


@pytest.fixture(scope="module")
def fake_slot(environment: Environment) -> MakeSlot:
    """A slot that only takes its time. Defined in here, it travels to Ray's workers by value."""

    def maker(
        start_s: float = 0.0,
        trial_s: float | Callable[[int], float] = 0.0,
        die: Callable[[Trial, int], bool] | None = None,
        new_gpu: bool = False,
        up: Callable[[], None] | None = None,
    ) -> SlotMaker:
        """`trial_s`: of each, or by how many its worker has run; `new_gpu`: each worker has one that no
        other had; `up`: called by each worker when it is up.
        """

        class FakeSlot:
            def __init__(self, session: Session, accelerator: str) -> None:
                time.sleep(start_s)
                self._session = session
                self._trials = 0
                self.name = f"fake/{os.getpid() if new_gpu else accelerator}"
                if up is not None:
                    up()

            def measure(self, trials: Sequence[Trial], begin: BeginTrial) -> Iterator[RunRecord]:
                for trial in trials:
                    attempt = begin(trial)
                    if attempt is None:
                        return
                    yield self.run(trial, attempt)

            def leave_out(self, trial: Trial) -> RunRecord:
                return raced_out(self._session, trial, environment, self.name, datetime.now(UTC))

            def run(self, trial: Trial, attempt: int) -> RunRecord:
                if die is not None and die(trial, attempt):
                    os.kill(os.getpid(), signal.SIGKILL)
                started_at = datetime.now(UTC)
                self._trials += 1
                own_s = trial_s(self._trials) if callable(trial_s) else trial_s
                time.sleep(own_s)
                return make_record(
                    self._session,
                    trial,
                    Outcome(started_at=started_at, ended_at=datetime.now(UTC), process_s=own_s),
                    environment,
                    Attempt(slot=self.name, attempt=attempt),
                )

            def close(self) -> None:
                pass

        return FakeSlot

    return maker


def new_session(plan: Plan, folder: Path) -> Session:
    return session_of(plan, f"sweep-{uuid4().hex[:6]}", folder)


def run(
    plan: Plan,
    results: Path,
    tune_folder: Path,
    slots: int | Slots,
    make_slot: SlotMaker = ForkedSlot.open,
    budget_s: float | None = None,
) -> tuple[Progress, list[Row]]:
    """Run a plan on so many logical GPUs; returns how it ended and the rows stored."""
    session = new_session(plan, results)
    free = Slots(count=slots, gpu=True) if isinstance(slots, int) else slots
    host = Host(session, results=str(results), slots=free)
    host.run(tune_folder, budget_s, make_slot)
    progress = host.finish([results / "refuge"])
    ray.kill(host.recorder)  # idle, it would stay as long as the Ray
    rows = (
        open_store(str(results))
        .snapshot(session.sweep_id)
        .table(
            ["trial_id", "position", "block", "slot", "started_at", "ended_at", "attempt", "status"]
        )
    )
    return progress, rows.to_pylist()


@pytest.fixture(scope="module")
def four_slots(
    ray_here: Path, tmp_path_factory: pytest.TempPathFactory, plan_of: MakePlan, fake_slot: MakeSlot
) -> tuple[Plan, list[Row]]:
    """What was stored of a plan on four slots whose actors take 1 s to start. Its first trial takes its
    worker along.
    """
    plan = plan_of("noop", replicates=50)
    ups = tmp_path_factory.mktemp("ups")
    first = plan.trials[0].trial_id
    slot = fake_slot(
        start_s=1.0,
        new_gpu=True,
        up=lambda: (ups / str(os.getpid())).touch(),
        die=lambda trial, attempt: trial.trial_id == first and attempt == 1,
        # Longer and longer, for a machine that is slow to start a process, until it is up.
        trial_s=lambda number: 0.05 if len(list(ups.iterdir())) > 4 else 0.1 * 1.25**number,
    )
    return plan, run(plan, tmp_path_factory.mktemp("four"), ray_here, 4, slot)[1]


@pytest.mark.long
def test_every_slot_is_busy_though_actors_start_slowly(four_slots: tuple[Plan, list[Row]]) -> None:
    plan, rows = four_slots
    assert len(rows) == len(plan.trials)
    assert len({row["slot"] for row in rows}) == 4
    assert {row["trial_id"]: row["attempt"] for row in rows if row["attempt"] > 1} == {
        plan.trials[0].trial_id: 2
    }
    assert most_at_once(rows) == 4


def most_at_once(rows: list[Row]) -> int:
    edges = [(row["started_at"], 1) for row in rows] + [(row["ended_at"], -1) for row in rows]
    running, most = 0, 0
    for _, step in sorted(edges, key=lambda edge: (edge[0], edge[1])):
        running += step
        most = max(most, running)
    return most


@pytest.mark.long
def test_blocks_stay_on_their_gpu(four_slots: tuple[Plan, list[Row]]) -> None:
    slots: dict[int, set[str]] = {}
    for row in four_slots[1]:
        slots.setdefault(row["block"], set()).add(row["slot"])
    assert all(len(found) == 1 for found in slots.values())


@pytest.mark.long
def test_trial_lost_with_its_worker_runs_again_and_one_that_always_takes_it_along_is_given_up(
    ray_here: Path, tmp_path: Path, plan_of: MakePlan, fake_slot: MakeSlot
) -> None:
    """The block of the one that runs again is split: tests/orchestrator/planning/test_sweep_selection.py goes on."""
    plan = plan_of("noop", replicates=2)
    deadly, lost = (plan.trials[at].trial_id for at in (0, -1))
    deaths = {deadly: MAX_LOST + 1, lost: 1}
    slot = fake_slot(
        new_gpu=True, die=lambda trial, attempt: attempt <= deaths.get(trial.trial_id, 0)
    )
    progress, rows = run(plan, tmp_path, ray_here, 1, slot)
    assert progress.lost == sum(deaths.values())
    assert progress.given_up == [deadly]
    assert {row["trial_id"]: row["attempt"] for row in rows} == {
        trial.trial_id: 2 if trial.trial_id == lost else 1 for trial in plan.trials[1:]
    }
    store = open_store(str(tmp_path))
    (sweep_id,) = store.sweep_ids()
    (split,) = blocks_of(store.stored_trials(sweep_id).values()).split
    assert (split.block, split.mended) == (plan.trials[-1].block, False)


@pytest.mark.long
def test_slot_comes_back_while_the_others_go_on(four_slots: tuple[Plan, list[Row]]) -> None:
    """Others, whose blocks end while it starts, are no reason to start it anew."""
    by_slot = Counter(row["slot"] for row in four_slots[1])
    assert len(by_slot) == 4, "three that went on, and the one that came back"
    assert min(by_slot.values()) >= 5


@pytest.mark.long
def test_slot_that_does_not_come_up_stops_the_sweep_and_says_why(
    ray_here: Path, tmp_path: Path, plan_of: MakePlan
) -> None:
    def no_slot(session: Session, accelerator: str) -> Slot:
        raise ServerError("the GPU has fallen off the bus")

    progress, rows = run(plan_of("noop", replicates=3), tmp_path, ray_here, 1, no_slot)
    assert rows == []
    assert progress.stopped is not None
    assert "ServerError: the GPU has fallen off the bus" in progress.stopped


@pytest.mark.long
def test_sweep_whose_nodes_are_gone_ends_after_a_while_and_names_them(
    ray_here: Path,
    tmp_path: Path,
    plan_of: MakePlan,
    fake_slot: MakeSlot,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tune_host, "GONE_S", 1.0)
    gone = Slots(count=1, gpu=True, nodes={"0" * 56: "w9 (10.0.0.9)"})
    progress, rows = run(plan_of("noop", replicates=3), tmp_path, ray_here, gone, fake_slot())
    assert rows == []
    assert progress.stopped is not None
    assert "w9 (10.0.0.9)" in progress.stopped


def test_one_slot_runs_the_plan_in_its_order_and_a_budget_stops_before_a_new_block(
    ray_here: Path, tmp_path: Path, plan_of: MakePlan, fake_slot: MakeSlot
) -> None:
    plan = plan_of("noop", replicates=10)
    progress, rows = run(plan, tmp_path, ray_here, 1, fake_slot(trial_s=0.3), budget_s=2.0)
    assert 0 < progress.recorded < len(plan.trials)
    begun = {row["block"] for row in rows}
    assert {row["trial_id"] for row in rows} == {
        t.trial_id for t in plan.trials if t.block in begun
    }
    order = sorted(rows, key=lambda row: row["started_at"])
    assert [row["position"] for row in order] == [t.position for t in plan.trials[: len(rows)]]


@pytest.fixture
def full_disk(tmp_path: Path, need: Need) -> Iterator[Path]:
    """A file system with room for a few records."""
    need(os.geteuid() == 0, "root, to mount a small tmpfs")
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)]
    mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    need(mounted.returncode == 0, f"leave to mount ({mounted.stderr.strip()})")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.long
def test_full_disk_stops_new_trials_and_loses_none(
    ray_here: Path, full_disk: Path, plan_of: MakePlan, fake_slot: MakeSlot, tmp_path: Path
) -> None:
    plan = plan_of("noop", replicates=50)
    session = new_session(plan, tmp_path)
    host = Host(session, results=str(full_disk), slots=Slots(count=1, gpu=True))
    host.run(ray_here, None, fake_slot())
    refuge = tmp_path / "refuge"
    progress = host.finish([full_disk / "no better", refuge])

    assert progress.stopped is not None and "No space left on device" in progress.stopped
    assert progress.held >= 1
    assert progress.kept_in == {str(refuge): progress.held}
    stored = open_store(str(full_disk)).stored_trials(session.sweep_id)
    kept = open_store(str(refuge)).stored_trials(session.sweep_id)
    assert 0 < len(stored) < len(plan.trials)
    assert len(stored) + len(kept) == progress.recorded + progress.held
    assert not stored.keys() & kept.keys()
