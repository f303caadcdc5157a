"""Shards: parts of a plan that clusters agree on without a word, and that come together in one store."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from cudnn_sweep.analysis.asking.database import open_database
from cudnn_sweep.analysis.asking.queries import load_query
from cudnn_sweep.analysis.storing.store import open_store
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.planning.plan import Plan
from cudnn_sweep.orchestrator.planning.session import session_of
from cudnn_sweep.orchestrator.planning.shard import Shard, read_shard
from cudnn_sweep.orchestrator.recording.recorder import Recorder
from tests.makers import MakePlan, RecordOf


def shards(plan: Plan, count: int) -> list[Plan]:
    return [Shard(number=number, of=count).part(plan) for number in range(1, count + 1)]


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_every_block_is_in_one_shard_whole_and_in_its_order(plan_of: MakePlan, count: int) -> None:
    plan = plan_of("noop", replicates=100)
    parts = shards(plan, count)
    blocks = dict(plan.blocks())
    dealt = [block for part in parts for block in part.blocks()]
    assert dict(dealt) == blocks and len(dealt) == len(blocks)
    sizes = [len(list(part.blocks())) for part in parts]
    assert max(sizes) - min(sizes) <= 1
    for part in parts:
        positions = [trial.position for trial in part.trials]
        assert positions == sorted(positions)
    assert shards(plan_of("noop", replicates=100), count) == parts, "two clusters agree"


@pytest.mark.parametrize("text", ["0/4", "5/4", "2", "1/0", "a/b", "-1/2", "1/2/3", ""])
def test_shard_that_is_none_is_named(text: str) -> None:
    with pytest.raises(SpecError, match=f"found '{text}', allowed: I/N with I from 1 to N"):
        read_shard(text)


def test_more_shards_than_blocks_are_refused(plan_of: MakePlan) -> None:
    with pytest.raises(SpecError, match="--shard 5/5: the plan has 4 blocks, none for this one"):
        read_shard("5/5").part(plan_of("noop", replicates=4))


def test_recorders_of_two_shards_share_a_sweep_and_compact_it_at_once(
    tmp_path: Path, plan_of: MakePlan, record_of: RecordOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each makes parts of whatever lies there, the other's records too."""
    monkeypatch.setattr("cudnn_sweep.analysis.storing.store.MANY_PARTS", 3)
    monkeypatch.setattr("cudnn_sweep.analysis.storing.collector.COMPACT_EVERY", 3)
    plan = plan_of("noop", replicates=14)
    session = session_of(plan, "shared", tmp_path)

    def run(shard: Shard) -> None:
        recorder, own = Recorder(str(tmp_path)), replace(session, shard=shard)
        for trial in shard.part(plan).trials:
            assert recorder.record(record_of(own, trial))
        recorder.finish("shared", [])

    with ThreadPoolExecutor() as pool:
        for done in [pool.submit(run, read_shard(text)) for text in ("1/2", "2/2")]:
            done.result()
    with open_database(open_store(str(tmp_path))) as database:
        rows = database.query("select trial_id, shards from records").to_pylist()
        (sweep,) = database.query(load_query("sweeps").sql).to_pylist()
    assert sorted(row["trial_id"] for row in rows) == sorted(t.trial_id for t in plan.trials)
    assert (sweep["finished"], sweep["shards"]) == (True, "1/2, 2/2")
