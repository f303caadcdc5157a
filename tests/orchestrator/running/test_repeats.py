"""Blocks that are measured again because they were split over GPUs."""

from dataclasses import replace
from pathlib import Path
from unittest.mock import create_autospec

from rich.console import Console

from cudnn_sweep.analysis.store.store import Store
from cudnn_sweep.orchestrator.planning.plan import Plan
from cudnn_sweep.orchestrator.planning.session import session_of
from cudnn_sweep.orchestrator.running.run_sweep import OpenSweep, Place
from tests.makers import RecordOf


def test_a_split_block_is_repeated_after_the_plans_blocks_and_its_earlier_repeats(
    store: Store, plan: Plan, record_of: RecordOf
) -> None:
    session = session_of(plan, "night", Path(store.location))
    sweep = OpenSweep(
        session=session,
        store=store,
        whole=plan,
        place=create_autospec(Place),
        console=Console(quiet=True),
    )
    (_, first), *others = plan.blocks()
    for _, trials in others:
        for trial in trials:
            store.write(record_of(session, trial, slot="a"))
    assert sweep.repeats().trials == (), "the first is not recorded yet"
    last, again = plan.trials[-1], first
    for number in (1, 2):
        for trial, slot in zip(again, "abb", strict=False):
            store.write(record_of(session, trial, slot=slot))
        repeated = sweep.repeats().trials
        assert [each.trial_id for each in sweep.repeats().trials] == [
            each.trial_id for each in repeated
        ], "resuming plans nothing twice"
        assert len(repeated) == len(first)
        for trial, once_more in zip(first, repeated, strict=True):
            assert once_more == replace(
                trial,
                replicate=trial.replicate + 3 * number,
                block=trial.block + number * (last.block + 1),
                position=trial.position + number * (last.position + 1),
                cache_generation=once_more.replicate,
                repeats_block=trial.block,
            )
        again = list(repeated)
    for trial in again:
        store.write(record_of(session, trial, slot="a"))
    assert sweep.repeats().trials == ()
