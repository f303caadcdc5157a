from dataclasses import dataclass

from cudnn_sweep.workloads.problem import Shape
from cudnn_sweep.workloads.regime import ShapeRegime


@dataclass(frozen=True, kw_only=True)
class Fixed(ShapeRegime):
    """The same shape in all steps. This is the default regime."""

    varies = "nothing"

    def period(self, base: Shape) -> tuple[Shape, ...]:
        return (base,)
