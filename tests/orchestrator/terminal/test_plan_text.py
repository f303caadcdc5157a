"""What is printed of a plan before it runs."""

import io
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from cudnn_sweep.orchestrator.planning.options import LaunchOptions
from cudnn_sweep.orchestrator.planning.plan import Plan
from cudnn_sweep.orchestrator.terminal.plan_text import print_part
from cudnn_sweep.workloads.cells.config import Config
from tests.makers import MakePlan


def printed(plan: Plan, *, slots: int | None = 1, gpu: bool = False, **options: Any) -> str:
    out = io.StringIO()
    print_part(Console(file=out, width=200), plan, LaunchOptions(**options), slots, gpu=gpu)
    return " ".join(out.getvalue().split())


def test_a_plan_is_counted_with_its_contrasts_and_its_time(plan_of: MakePlan) -> None:
    plan = plan_of("noop", replicates=3)
    text = printed(plan)
    assert "7 trials: 1 cell × 2 configs in 3 blocks, 1 of them with an A/A pair" in text
    assert "contrasts: benchmark: false → true." in text
    minutes = plan.estimated_s(1, gpu=False) / 60
    assert f"On 1 × {plan.trials[0].cell.gpu}, about {minutes:.2g} minutes" in text
    assert "examined after" not in text
    assert "Shard" not in text
    alone = plan_of("noop", configs=(Config(),))
    assert "contrasts: none." in printed(alone)


def test_without_known_slots_the_time_is_that_of_gpus(plan_of: MakePlan) -> None:
    plan = plan_of("noop")
    text = printed(plan, slots=None)
    assert "GPU minutes." in text
    assert f"On {plan.trials[0].cell.gpu}, about " in text


def test_a_plan_until_decided_has_a_least_and_a_most(plan_of: MakePlan) -> None:
    plan = replace(plan_of("noop", replicates=5), looks=(3, 5))
    text = printed(plan)
    assert "Each cell is examined after 3, 5 blocks. A decided cell gets no more blocks." in text
    assert " to " in text.partition("about ")[2].partition(" minutes")[0]
    assert "Contrasts that decide a cell" not in text
    named = replace(plan, decided_by=("benchmark",))
    assert "Contrasts that decide a cell: benchmark: false → true." in printed(named)


@pytest.mark.parametrize("shard", ["1/2", "2/2"])
def test_a_shard_is_named_with_the_whole_plan(plan_of: MakePlan, shard: str) -> None:
    text = printed(plan_of("noop", replicates=3), shard=shard, sweep_id="s")
    assert f"Shard {shard} of all 7 trials." in text
