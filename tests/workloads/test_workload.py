"""What a workload is built for: its numbers' types and layouts, and whether states and executions are in force."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from cudnn_sweep.workloads.errors import WorkloadError, unknown
from cudnn_sweep.workloads.execution import EXECUTIONS
from cudnn_sweep.workloads.find_state import make_state
from cudnn_sweep.workloads.precision import PRECISIONS, find_precision
from cudnn_sweep.workloads.workload import (
    Context,
    TimedStep,
    Workload,
    pay_unrelated_step,
    workload,
)
from tests.workloads.made_up_cells import plain_context

LAST = torch.channels_last


@pytest.mark.parametrize(
    ("precision", "dtype", "gradient"),
    [
        ("fp32", "float32", "float32"),
        ("tf32", "float32", "float32"),
        ("bf16", "bfloat16", "bfloat16"),
        ("amp_bf16", "float32", "bfloat16"),
        ("amp_fp16", "float32", "float16"),
    ],
)
def test_numbers_have_the_type_of_their_precision_and_float64_in_the_reference(
    precision: str, dtype: str, gradient: str
) -> None:
    def types(context: Context) -> list[str]:
        made = (
            context.random((2, 3)),
            context.place(nn.Linear(2, 2)).get_parameter("weight"),
            context.random_gradient((2, 3)),
        )
        return [str(each.dtype).removeprefix("torch.") for each in made]

    assert types(plain_context("forward", precision=precision)) == [dtype, dtype, gradient]
    reference = plain_context("forward", precision=precision, reference=True)
    assert types(reference) == ["float64"] * 3
    rounded = getattr(torch, dtype)
    values = reference.like_inputs(torch.full((2,), 1 / 3, dtype=torch.float64))
    assert values.equal(torch.full((2,), 1 / 3, dtype=rounded).double()), "rounded first"


def test_autocast_is_on_in_a_region_unless_it_is_the_reference() -> None:
    for name, precision in PRECISIONS.items():
        for reference in (False, True):
            with plain_context("forward", precision=name, reference=reference).region():
                on = torch.is_autocast_enabled("cpu")
                assert on == (precision.autocast is not None and not reference)


@pytest.mark.parametrize(
    ("layout", "inputs", "weights"),
    [
        ("contiguous", False, False),
        ("channels_last", True, True),
        ("weights", False, True),
    ],
)
def test_a_layout_is_of_inputs_of_parameters_or_of_both(
    layout: str, inputs: bool, weights: bool
) -> None:
    context, shape = plain_context("forward", layout=layout), (2, 3, 4, 5)
    assert context.random(shape).is_contiguous(memory_format=LAST) is inputs
    placed = context.place(nn.Conv2d(3, 4, 3)).get_parameter("weight")
    made = [context.random_weight(shape), context.random_gradient(shape), placed]
    assert [each.is_contiguous(memory_format=LAST) for each in made] == [weights] * 3


def test_the_forward_pass_of_a_state_that_recomputes_runs_again_but_not_in_the_reference() -> None:
    numbers = torch.ones(2, requires_grad=True)
    for name, reference, runs in (
        ("plain", False, 1),
        ("checkpoint", False, 2),
        ("checkpoint", True, 1),
    ):
        calls: list[Any] = []

        def square(x: torch.Tensor, calls: list[Any] = calls) -> torch.Tensor:
            calls.append(x)
            return x * x

        context = plain_context("training", state=make_state(name, {}), reference=reference)
        context.forward(square, numbers).sum().backward()
        assert len(calls) == runs


@pytest.mark.parametrize(
    ("more", "fault"),
    [
        ({}, None),
        ({"state": "plain"}, None),
        ({"state": "checkpoint"}, "^state checkpoint was not in force"),
        ({"execution": "compile"}, "^execution compile was not in force"),
        ({"execution": "cuda_graph"}, None),
        ({"state": "checkpoint", "execution": "compile"}, "^state checkpoint was not in force"),
    ],
)
def test_what_needs_forward_is_an_error_where_it_never_ran(
    monkeypatch: pytest.MonkeyPatch, more: dict[str, Any], fault: str | None
) -> None:
    given = more | ({"state": make_state(more["state"], {})} if "state" in more else {})
    context = plain_context("training", **given)
    if fault is None:
        context.check_in_force()
    else:
        with pytest.raises(WorkloadError, match=fault):
            context.check_in_force()
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    context.forward(torch.relu, torch.ones(2))
    context.check_in_force()


def test_each_function_is_compiled_once_and_never_for_the_reference(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiled: list[Any] = []

    def compile_(function: Any, **keywords: Any) -> Any:
        compiled.append((function, keywords))
        return function

    monkeypatch.setattr(torch, "compile", compile_)
    for reference in (False, True):
        context = plain_context("forward", execution="reduce_overhead", reference=reference)
        for function in (torch.relu, torch.relu, torch.exp):
            context.forward(function, torch.ones(2))
    keywords = {"mode": "reduce-overhead"}
    assert compiled == [(torch.relu, keywords), (torch.exp, keywords)]


@pytest.mark.parametrize(("state", "reference", "offset"), [
    ("misaligned", False, 4),
    ("misaligned", True, 0),
    (None, False, 0),
])  # fmt: skip
def test_a_state_surrounds_a_step_but_not_the_reference(
    state: str | None, reference: bool, offset: int
) -> None:
    @workload(directions=["forward"])
    def plain(context: Context) -> TimedStep:
        """Does nothing."""
        return TimedStep(prepare=torch.ones, run=torch.relu)

    surrounding = None if state is None else make_state(state, {})
    step = plain.step(plain_context("forward", state=surrounding, reference=reference))
    assert step.prepare((4,)).data_ptr() % 16 == offset
    assert plain == Workload(
        name="plain", directions=("forward",), varies=(), recomputes=False, build=plain.build
    )
    assert (plain.batches, plain.input_shape, plain.is_model) == (1, None, False)
    assert step.has_parameters and step.capturable


def test_an_unrelated_network_takes_two_steps_the_second_on_gradients_that_are_there() -> None:
    had: list[bool] = []
    hook = register_optimizer_step_pre_hook(lambda own, *_: had.append(bool(own.state)))
    pay_unrelated_step(torch.device("cpu"))
    hook.remove()
    assert had == [False, True], "momentum is there, too"


def test_each_execution_says_what_it_does() -> None:
    told = {
        name: (how.compiles, how.makes_graphs, how.captured, how.needs_cuda)
        for name, how in EXECUTIONS.items()
    }
    assert told == {
        "eager": (False, False, False, False),
        "compile": (True, False, False, False),
        "reduce_overhead": (True, True, False, True),
        "max_autotune": (True, True, False, True),
        "cuda_graph": (False, False, True, True),
    }


def test_an_unknown_precision_is_answered_and_fp8_is_explained() -> None:
    with pytest.raises(WorkloadError, match="unknown precision 'fp8'.*; PyTorch has no fp8 conv"):
        find_precision("fp8")
    with pytest.raises(WorkloadError, match="unknown precision 'fp64'.*, tf32$"):
        find_precision("fp64")


@pytest.mark.parametrize(
    ("name", "names", "listed"),
    [
        ("zzz", 30, [f"name{number:02}" for number in range(30)]),
        ("zzz", 31, [f"name{number:02}" for number in range(5)]),
        ("name1", 31, None),
    ],
)
def test_more_than_thirty_names_are_cut_to_five(
    name: str, names: int, listed: list[str] | None
) -> None:
    allowed = [f"name{number:02}" for number in range(names)]
    text = str(unknown("thing", name, allowed[::-1]))
    found = text.rpartition("allowed: ")[2].removeprefix(f"{names} names, like ").split(", ")
    assert found == listed if listed else len(found) == 5
    assert ("did you mean" in text) == (listed is None)
