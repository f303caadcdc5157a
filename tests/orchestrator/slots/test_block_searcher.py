"""What Tune's searcher hands out where time is limited, by a clock of its own. No Ray."""

import pytest

from cudnn_sweep.orchestrator.slots import tune_host
from cudnn_sweep.orchestrator.slots.next_block import InOrder
from cudnn_sweep.orchestrator.slots.tune_host import BlockSearcher
from tests.makers import MakePlan


@pytest.mark.parametrize(("limit_s", "blocks"), [(-5.0, 1), (25.0, 2), (30.0, 3), (None, 5)])
def test_no_block_begins_that_would_end_past_the_limit_but_for_the_first(
    plan_of: MakePlan, monkeypatch: pytest.MonkeyPatch, limit_s: float | None, blocks: int
) -> None:
    """Each takes 10 s, as the one before it did."""
    gone_s = 0.0
    monkeypatch.setattr(tune_host, "monotonic", lambda: gone_s)
    searcher = BlockSearcher(InOrder(plan_of("noop", replicates=5)), 1, limit_s)
    ran = 0
    while searcher.suggest(f"trial {ran}") != BlockSearcher.FINISHED:
        assert searcher.suggest("another") is None, "one slot"
        gone_s += 10.0
        searcher.on_trial_complete(f"trial {ran}", {"took_s": 10.0})
        ran += 1
    assert ran == blocks
