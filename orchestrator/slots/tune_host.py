"""The only file that uses Ray Tune: it runs blocks on long-lived actors, one per accelerator.

Tune places blocks on free accelerators, keeps the actors (`reuse_actors`), and resumes a block
elsewhere if its worker died (`FailureConfig`). Nothing reads what Tune stores.
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

# No log files of Tune (half of its time a trial), no saved state and no box around our display.
# The launch handles Ctrl-C.
QUIET = {
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_GLOBAL_CHECKPOINT_S": "inf",
    "RAY_AIR_NEW_OUTPUT": "0",
}

ANSWER_S = 10.0  # the recorder answers at once while it lives
# After a network outage a process may still deliver its record. A node that starts again is a new
# node, unknown to this launch.
GONE_S = 300.0
LOOK_S = 1.0  # between checks of the recorder and the nodes
OWN_GONE_S = 10.0  # a single machine has no network outage to wait for
AGAIN = ", and with it unrecorded trials: launch again to resume"

SlotMaker = Callable[[Session, str], Slot]


@dataclass(frozen=True, kw_only=True, slots=True)
class Slots:
    count: int
    """Number of blocks that may run at once."""
    gpu: bool
    ranks: int = 1
    """Number of GPUs of a slot. They are all on one node."""
    nodes: Mapping[str, str] = field(default_factory=dict)
    """Names of the Ray nodes that may have slots, by node id. If empty, all nodes may."""

    def resources(self) -> tune.PlacementGroupFactory:
        each = self.ranks if self.gpu else 1
        bundle: dict[str, float] = {"CPU": each, "GPU": each} if self.gpu else {"CPU": 1}
        if not self.nodes:
            return tune.PlacementGroupFactory([bundle])
        there = {"ray.io/node-id": f"in({','.join(self.nodes)})"}
        return tune.PlacementGroupFactory([bundle], bundle_label_selector=[there])


class BlockRunner(tune.Trainable):
    """The actor of a slot. Tune's trials are our blocks. Each `step` makes one record."""

    def setup(  # type: ignore[override]  # tune.with_parameters adds the rest
        self, config: dict[str, Any], session: Session, make_slot: SlotMaker, recorder: Any
    ) -> None:
        accelerator = "-".join(str(index) for index in ray.get_gpu_ids()) or "cpu"
        self._blocks = dict(session.plan.blocks())
        self._records: Iterator[RunRecord] | None = None
        self._left = 0
        self._recorder = recorder
        self._slot: Slot | None = None
        """None if slots fail to start: then no further block starts."""
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
            wanted = self._wanted(self._blocks[self.config["block"]])
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

    def _wanted(self, trials: list[Trial]) -> list[Trial]:
        cells = {trial.trial_id: trial.cell.cell_id for trial in trials}
        wanted = ray.get(self._recorder.wanted.remote(cells))
        return [trial for trial in trials if trial.trial_id in wanted]

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
        """Save nothing. If this method were missing, Tune would end each trial with an error."""


class BlockSearcher(Searcher):
    """Gives blocks to Tune until all have run or a slot stops. Once less time is left than a block
    takes, it gives only the blocks that advice needs.
    """

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
        """Save nothing: a sweep is resumed from its results."""


class ActorsKept(FIFOScheduler):
    """Starts trials in FIFO order. A waiting trial keeps the new actor that starts for it. Tune's
    own order would give it an old actor and end the new one, so a lost slot would never return.
    """

    def choose_trial_to_run(self, tune_controller: object) -> None:
        """Return None: Tune then starts the waiting trials in their order."""

    def on_trial_complete(
        self, tune_controller: object, trial: TuneTrial, result: dict[str, Any]
    ) -> None:
        """Drop Tune's statistics of the results. They take 19 KB per block, and are not read."""
        trial.run_metadata.metric_analysis.clear()
        trial.run_metadata.metric_n_steps.clear()


class UntilLost(tune.Stopper):
    """Ends a run once its recorder is gone, or all its nodes were gone for `patience_s`."""

    def __init__(self, nodes: Mapping[str, str], patience_s: float, recorder: Any) -> None:
        self._nodes = nodes
        self._patience_s = patience_s
        self._recorder = recorder
        self._answer = recorder.wanted.remote({})
        self._seen = self._next_look = monotonic()
        self.reason: str | None = None
        """Why the run ends."""

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False

    def stop_all(self) -> bool:
        """Return whether to end the run. Tune asks many times a second, so nothing here waits."""
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
            f"for {self._patience_s / 60:g} minutes Ray has had none of the sweep's nodes: "
            f"{', '.join(self._nodes.values())}; a node that starts again counts as a new one: "
            "launch again to resume with the nodes that are up"
        )


def alive_nodes() -> set[str]:
    return {node["NodeID"] for node in ray.nodes() if node["Alive"]}


class Host:
    def __init__(
        self, session: Session, *, results: str, slots: Slots, followed: bool = False
    ) -> None:
        """If `followed`, keep records for `take`."""
        self._session = session
        self._results = results
        self._slots = slots
        self._standings: str | None = None
        here = NodeAffinitySchedulingStrategy(_own_node(), soft=False)
        options: dict[str, Any] = {"num_cpus": 0, "scheduling_strategy": here}
        recorder, configs = ray.remote(Recorder).options(**options), configs_to_fail(session)
        self.recorder: Any = recorder.remote(results, followed=followed, configs=configs)
        """Ray actor of the Recorder; it lives until Ray ends or the actor is killed."""

    def progress(self) -> Progress:
        """May be called from another thread while `run` runs."""
        progress = self._ask(self.recorder.progress.remote(), ANSWER_S)
        progress.standings = self._standings
        return progress

    def take(self) -> list[RunRecord]:
        """Return the records that became durable since the last call. May be called from another thread."""
        return cast("list[RunRecord]", ray.get(self.recorder.take.remote()))

    def run(
        self,
        tune_folder: Path,
        budget_s: float | None = None,
        make_slot: SlotMaker = ForkedSlot.open,
    ) -> None:
        """Run blocks until each trial is recorded, is given up, or may no longer start."""
        os.environ.update(QUIET)
        # With the default of 1, Tune drops actors whose trials end while another actor is reset.
        os.environ["TUNE_MAX_PENDING_TRIALS_PG"] = str(self._slots.count)
        # Tune's logger complains about the log files that QUIET switched off.
        logging.getLogger("ray.tune").setLevel(logging.CRITICAL)
        blocks = [trials for _, trials in self._session.plan.blocks()]
        deadline = None if budget_s is None else monotonic() + budget_s
        trainable = tune.with_parameters(
            BlockRunner, session=self._session, make_slot=make_slot, recorder=self.recorder
        )
        # Without a cluster, the only node is the one that this process started.
        nodes = self._slots.nodes or {_own_node(): "this machine"}
        patience_s = GONE_S if self._slots.nodes else OWN_GONE_S
        lost = UntilLost(nodes, patience_s, self.recorder)
        queue = BlockQueue(self._session, self._look, gpu=self._slots.gpu)
        first = min(self._slots.count, queue.side_by_side())
        self.recorder.expect_slots.remote(first)  # not awaited: recorder and slots start together
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
