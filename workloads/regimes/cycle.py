from dataclasses import dataclass

from cudnn_sweep.workloads.parameters import number
from cudnn_sweep.workloads.problem import Shape
from cudnn_sweep.workloads.regime import SpatialRegime


@dataclass(frozen=True, kw_only=True)
class Cycle(SpatialRegime):
    """`sizes` input sizes in a cycle, from the base size to smaller sizes.

    The sizes differ by `step` pixels, rounded up to a multiple of `multiple`.
    """

    sizes: int = number(4, least=2)
    step: int = number(16, least=1)

    def period(self, base: Shape) -> tuple[Shape, ...]:
        return tuple(self.stepped(base, self.step, range(self.sizes)))
