"""States in which `benchmark` is not what the config says for a part of the time."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.backends import cudnn

from cudnn_sweep.workloads.find_state import make_state
from cudnn_sweep.workloads.workload import TimedStep
from tests.workloads.made_up_cells import context_of


@pytest.fixture
def benchmark_on() -> Iterator[None]:
    cudnn.benchmark = True
    yield
    cudnn.benchmark = False


def surrounded(name: str, run: Callable[[Any], Any], **parameters: float) -> TimedStep:
    step = TimedStep(prepare=torch.ones, run=run)
    return make_state(name, parameters).surround(step, context_of("plain"))


@pytest.mark.usefixtures("benchmark_on")
@pytest.mark.parametrize("calls", [1, 3])
def test_flag_set_later_is_off_in_the_first_steps_alone(calls: int) -> None:
    step = surrounded("benchmark_later", lambda _: cudnn.benchmark, calls=calls)
    assert [step.run(None) for _ in range(6)] == [False] * calls + [True] * (6 - calls)


@pytest.mark.usefixtures("benchmark_on")
def test_flag_set_later_is_off_in_one_step_unless_told_how_many() -> None:
    step = surrounded("benchmark_later", lambda _: cudnn.benchmark)
    assert [step.run(None) for _ in range(3)] == [False, True, True]


@pytest.mark.usefixtures("benchmark_on")
def test_toggled_flag_is_off_in_every_second_step_examined_ones_among_them() -> None:
    step = TimedStep(
        prepare=torch.ones,
        run=lambda _: cudnn.benchmark,
        examine=lambda _: {"on": torch.tensor(cudnn.benchmark)},
    )
    toggled = make_state("benchmark_toggled", {}).surround(step, context_of("plain"))
    assert toggled.examine is not None
    for _ in range(2):
        assert toggled.run(None)
        assert not toggled.examine(None)["on"]
    assert [toggled.run(None) for _ in range(3)] == [True, False, True]
    assert cudnn.benchmark


@pytest.mark.parametrize("state", ["benchmark_later", "benchmark_toggled"])
def test_flag_that_the_config_has_off_stays_off(state: str) -> None:
    step = surrounded(state, lambda _: cudnn.benchmark)
    assert [step.run(None) for _ in range(3)] == [False] * 3


class Watched(torch.autograd.Function):
    """Notes the flag in either pass."""

    seen: list[tuple[str, bool]]

    @staticmethod
    def forward(ctx: Any, numbers: torch.Tensor) -> torch.Tensor:
        Watched.seen.append(("forward", cudnn.benchmark))
        return numbers.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
        Watched.seen.append(("backward", cudnn.benchmark))
        return gradients[0]


def backward_of(loss: torch.Tensor, numbers: torch.Tensor) -> None:
    loss.backward()


def grad_of(loss: torch.Tensor, numbers: torch.Tensor) -> None:
    torch.autograd.grad(loss, [numbers])


@pytest.mark.usefixtures("benchmark_on")
@pytest.mark.parametrize("differentiate", [backward_of, grad_of])
def test_flag_around_the_forward_pass_does_not_reach_the_backward_pass(
    differentiate: Callable[[torch.Tensor, torch.Tensor], None],
) -> None:
    Watched.seen = []
    entries = torch.autograd.backward, torch.autograd.grad

    def run(numbers: torch.Tensor) -> None:
        differentiate(Watched.apply(numbers).sum(), numbers)  # type: ignore[no-untyped-call]

    step = surrounded("benchmark_around_forward", run)
    for _ in range(2):
        step.run(torch.ones(2, requires_grad=True))
    assert Watched.seen == [("forward", True), ("backward", False)] * 2
    assert cudnn.benchmark
    assert (torch.autograd.backward, torch.autograd.grad) == entries


@pytest.mark.usefixtures("benchmark_on")
@pytest.mark.parametrize(
    "state", ["benchmark_later", "benchmark_around_forward", "benchmark_toggled"]
)
def test_flag_is_back_after_a_step_that_failed(state: str) -> None:
    entries = torch.autograd.backward, torch.autograd.grad
    step = surrounded(state, lambda numbers: torch.autograd.grad(numbers, [numbers]))
    with pytest.raises(RuntimeError):
        step.run(torch.ones(2))
    assert cudnn.benchmark
    assert (torch.autograd.backward, torch.autograd.grad) == entries
