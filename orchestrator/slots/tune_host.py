"""Runs blocks with Ray Tune, on a long-lived actor for each slot.

Tune gives blocks to free slots, and resumes a block elsewhere if its worker dies.
"""

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from time import monotonic
from typing import Any, cast

import ray
from ray import tune
from ray.tune.experiment import Trial as TuneTrial
from ray.tune.schedulers import FIFOScheduler
from ray.tune.search import Searcher
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from cudnn_sweep.analysis.store.schema import RunRecord
from cudnn_sweep.analysis.store.store import open_store
from cudnn_sweep.orchestrator.errors import UnfinishedError
from cudnn_sweep.orchestrator.planning.decided import Standing, standings, standings_text
from cudnn_sweep.orchestrator.planning.plan import Trial
from cudnn_sweep.orchestrator.planning.session import Session
from cudnn_sweep.orchestrator.recording.recorder import (
    MAX_LOST,
    Progress,
    Recorder,
    configs_to_fail,
)
from cudnn_sweep.orchestrator.slots.next_block import BlockQueue
from cudnn_sweep.orchestrator.slots.slot import ForkedSlot, Slot

# Turns off Tune's log files, saved state, display and handling of Ctrl-C.
QUIET = {
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_GLOBAL_CHECKPOINT_S": "inf",
    "RAY_AIR_NEW_OUTPUT": "0",
}

ANSWER_S = 10.0  # the recorder answers at once if it is running
# A process may still deliver its record after a network outage of this length, in seconds.
GONE_S = 300.0
LOOK_S = 1.0  # seconds between checks of the recorder and the nodes
OWN_GONE_S = 10.0  # a single machine has no network outage to wait for
AGAIN = ", and unrecorded trials are lost: launch again to resume"

SlotMaker = Callable[[Session, str], Slot]


@dataclass(frozen=True, kw_only=True, slots=True)
class Slots:
    count: int
    """Number of blocks that may run at the same time."""
    gpu: bool
    ranks: int = 1
    """Number of GPUs of each slot. They are on the same node."""
    nodes: Mapping[str, str] = field(default_factory=dict)
    """Names of the Ray nodes to use, by node id. If empty, all nodes are used."""

    def resources(self) -> tune.PlacementGroupFactory:
        each = self.ranks if self.gpu else 1
        bundle: dict[str, float] = {"CPU": each, "GPU": each} if self.gpu else {"CPU": 1}
        if not self.nodes:
            return tune.PlacementGroupFactory([bundle])
        there = {"ray.io/node-id": f"in({','.join(self.nodes)})"}
        return tune.PlacementGroupFactory([bundle], bundle_label_selector=[there])


class BlockRunner(tune.Trainable):
    """Ray actor of a slot. A trial of Tune is a block, and each `step` makes one record."""

    def setup(  # type: ignore[override]  # tune.with_parameters adds the rest
        self, config: dict[str, Any], session: Session, make_slot: SlotMaker, recorder: Any
    ) -> None:
        accelerator = "-".join(str(index) for index in ray.get_gpu_ids()) or "cpu"
        self._blocks = dict(session.plan.blocks())
        self._records: Iterator[RunRecord] | None = None
        self._left = 0
        self._recorder = recorder
        self._slot: Slot | None = None
        """The slot, or None if slots fail to start."""
        try:
            self._slot = make_slot(session, accelerator)
        except Exception as error:
            if not ray.get(recorder.slot_failed.remote(f"{type(error).__name__}: {error}")):
                raise
        else:
            ray.get(recorder.wait_for_all_slots.remote())

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self._records = None
        return True

    def step(self) -> dict[str, Any]:
        if self._slot is None:
            return {"done": True, "stopped": True}
        if self._records is None:
            trials = self._blocks[self.config["block"]]
            cells = {trial.trial_id: trial.cell.cell_id for trial in trials}
            ids = ray.get(self._recorder.wanted.remote(cells))
            wanted = [trial for trial in trials if trial.trial_id in ids]
            out = [trial for trial in wanted if trial.trial_id in self.config["raced_out"]]
            runs = [trial for trial in wanted if trial not in out]
            self._began = monotonic()
            slot = self._slot
            left_out = (slot.leave_out(trial) for trial in out if self._begin(trial))
            self._records = chain(left_out, slot.measure(runs, self._begin))
            self._left = len(wanted)
        stopped = self._left > 0 and not self._record_next(self._records)
        took_s = monotonic() - self._began
        return {"done": stopped or not self._left, "stopped": stopped, "took_s": took_s}

    def _begin(self, trial: Trial) -> int | None:
        assert self._slot is not None
        begin = self._recorder.begin.remote(trial.trial_id, self._slot.name)
        return cast("int | None", ray.get(begin))

    def _record_next(self, records: Iterator[RunRecord]) -> bool:
        """Store the next record. Return False if there is none or it cannot be written."""
        try:
            record = next(records, None)
        except Exception as error:
            ray.get(self._recorder.trial_lost.remote(f"{type(error).__name__}: {error}"))
            raise
        self._left -= 1
        return record is not None and bool(ray.get(self._recorder.record.remote(record)))

    def cleanup(self) -> None:
        if self._slot is not None:
            self._slot.close()

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Save nothing. Tune ends trials with an error if this method is missing."""


class BlockSearcher(Searcher):
    """Gives Tune the blocks to run, within a time limit."""

    def __init__(self, blocks: BlockQueue, slots: int, deadline: float | None) -> None:
        super().__init__()
        self._blocks = blocks
        self._slots = slots
        self._deadline = deadline
        self._running: dict[str, int] = {}
        self._took_s: float | None = None  # the first block runs in any case

    def suggest(self, trial_id: str) -> Any:
        ends = monotonic() + (self._took_s or 0.0)
        if self._took_s is not None and self._deadline is not None and ends > self._deadline:
            self._blocks.time_is_up()
        if len(self._running) >= self._slots:
            return None  # a block prepared ahead might start after the time is up
        if self._blocks.is_over():
            return Searcher.FINISHED
        block = self._blocks.take()
        if block is None:
            return None
        self._running[trial_id] = block
        return {"block": block, "raced_out": self._blocks.raced_out(block)}

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        block = self._running.pop(trial_id, None)
        if block is not None:
            self._blocks.done(block)
        self._took_s = (result or {}).get("took_s", self._took_s or 0.0)
        if result is not None and result.get("stopped"):
            self._blocks.stop()

    def save(self, checkpoint_path: str) -> None:
        """Save nothing, because a sweep is resumed from its results."""


class ActorsKept(FIFOScheduler):
    """Starts trials in their order. Tune's own order can end a new actor, which loses a slot."""

    def choose_trial_to_run(self, tune_controller: object) -> None:
        """Return None, so that Tune starts the waiting trials in their order."""

    def on_trial_complete(
        self, tune_controller: object, trial: TuneTrial, result: dict[str, Any]
    ) -> None:
        """Delete Tune's statistics, which take 19 KB per block."""
        trial.run_metadata.metric_analysis.clear()
        trial.run_metadata.metric_n_steps.clear()


class UntilLost(tune.Stopper):
    """Ends a run if its recorder is lost, or all its nodes are lost for `patience_s` seconds."""

    def __init__(self, nodes: Mapping[str, str], patience_s: float, recorder: Any) -> None:
        self._nodes = nodes
        self._patience_s = patience_s
        self._recorder = recorder
        self._answer = recorder.wanted.remote({})
        self._seen = self._next_look = monotonic()
        self.reason: str | None = None
        """Reason why the run ends, or None if it continues."""

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False

    def stop_all(self) -> bool:
        """Return whether to end the run. Tune calls this method many times a second."""
        if self.reason is None and monotonic() >= self._next_look:
            self._next_look = monotonic() + LOOK_S
            self.reason = self._recorder_gone() or self._nodes_gone()
        return self.reason is not None

    def _recorder_gone(self) -> str | None:
        if ray.wait([self._answer], timeout=0)[0]:
            try:
                ray.get(self._answer)
            except ray.exceptions.RayError as error:
                return f"the recorder is gone: {str(error).strip().splitlines()[-1]}"
            self._answer = self._recorder.wanted.remote({})
        return None

    def _nodes_gone(self) -> str | None:
        if not alive_nodes().isdisjoint(self._nodes):
            self._seen = monotonic()
        if monotonic() - self._seen < self._patience_s:
            return None
        return (
            f"Ray has lost all nodes of the sweep for {self._patience_s / 60:g} minutes: "
            f"{', '.join(self._nodes.values())}; a launch resumes with the nodes that are up"
        )


def alive_nodes() -> set[str]:
    return {node["NodeID"] for node in ray.nodes() if node["Alive"]}


class Host:
    def __init__(
        self, session: Session, *, results: str, slots: Slots, followed: bool = False
    ) -> None:
        """Prepare a run. Keep records for `take` if `followed` is true."""
        self._session = session
        self._results = results
        self._slots = slots
        self._standings: str | None = None
        here = NodeAffinitySchedulingStrategy(_own_node(), soft=False)
        options: dict[str, Any] = {"num_cpus": 0, "scheduling_strategy": here}
        recorder, configs = ray.remote(Recorder).options(**options), configs_to_fail(session)
        self.recorder: Any = recorder.remote(results, followed=followed, configs=configs)

    def progress(self) -> Progress:
        """Return the progress of the run. Another thread may call this method."""
        progress = self._ask(self.recorder.progress.remote(), ANSWER_S)
        progress.standings = self._standings
        return progress

    def take(self) -> list[RunRecord]:
        """Return the records stored since the last call. Another thread may call this method."""
        return cast("list[RunRecord]", ray.get(self.recorder.take.remote()))

    def run(
        self,
        tune_folder: Path,
        budget_s: float | None = None,
        make_slot: SlotMaker = ForkedSlot.open,
    ) -> None:
        """Run blocks until no trial is left or no new trial may start."""
        os.environ.update(QUIET)
        # With the default of 1, Tune drops actors whose trials end while another actor is reset.
        os.environ["TUNE_MAX_PENDING_TRIALS_PG"] = str(self._slots.count)
        # Tune's logger warns about the log files that QUIET turns off.
        logging.getLogger("ray.tune").setLevel(logging.CRITICAL)
        blocks = [trials for _, trials in self._session.plan.blocks()]
        deadline = None if budget_s is None else monotonic() + budget_s
        trainable = tune.with_parameters(
            BlockRunner, session=self._session, make_slot=make_slot, recorder=self.recorder
        )
        # Without a cluster, this process has started the only node.
        nodes = self._slots.nodes or {_own_node(): "this machine"}
        patience_s = GONE_S if self._slots.nodes else OWN_GONE_S
        lost = UntilLost(nodes, patience_s, self.recorder)
        queue = BlockQueue(self._session, self._look, gpu=self._slots.gpu)
        first = min(self._slots.count, queue.side_by_side())
        self.recorder.expect_slots.remote(first)  # not awaited, to save time
        tuner = tune.Tuner(
            tune.with_resources(trainable, self._slots.resources()),
            tune_config=tune.TuneConfig(
                search_alg=BlockSearcher(queue, self._slots.count, deadline),
                scheduler=ActorsKept(),  # type: ignore[no-untyped-call]
                num_samples=len(blocks),
                reuse_actors=True,
            ),
            run_config=tune.RunConfig(
                name=self._session.launch_id,
                stop=lost,
                storage_path=str(tune_folder),
                failure_config=tune.FailureConfig(max_failures=MAX_LOST * max(map(len, blocks))),
                checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
                verbose=0,
            ),
        )
        tuner.fit()
        if lost.reason is not None:
            try:
                ray.get(self.recorder.stop.remote(lost.reason), timeout=ANSWER_S)
            except ray.exceptions.RayError:
                raise UnfinishedError(f"{lost.reason}{AGAIN}") from None

    def _look(self) -> Mapping[str, Standing]:
        present = standings(open_store(self._results), self._session)
        self._standings = standings_text(present, self._session.of_cells)
        return present

    def finish(self, refuges: list[Path]) -> Progress:
        return self._ask(self.recorder.finish.remote(self._session.sweep_id, refuges))

    def _ask(self, answer: Any, timeout_s: float | None = None) -> Progress:
        try:
            return cast("Progress", ray.get(answer, timeout=timeout_s))
        except ray.exceptions.RayError:
            raise UnfinishedError(f"the recorder is gone{AGAIN}") from None


def _own_node() -> str:
    return str(ray.get_runtime_context().get_node_id())
