"""How many blocks a cell has where nobody says: until decided, or a fixed number where that decides nothing."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from cudnn_sweep.cluster.launch_file import read_launch_file
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.nightly.fake.machine import FakeMachine
from cudnn_sweep.orchestrator.nightly.fake.script import FakeScript
from cudnn_sweep.orchestrator.nightly.request import NightOptions, read_asked
from cudnn_sweep.orchestrator.planning.options import LaunchOptions
from cudnn_sweep.orchestrator.planning.plan import Plan
from cudnn_sweep.orchestrator.planning.request import request_of
from cudnn_sweep.orchestrator.planning.spec import SweepSpec, load_suite
from cudnn_sweep.orchestrator.running.run_sweep import plan_of, plan_sweep
from cudnn_sweep.workloads.cells.suite import BY_DEFAULT, SuiteSpec
from tests.makers import Look

MACHINE = FakeMachine(script=FakeScript(), night=date(2026, 1, 1))
FILE = """
metadata:
  sweep:
    cells: [{workload: conv, problem: [tutorials/rgb224, tutorials/rgb256]}]
"""
QUIET = Console(quiet=True)


@pytest.fixture
def options(tmp_path: Path) -> LaunchOptions:
    file = tmp_path / "cluster.yaml"
    file.write_text(FILE)
    return LaunchOptions(file=file, results=str(tmp_path / "results"))


def planned(options: LaunchOptions, **change: Any) -> Plan:
    """What a launch runs on a GPU."""
    options = replace(options, **change)
    assert options.file is not None
    request = request_of(read_launch_file(options.file, SweepSpec), options)
    return plan_sweep(request, MACHINE).chosen


def blocks(plan: Plan) -> set[int]:
    """How many each cell has."""
    found = {(trial.cell.cell_id, trial.replicate) for trial in plan.trials}
    return set(Counter(cell_id for cell_id, _ in found).values())


def test_a_launch_goes_on_until_each_cell_is_decided(options: LaunchOptions) -> None:
    plan = planned(options)
    assert plan.looks == BY_DEFAULT.looks and blocks(plan) == {BY_DEFAULT.at_most}
    assert planned(options, suite="quick").looks == BY_DEFAULT.looks, "nor does the default suite"
    fixed = planned(options, replicates="4")
    assert not fixed.looks and blocks(fixed) == {4}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"only": ("benchmark=true",)}, {5}),
        ({"only": ("benchmark=true", "replicate=7")}, {1}),
        ({"only": ("problem=tutorials/rgb224",)}, {BY_DEFAULT.at_most}),
    ],
)
def test_a_part_of_a_cell_has_a_fixed_number(
    options: LaunchOptions, change: Mapping[str, Any], expected: set[int]
) -> None:
    plan = planned(options, **change)
    assert blocks(plan) == expected
    assert bool(plan.looks) == (expected == {BY_DEFAULT.at_most})


def test_configs_of_which_no_two_compare_have_a_fixed_number(options: LaunchOptions) -> None:
    assert options.file is not None
    options.file.write_text(FILE + "    configs: [{benchmark: true}]\n")
    plan = planned(options)
    assert not plan.looks and blocks(plan) == {5}
    options.file.write_text(
        FILE + "    configs: [{benchmark: true}]\n    replicates: {until: decided}\n"
    )
    with pytest.raises(SpecError, match="nothing would be decided; give a number"):
        planned(options)


def test_without_a_gpu_two_blocks_suffice(look: Look) -> None:
    suite = SuiteSpec.model_validate({"cells": [{"workload": "noop"}]})
    for asked in (suite, load_suite("quick")):
        plan = plan_of("suite", asked, look(asked))
        assert not plan.looks and blocks(plan) == {2}
    said = suite.model_copy(update={"replicates": 3})
    assert blocks(plan_of("suite", said, look(said))) == {3}


def test_each_night_has_as_many_blocks(options: LaunchOptions, tmp_path: Path) -> None:
    assert options.file is not None
    script = tmp_path / "script.yaml"
    script.write_text("seed: 1\n")
    night = NightOptions(file=options.file, night=date(2026, 1, 1), fake=script)
    own = tmp_path / "own.yaml"
    for said, expected in (("", {5}), ("replicates: 3\n", {3})):
        own.write_text(f"cells: [{{workload: noop}}]\n{said}")
        request = read_asked(replace(night, suite=str(own)), {}, QUIET).request
        plan = plan_sweep(request, MACHINE).chosen
        assert not plan.looks and blocks(plan) == expected
