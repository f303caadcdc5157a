"""An execution that cannot run a cell is refused before anything is measured, with the thing named."""

from typing import Any

import pytest

from cudnn_sweep.workloads.cells.config import Config
from cudnn_sweep.workloads.cells.executable import execution_fault
from cudnn_sweep.workloads.cells.expand import WorkloadFacts
from tests.workloads.made_up_cells import GENERATOR, MODEL, one_cell

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
        ("cuda_graph", {"device": "cpu"}, "needs a GPU; allowed without one: eager, compile"),
        ("reduce_overhead", {"device": "cpu"}, "execution reduce_overhead needs a GPU"),
        ("compile", {"compiler": None}, "needs a C++ compiler: install g++"),
        ("compile", {"traits": STEP}, "is a step of your own, with its backward pass in it"),
        (
            "cuda_graph",
            {"workload": "conv", "problem": "tutorials/rgb256", "regime": "fresh"},
            "needs a graph for each shape; the shapes of regime fresh never end",
        ),
        ("cuda_graph", {"state": "checkpoint"}, "no state but plain; found checkpoint"),
        ("cuda_graph", {"precision": "amp_fp16"}, "in amp_fp16: its loss scale waits for the GPU"),
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
