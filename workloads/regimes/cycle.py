"""Input sizes go round through a fixed number of them, as multi-scale training does."""

from dataclasses import dataclass

from cudnn_sweep.workloads.problem import Shape
from cudnn_sweep.workloads.regime import SpatialRegime, at_least


@dataclass(frozen=True, kw_only=True)
class Cycle(SpatialRegime):
    """`sizes` sizes, from the base size downwards in steps of `step` pixels, or of the next `multiple`."""

    name = "cycle"

    sizes: int = 4
    step: int = 16

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self.name, "sizes", self.sizes, 2)
        at_least(self.name, "step", self.step, 1)

    def period(self, base: Shape) -> tuple[Shape, ...]:
        return tuple(self.stepped(base, self.step, range(self.sizes)))
