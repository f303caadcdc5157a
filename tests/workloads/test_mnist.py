"""The tutorial MNIST net on real digits."""

import torch

from cudnn_sweep.workloads.catalog.mnist import MnistNet, load_digits


def test_digits_are_the_1797_of_the_uci_set() -> None:
    images, labels = load_digits()
    assert images.shape == (1797, 1, 28, 28)
    assert 0 <= float(images.min()) and float(images.max()) <= 1
    assert torch.bincount(labels).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


def test_net_is_the_tutorials() -> None:
    shapes = [tuple(parameter.shape) for parameter in MnistNet().parameters()]
    assert shapes == [(10, 1, 5, 5), (10,), (20, 10, 5, 5), (20,), (10, 320), (10,)]
