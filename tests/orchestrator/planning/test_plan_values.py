"""What a plan runs first, how long it takes, and which models are called before it, of cells that nothing imports."""

from dataclasses import replace
from typing import Any

import pytest

from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.planning.plan import (
    COMPILE_S,
    NETWORK_S,
    OVERHEAD_S,
    START_S,
    Plan,
    Shard,
    balanced,
    first_calls,
    narrow,
    read_shard,
)
from cudnn_sweep.workloads.cells.config import Config
from cudnn_sweep.workloads.cells.measurement import MeasureSpec
from cudnn_sweep.workloads.cells.suite import UntilDecided
from tests.orchestrator.made_plan import made_plan

ON, OFF, COMPILED = Config(benchmark=True), Config(), Config(execution="compile")
MEASURE = MeasureSpec(
    warmup_s=1.0,
    steady_budget_s=4.0,
    device_budget_s=2.0,
    open_budget_s=30.0,
    logged_replicates=1,
    calibrate=False,
)


def without_twins(plan: Plan) -> Plan:
    return replace(plan, trials=tuple(trial for trial in plan.trials if not trial.twin))


@pytest.mark.parametrize(
    ("axes", "configs", "replicates", "slots", "gpu", "seconds"),
    [
        ({}, [OFF], 1, 1, False, 5 + OVERHEAD_S),
        ({}, [OFF], 3, 1, False, 3 * (5 + OVERHEAD_S)),
        ({}, [OFF], 1, 1, True, 8 + 2 * OVERHEAD_S),
        ({}, [OFF], 3, 1, True, 3 * 8 + 4 * OVERHEAD_S),
        ({}, [OFF, ON], 1, 2, True, 8 + 2 * OVERHEAD_S),
        ({"regime": "fresh"}, [OFF], 1, 1, True, 15 + 2 * OVERHEAD_S),
        ({"input": "8x3x16x16"}, [OFF], 1, 1, True, 8 + 2 * NETWORK_S),
        ({"input": "8x3x16x16"}, [OFF], 1, 1, False, 5 + OVERHEAD_S),
        ({"input": "8x3x16x16"}, [COMPILED], 1, 1, False, 5 + OVERHEAD_S + COMPILE_S),
    ],
)
def test_an_estimate_adds_up_what_each_trial_takes(
    axes: dict[str, Any],
    configs: list[Config],
    replicates: int,
    slots: int,
    gpu: bool,
    seconds: float,
) -> None:
    suite = {"replicates": replicates, "measure": MEASURE, "twin_every": 20}
    plan = made_plan("nets:Net" if axes else "noop", configs=configs, suite=suite, **axes)
    plan = without_twins(plan)
    assert plan.estimated_s(slots, gpu=gpu) == pytest.approx(START_S + seconds)
    if gpu and not axes:
        spared = replace(plan, measure=MEASURE.model_copy(update={"device_budget_s": 0.0}))
        assert plan.estimated_s(1, gpu=True) - spared.estimated_s(1, gpu=True) == pytest.approx(
            3.0 * len(plan.trials)
        )


def test_a_plan_cell_by_cell_begins_with_the_first_look_of_what_lacks_least() -> None:
    suite = {"replicates": UntilDecided(until="decided", at_most=8), "twin_every": 20}
    plan = without_twins(made_plan(configs=[OFF, ON], suite=suite, batch=[1, 2, 3]))
    first = plan.looks[0]
    ids = sorted(plan.cell_ids())
    begun = replace(
        plan,
        trials=tuple(
            trial
            for trial in plan.trials
            if trial.cell.cell_id != ids[2] or trial.replicate >= first - 1
        ),
    )
    found = begun.cell_by_cell().trials
    assert sorted(trial.trial_id for trial in found) == sorted(t.trial_id for t in begun.trials)
    ahead = [trial for trial in found if trial.replicate < first]
    assert list(found[: len(ahead)]) == ahead
    order = list(dict.fromkeys(trial.cell.cell_id for trial in ahead))
    assert order == [ids[2], ids[0], ids[1]]
    cells = [trial.cell.cell_id for trial in ahead]
    assert cells == sorted(cells, key=order.index), "cell after cell"
    rest = [trial.replicate for trial in found[len(ahead) :]]
    assert min(rest) == first and rest == sorted(rest)
    later = replace(plan, trials=tuple(t for t in plan.trials if t.replicate > first))
    assert later.cell_by_cell() == later


@pytest.mark.parametrize(
    ("workload", "model", "called"),
    [
        ("nets:Net", {}, True),
        ("nets:Net", {"expect": {"parameters": 3}}, True),
        ("torchvision.models:resnet18", {}, None),
        ("resnet50", {"expect": {"parameters": 3}}, True),
        ("noop", None, False),
    ],
)
def test_each_model_of_a_user_is_called_once_before_the_plan(
    workload: str, model: dict[str, Any] | None, called: bool | None
) -> None:
    axes: dict[str, Any] = {} if model is None else {"input": "8x3x16x16", "model": model}
    plan = made_plan(workload, configs=[OFF, ON], suite={"replicates": 2}, **axes)
    calls = first_calls(plan)
    if called is not None:
        assert len(calls) == called
    for call in calls:
        assert (call.config, call.seed) == (Config(), plan.trials[0].seed)
        assert call.cell in [trial.cell for trial in plan.trials]
    if model is not None:
        cells = [
            replace(trial.cell, workload="cudnn_sweep.workloads.models.own:Net")
            for trial in plan.trials
        ]
        bundled = replace(
            plan,
            trials=tuple(
                replace(trial, cell=cell) for trial, cell in zip(plan.trials, cells, strict=True)
            ),
        )
        assert len(first_calls(bundled)) == ("expect" in model)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_each_of_two_members_precedes_the_other_in_half_of_the_blocks(size: int) -> None:
    members = list(range(size))
    blocks = [balanced(members, number) for number in range(2 * size)]
    assert all(sorted(block) == members for block in blocks)
    for one in members:
        assert sum(block[0] == one for block in blocks) == 2
        for other in members[:one]:
            assert sum(block.index(one) < block.index(other) for block in blocks) == size


def test_every_few_blocks_one_config_runs_twice_and_by_turns_before_and_after() -> None:
    suite = {"replicates": 8, "twin_every": 2}
    plan = made_plan(configs=[OFF, ON], suite=suite)
    leads = []
    for block, trials in plan.blocks():
        twins = [trial for trial in trials if trial.twin]
        assert len(twins) == (block % 2 == 0)
        for twin in twins:
            pair = [trial.twin for trial in trials if trial.config == twin.config]
            assert sorted(pair) == [0, 1] and twin.config == OFF
            leads.append(pair[0])
    assert leads in ([0, 1, 0, 1], [1, 0, 1, 0])
    assert [trial.position for trial in plan.trials] == list(range(len(plan.trials)))


@pytest.mark.parametrize(
    ("caches", "generations"), [(1, [0, 0, 0]), (2, [0, 1, 1]), (3, [0, 1, 2]), (9, [0, 1, 2])]
)
def test_the_first_blocks_have_compute_caches_of_their_own(
    caches: int, generations: list[int]
) -> None:
    plan = made_plan(suite={"replicates": 3, "new_compute_caches": caches, "twin_every": 20})
    assert [t.cache_generation for t in plan.trials if not t.twin] == generations


@pytest.mark.parametrize(
    ("text", "shard"),
    [
        ("1/1", (1, 1)),
        ("2/4", (2, 4)),
        ("4/4", (4, 4)),
        ("0/4", None),
        ("5/4", None),
        ("0/0", None),
        ("2", None),
        ("2/4/6", None),
    ],
)
def test_a_shard_is_one_of_several(text: str, shard: tuple[int, int] | None) -> None:
    if shard is None:
        with pytest.raises(SpecError, match=f"found {text!r}, allowed: I/N"):
            read_shard(text)
    else:
        found = read_shard(text)
        assert (found.number, found.of, str(found)) == (*shard, text)


@pytest.mark.parametrize("until", [False, True])
def test_shards_share_out_blocks_or_with_looks_whole_cells(until: bool) -> None:
    replicates = UntilDecided(until="decided", at_most=8) if until else 2
    plan = made_plan(configs=[OFF, ON], suite={"replicates": replicates}, batch=[1, 2, 3])
    parts = [Shard(number=number, of=3).part(plan) for number in (1, 2, 3)]
    trials = [trial for part in parts for trial in part.trials]
    assert sorted(t.trial_id for t in trials) == sorted(t.trial_id for t in plan.trials)
    for part in parts:
        blocks = [list(of) for _, of in part.blocks()]
        assert all(
            len(of) == len([t for t in plan.trials if t.block == of[0].block]) for of in blocks
        )
        assert len(part.cell_ids()) == 1 or not until
    count, kind = (3, "cells") if until else (6, "blocks")
    with pytest.raises(SpecError, match=f"--shard {count + 1}/9: the plan has only {count} {kind}"):
        Shard(number=count + 1, of=9).part(plan)


def test_only_narrows_by_each_field_and_names_what_there_is() -> None:
    plan = made_plan(configs=[OFF, ON], batch=[1, 2])
    kept = narrow(plan, [("benchmark", "TRUE"), ("twin", "0")])
    assert {(trial.config, trial.twin) for trial in kept.trials} == {(ON, 0)}
    with pytest.raises(SpecError, match="unknown field 'benchmak' .did you mean benchmark"):
        narrow(plan, [("benchmak", "true")])
    with pytest.raises(SpecError, match="--only software=x matches no trial; found: ''$"):
        narrow(plan, [("software", "x")])
