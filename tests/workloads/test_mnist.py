"""The tutorial MNIST net on real digits."""

import torch

from cudnn_sweep.workloads.catalog.mnist import MnistNet, load_digits, mnist
from cudnn_sweep.workloads.precision import find_precision
from cudnn_sweep.workloads.workload import Setting


def test_digits_are_the_1797_of_the_uci_set() -> None:
    images, labels = load_digits()
    assert images.shape == (1797, 1, 28, 28)
    assert 0 <= float(images.min()) and float(images.max()) <= 1
    assert torch.bincount(labels).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


def test_net_is_the_tutorials() -> None:
    shapes = [tuple(parameter.shape) for parameter in MnistNet().parameters()]
    assert shapes == [(10, 1, 5, 5), (10,), (20, 10, 5, 5), (20,), (10, 320), (10,)]


def test_training_on_digits_brings_the_loss_down() -> None:
    torch.manual_seed(0)
    step = mnist.build(
        Setting(
            device=torch.device("cpu"),
            precision=find_precision("fp32"),
            layout="contiguous",
            direction="training",
            problem=None,
        )
    )
    epochs = [
        [float(step.run(step.prepare((100, 1, 28, 28)))) for _ in range(17)] for _ in range(3)
    ]
    first, last = sum(epochs[0]) / 17, sum(epochs[2]) / 17
    assert first > 1.5, "guessing costs 2.3"
    assert last < first / 2
