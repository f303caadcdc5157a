"""Records the operations of an untimed step."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from cudnn_sweep.workloads.layout import in_force

# Operations of forward convolutions. `torch.jit.trace` records the second one.
FORWARDS = (torch.ops.aten.convolution.default, torch.ops.aten._convolution.default)
BACKWARD = torch.ops.aten.convolution_backward.default
SIZES = 9  # number of arguments that both operations have
# cuDNN's operations for the gradients of input and weight. The key is `transposed`.
BACKWARD_OPERATIONS = {False: ("ConvBwdData", "ConvBwdFilter"), True: ("ConvFwd", "ConvBwdFilter")}
UNNAMED = "???"  # name that torch gives to MkldnnTranspose

# Operations that torch.inference_mode does not decompose into `convolution`.
COMPOSITES = {
    getattr(operation, overload)
    for name in (
        *(f"conv{way}{n}d" for way in ("", "_transpose") for n in (1, 2, 3)),
        "_convolution_mode",
    )
    for operation in [getattr(torch.ops.aten, name)]
    for overload in operation.overloads()
}


@dataclass(frozen=True, kw_only=True, slots=True)
class ConvolutionWork:
    """Number of FLOPs and of moved bytes that one pass of a convolution needs."""

    flops: int
    bytes: int


class StepWatch(TorchDispatchMode):
    """Records the convolutions and the other cuDNN operations that run in its `with` block.

    `count_launches` returns the number of launches in the CUDA graph that is being captured.
    """

    def __init__(self, count_launches: Callable[[], int] | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.routes: list[str] = []
        self.backward_routes: list[str] = []
        self.work: list[ConvolutionWork] = []
        self.cudnn_calls: list[tuple[str, Hashable]] = []
        """Operation and key of the arguments, for each convolution that cuDNN runs."""
        self.cudnn_operations: set[str] = set()
        self.inputs: set[str] = set()
        self.weights: set[str] = set()
        """Types and layouts of the convolutions' weights, such as `bfloat16 channels_last`."""
        self.launches: list[tuple[str, int]] = []
        """Name of each operation, and the number of launches up to its end."""
        self._count = count_launches

    @property
    def selected_routes(self) -> list[str]:
        return self.routes or self.backward_routes

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in COMPOSITES:
            with self:
                return func.decompose(*args, **(kwargs or {}))
        if func is BACKWARD:
            self.backward_routes.append(_route(args[1], args[2], None, *args[4:10]))
            self._note_operands(args[1], args[2])
            wanted = zip(BACKWARD_OPERATIONS[args[7]], args[10], strict=False)
            names = [operation for operation, is_wanted in wanted if is_wanted]
            self._note_calls(self.backward_routes[-1], names, args[1], args[2], args[4:10])
        result = func(*args, **(kwargs or {}))
        name = str(func.overloadpacket._qualified_op_name).removeprefix("aten::")
        if func in FORWARDS:
            self.note_forward(args[:SIZES], result)
        elif func is BACKWARD:
            self.work.extend(_backward_work(args, result))
        elif "cudnn" in name:
            self.cudnn_operations.add(name)
        if self._count is not None:
            self.launches.append((name, self._count()))
        return result

    def note_forward(self, sizes: Any, output: torch.Tensor) -> None:
        """Record a forward convolution. `sizes` are the arguments of `aten.convolution`."""
        images, weight, transposed = sizes[0], sizes[1], sizes[6]
        self.routes.append(_route(*sizes))
        self._note_operands(images, weight)
        name = "ConvBwdData" if transposed else "ConvFwd"
        self._note_calls(self.routes[-1], [name], images, weight, sizes[3:])
        flops = _flops(images, weight, output, transposed)
        self.work.append(ConvolutionWork(flops=flops, bytes=_bytes(images, weight, output)))

    def _note_operands(self, images: torch.Tensor, weight: torch.Tensor) -> None:
        self.inputs.add(in_force(images))
        self.weights.add(in_force(weight))

    def _note_calls(self, route: str, names: list[str], *arguments: Any) -> None:
        if route.startswith("Cudnn"):
            self.cudnn_calls += [(name, _key(arguments)) for name in names]


def _key(argument: Any) -> Hashable:
    """Return a hashable key. Calls with equal keys share a plan in PyTorch's cache."""
    if isinstance(argument, torch.Tensor):
        return argument.shape, argument.stride(), argument.dtype
    return tuple(map(_key, argument)) if isinstance(argument, list | tuple) else argument


def _route(*convolution: Any) -> str:
    name = str(torch._C._select_conv_backend(*convolution).name)
    return "MkldnnTranspose" if name == UNNAMED else name


def _backward_work(args: Any, gradients: Any) -> list[ConvolutionWork]:
    output, images, weight, transposed = args[0], args[1], args[2], args[7]
    flops = _flops(images, weight, output, transposed)
    return [
        ConvolutionWork(flops=flops, bytes=_bytes(output, operand, gradient))
        for gradient, operand in zip(gradients[:2], (weight, images), strict=True)
        if gradient is not None
    ]


def _flops(
    images: torch.Tensor, weight: torch.Tensor, output: torch.Tensor, transposed: bool
) -> int:
    """Return twice the number of multiply-adds of a convolution."""
    places = images if transposed else output
    return 2 * places.numel() * weight[0].numel()


def _bytes(*tensors: torch.Tensor) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
