"""The plan by which a night measures its candidates again: which cells and configs, in which order."""

from collections import Counter
from dataclasses import replace

import pytest

from cudnn_sweep.analysis.nights.candidates import Candidate
from cudnn_sweep.analysis.nights.series import Screening, Series
from cudnn_sweep.orchestrator.nightly.night import (
    Suspect,
    confirmation_plan,
    suite_again,
    suspects_of,
)
from cudnn_sweep.orchestrator.planning.plan import LAST_GOOD, OWN_SOFTWARE, Plan
from cudnn_sweep.workloads.cells.config import Config
from cudnn_sweep.workloads.cells.suite import CellAxes, SuiteSpec
from tests.made_up_night import key_of

SUITE = SuiteSpec(cells=[CellAxes(workload="conv2d")], new_compute_caches=2)


def candidate(metric: str, **named: str) -> Candidate:
    return Candidate(
        series=Series(key=key_of(metric, **named), points=()),
        direction="worse",
        since=1,
        screening=Screening(state="worse", nights=8),
        is_seen=True,
        earlier=None,
        left_out=frozenset(),
    )


@pytest.fixture
def suspects(plan: Plan) -> list[Suspect]:
    cell = plan.trials[0].cell
    slower = replace(cell, precision="fp16")
    return [(cell, [Config(), Config(benchmark=True)]), (slower, [Config()])]


def test_each_block_has_each_config_under_each_software(suspects: list[Suspect]) -> None:
    plan = confirmation_plan("again", SUITE, suspects, blocks=4)
    assert [trial.position for trial in plan.trials] == list(range(24))
    blocks = list(plan.blocks())
    assert [block for block, _ in blocks] == list(range(8))
    for block, trials in blocks:
        assert {trial.replicate for trial in trials} == {block // 2}
        assert {trial.cache_generation for trial in trials} == {min(block // 2, 1)}
        (cell_id,) = {trial.cell.cell_id for trial in trials}
        configs = next(configs for cell, configs in suspects if cell.cell_id == cell_id)
        run = Counter((trial.config, trial.software) for trial in trials)
        assert run == {
            (config, name): 1 for config in configs for name in (OWN_SOFTWARE, LAST_GOOD)
        }
    firsts = Counter((trials[0].cell.cell_id, trials[0].software) for _, trials in blocks)
    assert set(firsts.values()) == {2}, "each software comes first equally often"


def test_a_longer_plan_begins_with_the_shorter_one(suspects: list[Suspect]) -> None:
    short = confirmation_plan("again", SUITE, suspects, blocks=2, softwares=[OWN_SOFTWARE])
    long = confirmation_plan("again", SUITE, suspects, blocks=3, softwares=[OWN_SOFTWARE])
    assert long.trials[: len(short.trials)] == short.trials and len(long.trials) == 9


def test_only_suspect_configs_are_measured_again(plan: Plan) -> None:
    """Of a cell that is missing, or of a contrast, every config."""
    cell_id = plan.trials[0].cell.cell_id
    names = {"benchmark=false": Config(), "benchmark=true": Config(benchmark=True)}
    assert set(plan.configs()) >= set(names.values())
    for name, config in names.items():
        found = suspects_of([candidate("steady_wall", cell_id=cell_id, settings=name)], plan)
        assert [(cell.cell_id, configs) for cell, configs in found] == [(cell_id, [config])]
    for metric in ("missing", "sign"):
        ((cell, configs),) = suspects_of([candidate(metric, cell_id=cell_id)], plan)
        assert cell.cell_id == cell_id and set(configs) == set(plan.configs())
    assert suspects_of([candidate("steady_wall", cell_id="gone")], plan) == []


def test_references_logs_and_caches_are_made_only_for_what_needs_them() -> None:
    def again(metric: str) -> tuple[int, int, int]:
        suite = suite_again(SUITE, [candidate(metric)], 48)
        measure = suite.measure
        return measure.reference_replicates, measure.logged_replicates, suite.new_compute_caches

    assert again("steady_wall") == (0, 0, 2)
    assert again("error") == (48, 0, 2)
    assert again("engine") == (0, 48, 2)
    assert again("cold_empty") == (0, 0, 48)
