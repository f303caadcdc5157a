"""Ray Tune's only room: it schedules the plan's trials, one accelerator each, on long-lived actors.

What it is relied on for: placing trials on free accelerators of the cluster, keeping the actors
(`reuse_actors`), and running a trial again whose worker died (`FailureConfig`). What it stores is
disposable: the results are the only state that matters.
"""

import asyncio
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

import ray
from ray import tune
from ray.tune.search import Searcher
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from cudnn_sweep.orchestrator.order import BlockOrder
from cudnn_sweep.orchestrator.progress import Progress
from cudnn_sweep.orchestrator.recorder import Recorder
from cudnn_sweep.orchestrator.session import Session
from cudnn_sweep.orchestrator.slot import Slot

MAX_LOST = 3  # a trial that takes its worker along so often is left for the next launch
SLOTS_UP_S = 180.0  # a slot that does not come up must not hold the others for ever

# No log files of Tune's own (half of its time a trial), no box of its own around our display, and Ctrl-C
# is the launch's to handle.
QUIET = {
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "RAY_AIR_NEW_OUTPUT": "0",
}

SlotMaker = Callable[[Session, str], Slot]


@dataclass(frozen=True, kw_only=True, slots=True)
class Slots:
    """How many trials may run at once, and what each holds of Ray's resources."""

    count: int
    gpu: bool


class SlotGate:
    """Lets trials begin once every slot is up.

    Tune takes a waiting trial's pending actor away as soon as another actor is free, so that slots
    that are slow to start would never come up.
    """

    def __init__(self, slots: int) -> None:
        self._missing = slots
        self._open = asyncio.Event()

    async def enter(self) -> None:
        self._missing -= 1
        if self._missing <= 0:
            self._open.set()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._open.wait(), SLOTS_UP_S)
        self._open.set()


class TrialRunner(tune.Trainable):
    """One actor a slot; each step is one whole trial."""

    def setup(  # type: ignore[override]  # tune.with_parameters adds the rest
        self,
        config: dict[str, Any],
        session: Session,
        make_slot: SlotMaker,
        recorder: Any,
        gate: Any,
    ) -> None:
        accelerator = "-".join(str(index) for index in ray.get_gpu_ids()) or "cpu"
        self._trials = {trial.position: trial for trial in session.plan.trials}
        self._slot = make_slot(session, accelerator)
        self._recorder = recorder
        self._gate = gate
        self._entered = False

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        return True

    def step(self) -> dict[str, Any]:
        if not self._entered:
            ray.get(self._gate.enter.remote())
            self._entered = True
        trial = self._trials[self.config["position"]]
        begin = self._recorder.begin.remote(trial.trial_id, trial.position, self._slot.name)
        attempt = ray.get(begin)
        durable = False
        if attempt is not None:
            durable = ray.get(self._recorder.record.remote(self._slot.run(trial, attempt)))
        return {"done": True, "durable": durable}

    def cleanup(self) -> None:
        self._slot.close()

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Nothing to keep: without this method Tune ends every trial in an error."""

    def load_checkpoint(self, checkpoint: object) -> None:
        """Nothing to load."""


class PlanSearcher(Searcher):
    """Tells Tune which trial is next, from each result that comes in."""

    def __init__(self, order: BlockOrder, deadline: float | None) -> None:
        super().__init__()
        self._order = order
        self._deadline = deadline
        self._positions: dict[str, int] = {}

    def suggest(self, trial_id: str) -> Any:
        if self._deadline is not None and monotonic() > self._deadline:
            self._order.open_no_block()
        if self._order.finished:
            return Searcher.FINISHED
        trial = self._order.next()
        if trial is None:
            return None
        self._positions[trial_id] = trial.position
        return {"position": trial.position}

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        if result is not None and not error and not result["durable"]:
            self._order.stop()
        self._order.ended(self._positions.pop(trial_id))

    def save(self, checkpoint_path: str) -> None:
        """Nothing to keep: a sweep is resumed from its results."""

    def restore(self, checkpoint_path: str) -> None:
        raise AssertionError("a sweep is resumed from its results, not from Tune's state")


class Host:
    """Runs one session on the Ray that this process is connected to."""

    def __init__(self, session: Session, *, results: str, slots: Slots) -> None:
        self._session = session
        self._slots = slots
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        options: dict[str, Any] = {"num_cpus": 0, "scheduling_strategy": here}
        busy = min(slots.count, len(session.plan.trials))
        self._recorder: Any = ray.remote(Recorder).options(**options).remote(results)
        self._gate: Any = ray.remote(SlotGate).options(**options).remote(busy)

    def progress(self) -> Progress:
        """How far it is; may be asked from another thread while `run` runs."""
        found: Progress = ray.get(self._recorder.progress.remote())
        return found

    def run(
        self, tune_folder: Path, budget_s: float | None = None, make_slot: SlotMaker = Slot
    ) -> None:
        """Returns when every trial was recorded, given up, or may not start any more."""
        os.environ.update(QUIET)
        logging.getLogger("ray.tune").setLevel(
            logging.CRITICAL
        )  # it misses the logs it is not to keep
        order = BlockOrder(self._session.plan, self._slots.count)
        deadline = None if budget_s is None else monotonic() + budget_s
        trainable = tune.with_parameters(
            TrialRunner,
            session=self._session,
            make_slot=make_slot,
            recorder=self._recorder,
            gate=self._gate,
        )
        tuner = tune.Tuner(
            tune.with_resources(trainable, {"cpu": 1, "gpu": 1} if self._slots.gpu else {"cpu": 1}),
            tune_config=tune.TuneConfig(
                search_alg=PlanSearcher(order, deadline),
                num_samples=len(self._session.plan.trials),
                reuse_actors=True,
            ),
            run_config=tune.RunConfig(
                name=self._session.launch_id,
                storage_path=str(tune_folder),
                failure_config=tune.FailureConfig(max_failures=MAX_LOST),
                checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
                verbose=0,
            ),
        )
        tuner.fit()

    def finish(self, refuge: Path) -> Progress:
        """Write what is held and compact; see Recorder.finish."""
        done: Progress = ray.get(self._recorder.finish.remote(self._session.sweep_id, refuge))
        return done
