"""What a summary says of how complete a sweep is: its shards, and the blocks that were split."""

from collections.abc import Collection, Iterator

from cudnn_sweep.analysis.storing.progress import StoredTrial, blocks_of
from cudnn_sweep.analysis.words import percent
from cudnn_sweep.orchestrator.planning.sweep_selection import SweepChoice


def shard_lines(choice: SweepChoice, there: Collection[StoredTrial]) -> Iterator[str]:
    """`there`: the trials of the plan that are recorded."""
    if choice.shard is None:
        return
    own = {trial.trial_id for trial in choice.own.trials}
    recorded = sum(trial.trial_id in own for trial in there)
    yield (
        f"Shard {choice.shard}: {recorded} of its {len(own)} trials recorded; "
        f"{choice.plan_trials - len(own)} belong to other shards; "
        f"{len(there) - recorded} of these are here."
    )


def split_lines(stored: Collection[StoredTrial]) -> Iterator[str]:
    blocks = blocks_of(stored)
    if not blocks.split:
        return
    mended = sum(block.mended for block in blocks.split)
    yield (
        f"Split over GPUs or launches: {len(blocks.split)} of {blocks.begun} blocks "
        f"({percent(len(blocks.split) / blocks.begun, 1)}); {mended} of them were repeated as a whole."
    )
