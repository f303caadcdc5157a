"""Input sizes go round through a fixed number of them, as multi-scale training does."""

from dataclasses import dataclass

from cudnn_sweep.workloads.errors import WorkloadError
from cudnn_sweep.workloads.problem import Shape
from cudnn_sweep.workloads.regime import ShapeRegime, at_least, resized


@dataclass(frozen=True, kw_only=True)
class Cycle(ShapeRegime):
    """`sizes` sizes, from the base size downwards in steps of `step` pixels."""

    name = "cycle"
    varies = "space"

    sizes: int = 4
    step: int = 16

    def __post_init__(self) -> None:
        at_least(self.name, "sizes", self.sizes, 2)
        at_least(self.name, "step", self.step, 1)

    def period(self, base: Shape) -> tuple[Shape, ...]:
        smallest = min(base[2:], default=0) - self.step * (self.sizes - 1)
        if smallest < 1:
            raise WorkloadError(
                f"regime cycle: {self.sizes} sizes in steps of {self.step} do not fit below {base[2:]}"
            )
        return tuple(
            resized(base, tuple(size - self.step * i for size in base[2:]))
            for i in range(self.sizes)
        )
