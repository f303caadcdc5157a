"""Models that are called with other things than one float tensor, and those that return their loss."""

from typing import Any

import pytest
import torch

from cudnn_sweep.workloads.errors import WorkloadError
from cudnn_sweep.workloads.training.loss import make_loss
from tests.workloads.made_up_models import Detected, build, context, here

IDS = {"shape": ["batch", "length"], "dtype": "int64", "below": 50}
MASK = {"shape": ["batch", "length"], "dtype": "bool", "value": True}
LABELS = {"shape": ["batch"], "dtype": "int64", "below": 2}
TEXT = {"ids": IDS, "mask": MASK, "labels": LABELS}
SHAPE = (4, 7)


@pytest.mark.parametrize(
    ("model", "inputs"),
    [
        ("Reader", TEXT),
        ("Reader", [IDS, MASK, LABELS]),
        ("DictReader", [TEXT]),
        ("Reader", here("make_text")),
    ],
)
def test_a_model_is_called_as_its_inputs_say(model: str, inputs: Any) -> None:
    step = build(here(model), context(inputs=inputs, loss="own"))
    made = step.prepare(SHAPE)
    loss = step.run(made)
    assert loss.dim() == 0 and float(loss) > 0
    assert not step.warnings
    tensors = [each for each in torch.utils._pytree.tree_leaves(made)]
    assert [tuple(each.shape) for each in tensors] == [SHAPE, SHAPE, SHAPE[:1]]
    assert tensors[0].dtype == torch.int64 and 0 <= tensors[0].min() <= tensors[0].max() < 50
    assert tensors[1].dtype == torch.bool and bool(tensors[1].all())
    assert step.examine is not None and "loss" in step.examine(made)


def test_floating_inputs_take_the_precision_and_others_keep_their_type() -> None:
    inputs = [
        {"shape": ["batch", 3, "height", "width"]},
        {"shape": [1], "dtype": "float32"},
        LABELS,
    ]
    wanted = context("inference", "bf16", layout="channels_last", inputs=inputs)
    (images, scale, labels), _ = build(here("Plain"), wanted).prepare((2, 3, 8, 9))
    assert images.shape == (2, 3, 8, 9) and images.dtype == torch.bfloat16
    assert images.is_contiguous(memory_format=torch.channels_last)
    assert (scale.dtype, labels.dtype) == (torch.float32, torch.int64)


def test_a_loss_that_is_left_out_is_told_once() -> None:
    step = build(here("Reader"), context(inputs=TEXT))
    assert not step.warnings
    step.run(step.prepare(SHAPE))
    assert step.warnings == {"own_loss_unused"}
    silent = build(here("Plain"), context())
    silent.run(silent.prepare((4, 3, 8, 8)))
    assert not silent.warnings


def test_own_losses_are_found_where_models_put_them() -> None:
    loss, logits = torch.tensor(2.0), torch.ones(3, 2)
    own = make_loss("own")
    for output in ({"loss": loss, "logits": logits}, (loss, logits), [loss], loss):
        assert own(output) is loss
    others: tuple[Any, ...] = (
        {"logits": logits},
        (logits, loss),
        logits,
        Detected(logits, []),
        (),
        None,
    )
    for output in others:
        with pytest.raises(
            WorkloadError, match="loss own needs a loss from the model, which returned"
        ):
            own(output)
