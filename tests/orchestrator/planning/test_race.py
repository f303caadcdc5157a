"""Races on the fake machine: which config is the best, who gets no further block, and what a resumed race does."""

from collections import Counter
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from rich.console import Console

from cudnn_sweep.analysis.engine.database import open_database
from cudnn_sweep.analysis.engine.queries import load_query
from cudnn_sweep.analysis.results.verdicts import RaceState
from cudnn_sweep.analysis.store.store import Store, open_store
from cudnn_sweep.cluster.launch_file import read_launch_file
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.exit_codes import ExitCode
from cudnn_sweep.orchestrator.planning.options import LaunchOptions
from cudnn_sweep.orchestrator.planning.request import Planned, request_of
from cudnn_sweep.orchestrator.planning.spec import SweepSpec
from cudnn_sweep.orchestrator.running.run_sweep import Ran, plan_sweep, run_sweep
from cudnn_sweep.orchestrator.terminal.summary import print_summary
from tests.fake_machine import FakeEffect, FakeMachine, FakeNoise, FakeScript
from tests.orchestrator.typed import sweep

CONFIGS = [
    "{}",
    "{benchmark: true}",
    "{deterministic: true}",
    "{benchmark: true, deterministic: true}",
]
FILE = """
metadata:
  sweep:
    replicates: {{until: best, at_most: 8}}
    configs: [{configs}]
    cells: [{{workload: conv, problem: [tutorials/rgb224, tutorials/rgb256], precision: tf32}}]
"""
BEST_NAME = "benchmark=true deterministic=true"
SLOW_NAME = "benchmark=false deterministic=true"
BEST = {"benchmark": "true", "deterministic": "true"}
SLOW = {"deterministic": "true", "benchmark": "false"}


@pytest.fixture(scope="module")
def machine() -> FakeMachine:
    """Both settings together are the best by some percent in noise; one config is 3 times slower."""
    script = FakeScript(
        noise=FakeNoise(night=0.0, process=0.01),
        effects=[FakeEffect(where=BEST, time=0.97), FakeEffect(where=SLOW, time=3)],
    )
    return FakeMachine(script=script, night=date(2026, 1, 1))


@pytest.fixture
def options(tmp_path: Path) -> LaunchOptions:
    return of_configs(tmp_path, CONFIGS)


def of_configs(folder: Path, configs: list[str]) -> LaunchOptions:
    file = folder / "cluster.yaml"
    file.write_text(FILE.format(configs=", ".join(configs)))
    return LaunchOptions(file=file, results=str(folder / "results"), sweep_id="race")


def planned(options: LaunchOptions, machine: FakeMachine) -> Planned:
    assert options.file is not None
    return plan_sweep(request_of(read_launch_file(options.file, SweepSpec), options), machine)


def run(options: LaunchOptions, machine: FakeMachine) -> Ran:
    return run_sweep(planned(options, machine), machine, Console(quiet=True))


@pytest.fixture(scope="module")
def raced(machine: FakeMachine, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """A race of all configs, to its end."""
    return run(of_configs(tmp_path_factory.mktemp("raced"), CONFIGS), machine)


def blocks_by_config(store: Store, status: str) -> Counter[tuple[str, str]]:
    with open_database(store, "race") as database:
        rows = database.query(
            f"select cell_id, settings from records where status = '{status}' and twin = 0"
        ).to_pylist()
    return Counter((row["cell_id"], row["settings"]) for row in rows)


@pytest.mark.slow
def test_a_race_finds_the_best_and_slower_configs_get_no_further_block(raced: Ran) -> None:
    assert raced.exit_code == 0
    states = RaceState.of(raced.store, "race")
    assert {state.best for state in states} == {BEST_NAME}
    assert {state.state for state in states} <= {"raced_out", "not_faster"}
    assert len(states) == 6, "a row a cell and other config"
    measured, out = blocks_by_config(raced.store, "ok"), blocks_by_config(raced.store, "raced_out")
    for cell_id in {cell_id for cell_id, _ in measured}:
        most = measured[cell_id, BEST_NAME]
        assert most > 2, "the race goes on between configs that are close"
        assert measured[cell_id, SLOW_NAME] == 2
        assert out[cell_id, SLOW_NAME] == most - 2
    with open_database(raced.store, "race") as database:
        coverage, failures = (
            database.query(load_query(name).sql, {"sweep_id": "race"}).to_pylist()
            for name in ("coverage", "failures")
        )
    assert [(row["missing"], row["failed"]) for row in coverage] == [(0, 0), (0, 0)]
    assert failures == []


@pytest.mark.slow
def test_the_summary_names_the_fastest_and_the_next_question(
    raced: Ran, options: LaunchOptions
) -> None:
    console = Console(width=200)
    with console.capture() as capture:
        print_summary(console, raced, str(options.results), options)
    text = capture.get()
    assert text.count("Fastest in ") == 2
    assert f": {BEST_NAME}, " in text
    assert "sweep query race" in text
    assert "The worker died in" not in text


@pytest.mark.long
@pytest.mark.parametrize(
    ("fails", "is_best", "state"),
    [
        pytest.param([{**BEST, "replicate": "0"}], True, None, marks=pytest.mark.long),
        pytest.param([SLOW], True, "raced_out", marks=pytest.mark.long),
        ([BEST], False, "raced_out"),
    ],
    ids=["the best fails once", "a slow one fails each time", "the best fails each time"],
)
def test_a_config_that_fails_each_time_is_out_and_one_failure_costs_no_place(
    options: LaunchOptions,
    machine: FakeMachine,
    fails: list[dict[str, str]],
    is_best: bool,
    state: str | None,
) -> None:
    effects = [FakeEffect(where=where, status="timeout") for where in fails]
    script = machine.script.model_copy(update={"effects": [*machine.script.effects, *effects]})
    ran = run(options, replace(machine, script=script))
    assert ran.is_complete
    states = RaceState.of(ran.store, "race")
    assert ({each.best for each in states} == {BEST_NAME}) == is_best
    failing = SLOW_NAME if fails == [SLOW] else BEST_NAME
    assert {each.state for each in states if each.other == failing} == {state} - {None}


@pytest.mark.long
def test_a_race_in_which_every_config_fails_ends(
    options: LaunchOptions, machine: FakeMachine
) -> None:
    effects = [FakeEffect(where={}, status="out_of_memory")]
    script = machine.script.model_copy(update={"effects": effects})
    ran = run(options, replace(machine, script=script))
    assert ran.is_complete
    assert ran.exit_code == ExitCode.DOES_NOT_RUN


@pytest.mark.long
def test_a_cut_race_goes_on_as_if_it_had_not_been_cut(
    raced: Ran, options: LaunchOptions, machine: FakeMachine, tmp_path: Path
) -> None:
    """The second launch knows from the rows which configs are out."""
    apart = replace(options, results=str(tmp_path / "cut"), minutes=0.9)
    cut = run(apart, machine)
    assert cut.exit_code == ExitCode.UNFINISHED
    resumed = run(replace(apart, minutes=None), machine)
    assert resumed.exit_code == 0
    assert statuses(resumed) == statuses(raced)


def statuses(ran: Ran) -> dict[str, str]:
    return {trial.trial_id: trial.status for trial in ran.stored}


def test_a_race_needs_two_configs(tmp_path: Path, machine: FakeMachine) -> None:
    with pytest.raises(SpecError, match="would decide nothing: found one config"):
        planned(of_configs(tmp_path, CONFIGS[:1]), machine)


def test_a_race_is_another_plan_than_a_sweep_of_verdicts(
    options: LaunchOptions, machine: FakeMachine
) -> None:
    race = planned(options, machine).whole
    assert race.plan_hash != replace(race, is_race=False).plan_hash


SLEEPS = """
import time
import torch

def step(x: torch.Tensor):
    time.sleep(0.02 if torch.backends.cudnn.benchmark else 0.002)
    return x.sum()
"""
SUITE = """
replicates: {until: best, at_most: 5}
configs: [{}, {benchmark: true}, {deterministic: true}]
measure: {steady_budget_s: 0.2, warmup_s: 0.05, reference_replicates: 0, logged_replicates: 0}
cells: [{workload: "sleeps.py:step", input: 1x3x8x8}]
"""


@pytest.mark.long
def test_a_launch_runs_a_slow_config_no_further(tmp_path: Path) -> None:
    """On a CPU, with a step that sleeps longer if benchmark is on."""
    (tmp_path / "sleeps.py").write_text(SLEEPS)
    (tmp_path / "race.yaml").write_text(SUITE)
    launched = sweep("launch", "race.yaml", "--results", "r", "--sweep-id", "race", here=tmp_path)
    assert launched.returncode in (ExitCode.FINE, ExitCode.UNFINISHED), launched.stderr
    assert "Fastest" in launched.stdout
    store = open_store(str(tmp_path / "r"))
    measured, out = blocks_by_config(store, "ok"), blocks_by_config(store, "raced_out")
    by_name = {name: blocks for (_, name), blocks in measured.items()}
    assert by_name["benchmark=true"] == 2
    assert by_name["benchmark=false"] == by_name["benchmark=false deterministic=true"]
    assert sum(out.values()) == by_name["benchmark=false"] - 2
