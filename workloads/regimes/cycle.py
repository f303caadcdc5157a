from dataclasses import dataclass

from cudnn_sweep.workloads.parameters import number
from cudnn_sweep.workloads.problem import Shape
from cudnn_sweep.workloads.regime import SpatialRegime


@dataclass(frozen=True, kw_only=True)
class Cycle(SpatialRegime):
    """The base size and smaller sizes in a cycle, `sizes` in all.

    Each is smaller than the one before by `step` pixels, rounded up to a multiple of `multiple`.
    """

    sizes: int = number(4, least=2)
    step: int = number(16, least=1)

    def period(self, base: Shape) -> tuple[Shape, ...]:
        return tuple(self.stepped(base, self.step, range(self.sizes)))
