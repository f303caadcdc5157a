"""Workload: code that is timed, under a name. One file each in `catalog/`, or a user's own file.

    @workload(directions=("forward",), varies=("batch", "space"), input_shape=(8, 3, 64, 64))
    def blur(setting: Setting) -> TimedStep:
        kernel = setting.place(torch.nn.Conv2d(3, 3, 5, groups=3))
        return TimedStep(prepare=setting.random, run=lambda images: setting.forward(kernel, images))

The function's body is set-up and not timed; `prepare` makes a step's input and is not timed; `run`
is the step.
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
from cudnn_sweep.workloads.layout import lay_out
from cudnn_sweep.workloads.parameters import check_limits
from cudnn_sweep.workloads.precision import Precision
from cudnn_sweep.workloads.problem import ConvProblem, Shape
from cudnn_sweep.workloads.training.choice import ModelChoice
from cudnn_sweep.workloads.warnings import WarningName

if TYPE_CHECKING:
    import torch  # else only by what runs: planning makes states, and does without it

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """What a workload is built for."""

    device: torch.device
    """Where the step runs."""
    precision: Precision
    """The cell's; `precision.autocast` is `"float16"`, `"bfloat16"` or None."""
    layout: str
    """`contiguous` or `channels_last`."""
    direction: str
    """Which of the workload's directions is timed."""
    problem: ConvProblem | None
    """The cell's convolution, where it names one."""
    model: ModelChoice | None = None
    """Arguments, loss and optimiser of a model that is named by its import path."""
    state: State | None = None
    """What surrounds the step; None: nothing."""
    reference: bool = False
    """Compute in float64, from numbers as they are in the precision."""
    _calls: Counter[str] = field(default_factory=Counter, init=False, repr=False, compare=False)
    """How often `forward` ran, under that name."""

    @property
    def dtype(self) -> torch.dtype:
        """The type of parameters and inputs."""
        import torch

        return torch.float64 if self.reference else self.precision.torch_dtype()

    def region(self) -> AbstractContextManager[object]:
        """The context that a step runs in: autocast where the precision asks for it."""
        return nullcontext() if self.reference else self.precision.region(self.device)

    def forward(self, function: Callable[[Any], T], inputs: Any, *, draws: bool = True) -> T:
        """Return `function` of `inputs`, called in the region and as the cell asks: the one way to call a model.

        `draws`: it may draw random numbers, the same if it runs again; a CUDA graph does not allow that.
        """
        self._calls["forward"] += 1
        with self.region():
            if self.state is not None and self.state.recomputes and not self.reference:
                from torch.utils.checkpoint import checkpoint

                found: T = checkpoint(
                    function, inputs, use_reentrant=False, preserve_rng_state=draws
                )
                return found
            return function(inputs)

    def check_in_force(self) -> None:
        """Raise WorkloadError if the state needs calls through `forward`, and none came."""
        if self.state is not None and self.state.recomputes and not self._calls["forward"]:
            raise WorkloadError(
                f"state {self.state.name} was not in force: the step called its model past `setting.forward`"
            )

    def random(self, shape: Shape) -> torch.Tensor:
        """Normal random numbers (never zeros: some kernels run faster on them) in the layout asked for."""
        import torch

        return self.like_inputs(torch.randn(shape, device=self.device, dtype=self._drawn))

    def random_gradient(self, shape: Shape) -> torch.Tensor:
        """Random numbers of the type that a convolution returns, which is autocast's where there is one."""
        import torch

        values = torch.randn(shape, device=self.device, dtype=self._drawn)
        values = values.to(getattr(torch, self.precision.autocast or self.precision.dtype))
        return lay_out(values.to(torch.float64) if self.reference else values, self.layout)

    def like_inputs(self, values: torch.Tensor) -> torch.Tensor:
        """`values` on the device, in the precision's type and the layout asked for."""
        return lay_out(values.to(self.device, self._drawn).to(self.dtype), self.layout)

    def place(self, module: torch.nn.Module) -> torch.nn.Module:
        """`module` on the device, in the precision's type and the layout asked for."""
        module = module.to(self.device, self._drawn).to(self.dtype)
        for tensor in chain(module.parameters(), module.buffers()):
            tensor.data = lay_out(tensor.data, self.layout)
        return module

    @property
    def _drawn(self) -> torch.dtype:
        return self.precision.torch_dtype()


@dataclass(frozen=True, kw_only=True, slots=True)
class TimedStep:
    """`run(prepare(shape))` is one step. A training step's `run` returns its loss."""

    prepare: Callable[[Shape], Any]
    """Makes a step's input of that shape; not timed."""
    run: Callable[[Any], Any]
    """The step, of what `prepare` made; timed."""
    examine: Callable[[Any], dict[str, torch.Tensor]] | None = None
    """A step's outputs and gradients by name, not timed: to tell whether configs compute the same.

    Called twice, it has the same to compute."""
    accuracy: Callable[[], float] | None = None
    """The share that is right after the steps so far, of what was held back; not timed."""
    own_times_ms: Callable[[], dict[str, float]] | None = None
    """Milliseconds that the step's own clock read so far, by name."""
    warnings: set[WarningName] = field(default_factory=set)
    """What is to be told of it, noted while it runs."""
    has_parameters: bool = True
    """False: a model without any, whose step fails if it runs no operation either."""
    capturable: bool = True
    """False: a step's launches come from several threads, and a CUDA graph would miss some."""


@dataclass(frozen=True, kw_only=True)
class State(ABC):
    """What surrounds a step at equal shapes and changes what cuDNN does.

    Its dataclass fields are its parameters, all of them numbers.
    """

    name: ClassVar[str]
    """What a cell's `state` calls it: its file's name."""
    recomputes: ClassVar[bool] = False
    """A step's forward pass keeps no activations and runs again in the backward pass; only for what has
    one and runs it through `Setting.forward`."""

    alone: ClassVar[bool] = False
    """A step must have no other process beside it on the device."""

    def __init_subclass__(cls) -> None:
        cls.name = cls.__module__.rpartition(".")[2]

    def __post_init__(self) -> None:
        check_limits(f"state {self.name}", self)

    @abstractmethod
    def surround(self, step: TimedStep, setting: Setting) -> TimedStep:
        """The step as it is in this state; called once `step` is built."""

    def parameters(self) -> dict[str, float]:
        """Its numbers by name."""
        return {name: float(value) for name, value in asdict(self).items()}


def pay_unrelated_step(device: torch.device) -> None:
    """Two steps of an unrelated training: context, libraries, first backward, first optimiser step.

    The second still loads kernels (adding into an existing `.grad`).
    """
    import torch

    net = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3), torch.nn.Flatten(), torch.nn.Linear(27, 2))
    net.to(device)
    optimiser = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for _ in range(2):
        loss = net(torch.ones(2, 2, 5, 5, device=device)).square().mean()
        loss.backward()
        optimiser.step()
    float(loss.detach())


@dataclass(frozen=True, kw_only=True, slots=True)
class Workload:
    name: str
    directions: tuple[str, ...]
    """What can be timed; the first is the default."""
    varies: tuple[str, ...]
    """What a shape regime may change: `batch`, `space`."""
    input_shape: Shape | None
    """Batch, channels, space; None: the problem's."""
    batches: int
    """How many different inputs of one shape are made and gone round."""
    recomputes: bool
    """It runs its forward pass through `Setting.forward`: a state may have it run again."""
    is_model: bool
    """Named by a model's import path: its input shape and ModelChoice come from whoever asks."""
    pay_one_time_costs: Callable[[torch.device], None]
    build: Callable[[Setting], TimedStep]

    def step(self, setting: Setting) -> TimedStep:
        """Built, and in the setting's state unless it is a reference."""
        built = self.build(setting)
        if setting.reference or setting.state is None:
            return built
        return setting.state.surround(built, setting)


def workload(
    *,
    directions: Sequence[str],
    varies: Sequence[str] = (),
    input_shape: Shape | None = None,
    batches: int = 1,
    recomputes: bool = False,
    pay_one_time_costs: Callable[[torch.device], None] = pay_unrelated_step,
) -> Callable[[Callable[[Setting], TimedStep]], Workload]:
    """Make a workload of the function below, under the function's name. Its body is set-up and not timed.

    `directions`: names of what can be timed, the first by default. `varies`: what a shape regime may
    change, `batch` or `space`. `input_shape`: what regimes start from; None: the problem's. `batches`:
    how many different inputs of one shape are made and gone round. `recomputes`: its forward pass goes
    through `Setting.forward`, so that a state may run it again. `pay_one_time_costs`: an unrelated step
    that is run first, so that the first call of a shape does not pay for libraries.
    """
    return lambda build: Workload(
        name=build.__name__,
        directions=tuple(directions),
        varies=tuple(varies),
        input_shape=input_shape,
        batches=batches,
        recomputes=recomputes,
        is_model=False,
        pay_one_time_costs=pay_one_time_costs,
        build=build,
    )
