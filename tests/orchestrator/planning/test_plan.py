"""The plan is a value: the same for the same content, in blocks, with A/A pairs; its shards are parts that clusters agree on."""

import asyncio
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest
from pydantic import ValidationError

from cudnn_sweep.analysis.engine.database import open_database
from cudnn_sweep.analysis.engine.queries import load_query
from cudnn_sweep.analysis.store.store import open_store
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.planning.decided import contrasts_in, contrasts_of, deciding_in
from cudnn_sweep.orchestrator.planning.options import LaunchOptions
from cudnn_sweep.orchestrator.planning.plan import (
    COMPILE_S,
    Plan,
    Shard,
    make_plan,
    narrow,
    read_shard,
)
from cudnn_sweep.orchestrator.planning.request import SweepRequest
from cudnn_sweep.orchestrator.planning.session import session_of
from cudnn_sweep.orchestrator.planning.spec import load_suite
from cudnn_sweep.orchestrator.recording.recorder import Recorder
from cudnn_sweep.orchestrator.running.run_sweep import plan_of as planned_with_executions
from cudnn_sweep.orchestrator.running.run_sweep import planned_on
from cudnn_sweep.workloads.cells.config import Config
from cudnn_sweep.workloads.cells.expand import expand_cells
from cudnn_sweep.workloads.cells.suite import CellAxes, SuiteSpec
from tests.makers import Look, MakePlan, RecordOf
from tests.workloads.made_up_cells import MODEL


def planned(name: str, look: Look) -> Plan:
    suite = load_suite(name)
    cells = expand_cells(suite, look(suite).workloads, device="cpu", gpu="some model")
    return make_plan(name, suite, cells)


def test_suite_of_regimes_has_them_all(look: Look) -> None:
    from cudnn_sweep.workloads.find_regime import regime_types

    trials = planned("regimes", look).trials
    assert {trial.cell.regime for trial in trials} == set(regime_types()), (
        "what does not suit the suite's problem by its defaults needs parameters in regimes.yaml"
    )


def _orders(plan: Plan) -> dict[str, list[list[tuple[Config, int]]]]:
    """Of each cell its blocks' configs in order, and which of an A/A pair each is."""
    found: dict[str, list[list[tuple[Config, int]]]] = {}
    for _, trials in plan.blocks():
        placed = [(trial.config, trial.twin) for trial in trials]
        found.setdefault(trials[0].cell.cell_id, []).append(placed)
    return found


def test_over_an_even_number_of_blocks_each_of_two_configs_comes_first_equally_often(
    plan_of: MakePlan,
) -> None:
    configs = Config(), Config(benchmark=True)
    plan = plan_of("noop", replicates=6, configs=configs, batch=list(range(1, 9)))
    orders = _orders(plan)
    for blocks in orders.values():
        leads = [next(config for config, twin in placed if not twin) for placed in blocks]
        assert leads[0::2] == [leads[0]] * 3 and leads[1::2] == [leads[1]] * 3
        assert leads[0] != leads[1]
    assert len({blocks[0][0] for blocks in orders.values()}) > 1, "the start is drawn"


@pytest.mark.parametrize("count", [3, 4, 5])
def test_of_more_configs_each_comes_first_and_before_each_other_equally_often(
    plan_of: MakePlan, count: int
) -> None:
    configs = tuple(Config(benchmark_limit=limit) for limit in range(count))
    (blocks,) = _orders(plan_of("noop", replicates=2 * count, configs=configs)).values()
    plain = [[config for config, twin in placed if not twin] for placed in blocks]
    assert set(Counter(placed[0] for placed in plain).values()) == {2}
    before = Counter((one, other) for placed in plain for one, other in combinations(placed, 2))
    assert set(before.values()) == {count}


def test_only_narrows_by_field_and_value(plan_of: MakePlan) -> None:
    plan = plan_of("noop", replicates=3)
    narrowed = narrow(plan, [("benchmark", "True"), ("replicate", "2")])
    assert [(t.config, t.replicate) for t in narrowed.trials] == [(Config(benchmark=True), 2)]
    assert narrowed.plan_hash != plan.plan_hash
    model = "cudnn_sweep.workloads.nets.unet:UNet"
    capitals = plan_of(model, input="1x1x32x32")
    assert narrow(capitals, [("workload", model)]).trials == capitals.trials
    assert narrow(capitals, [("workload", "nets.unet:UNet")]).trials == capitals.trials


def test_an_estimate_of_blocks_until_decided_begins_with_the_first_look(plan_of: MakePlan) -> None:
    fixed = plan_of("noop", replicates=5)
    assert {trial.replicate for trial in fixed.first_look().trials} == {0, 1}
    first = replace(fixed, looks=(3, 5)).first_look()
    assert {trial.replicate for trial in first.trials} == {0, 1, 2}
    assert first.estimated_s(1, gpu=True) < fixed.estimated_s(1, gpu=True)


OFF, ON = Config(), Config(benchmark=True)
ALL_PLANS = Config(benchmark=True, benchmark_limit=0)
FEW, MANY = Config(plan_cache_limit=1), Config(plan_cache_limit=100)


@pytest.mark.parametrize(
    ("configs", "compared"),
    [
        ((OFF, ON), ["benchmark: false → true"]),
        ((ON, OFF), ["benchmark: false → true"]),
        ((OFF, ON, ALL_PLANS), ["benchmark: false → true", "benchmark_limit: 10 → 0"]),
        ((FEW, MANY), ["plan_cache_limit: 1 → 100"]),
        ((OFF, FEW), ["plan_cache_limit: null → 1"]),
    ],
)
def test_configs_that_differ_in_one_field_are_compared_with_the_default_or_the_first(
    configs: tuple[Config, ...], compared: list[str]
) -> None:
    assert [str(contrast) for contrast in contrasts_of(configs)] == compared


LAID_OUT = tuple(Config(layout=layout) for layout in ("contiguous", "weights", "channels_last"))


def test_a_config_with_the_layout_of_its_cell_is_the_plain_one(plan_of: MakePlan) -> None:
    """So each cell's own layout is the baseline, and a plan without such settings keeps its ids."""
    plan = plan_of("noop", configs=(*LAID_OUT, Config()), layout=["contiguous", "channels_last"])
    found: dict[str, set[Config]] = {}
    for trial in plan.trials:
        found.setdefault(trial.cell.layout, set()).add(trial.config)
    assert found["contiguous"] == {Config(), *LAID_OUT[1:]}
    assert found["channels_last"] == {Config(), *LAID_OUT[:2]}
    (trial,) = narrow(plan_of("noop", configs=LAID_OUT), [("config_layout", "weights")]).trials
    assert (trial.cell.layout, trial.config.layout) == ("contiguous", "weights")
    assert narrow(plan, [("layout", "contiguous")]).cell_ids() < plan.cell_ids()


@pytest.mark.parametrize(
    ("named", "deciding"),
    [
        (["layout=weights"], ["layout: null → weights"]),
        (["benchmark"], ["benchmark: false → true"]),
        (["layout=channels_last", "benchmark"], 2),
        ([], 4),
    ],
)
def test_a_suite_names_the_contrasts_that_decide_a_cell(
    plan_of: MakePlan, named: list[str], deciding: list[str] | int
) -> None:
    configs = [replace(each, benchmark=on) for each in LAID_OUT for on in (False, True)]
    whole = plan_of("noop", configs=tuple(configs))
    plan = replace(whole, decided_by=tuple(named))
    found = [str(contrast) for contrast in deciding_in(plan)]
    assert (found if isinstance(deciding, list) else len(found)) == deciding
    assert (plan.plan_hash == whole.plan_hash) == (not named)
    assert len(contrasts_in(plan)) == 4, "all of them are shown"


def test_a_suite_names_no_contrast_of_an_unknown_setting() -> None:
    cells = [CellAxes(workload="noop")]
    with pytest.raises(ValidationError, match="found 'speed', allowed: SETTING or SETTING=VALUE"):
        SuiteSpec(cells=cells, decided_by=["speed"])


def test_a_suites_contrasts_are_those_of_its_cells_too(plan_of: MakePlan) -> None:
    """A night judges by the suite's, before it has a plan."""
    suite = SuiteSpec(cells=[CellAxes(workload="noop")], configs=[*LAID_OUT])
    plan = plan_of("noop", configs=LAID_OUT, layout=["contiguous", "weights"])
    of_cells = {each for each in contrasts_in(plan) if each.baseline == "null"}
    assert len(of_cells) == 3 and of_cells <= set(contrasts_of(suite.every_config))


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


@pytest.mark.slow
def test_recorders_of_two_shards_share_a_sweep_and_compact_it_at_once(
    tmp_path: Path, plan_of: MakePlan, record_of: RecordOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each makes parts of whatever lies there, the other's records too."""
    monkeypatch.setattr("cudnn_sweep.analysis.store.store.MANY_PARTS", 3)
    monkeypatch.setattr("cudnn_sweep.analysis.store.store.COMPACT_EVERY", 3)
    plan = plan_of("noop", replicates=14)
    session = session_of(plan, "shared", tmp_path)

    def run(shard: Shard) -> None:
        recorder, own = Recorder(str(tmp_path)), replace(session, shard=shard)
        for trial in shard.part(plan).trials:
            assert asyncio.run(recorder.record(record_of(own, trial)))
        asyncio.run(recorder.finish("shared", []))

    with ThreadPoolExecutor() as pool:
        for done in [pool.submit(run, read_shard(text)) for text in ("1/2", "2/2")]:
            done.result()
    with open_database(open_store(str(tmp_path))) as database:
        rows = database.query("select trial_id, shards from records").to_pylist()
        (sweep,) = database.query(load_query("sweeps").sql).to_pylist()
    assert sorted(row["trial_id"] for row in rows) == sorted(t.trial_id for t in plan.trials)
    assert (sweep["finished"], sweep["shards"]) == (True, "1/2, 2/2")


def test_an_execution_that_this_machine_lacks_is_refused_before_anything_runs(look: Look) -> None:
    suite = SuiteSpec(
        cells=[CellAxes(workload="mnist")],
        configs=[Config(), Config(execution="cuda_graph")],
        replicates=1,
    )
    told = "suite mine: execution cuda_graph needs a GPU; allowed without a GPU: eager, compile"
    with pytest.raises(SpecError, match=told):
        planned_with_executions("mine", suite, look(suite))
    compiled = suite.model_copy(update={"configs": [Config(), Config(execution="compile")]})
    machine = replace(look(suite), compiler=None)
    with pytest.raises(SpecError, match="execution compile needs a C.. compiler"):
        planned_with_executions("mine", compiled, machine)


def test_a_sweep_runs_trials_on_one_gpu_before_those_on_two(
    plan_of: MakePlan, tmp_path: Path
) -> None:
    net = "cudnn_sweep.workloads.nets.patch_embedding:PatchEmbedding"
    plan = plan_of(net, input="8x3x2x14x14", ranks=[2, 1], replicates=2)
    one, two = session_of(plan, "ranks", tmp_path).by_ranks()
    assert {trial.cell.ranks for trial in one.plan.trials} == {"1_rank"}
    assert {trial.cell.ranks for trial in two.plan.trials} == {"2_ranks"}
    parts = [*one.plan.trials, *two.plan.trials]
    assert sorted(parts, key=lambda trial: trial.position) == [*plan.trials]
    slots = plan.estimated_s(1, gpu=True) - plan.estimated_s(2, gpu=True)
    own = [part.plan.estimated_s(1, gpu=True) for part in (one, two)]
    assert own[1] > own[0] and slots > 0, "a trial on two GPUs keeps two busy"


def test_a_plan_knows_that_a_process_that_compiles_takes_a_minute(plan_of: MakePlan) -> None:
    configs = Config(), Config(execution="cuda_graph"), Config(execution="compile")
    written, captured, compiled = (
        plan_of("noop", configs=(config,)).estimated_s(1, gpu=True) for config in configs
    )
    assert written == captured == pytest.approx(compiled - 2 * COMPILE_S)


def test_the_bundled_night_has_executions_within_its_hour_and_without_a_compiler_the_others(
    look: Look,
) -> None:
    suite = load_suite("nightly")
    known = look(suite).workloads
    facts = {name: MODEL if ":" in name else traits for name, traits in known.items()}
    for compiler in ("g++", None):
        machine = replace(look(suite), compiler=compiler, workloads=facts)
        machine = replace(machine, environment=replace(machine.environment, device="cuda"))
        request = SweepRequest(
            options=LaunchOptions(), suite_name="nightly", suite=suite, results="", may_skip=True
        )
        night = planned_on(machine, request)
        assert night.whole.estimated_s(1, gpu=True) < 3600
        found: dict[str, set[str | None]] = {}
        for trial in night.whole.trials:
            found.setdefault(trial.cell.cell_id, set()).add(trial.config.execution)
        executed = [of_cell for of_cell in found.values() if of_cell != {None}]
        assert len(executed) == 4
        assert ({"compile"} <= set().union(*executed)) == (compiler is not None)
        named = {} if compiler else {"execution compile": "there is no C++ compiler"}
        assert night.skipped == named


def test_without_a_compiler_a_night_runs_what_needs_none(look: Look) -> None:
    """A suite's own configs and those of a cell; a cell whose configs all compile is left out."""
    compiled = [Config(execution="compile")]
    cells = [CellAxes(workload="mnist"), CellAxes(workload="tutorial_true_first", configs=compiled)]
    suite = SuiteSpec(cells=cells, configs=[Config(), *compiled], replicates=1)
    machine = replace(look(suite), compiler=None)
    request = SweepRequest(
        options=LaunchOptions(), suite_name="mine", suite=suite, results="", may_skip=True
    )
    planned = planned_on(machine, request)
    assert {trial.cell.workload for trial in planned.whole.trials} == {"mnist"}
    assert planned.whole.configs() == [Config()]
    assert planned.skipped == {"execution compile": "there is no C++ compiler"}
