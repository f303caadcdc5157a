"""What only a GPU can show."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from cudnn_sweep.analysis.store.schema import RunRecord
from cudnn_sweep.orchestrator.gpus.cpu_pinning import pinning_of
from cudnn_sweep.orchestrator.planning.plan import Plan
from cudnn_sweep.orchestrator.planning.session import session_of
from cudnn_sweep.orchestrator.slots.slot import ForkedSlot
from cudnn_sweep.workloads.cells.config import Config
from cudnn_sweep.workloads.cells.errata import Rule, as_json, pytorchs_own, rules_of
from cudnn_sweep.workloads.cells.measurement import MeasureSpec
from tests.makers import MakePlan, RunTrial

pytestmark = [pytest.mark.measuring, pytest.mark.gpu]

Measure = Callable[[Plan], list[RunRecord]]

BENCHMARK = Config(benchmark=True)
TIMED = MeasureSpec(warmup_s=0.1, steady_budget_s=0.2, device_budget_s=0.2, timeout_s=60)
RGB: dict[str, Any] = {"problem": "tutorials/rgb224"}


@pytest.fixture
def measure(tmp_path: Path, one_server_for_slots: None) -> Measure:
    """Run a plan's trials one after another, without Ray, with a scratch folder of their own."""

    def run(plan: Plan) -> list[RunRecord]:
        session = session_of(plan, "gpu", tmp_path)
        slot = ForkedSlot.open(session, "0")
        records = [
            record for _, trials in plan.blocks() for record in slot.measure(trials, lambda _: 1)
        ]
        assert [record.status for record in records] == ["ok"] * len(records)
        assert [record.checks_error for record in records] == [None] * len(records)
        return records

    return run


def cold_ms(record: RunRecord) -> float:
    assert record.cold is not None
    return sum(shape.first_ms for shape in record.cold)


def users_cache() -> dict[Path, int]:
    folder = Path.home() / ".nv"
    return {file: file.stat().st_mtime_ns for file in folder.rglob("*") if file.is_file()}


def test_cold_cost_depends_on_the_compute_cache_which_is_ours(
    plan_of: MakePlan, measure: Measure
) -> None:
    before = users_cache()
    plan = plan_of("conv", replicates=3, configs=(BENCHMARK,), **RGB)
    records = [record for record in measure(plan) if not record.twin]
    states = [(record.compute_cache, record.compute_cache_entries_before) for record in records]
    assert states[0] == ("empty", 0)
    assert all(state == "warm" and entries for state, entries in states[1:])
    assert records[0].compute_cache_entries_added
    assert all(cold_ms(records[0]) > 2 * cold_ms(warm) for warm in records[1:])
    assert users_cache() == before


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs of one model")
def test_what_one_gpu_compiled_another_of_its_model_finds_warm(
    plan_of: MakePlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_of("conv", replicates=2, configs=(BENCHMARK,), **RGB)
    session, records = session_of(plan, "gpus", tmp_path), []
    for gpu, (_, trials) in zip("01", plan.blocks(), strict=True):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", gpu)
        slot = ForkedSlot.open(session, gpu)
        records.append(next(slot.measure(trials, lambda _: 1)))
        slot.close()
    first, second = records
    assert first.gpu_uuid != second.gpu_uuid
    assert (first.compute_cache, second.compute_cache) == ("empty", "warm")
    assert second.compute_cache_entries_before == first.compute_cache_entries_added
    assert cold_ms(first) > 2 * cold_ms(second)


def test_processes_of_a_block_take_turns_on_one_gpu(plan_of: MakePlan, measure: Measure) -> None:
    spec = TIMED.model_copy(update={"turn_cpus": 1})
    records = measure(plan_of("conv", measure=spec, **RGB))
    assert len(records) == 3, "off, on, and one of them again"
    assert {(record.in_turns, record.alone_reason) for record in records} == {(True, None)}
    assert {record.steady_device_source for record in records} == {"graph"}
    for record in records:
        assert "shared_gpu" not in (record.warnings or ()), "the others of the block are ours"
        assert len(record.steady_device_rounds or ()) == len(record.steady_device_samples_ms or ())
        assert record.launch_bound is not None
        assert record.turn_cpus is not None and record.turn_cpus.isdigit()
        assert record.threads == record.cpu_cores, "the cold part has all of its cores"
    free = [record.cold_free_bytes or 0 for record in records]
    assert len(set(free)) == 3, "each beside one more"


def test_other_cells_leave_a_compute_cache_alone(plan_of: MakePlan, measure: Measure) -> None:
    plan = plan_of("conv", configs=(BENCHMARK,), precision=["tf32", "bf16"], **RGB)
    assert {record.compute_cache for record in measure(plan)} == {"empty"}


@pytest.mark.parametrize("fault", ["allocates_too_much_of_the_gpu", "asserts_on_the_gpu"])
def test_cuda_fault_ends_its_process_alone(run_trial: RunTrial, faulty: str, fault: str) -> None:
    status, message = {
        "allocates_too_much_of_the_gpu": ("out_of_memory", "CUDA out of memory"),
        "asserts_on_the_gpu": ("error", "device-side assert"),
    }[fault]
    outcome = run_trial(f"{faulty}:{fault}")
    assert outcome.status == status
    assert message in (outcome.message or "")
    assert run_trial("conv", **RGB).status == "ok"


def test_route_is_cudnn_only_where_it_is_enabled(run_trial: RunTrial) -> None:
    for enabled in (True, False):
        outcome = run_trial("conv", config=Config(enabled=enabled), **RGB)
        assert outcome.reply is not None and outcome.reply.measured is not None
        assert outcome.reply.measured.choice.convolutions == 1
        assert (outcome.reply.measured.choice.routes == ["Cudnn"]) is enabled


def test_trial_records_its_gpu_and_runs_on_cores_that_are_its(
    plan_of: MakePlan, measure: Measure
) -> None:
    record = measure(plan_of("conv", configs=(Config(),), **RGB))[0]
    smallest = 4 * 64 * 224 * 224  # bytes of the output alone
    assert (record.cold_peak_allocated_bytes or 0) >= smallest
    assert (record.steady_peak_allocated_bytes or 0) >= smallest
    assert record.gpu_uuid is not None and record.slot == record.gpu_uuid
    assert None not in (record.cudnn, record.cuda, record.gpu_memory_bytes)
    pinning = pinning_of(record.gpu_uuid)
    assert pinning is not None and pinning.cpus <= os.sched_getaffinity(0)
    assert record.pinned_cpus == str(pinning)
    assert record.cpu_cores == record.threads == len(pinning.cpus)


def test_fresh_process_searches_and_its_log_says_so(plan_of: MakePlan, measure: Measure) -> None:
    plan = plan_of("conv", direction="forward", precision="bf16", **RGB)
    records = {record.benchmark: record for record in measure(plan) if not record.twin}
    assert (records[False].logged_searches, records[True].logged_searches) == (0, 1)
    for record in records.values():
        assert record.logged_error is None
        assert record.logged_choices is not None
        assert [choice.operation for choice in record.logged_choices] == ["ConvFwd"]
    assert records[False].logged_kernels_agree, "the heuristic's choice is the same each time"


def test_a_banned_plan_is_not_taken_and_a_rule_of_another_cudnn_does_nothing(
    plan_of: MakePlan, measure: Measure
) -> None:
    def taken(*configs: Config) -> dict[str | None, str]:
        plan = plan_of("conv", direction="forward", precision="bf16", configs=configs, **RGB)
        records = [record for record in measure(plan) if not record.twin]
        return {
            each.errata: each.logged_choices[0].engine for each in records if each.logged_choices
        }

    version = torch.backends.cudnn.version()
    assert version is not None
    usual = taken(Config())[None]
    rule, other = str(Rule.against(usual, version)), str(Rule.against(usual, version + 1))
    found = taken(*(Config(errata=text) for text in ("", other, rule)))
    assert (found[""], found[other]) == (usual, usual)
    assert found[rule] != usual


def test_pytorchs_own_rules_are_in_the_file() -> None:
    told = {(rule["operation"], rule["engine"]) for rule in pytorchs_own()}
    assert ("ConvBwdData", 23) in told
    listed = json.loads(as_json(rules_of("ConvFwd:5")))["rules"]
    assert listed[:-1] == pytorchs_own()


def test_step_that_waits_for_the_device_is_timed_by_the_profiler(
    plan_of: MakePlan, measure: Measure
) -> None:
    plan = plan_of("mnist", configs=(Config(),), precision="amp_fp16", measure=TIMED)
    record = measure(plan)[0]
    assert record.steady_device_source == "profiler"
    assert record.steady_device_note is not None and ".item()" in record.steady_device_note
    assert record.steady_device_ms is not None and record.steady_wall_ms is not None
    assert 0 < record.steady_device_ms < record.steady_wall_ms
    assert record.kernels and record.fingerprint


def test_other_process_on_the_gpu_is_warned_of(plan_of: MakePlan, measure: Measure) -> None:
    plan = plan_of("conv", configs=(Config(),), measure=TIMED, **RGB)
    alone = measure(plan)[0]
    assert alone.telemetry == "nvml" and alone.sm_clock_mhz and alone.temperature_c
    assert alone.other_processes is not None
    assert ("shared_gpu" in (alone.warnings or [])) is (alone.other_processes > 0)
    hold = "import torch; torch.ones(1, device='cuda'); print(flush=True); input()"
    command = [sys.executable, "-c", hold]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None and other.stdout.readline()
        shared = measure(plan)[0]
        other.kill()
    assert shared.other_processes == alone.other_processes + 1
    assert "shared_gpu" in (shared.warnings or [])


def test_configs_compute_the_same_within_the_precision(plan_of: MakePlan, measure: Measure) -> None:
    configs = (Config(), BENCHMARK, Config(enabled=False))
    plan = plan_of("conv", configs=configs, precision="bf16", **RGB)
    records = measure(plan)
    errors = [record.relative_l2_error for record in records]
    assert all(error is not None and 0 < error < 0.01 for error in errors)
    assert all(record.fingerprint for record in records)
