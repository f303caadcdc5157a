"""Workload: code that is timed. A function in `catalog/` or in a user's file defines it.

    @workload(directions=("forward",), varies=("batch", "space"), input_shape=(8, 3, 64, 64))
    def blur(context: Context) -> TimedStep:
        kernel = context.place(torch.nn.Conv2d(3, 3, 5, groups=3))
        return TimedStep(prepare=context.random, run=lambda images: context.forward(kernel, images))

`prepare` makes an input of the step, and `run` runs the step. Only `run` is timed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from cudnn_sweep.workloads.errors import WorkloadError
from cudnn_sweep.workloads.execution import EAGER, EXECUTIONS
from cudnn_sweep.workloads.layout import lay_out, lay_out_parameter
from cudnn_sweep.workloads.parameters import check_limits
from cudnn_sweep.workloads.precision import Precision
from cudnn_sweep.workloads.problem import ConvProblem, Shape
from cudnn_sweep.workloads.training.choice import ModelChoice
from cudnn_sweep.workloads.warnings import WarningName

if TYPE_CHECKING:
    import torch  # planning must not import torch

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class Context:
    """Device, cell and config for which a workload builds its step."""

    device: torch.device
    """Device of the step."""
    precision: Precision
    """Precision of the cell. `precision.autocast` is `"float16"`, `"bfloat16"` or None."""
    layout: str
    """`contiguous`, `channels_last`, or `weights` if only parameters are channels_last."""
    direction: str
    """Direction that is timed, such as `forward`."""
    problem: ConvProblem | None
    """Sizes of the cell's convolution. None if the cell names no problem."""
    model: ModelChoice | None = None
    """Arguments, loss and optimiser of a model. None for other workloads."""
    state: State | None = None
    """State in which the step runs. None if there is none."""
    execution: str = EAGER
    """Name of the execution, such as `eager`, `compile` or `cuda_graph`."""
    distribute: Callable[[torch.nn.Module], torch.nn.Module] | None = None
    """Wraps a model for training in several ranks. None if there is only one rank."""
    reference: bool = False
    """Whether to compute in float64, as a reference for errors."""
    _calls: Counter[str] = field(default_factory=Counter, init=False, repr=False, compare=False)
    _compiled: dict[Callable[..., Any], Callable[..., Any]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @property
    def dtype(self) -> torch.dtype:
        """Type of parameters and inputs."""
        import torch

        return torch.float64 if self.reference else self.precision.torch_dtype()

    def region(self) -> AbstractContextManager[object]:
        """Return a context manager that turns autocast on if the precision has it."""
        import torch

        kind = None if self.reference else self.precision.autocast
        return torch.autocast(self.device.type, getattr(torch, kind)) if kind else nullcontext()

    def forward(self, function: Callable[[Any], T], inputs: Any, *, draws: bool = True) -> T:
        """Run `function(inputs)` in the cell's autocast and state. Call every model through this.

        `draws` says whether `function` draws random numbers.
        """
        self._calls["forward"] += 1
        function = self._executed(function)
        with self.region():
            if self.state is not None and self.state.recomputes and not self.reference:
                from torch.utils.checkpoint import checkpoint

                output: T = checkpoint(
                    function, inputs, use_reentrant=False, preserve_rng_state=draws
                )
                return output
            return function(inputs)

    def _executed(self, function: Callable[[Any], T]) -> Callable[[Any], T]:
        keywords = EXECUTIONS[self.execution].compiled
        if keywords is None or self.reference:
            return function
        if function not in self._compiled:
            import torch

            self._compiled[function] = torch.compile(function, **keywords)
        return self._compiled[function]

    def check_in_force(self) -> None:
        """Raise WorkloadError if the state or execution needs `forward` but nothing called it."""
        needing = [f"state {self.state.name}"] if self.state and self.state.recomputes else []
        if EXECUTIONS[self.execution].compiles:
            needing.append(f"execution {self.execution}")
        if needing and not self._calls["forward"]:
            raise WorkloadError(
                f"{needing[0]} was not in force: the step called its model without `context.forward`"
            )

    def random(self, shape: Shape) -> torch.Tensor:
        """Return normal random numbers in the cell's precision and layout."""
        import torch

        kind = self.precision.torch_dtype()
        return self.like_inputs(torch.randn(shape, device=self.device, dtype=kind))

    def random_weight(self, shape: Shape) -> torch.Tensor:
        """Return normal random numbers in the precision and layout of the cell's parameters."""
        return lay_out_parameter(self.random(shape), self.layout)

    def random_gradient(self, shape: Shape) -> torch.Tensor:
        """Return a random gradient for a convolution's output of this shape."""
        import torch

        kind = self.precision.torch_dtype()
        values = torch.randn(shape, device=self.device, dtype=kind).to(
            getattr(torch, self.precision.autocast or self.precision.dtype)
        )
        values = values.to(torch.float64) if self.reference else values
        return lay_out_parameter(values, self.layout)

    def like_inputs(self, values: torch.Tensor) -> torch.Tensor:
        """Return `values` on the device, in the cell's precision and layout."""
        values = values.to(self.device, self.precision.torch_dtype())
        return lay_out(values.to(self.dtype), self.layout)

    def place(self, module: torch.nn.Module) -> torch.nn.Module:
        """Move `module` to the device and to the cell's precision and layout, and return it."""
        module = module.to(self.device, self.precision.torch_dtype()).to(self.dtype)
        for tensor in chain(module.parameters(), module.buffers()):
            tensor.data = lay_out_parameter(tensor.data, self.layout)
        return module


@dataclass(frozen=True, kw_only=True, slots=True)
class TimedStep:
    """A step: `run(prepare(shape))`. In training, `run` returns the loss."""

    prepare: Callable[[Shape], Any]
    """Makes an input of a given shape. This is not timed."""
    run: Callable[[Any], Any]
    """Runs the step on an input that `prepare` made. This is timed."""
    examine: Callable[[Any], dict[str, torch.Tensor]] | None = None
    """Returns a step's outputs and gradients, by name, for an input of `prepare`. Not timed."""
    accuracy: Callable[[], float] | None = None
    """Returns the current accuracy on held-back examples, from 0 to 1."""
    own_times_ms: Callable[[], dict[str, float]] | None = None
    """Returns times in milliseconds that the step itself measured, by name."""
    warnings: set[WarningName] = field(default_factory=set)
    """Warnings that the step adds while it runs."""
    has_parameters: bool = True
    """Whether the model has parameters."""
    capturable: bool = True
    """Whether a CUDA graph can hold the step."""
    as_written: Callable[[Any], Any] | None = None
    """Runs the step without compiler or CUDA graph. None if `run` does so."""


@dataclass(frozen=True, kw_only=True)
class State(ABC):
    """Code around a step, such as checkpointing. Its parameters are numeric dataclass fields."""

    name: ClassVar[str]
    """Name of the state: the name of the class's file."""
    recomputes: ClassVar[bool] = False
    """Whether the forward pass runs again in the backward pass, as in checkpointing."""
    alone: ClassVar[bool] = False
    """Whether no other process may use the device."""

    def __init_subclass__(cls) -> None:
        cls.name = cls.__module__.rpartition(".")[2]

    def __post_init__(self) -> None:
        check_limits(f"state {self.name}", self)

    @abstractmethod
    def surround(self, step: TimedStep, context: Context) -> TimedStep:
        """Return a step that runs `step` in this state."""

    def parameters(self) -> dict[str, float]:
        """Return the parameters by name."""
        return {name: float(value) for name, value in asdict(self).items()}


def pay_unrelated_step(device: torch.device) -> None:
    """Train an unrelated network for two steps, so that CUDA and its libraries are loaded."""
    import torch

    net = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3), torch.nn.Flatten(), torch.nn.Linear(27, 2))
    net.to(device)
    optimiser = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for _ in range(2):  # the second step loads the kernels that add to an existing `.grad`
        loss = net(torch.ones(2, 2, 5, 5, device=device)).square().mean()
        loss.backward()
        optimiser.step()
    float(loss.detach())


@dataclass(frozen=True, kw_only=True, slots=True)
class Workload:
    """Code that is timed. The function `workload` explains the fields."""

    name: str
    directions: tuple[str, ...]
    varies: tuple[str, ...]
    input_shape: Shape | None = None
    batches: int = 1
    recomputes: bool
    build: Callable[[Context], TimedStep]
    is_model: bool = False
    """Whether this is a model that is named by its import path."""
    pay_one_time_costs: Callable[[torch.device], None] = pay_unrelated_step

    def step(self, context: Context) -> TimedStep:
        built = self.build(context)
        if context.reference or context.state is None:
            return built
        return context.state.surround(built, context)


def workload(
    *,
    directions: Sequence[str],
    varies: Sequence[str] = (),
    input_shape: Shape | None = None,
    batches: int = 1,
    recomputes: bool = False,
    pay_one_time_costs: Callable[[torch.device], None] = pay_unrelated_step,
) -> Callable[[Callable[[Context], TimedStep]], Workload]:
    """Return a decorator that makes a workload of a function. The workload has the function's name.

    `directions` names the parts that can be timed. The first is the default.
    `varies` names the sizes that a shape regime may change: `batch`, `space` or both.
    `input_shape` is the base shape of the regimes. If it is None, the problem has the shape.
    `batches` is the least number of different inputs in the loop.
    `recomputes` says whether a state may run the forward pass again, in `Context.forward`.
    `pay_one_time_costs` loads libraries, so that they are not loaded in the first timed call.
    """
    return lambda build: Workload(
        name=build.__name__,
        directions=tuple(directions),
        varies=tuple(varies),
        input_shape=input_shape,
        batches=batches,
        recomputes=recomputes,
        pay_one_time_costs=pay_one_time_costs,
        build=build,
    )
