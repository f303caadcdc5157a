"""Which models are refused before they are measured: those with other counts than expected."""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from cudnn_sweep.workloads.errors import WorkloadError
from cudnn_sweep.workloads.measuring import first_call
from cudnn_sweep.workloads.measuring.first_call import _expecting, call_once
from cudnn_sweep.workloads.training.choice import Expect


def net(channels: int = 2) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, channels, 1), nn.ReLU(), nn.Conv2d(channels, 1, 1, bias=False)
    )


PARAMETERS = 3 * 2 + 2 + 2


def cell(**expect: int) -> Any:
    model = SimpleNamespace(expect=Expect(**expect), arguments={"width": 2, "name": "a"})
    return SimpleNamespace(workload="net.py:Net", model=model)


def called(of: Any, *models: nn.Module) -> None:
    with _expecting(of):
        for model in models:
            model(torch.ones(1, 3, 2, 2))


@pytest.mark.parametrize(
    "expect", [{"parameters": PARAMETERS, "convolutions": 2}, {"parameters": PARAMETERS}, {}]
)
def test_a_model_with_the_expected_counts_is_measured(expect: dict[str, int]) -> None:
    called(cell(**expect), net())
    called(cell(**expect), net(), net(3))  # the first one that is called counts


@pytest.mark.parametrize(
    ("expect", "found"),
    [
        (
            {"parameters": 11},
            r"Net\(width=2, name='a'\) has 10 parameters, but `expect` has 11\. Are",
        ),
        ({"convolutions": 1}, r"has 2 convolutions, but `expect` has 1\. Are"),
        (
            {"parameters": 1234, "convolutions": 2},
            r"has 10 parameters and 2 convolutions, but `expect` has 1,234 and 2\. Are",
        ),
    ],
)
def test_a_model_with_other_counts_is_refused(expect: dict[str, int], found: str) -> None:
    with pytest.raises(WorkloadError, match=found):
        called(cell(**expect), net())


def test_one_of_a_kind_is_named_in_the_singular_and_no_call_has_none() -> None:
    with pytest.raises(WorkloadError, match="has 1 convolution, but `expect` has 2"):
        called(cell(convolutions=2), nn.Sequential(nn.Conv2d(3, 1, 1)))
    with pytest.raises(WorkloadError, match="has 0 parameters, but `expect` has 2"):
        called(cell(parameters=2))


@pytest.mark.parametrize("expects", [None, False, True])
def test_only_a_cell_that_expects_counts_is_watched(
    monkeypatch: pytest.MonkeyPatch, expects: bool | None
) -> None:
    """None: it is no model's cell."""
    watched: list[Any] = []

    def expecting(of: Any) -> Any:
        watched.append(of)
        return nullcontext()

    model = None if expects is None else SimpleNamespace(expect=Expect() if expects else None)
    of = SimpleNamespace(workload="net", model=model, input_shape=(1,))
    ran: list[str] = []
    step = SimpleNamespace(prepare=lambda _: "inputs", run=ran.append)
    for name, value in {
        "_expecting": expecting,
        "apply_request": lambda *_: None,
        "find_device": lambda: SimpleNamespace(synchronise=lambda: None),
        "context_of": lambda *_: None,
        "find_workload": lambda _: SimpleNamespace(step=lambda _: step),
    }.items():
        monkeypatch.setattr(first_call, name, value)
    request: Any = SimpleNamespace(cell=of)
    call_once(request)
    assert watched == [of] * bool(expects)
    assert set(ran) == {"inputs"}


@pytest.mark.parametrize(
    ("takes_s", "runs", "shown_ms"),
    [
        ([1.0, *[0.01] * 30], 21, 10.0),  # the first step loads libraries
        ([1.0, *[0.1] * 30], 4, 100.0),
        ([3.0, 2.5, 2.5], 2, 2500.0),
        ([3.1, 2.5, 2.5], 1, None),  # a long step is not run again
        ([1.0, 0.1, 0.02, 0.2], 4, 100.0),
        ([1.0], 1, None),  # the second one fails
        ([1.0, 0.1], 2, 100.0),
    ],
)
def test_the_first_sight_of_a_step_is_short(
    monkeypatch: pytest.MonkeyPatch, takes_s: list[float], runs: int, shown_ms: float | None
) -> None:
    now, ran = [0.0], list[int]()

    def run(_: object) -> None:
        now[0] += takes_s[len(ran)]
        ran.append(1)

    step = SimpleNamespace(prepare=lambda _: None, run=run)
    for name, value in {
        "perf_counter": lambda: now[0],
        "apply_request": lambda *_: None,
        "find_device": lambda: SimpleNamespace(synchronise=lambda: None),
        "context_of": lambda *_: None,
        "find_workload": lambda _: SimpleNamespace(step=lambda _: step),
    }.items():
        monkeypatch.setattr(first_call, name, value)
    request: Any = SimpleNamespace(
        cell=SimpleNamespace(workload="net", model=None, input_shape=(1,))
    )
    assert call_once(request) == (shown_ms and pytest.approx(shown_ms))
    assert len(ran) == runs
