"""A step as one CUDA graph a shape computes what it computes as written, on inputs that it never saw."""

import pytest
import torch

from cudnn_sweep.workloads.errors import WorkloadError
from cudnn_sweep.workloads.measuring.captured import CapturedStep, executed
from cudnn_sweep.workloads.measuring.device_time import OwnReplays
from cudnn_sweep.workloads.problem import Shape
from cudnn_sweep.workloads.training.choice import ModelChoice
from cudnn_sweep.workloads.workload import TimedStep
from tests.workloads.made_up_cells import GPU, plain_context
from tests.workloads.made_up_models import build, here

pytestmark = pytest.mark.gpu

SMALL, LARGE = (4, 3, 8, 8), (8, 3, 8, 8)


def step_of(optimiser: str = "sgd") -> TimedStep:
    choice = ModelChoice(optimiser=optimiser)
    wanted = plain_context("training", device=GPU, precision="amp_bf16", model=choice)
    return build(here("Plain"), wanted)


@pytest.mark.parametrize("optimiser", ["sgd", "adam", "adamw", "rmsprop"])
def test_replays_train_as_the_step_itself_does(optimiser: str) -> None:
    """Making a graph takes three steps on the same inputs: the first call, and two more as warm-up."""
    written, captured = step_of(optimiser), executed(step_of(optimiser), "cuda_graph")
    torch.manual_seed(1)
    batches = [written.prepare(shape) for shape in (SMALL, LARGE, SMALL, LARGE, SMALL)]
    losses = [float(captured.run(batch)) for batch in batches]
    met: set[Shape] = set()
    expected = []
    for batch in batches:
        shape = tuple(batch.shape)
        expected.append(float(written.run(batch)))
        if shape not in met:
            for _ in range(2):
                written.run(batch)
        met.add(shape)
    assert losses == pytest.approx(expected, rel=1e-2)
    assert isinstance(captured.run, CapturedStep) and captured.run.replays == 3


def test_a_step_that_reads_the_device_is_refused_by_name() -> None:
    def run(numbers: torch.Tensor) -> torch.Tensor:
        return numbers * numbers.sum().item()

    step = executed(TimedStep(prepare=lambda shape: torch.ones(shape), run=run), "cuda_graph")
    with pytest.raises(
        WorkloadError, match="cuda_graph: the step cannot be captured: .* waits for the device"
    ):
        step.run(torch.ones(4, device="cuda"))


def test_device_time_of_its_own_graph_contains_the_copy() -> None:
    images = torch.randn(2**25, device="cuda")
    step = executed(TimedStep(prepare=lambda _: images, run=lambda x: x * 2), "cuda_graph")
    step.run(images)
    replays = OwnReplays([lambda: step.run(images)])
    replays.run(3)
    with_copy = min(replays.step_ms(10))
    assert isinstance(step.run, CapturedStep)
    ((graph, _, _),) = step.run._graphs.values()
    replays._launch = graph.replay
    assert with_copy > 1.5 * min(replays.step_ms(10)), "it moves as many bytes as the step itself"
