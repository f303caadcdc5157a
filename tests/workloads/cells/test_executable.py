"""Executions and numbers of ranks that cannot run a cell are refused, by name, before anything is measured."""

from dataclasses import replace
from typing import Any, get_args

import pytest

from cudnn_sweep.workloads.cells.config import Config
from cudnn_sweep.workloads.cells.executable import execution_fault, ranks_fault
from cudnn_sweep.workloads.cells.expand import WorkloadFacts
from cudnn_sweep.workloads.execution import EXECUTIONS, ExecutionName
from cudnn_sweep.workloads.hardware.environment import Environment, capture_environment
from tests.workloads.made_up_cells import GENERATOR, MODEL, one_cell

CONV = WorkloadFacts(directions=("forward",), recomputes=True)
STEP = WorkloadFacts(directions=("training",), is_model=True)


def fault(
    execution: str | None,
    *,
    device: str = "cuda",
    compiler: str | None = "g++",
    traits: WorkloadFacts = MODEL,
    precision: str | None = None,
    workload: str = GENERATOR,
    **axes: Any,
) -> str:
    config = Config(execution=execution, precision=precision)  # type: ignore[arg-type]
    cell = one_cell(workload, **axes)
    return execution_fault(cell, config, traits, device=device, compiler=compiler) or ""


@pytest.mark.parametrize(
    ("execution", "given", "told"),
    [
        ("cuda_graph", {"device": "cpu"}, "needs a GPU; allowed without a GPU: eager, compile"),
        ("reduce_overhead", {"device": "cpu"}, "execution reduce_overhead needs a GPU"),
        ("compile", {"compiler": None}, "needs a C++ compiler; install g++"),
        ("compile", {"traits": STEP}, "is a step with its own backward pass"),
        (
            "cuda_graph",
            {"workload": "conv", "problem": "tutorials/rgb256", "regime": "fresh"},
            "needs shapes that repeat, but the shapes of regime fresh do not",
        ),
        ("cuda_graph", {"state": "checkpoint"}, "found state checkpoint, allowed: plain"),
        (
            "cuda_graph",
            {"precision": "amp_fp16"},
            "amp_fp16, because loss scaling waits for the GPU",
        ),
    ],
)
def test_what_an_execution_cannot_run_is_named(
    execution: str, given: dict[str, Any], told: str
) -> None:
    found = fault(execution, **given)
    assert found.startswith(f"execution {execution} ") and told in found
    assert not fault(None, **given), "as written it runs"


def test_what_an_execution_can_run_is_not_refused() -> None:
    rgb: dict[str, Any] = {"workload": "conv", "problem": "tutorials/rgb256"}
    assert not fault("compile", device="cpu", regime="fresh", state="checkpoint", **rgb)
    assert not fault("cuda_graph", compiler=None, traits=STEP, regime="cycle", **rgb)
    assert not fault("cuda_graph", precision="amp_fp16", direction="inference")
    assert not fault("cuda_graph", precision="amp_bf16")


def ranks_told(
    *,
    gpus: int = 2,
    machine: Environment | None = None,
    execution: ExecutionName | None = None,
    traits: WorkloadFacts = MODEL,
    workload: str = GENERATOR,
    ranks: int = 2,
    **axes: Any,
) -> str:
    cell = one_cell(workload, ranks=ranks, **axes)
    where = machine or capture_environment()
    config = Config(execution=execution)
    return ranks_fault(cell, config, traits, gpus=gpus, machine=where) or ""


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"gpus": 1}, "ranks: found 2, but this machine has 1 GPU for the sweep"),
        ({"gpus": 2, "ranks": 4}, "ranks: found 4, but this machine has 2 GPUs for the sweep"),
        ({"direction": "inference"}, "(inference), allowed with several ranks: training"),
        ({"traits": STEP}, "(training), allowed with several ranks: training"),
        (
            {"workload": "conv", "problem": "tutorials/rgb256", "traits": CONV},
            "allowed with several ranks: training",
        ),
        ({"state": "checkpoint"}, "found state checkpoint, allowed with several ranks: plain"),
        ({"execution": "compile"}, "found execution compile, allowed with several ranks: eager"),
    ],
)
def test_what_several_ranks_cannot_run_is_named(given: dict[str, Any], told: str) -> None:
    assert told in ranks_told(**given)
    assert not ranks_told(**given | {"ranks": 1, "gpus": 1}), "one GPU runs it"


def test_ranks_need_a_whole_gpu_each_or_without_one_a_core() -> None:
    here = capture_environment()
    assert not ranks_told(gpus=2) and not ranks_told(gpus=4, ranks=4, regime="last_partial_batch")
    assert "slices of a GPU" in ranks_told(machine=replace(here, mig_profile="1g.5gb"))
    assert "has 1 CPU core for" in ranks_told(gpus=0, machine=replace(here, cpu_cores=1))
    assert not ranks_told(gpus=0, machine=replace(here, cpu_cores=2))


def test_each_execution_has_its_name_in_the_type() -> None:
    assert get_args(ExecutionName) == tuple(EXECUTIONS)
