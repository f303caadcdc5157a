"""The net of PyTorch's old MNIST example, trained on 1,500 digits and tested on 297 digits.

The images have 8×8 pixels (see ../digits/README.md) and are scaled to 28×28.
"""

import gzip
from importlib.resources import files

import numpy
import torch
from torch import nn

from cudnn_sweep.workloads.workload import Context, TimedStep, workload

DIGITS = files("cudnn_sweep.workloads").joinpath("digits", "digits.csv.gz")
TRAINED = 1500
BATCHES = 15  # of 100 images
SEED = 0  # of the shuffle

Batch = tuple[torch.Tensor, torch.Tensor]


def mnist_net() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 10, 5),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(10, 20, 5),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(320, 10),
    )


def load_digits() -> Batch:
    """Return float32 images (1797, 1, 28, 28) with values from 0 to 1, and their digits."""
    table = numpy.loadtxt(gzip.decompress(DIGITS.read_bytes()).splitlines(), delimiter=",")
    images = torch.tensor(table[:, :-1] / 16, dtype=torch.float32).reshape(-1, 1, 8, 8)
    labels = torch.tensor(table[:, -1], dtype=torch.long)
    return nn.functional.interpolate(images, size=28, mode="bilinear"), labels


def split_digits() -> tuple[Batch, Batch]:
    images, labels = load_digits()
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(SEED))
    trained, held = order[:TRAINED], order[TRAINED:]
    return (images[trained], labels[trained]), (images[held], labels[held])


@workload(
    directions=("training",), varies=("batch",), input_shape=(100, 1, 28, 28), batches=BATCHES
)
def mnist(context: Context) -> TimedStep:
    """A training step of the MNIST net. Its batch is already on the device."""
    (images, labels), held = split_digits()
    images, labels = context.like_inputs(images), labels.to(context.device)
    net = context.place(mnist_net())
    optimiser = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    scaler = torch.amp.GradScaler(
        context.device.type, enabled=context.precision.autocast == "float16"
    )
    drawn = 0

    def prepare(shape: tuple[int, ...]) -> Batch:
        nonlocal drawn
        places = torch.arange(drawn, drawn + shape[0], device=context.device) % len(labels)
        drawn += shape[0]
        return images[places], labels[places]

    def backward(batch: Batch) -> torch.Tensor:
        inputs, targets = batch
        optimiser.zero_grad()
        output = context.forward(net, inputs)
        with context.region():
            loss = nn.functional.cross_entropy(output, targets)
        scaler.scale(loss).backward()
        return loss.detach()

    def run(batch: Batch) -> torch.Tensor:
        loss = backward(batch)
        scaler.step(optimiser)
        scaler.update()
        return loss

    def examine(batch: Batch) -> dict[str, torch.Tensor]:
        loss = backward(batch)
        weights = dict(net.named_parameters())
        gradients = {f"{name}.grad": weight.grad for name, weight in weights.items()}
        return {"loss": loss} | {name: grad for name, grad in gradients.items() if grad is not None}

    @torch.no_grad()
    def accuracy() -> float:
        inputs, targets = context.like_inputs(held[0]), held[1].to(context.device)
        guesses = context.forward(net, inputs).argmax(dim=1)
        return float((guesses == targets).float().mean())

    return TimedStep(prepare=prepare, run=run, examine=examine, accuracy=accuracy)
