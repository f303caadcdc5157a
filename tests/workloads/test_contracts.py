"""What everything that is bundled must do: every problem, every regime with every workload, every suite."""

from dataclasses import replace
from itertools import islice
from pathlib import Path
from runpy import run_path

import pytest
import torch

from cudnn_sweep.orchestrator.planning.spec import load_suite, suite_names
from cudnn_sweep.workloads.cells.expand import WorkloadFacts, expand_cells
from cudnn_sweep.workloads.cells.suite import SuiteSpec, workload_names
from cudnn_sweep.workloads.find_workload import bundled_workloads, find_workload
from cudnn_sweep.workloads.hashes import content_hash
from cudnn_sweep.workloads.measuring.device import Device
from cudnn_sweep.workloads.problem import PROBLEMS, ConvProblem, Shape, load_problems
from cudnn_sweep.workloads.survey import workload_facts
from tests.workloads.made_up_cells import MODEL, plain_context

SPACE = 32


def distinct_at_batch_1() -> list[ConvProblem]:
    """Many rows of DeepBench differ in their batch alone."""
    found: dict[ConvProblem, ConvProblem] = {}
    for problem in load_problems().values():
        single = replace(problem, input_shape=(1, *problem.input_shape[1:]))
        found.setdefault(replace(single, name="", occurrences=1), single)
    return list(found.values())


@pytest.mark.long
@pytest.mark.parametrize("problem", distinct_at_batch_1(), ids=lambda problem: problem.name)
def test_every_problem_runs_forward_and_backward(problem: ConvProblem) -> None:
    """Computed on a smaller image, where the problem's own is large; of that, the shapes alone."""
    for name, tensor in examined(problem, smaller(problem), "cpu").items():
        assert tensor.isfinite().all() and tensor.any(), name
    examined(problem, problem.input_shape, "meta")


def smaller(problem: ConvProblem) -> Shape:
    """At most SPACE in each direction, or twice what a kernel reaches."""
    reaches = zip(problem.kernel_size, problem.dilation, strict=True)
    most = [max(SPACE, 2 * dilation * size) for size, dilation in reaches]
    batch, channels, *space = problem.input_shape
    return (batch, channels, *map(min, space, most))


def examined(problem: ConvProblem, shape: Shape, device: str) -> dict[str, torch.Tensor]:
    """A step's output and gradients, which have the shapes that the problem says."""
    on = Device(torch=torch.device(device))
    step = find_workload("conv").step(plain_context("forward_backward", problem, device=on))
    assert step.examine is not None
    found = step.examine(step.prepare(shape))
    assert found["output"].shape == problem.output_shape(shape)
    assert found["input_gradient"].shape == shape
    assert found["weight_gradient"].shape == problem.weight_shape
    return dict(found)


def facts(suite: SuiteSpec) -> dict[str, WorkloadFacts]:
    """As planning finds them, without importing what may not be installed: those are models."""
    names = workload_names(suite)
    return dict.fromkeys(names, MODEL) | workload_facts(
        [n for n in names if n in bundled_workloads()]
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", suite_names())
@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_every_suite_has_cells_that_exist(name: str, device: str) -> None:
    suite = load_suite(name)
    cells = expand_cells(suite, facts(suite), device=device, gpu="any")  # type: ignore[arg-type]
    assert len({cell.cell_id for cell in cells}) == len(cells) > 0
    for cell in {
        content_hash((c.regime, c.regime_parameters, c.input_shape)): c for c in cells
    }.values():
        again = list(islice(cell.shapes().stream(cell.input_shape), 5))
        assert list(islice(cell.shapes().stream(cell.input_shape), 5)) == again
        assert all(len(shape) == len(cell.input_shape) and min(shape) > 0 for shape in again)


OURS = [pytest.param("unet", marks=pytest.mark.long), "wavenet", "dcgan"]
OF_TORCHVISION = ["resnet50", "vgg16", "mobilenet_v2", "convnext_tiny", "r3d_18"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [*OURS, *(pytest.param(name, marks=pytest.mark.gpu) for name in OF_TORCHVISION)]
)
def test_problems_of_a_network_are_its_convolutions(name: str) -> None:
    if name in OF_TORCHVISION:
        pytest.importorskip("torchvision")
    script = run_path(str(Path(__file__).parent / "data" / "write_network_problems.py"))
    assert PROBLEMS.joinpath(f"{name}.csv").read_text().splitlines() == script["lines_of"](name)
