"""What the driver of a launch keeps of blocks that have run, while thousands of them run."""

import gc
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from ray import tune
from ray.tune.experiment import Trial

from cudnn_sweep.orchestrator.planning.session import session_of
from cudnn_sweep.orchestrator.slots import next_block, tune_host
from cudnn_sweep.orchestrator.slots.next_block import BlockQueue
from cudnn_sweep.orchestrator.slots.tune_host import ActorsKept, BlockSearcher
from tests.makers import MakePlan

BLOCKS = 400
LOADED = 100  # blocks after which nothing is loaded any more
MOST_OF_TUNE = 4096  # bytes a block: 20,000 blocks are 80 MB


class OneStep(tune.Trainable):
    """Its results have the fields of a real block's, with those that Tune adds."""

    def step(self) -> dict[str, Any]:
        return {"done": True, "stopped": False, "took_s": 0.1}


@pytest.fixture
def grown(plan_of: MakePlan, tmp_path: Path) -> tuple[float, float]:
    """Bytes that each further block leaves behind: allocated by our scheduling, and by all."""
    session = session_of(plan_of("noop", replicates=BLOCKS), "sweep-1", tmp_path)
    searcher = BlockSearcher(BlockQueue(session, dict), 1, None)
    scheduler = ActorsKept()  # type: ignore[no-untyped-call]
    result = OneStep(config={}).train()  # type: ignore[no-untyped-call]
    kept = []  # as Tune keeps them
    marks = []
    tracemalloc.start()
    try:
        for number in range(BLOCKS):
            if number in (LOADED, BLOCKS - 1):
                gc.collect()
                marks.append((_ours(), tracemalloc.get_traced_memory()[0]))
            trial = Trial("block", stub=True)
            trial.config = searcher.suggest(trial.trial_id)
            for _ in range(2):  # trials of the block
                trial.update_last_result(dict(result))
            scheduler.on_trial_complete(None, trial, trial.last_result)
            searcher.on_trial_complete(trial.trial_id, trial.last_result)
            kept.append(trial)
    finally:
        tracemalloc.stop()
    assert [trial.config["block"] for trial in kept] == [
        block for block, _ in session.plan.blocks()
    ]
    (ours, together), (ours_then, together_then) = marks
    blocks = BLOCKS - 1 - LOADED
    return (ours_then - ours) / blocks, (together_then - together) / blocks


def _ours() -> int:
    files = [tracemalloc.Filter(True, str(module.__file__)) for module in (tune_host, next_block)]
    found = tracemalloc.take_snapshot().filter_traces(files).statistics("filename")
    return sum(each.size for each in found)


def test_scheduling_keeps_nothing_of_a_block_and_tune_only_its_last_result(
    grown: tuple[float, float],
) -> None:
    """The config that Tune keeps of a block is a dict of one number, made by the searcher."""
    ours, together = grown
    assert ours < 256
    assert together < MOST_OF_TUNE
