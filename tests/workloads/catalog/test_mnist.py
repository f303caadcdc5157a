"""The tutorial MNIST net on real digits."""

import pytest
import torch

from cudnn_sweep.workloads.catalog.mnist import load_digits, mnist, split_digits
from cudnn_sweep.workloads.workload import TimedStep
from tests.workloads.made_up_cells import plain_context


def test_what_is_held_back_is_never_trained_on_and_is_the_same_for_every_config() -> None:
    torch.manual_seed(1)
    (images, labels), (held, held_labels) = split_digits()
    torch.manual_seed(2)
    again = split_digits()
    assert (len(images), len(held)) == (1500, 297)
    assert torch.equal(images, again[0][0]) and torch.equal(held, again[1][0])
    assert len(labels.unique()) == len(held_labels.unique()) == 10
    counts = torch.bincount(labels, minlength=10) + torch.bincount(held_labels, minlength=10)
    assert counts.tolist() == torch.bincount(load_digits()[1]).tolist()


def test_batches_go_round_the_training_digits_in_an_order_that_is_always_the_same() -> None:
    images, labels = split_digits()[0]
    torch.manual_seed(3)
    step = build()
    batches = [step.prepare((100, 1, 28, 28)) for _ in range(16)]
    assert mnist.batches == 15
    assert torch.equal(torch.cat([batch[0] for batch in batches[:15]]), images)
    assert torch.equal(batches[15][1], labels[:100])


@pytest.mark.slow
def test_accuracy_is_the_share_of_the_held_back_digits_that_training_gets_right() -> None:
    torch.manual_seed(1)
    step = build("amp_bf16")
    assert step.accuracy is not None
    assert step.accuracy() < 0.4, "a tenth by guessing"
    batches = [step.prepare((100, 1, 28, 28)) for _ in range(15)]
    for _ in range(6):
        for batch in batches:
            step.run(batch)
    assert 0.85 < step.accuracy() < 1


def build(precision: str = "fp32") -> TimedStep:
    return mnist.step(plain_context("training", precision=precision))


def test_a_step_learns_and_its_accuracy_is_a_share_of_297_held_digits() -> None:
    torch.manual_seed(1)
    step = build()
    assert step.accuracy is not None and step.examine is not None
    before = 297 * step.accuracy()
    assert before == pytest.approx(round(before)) and 0 < before < 100, "a tenth by guessing"
    batch = step.prepare((100, 1, 28, 28))
    found = step.examine(batch)
    names = [f"{n}.{part}" for n in (0, 3, 7) for part in ("weight", "bias")]
    assert list(found) == ["loss", *(f"{name}.grad" for name in names)]
    assert all(value.any() for value in found.values())
    assert found["loss"].item() == step.run(batch).item(), "examining changes no weight"
    assert step.run(batch) < found["loss"], "a step does"
    images, _ = load_digits()
    assert images.shape == (1797, 1, 28, 28) and (float(images.min()), float(images.max())) == (
        0,
        1,
    )
