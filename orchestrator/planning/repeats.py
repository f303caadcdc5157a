"""Repeats: blocks that were split over GPUs or launches are run again whole, at the end of the sweep.

A repeat has a block, replicates and trial ids of its own, so that what was measured stays, and
pairs in verdicts by itself. They follow from the plan and from how often that block was repeated, so
that whoever goes on with the sweep plans the same, and nothing twice.
"""

from dataclasses import replace

from cudnn_sweep.analysis.storing.progress import blocks_of
from cudnn_sweep.analysis.storing.store import Store
from cudnn_sweep.orchestrator.planning.plan import Plan, Trial
from cudnn_sweep.orchestrator.planning.sweep_selection import SweepChoice


def repeats_of(store: Store, whole: Plan, choice: SweepChoice) -> Plan:
    """The blocks that are to be run again, as they stand now, of those that this launch answers for.

    A block is left out where the launch answers for only some of its trials (--only). Where cells get blocks until
    they are decided, a further one takes the place of each that was split.
    """
    if whole.looks:
        return replace(choice.own, trials=())
    blocks = blocks_of(store.stored_trials(choice.sweep_id).values())
    waiting = {split.block: split for split in blocks.split if split.waits}
    found: list[Trial] = []
    for block, trials in choice.own.blocks():
        if block in waiting and waiting[block].trials == len(trials):
            found += _repeat(whole, trials, waiting[block].repeats + 1)
    return replace(choice.own, trials=tuple(found))


def repeats_text(plan: Plan) -> str:
    """How many blocks run again, in words for the user; empty for a plan of no repeats."""
    blocks = {trial.block for trial in plan.trials if trial.repeats_block is not None}
    return f"split blocks that are repeated as a whole: {len(blocks)}" if blocks else ""


def _repeat(whole: Plan, trials: list[Trial], number: int) -> list[Trial]:
    """The block once more: numbered past all of the plan's, and past its earlier repeats."""
    last = whole.trials[-1]
    replicates = 1 + max(trial.replicate for trial in whole.trials)
    replicate = trials[0].replicate + number * replicates
    # where the block began a new compute cache, that one is not empty any more
    new_cache = trials[0].cache_generation == trials[0].replicate
    return [
        replace(
            trial,
            replicate=replicate,
            block=trial.block + number * (last.block + 1),
            position=trial.position + number * (last.position + 1),
            cache_generation=replicate if new_cache else trial.cache_generation,
            repeats_block=trial.block,
        )
        for trial in trials
    ]
