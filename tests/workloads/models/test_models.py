"""Training and inference of models by import path."""

from itertools import pairwise, product
from math import isfinite
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch

from cudnn_sweep.workloads.errors import WorkloadError
from cudnn_sweep.workloads.find_workload import find_workload
from cudnn_sweep.workloads.precision import PRECISIONS
from cudnn_sweep.workloads.user_code import import_named
from tests.workloads.made_up_models import (
    ERRORS,
    IMAGES,
    build,
    computed,
    context,
    examined,
    here,
    losses,
)


def test_a_model_is_a_workload_of_both_directions_whose_input_is_told() -> None:
    for name in ("Small", "small", "made"):
        found = find_workload(here(name))
        assert found.name == here(name)
        assert found.is_model and found.recomputes
        assert found.directions == ("training", "inference")
        assert (found.varies, found.input_shape) == (("batch", "space"), None)


@pytest.mark.parametrize(
    ("direction", "precision"), [*product(("training", "inference"), PRECISIONS)]
)
def test_what_a_model_computes_is_repeatable_and_near_float64(
    direction: str, precision: str
) -> None:
    wanted = context(direction, precision, arguments={"width": 4})
    found = computed(here("Small"), wanted)
    assert found.computed is not None
    names = [tensor.tensor for tensor in found.computed]
    if direction == "inference":
        assert names == ["output.out", "output.features"]
    else:
        assert names[:2] == ["loss", "body.0.weight.grad"]
    kind = PRECISIONS[precision].autocast or PRECISIONS[precision].dtype
    assert found.bitwise_repeatable
    assert found.reference_note is None
    assert found.relative_l2_error is not None
    assert 0 < found.relative_l2_error < ERRORS[kind]
    assert found.fingerprint == computed(here("Small"), wanted).fingerprint
    assert found.fingerprint != computed(here("Small"), wanted, seed=2).fingerprint


def test_examining_a_model_that_draws_is_repeatable_and_draws_nothing_from_the_trial() -> None:
    step = build(here("Noisy"), context())
    inputs = step.prepare(IMAGES)
    before = torch.get_rng_state()
    assert step.examine is not None
    first, second = step.examine(inputs), step.examine(inputs)
    assert torch.equal(torch.get_rng_state(), before)
    weights = {f"{part}.{kind}.grad" for part in ("conv", "norm") for kind in ("weight", "bias")}
    assert first.keys() == {"loss", *weights}
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_two_builds_from_one_seed_train_alike() -> None:
    wanted = context(arguments={"width": 4})
    first = losses(build(here("small"), wanted), 3)
    assert all(isfinite(loss) for loss in first)
    assert first == losses(build(here("small"), wanted), 3)
    assert first != losses(build(here("small"), wanted, seed=2), 3)


def test_inference_leaves_the_model_alone_and_keeps_no_graph() -> None:
    step = build(here("Small"), context("inference"))
    before = examined(step)
    assert step.run(step.prepare(IMAGES)) is None
    after = examined(step)
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert not any(tensor.requires_grad for tensor in after.values())


def test_input_and_weights_take_the_layout() -> None:
    step = build(here("Plain"), context(layout="channels_last"))
    assert step.prepare(IMAGES).is_contiguous(memory_format=torch.channels_last)
    found = examined(step)["0.weight.grad"]
    assert torch.allclose(
        found, examined(build(here("Plain"), context()))["0.weight.grad"], atol=1e-6
    )


def test_a_checkpointed_model_runs_twice_and_has_the_same_gradients() -> None:
    plain = examined(build(here("Noisy"), context()))
    noisy: Any = import_named(here("Noisy"))
    with patch.object(noisy, "forward", autospec=True, side_effect=noisy.forward) as forward:
        checkpointed = examined(build(here("Noisy"), context(state="checkpoint")))
    assert forward.call_count == 2
    assert plain.keys() == checkpointed.keys()
    assert all(torch.equal(plain[name], checkpointed[name]) for name in plain)


def test_gradients_that_overflow_at_the_first_scale_are_examined_at_a_smaller_one() -> None:
    step = build(here("Loud"), context(precision="amp_fp16"))
    assert all(bool(values.isfinite().all()) for values in examined(step).values())
    found = computed(here("Loud"), context(precision="amp_fp16"))
    assert found.relative_l2_error is not None
    assert found.relative_l2_error < ERRORS["float16"]


def test_a_module_itself_starts_from_the_same_weights_at_each_build() -> None:
    first = losses(build(here("made"), context()), 3)
    torch.manual_seed(5)
    assert losses(build(here("made"), context()), 3) == first


def test_weights_drawn_at_import_do_not_depend_on_the_trial(tmp_path: Path) -> None:
    found = []
    for seed in (1, 2):
        file = tmp_path / f"net_{seed}.py"
        file.write_text("from torch import nn\nnet = nn.Conv2d(3, 4, 3)\n")
        torch.manual_seed(seed)
        step = find_workload(f"{file}:net").step(context("inference"))
        found.append(examined(step)["output"])
    assert torch.equal(*found)


@pytest.mark.gpu
@pytest.mark.parametrize("precision", PRECISIONS)
def test_what_a_model_computes_on_a_gpu_is_near_float64(precision: str) -> None:
    PRECISIONS[precision].apply()
    found = computed(here("Small"), context(precision=precision, device="cuda"))
    assert found.reference_note is None
    assert found.relative_l2_error is not None
    assert found.relative_l2_error < (1e-5 if precision == "fp32" else 0.1)
    noisy = build(here("Noisy"), context(precision=precision, device="cuda"))
    first, second = examined(noisy), examined(noisy)
    assert float(first["loss"]) == float(second["loss"])


LAZY = """
from torch import nn

class Lazy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.norm, self.head = nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.LazyLinear(2)
    def forward(self, images):
        return self.head(self.norm(self.body(images)).mean((2, 3)))

class Eager(Lazy):
    def __init__(self):
        nn.Module.__init__(self)
        self.body, self.norm, self.head = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Linear(4, 2)
"""


@pytest.mark.parametrize("direction", ["training", "inference"])
def test_a_model_of_lazy_modules_runs_as_one_that_names_its_sizes(
    direction: str, tmp_path: Path
) -> None:
    (tmp_path / "lazy.py").write_text(LAZY)
    wanted = context(direction=direction, precision="bf16", layout="channels_last")
    shape, found = (2, 3, 8, 8), {}
    for name in ("Lazy", "Eager"):
        step = build(f"{tmp_path / 'lazy.py'}:{name}", wanted)
        inputs = step.prepare(shape)
        losses = [step.run(inputs) for _ in range(3)]
        assert step.examine is not None
        found[name] = {key: values.shape for key, values in step.examine(inputs).items()}
        assert direction == "inference" or losses[2] < losses[0]
    assert found["Lazy"] == found["Eager"]


@pytest.mark.parametrize(("overflows", "scales"), [(3, 4), (100, 17)])
def test_examining_halves_the_scale_until_gradients_are_finite_or_it_is_one(
    overflows: int, scales: int
) -> None:
    """A GradScaler begins at 2 to the power of 16."""
    step = build(here("Plain"), context(precision="amp_fp16"))
    inputs = step.prepare(IMAGES)
    calls: list[float] = []
    grad = torch.autograd.grad

    def overflow(loss: torch.Tensor, weights: Any, **more: Any) -> Any:
        calls.append(float(loss.detach()))
        infinite = len(calls) <= overflows
        found = grad(loss, weights, **more)
        return [g / 0 if infinite else g for g in found]

    assert step.examine is not None
    with patch.object(torch.autograd, "grad", overflow):
        found = step.examine(inputs)
    assert len(calls) == scales
    halves = [before / after for before, after in pairwise(calls)]
    assert halves == pytest.approx([2.0] * (scales - 1))
    assert all(bool(g.isfinite().all()) for g in found.values()) == (overflows == 3)


def test_a_step_of_the_users_own_trains_alone_and_what_is_no_model_is_named() -> None:
    step = find_workload(here("each_distance"))
    assert step.directions == ("training",) and step.is_model and not step.recomputes
    ran = step.step(context()).run(torch.tensor([2.0, 3.0]))
    assert ran.tolist() == [4.0, 9.0]
    for name, kind in (("number", "a int"), ("Detected", "a class")):
        with pytest.raises(WorkloadError, match=f"{name} is {kind}; allowed: a function with the"):
            find_workload(here(name))
    with pytest.raises(WorkloadError, match="no_model returned a str; allowed: a torch.nn.Module"):
        build(here("no_model"), context())
    with pytest.raises(
        WorkloadError, match="made is a module, so it takes no arguments; found width"
    ):
        build(here("made"), context(arguments={"width": 3}))
    with pytest.raises(WorkloadError, match="small: missing a required argument: 'width'; allowed"):
        build(here("small"), context(arguments={"wide": 3}))


def test_a_frozen_model_only_infers_and_one_without_weights_says_so(tmp_path: Path) -> None:
    file = tmp_path / "frozen.py"
    file.write_text(
        "from torch import nn\nfrozen = nn.Conv2d(3, 4, 3).requires_grad_(False)\n"
        "half = nn.Sequential(nn.Conv2d(3, 4, 1).requires_grad_(False), nn.Conv2d(4, 2, 1))\nnone = nn.ReLU()\n"
    )
    for name in ("frozen", "none"):
        with pytest.raises(
            WorkloadError, match=f"{name} has no weights to train; allowed: `direction"
        ):
            build(f"{file}:{name}", context())
    assert build(f"{file}:frozen", context("inference")).has_parameters
    assert not build(f"{file}:none", context("inference")).has_parameters
    found = examined(build(f"{file}:half", context()))
    assert found.keys() == {"loss", "1.weight.grad", "1.bias.grad"}


def test_an_examined_pass_is_one_of_training_without_dropout() -> None:
    step = build(here("Small"), context())
    inputs = step.prepare(IMAGES)
    training: dict[str, bool] = {}

    def note(module: torch.nn.Module, _: object) -> None:
        training[type(module).__name__] = module.training

    assert step.examine is not None
    found = []
    hook = torch.nn.modules.module.register_module_forward_pre_hook(note)
    for run in (step.examine, step.run):
        run(inputs)
        found.append((training["BatchNorm2d"], training["Dropout"]))
    hook.remove()
    assert found == [(True, False), (True, True)]
