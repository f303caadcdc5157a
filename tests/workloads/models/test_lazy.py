"""Models whose parameters only a first call makes."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

from cudnn_sweep.workloads.models.steps import placed
from cudnn_sweep.workloads.workload import Context
from tests.workloads.made_up_cells import context_of


@pytest.fixture
def placements(monkeypatch: pytest.MonkeyPatch) -> list[nn.Module]:
    done: list[nn.Module] = []

    def place(_: Context, net: nn.Module) -> nn.Module:
        done.append(net)
        return net.double()

    monkeypatch.setattr(Context, "place", place)
    return done


def test_a_model_with_parameters_is_placed_at_once(placements: list[nn.Module]) -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    assert placed(net, context_of("plain")) is net and placements == [net]
    placed(nn.ReLU(), context_of("plain"))
    assert len(placements) == 2, "without parameters, too"


@pytest.mark.parametrize(
    "make",
    [lambda: nn.LazyLinear(3), lambda: nn.Sequential(nn.Linear(2, 2), nn.LazyLinear(3))],
)
def test_a_lazy_model_is_placed_once_its_first_call_made_its_parameters(
    placements: list[nn.Module], make: Callable[[], nn.Module]
) -> None:
    """The first call is on the CPU, in float32, whatever the inputs are."""
    net = placed(make(), context_of("plain"))
    assert not placements
    assert net(torch.ones(4, 2, dtype=torch.float64)).dtype == torch.float64
    net(torch.ones(4, 2, dtype=torch.float64))
    assert placements == [net]
