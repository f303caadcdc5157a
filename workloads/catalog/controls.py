"""Operations that do not use `benchmark`. A sweep must find no effect of it on them."""

import torch
from torch import nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from cudnn_sweep.workloads.differentiable import DIRECTIONS, differentiable_step
from cudnn_sweep.workloads.problem import Shape
from cudnn_sweep.workloads.workload import Context, TimedStep, workload

HIDDEN = 512
SEQUENCES = (64, 128, HIDDEN)  # batch, length, features
IMAGES = (32, 64, 56, 56)
HEADS = (8, 16, 512, 64)  # batch, heads, length, features of a head


@workload(directions=DIRECTIONS, varies=("batch",), input_shape=SEQUENCES)
def lstm(context: Context) -> TimedStep:
    """One LSTM layer with 512 units."""
    return _recurrent(context, nn.LSTM(HIDDEN, HIDDEN, batch_first=True))


@workload(directions=DIRECTIONS, varies=("batch",), input_shape=SEQUENCES)
def gru(context: Context) -> TimedStep:
    """One GRU layer with 512 units."""
    return _recurrent(context, nn.GRU(HIDDEN, HIDDEN, batch_first=True))


@workload(directions=DIRECTIONS, varies=("batch", "space"), input_shape=IMAGES)
def batch_norm(context: Context) -> TimedStep:
    """Batch normalisation in training mode."""
    weight, bias = context.random((IMAGES[1],)), context.random((IMAGES[1],))
    return differentiable_step(
        context,
        lambda images: functional.batch_norm(images, None, None, weight, bias, training=True),
        {"weight": weight, "bias": bias},
    )


@workload(directions=DIRECTIONS, varies=("batch", "space"), input_shape=IMAGES)
def max_pool(context: Context) -> TimedStep:
    """Max pooling with a 2 × 2 window."""

    def halved(shape: Shape) -> Shape:
        return (*shape[:2], *(size // 2 for size in shape[2:]))

    return differentiable_step(context, lambda images: functional.max_pool2d(images, 2), {}, halved)


@workload(directions=DIRECTIONS, varies=("batch", "space"), input_shape=IMAGES)
def relu(context: Context) -> TimedStep:
    """ReLU activation, max(x, 0)."""
    return differentiable_step(context, torch.relu, {})


@workload(directions=DIRECTIONS, varies=("batch", "space"), input_shape=IMAGES)
def sigmoid(context: Context) -> TimedStep:
    """Sigmoid activation, 1 / (1 + exp(-x))."""
    return differentiable_step(context, torch.sigmoid, {})


@workload(directions=DIRECTIONS, varies=("batch", "space"), input_shape=IMAGES)
def tanh(context: Context) -> TimedStep:
    """Hyperbolic tangent activation."""
    return differentiable_step(context, torch.tanh, {})


@workload(directions=DIRECTIONS, varies=("batch",), input_shape=HEADS)
def attention(context: Context) -> TimedStep:
    """Scaled dot-product self-attention. cuDNN computes it in half precision on a GPU."""

    def attend(heads: torch.Tensor) -> torch.Tensor:
        with sdpa_kernel([SDPBackend.CUDNN_ATTENTION, SDPBackend.MATH], set_priority=True):
            return functional.scaled_dot_product_attention(heads, heads, heads)

    return differentiable_step(context, attend, {})


def _recurrent(context: Context, layer: nn.LSTM | nn.GRU) -> TimedStep:
    context.place(layer)
    layer.flatten_parameters()  # puts the weights into one piece of memory, as cuDNN requires
    parameters = dict(layer.named_parameters())
    return differentiable_step(context, lambda numbers: layer(numbers)[0], parameters)
