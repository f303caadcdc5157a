"""Blocks until decided, on the fake machine: who gets how many, over budgets, launches and shards."""

from collections import Counter
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from rich.console import Console

from cudnn_sweep.analysis.answering.verdicts import contrast_states, verdicts
from cudnn_sweep.analysis.storing.store import Store, open_store
from cudnn_sweep.cluster.launch_file import read_launch_file
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.nightly.fake.machine import FakeMachine
from cudnn_sweep.orchestrator.nightly.fake.script import FakeEffect, FakeNoise, FakeScript
from cudnn_sweep.orchestrator.planning.options import (
    LaunchOptions,
    read_replicates,
    replicates_text,
)
from cudnn_sweep.orchestrator.planning.request import request_of
from cudnn_sweep.orchestrator.planning.shard import read_shard
from cudnn_sweep.orchestrator.planning.spec import SweepSpec
from cudnn_sweep.orchestrator.planning.sweep_selection import SweepSelection
from cudnn_sweep.orchestrator.running.run_sweep import plan_sweep, run_sweep
from cudnn_sweep.workloads.cells.suite import LOOKS, UntilDecided

AT_MOST = 12
FILE = f"""
metadata:
  sweep:
    replicates: {{until: decided, at_most: {AT_MOST}}}
    cells: [{{workload: conv, problem: [tutorials/rgb224, tutorials/rgb256], precision: [tf32, bf16]}}]
"""
FAILS = {"problem": "tutorials/rgb256", "precision": "tf32", "benchmark": "true"}
NOISY = {"problem": "tutorials/rgb224", "precision": "tf32", "benchmark": "true"}


@pytest.fixture
def machine() -> FakeMachine:
    """Quiet, but for one cell whose candidate fails and one whose processes differ by half."""
    effects = [FakeEffect(where=FAILS, status="crash")]
    effects += [
        FakeEffect(where=NOISY | {"replicate": str(number)}, time=1.5)
        for number in range(0, AT_MOST, 2)
    ]
    noise = FakeNoise(night=0.0, process=0.002)
    return FakeMachine(script=FakeScript(noise=noise, effects=effects), night=date(2026, 1, 1))


@pytest.fixture
def options(tmp_path: Path) -> LaunchOptions:
    file = tmp_path / "cluster.yaml"
    file.write_text(FILE)
    return LaunchOptions(file=file, results=str(tmp_path / "results"))


def run(options: LaunchOptions, machine: FakeMachine) -> int:
    """The exit code of a launch there."""
    assert options.file is not None
    request = request_of(read_launch_file(options.file, SweepSpec), options)
    return run_sweep(plan_sweep(request, machine), machine, Console(quiet=True)).exit_code


def blocks_of(store: Store, sweep_id: str) -> Counter[str]:
    """How many blocks of each cell were run."""
    table = store.snapshot(sweep_id).table(["cell_id", "block"])
    rows = {(row["cell_id"], row["block"]) for row in table.to_pylist()}
    return Counter(cell_id for cell_id, _ in rows)


def test_a_cell_gets_its_blocks_until_it_is_decided_or_out_of_reach(
    machine: FakeMachine, options: LaunchOptions
) -> None:
    whole = replace(options, selection=SweepSelection(sweep_id="one"))
    assert run(replace(whole, budget_minutes=0.4), machine) == 1, "cut short"
    store = open_store(options.results or "")
    cut = blocks_of(store, "one")
    assert run(whole, machine) == 0
    blocks = blocks_of(store, "one")
    assert all(blocks[cell_id] >= count for cell_id, count in cut.items())
    states = {row.cell_id: row for row in contrast_states(store, "one")}
    found = {row.cell_id: row for row in verdicts(store, "one")}
    assert {row.state for row in states.values()} <= {
        "helps", "hurts", "equivalent", "fails", "hopeless"
    }  # fmt: skip
    fails, noisy = (
        next(row for row in found.values() if (row.problem, row.precision) == cell)
        for cell in (("tutorials/rgb256", "tf32"), ("tutorials/rgb224", "tf32"))
    )
    assert states[fails.cell_id].state == "fails" and blocks[fails.cell_id] == LOOKS[0]
    assert states[noisy.cell_id].state == "hopeless" and noisy.wall_verdict == "inconclusive"
    others = found.keys() - {fails.cell_id, noisy.cell_id}
    assert all(blocks[cell_id] in LOOKS and blocks[cell_id] < AT_MOST for cell_id in others)
    assert run(whole, machine) == 0
    assert blocks_of(store, "one") == blocks, "nothing is left to do"


def test_shards_own_whole_cells_and_together_run_what_one_launch_does(
    machine: FakeMachine, options: LaunchOptions
) -> None:
    for number in (1, 2):
        selection = SweepSelection(sweep_id="two", shard=read_shard(f"{number}/2"))
        assert run(replace(options, selection=selection), machine) == 0
    store = open_store(options.results or "")
    shards = store.snapshot("two").table(["cell_id", "shard"]).to_pylist()
    cells = {(row["cell_id"], row["shard"]) for row in shards}
    assert len(cells) == len({cell_id for cell_id, _ in cells}) == 4
    selection = SweepSelection(sweep_id="two")
    recorded = len(shards)
    assert run(replace(options, selection=selection), machine) == 0
    assert len(store.snapshot("two").table(["cell_id"])) == recorded


@pytest.mark.parametrize("text", ["8", "decided:20", "decided:50"])
def test_replicates_are_read_as_they_are_written(text: str) -> None:
    assert replicates_text(read_replicates(text)) == text


@pytest.mark.parametrize("text", ["0", "-1", "some", "decided:2", "decided:201", "decided:", ""])
def test_replicates_that_are_none_are_named(text: str) -> None:
    with pytest.raises(SpecError, match=f"found '{text}', allowed: a number from 1, decided"):
        read_replicates(text)


def test_looks_end_with_the_most_blocks() -> None:
    assert UntilDecided(until="decided", at_most=10).looks == (3, 5, 8, 10)
    assert UntilDecided(until="decided", at_most=3).looks == (3,)
