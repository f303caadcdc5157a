"""Blocks until decided, on the fake machine: who gets how many, over budgets, launches and shards, and by default."""

import re
from collections import Counter
from dataclasses import replace
from datetime import date
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from rich.console import Console

from cudnn_sweep.analysis.results.verdicts import ContrastState, Verdict
from cudnn_sweep.analysis.store.store import Store, open_store
from cudnn_sweep.cluster.launch_file import read_launch_file
from cudnn_sweep.orchestrator.exit_codes import ExitCode
from cudnn_sweep.orchestrator.nightly.request import read_night
from cudnn_sweep.orchestrator.planning.options import LaunchOptions, NightOptions
from cudnn_sweep.orchestrator.planning.plan import Plan
from cudnn_sweep.orchestrator.planning.request import Planned, request_of
from cudnn_sweep.orchestrator.planning.spec import SweepSpec
from cudnn_sweep.orchestrator.remote.destinations import launch
from cudnn_sweep.orchestrator.running.run_sweep import plan_sweep, run_sweep
from cudnn_sweep.orchestrator.running.this_machine import ThisMachine
from cudnn_sweep.workloads.cells.suite import LOOKS
from tests.fake_machine import FakeEffect, FakeMachine, FakeNoise, FakeScript
from tests.orchestrator.running.test_ends import Lost

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


def planned(options: LaunchOptions, machine: FakeMachine) -> Planned:
    assert options.file is not None
    return plan_sweep(request_of(read_launch_file(options.file, SweepSpec), options), machine)


def run(options: LaunchOptions, machine: FakeMachine) -> int:
    """The exit code of a launch there."""
    return run_sweep(planned(options, machine), machine, Console(quiet=True)).exit_code


def blocks_of(store: Store, sweep_id: str) -> Counter[str]:
    """How many blocks of each cell were run."""
    table = store.snapshot(sweep_id).table(["cell_id", "block"])
    rows = {(row["cell_id"], row["block"]) for row in table.to_pylist()}
    return Counter(cell_id for cell_id, _ in rows)


@pytest.mark.long
def test_a_cell_gets_its_blocks_until_it_is_decided_or_out_of_reach(
    machine: FakeMachine, options: LaunchOptions
) -> None:
    whole = replace(options, sweep_id="one")
    assert run(replace(whole, minutes=0.4), machine) == ExitCode.UNFINISHED, "cut short"
    store = open_store(options.results or "")
    cut = blocks_of(store, "one")
    assert run(whole, machine) == 0
    blocks = blocks_of(store, "one")
    assert all(blocks[cell_id] >= count for cell_id, count in cut.items())
    states = {row.cell_id: row for row in ContrastState.of(store, "one")}
    found = {row.cell_id: row for row in Verdict.of(store, "one")}
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
    table = store.snapshot("one").table(["plan_cells", "plan_blocks", "plan_trials", "ends_launch"])
    (sizes,) = {tuple(row.values())[:3] for row in table.to_pylist()}
    assert sizes[:2] == (4, 4 * AT_MOST) and sizes[2] > 2 * sizes[1]
    assert sum(table["ends_launch"].to_pylist()) == 2, (
        "of the launch that was cut too: its time was up"
    )


@pytest.mark.slow
def test_a_time_limit_that_is_too_short_for_all_cells_decides_some_of_them(
    machine: FakeMachine, options: LaunchOptions
) -> None:
    """A night has every cell as often as the others, a launch comes to a verdict cell by cell."""
    script = machine.script.model_copy(update={"effects": [], "trial_s": 2.0})
    quiet = replace(machine, script=script)
    begun, said = {}, Console(record=True, width=120)
    for name, launched_at in (("launch", monotonic()), ("night", None)):
        named = replace(options, sweep_id=name, minutes=0.3)
        plan = planned(named, quiet)
        plan = replace(plan, request=replace(plan.request, launched_at=launched_at))
        assert run_sweep(plan, quiet, said).exit_code == 6
        store = open_store(options.results or "")
        begun[name] = sorted(blocks_of(store, name).values())
    assert begun["launch"][-1] == LOOKS[0] and begun["night"][-1] < LOOKS[0], begun
    (line,) = [line for line in said.export_text().splitlines() if "first verdict" in line]
    assert re.fullmatch(
        r"The 0\.\d+ minutes left are probably enough .* in [01] of 4 cells\.", line
    )


class Cut(Lost):
    """Ctrl-C comes while a trial runs."""

    def lose(self, store: Store) -> None:
        raise KeyboardInterrupt


@pytest.mark.slow
def test_a_launch_that_is_cut_prints_the_table_and_next_steps_of_one_that_ends(
    machine: FakeMachine, options: LaunchOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = Cut(script=machine.script, night=machine.night)
    monkeypatch.setattr(ThisMachine, "free", lambda *_, **__: cut)
    told = Console(record=True, width=160)
    with pytest.raises(KeyboardInterrupt):
        launch(replace(options, minutes=0.4, json=True), told)
    text = told.export_text()
    assert "benchmark: false → true; milliseconds per iteration" in text
    recorded = len(open_store(options.results or "").snapshot().table(["trial_id"]))
    assert f": {recorded} of at most " in text and recorded
    assert re.search(r"launch .*--minutes 0.4 .*# runs the missing trials", text)


@pytest.mark.long
def test_shards_own_whole_cells_and_together_run_what_one_launch_does(
    machine: FakeMachine, options: LaunchOptions
) -> None:
    for number in (1, 2):
        assert run(replace(options, sweep_id="two", shard=f"{number}/2"), machine) == 0
    store = open_store(options.results or "")
    shards = store.snapshot("two").table(["cell_id", "shard"]).to_pylist()
    cells = {(row["cell_id"], row["shard"]) for row in shards}
    assert len(cells) == len({cell_id for cell_id, _ in cells}) == 4
    recorded = len(shards)
    assert run(replace(options, sweep_id="two"), machine) == 0
    assert len(store.snapshot("two").table(["cell_id"])) == recorded


UNSAID = """
metadata:
  sweep:
    cells: [{workload: conv, problem: [tutorials/rgb224, tutorials/rgb256]}]
"""
UNTOUCHED = FakeMachine(script=FakeScript(), night=date(2026, 1, 1))


@pytest.fixture
def unsaid(options: LaunchOptions) -> LaunchOptions:
    """Nobody says how many blocks a cell has."""
    assert options.file is not None
    options.file.write_text(UNSAID)
    return options


def default(options: LaunchOptions, **change: Any) -> Plan:
    """What a launch runs on a GPU."""
    return planned(replace(options, **change), UNTOUCHED).chosen


def blocks(plan: Plan) -> set[int]:
    """How many each cell has."""
    found = {(trial.cell.cell_id, trial.replicate) for trial in plan.trials}
    return set(Counter(cell_id for cell_id, _ in found).values())


def test_configs_of_which_no_two_compare_have_a_fixed_number(unsaid: LaunchOptions) -> None:
    assert unsaid.file is not None
    unsaid.file.write_text(UNSAID + "    configs: [{benchmark: true}]\n")
    plan = default(unsaid)
    assert not plan.looks and blocks(plan) == {5}


def test_each_night_has_as_many_blocks(unsaid: LaunchOptions, tmp_path: Path) -> None:
    assert unsaid.file is not None
    night = NightOptions(file=unsaid.file, night=date(2026, 1, 1))
    own = tmp_path / "own.yaml"
    for said, expected in (("", {5}), ("replicates: 3\n", {3})):
        own.write_text(f"cells: [{{workload: noop}}]\n{said}")
        request = read_night(replace(night, suite=str(own)), {}).request
        plan = plan_sweep(request, UNTOUCHED).chosen
        assert not plan.looks and blocks(plan) == expected
