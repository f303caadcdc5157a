from dataclasses import dataclass

from cudnn_sweep.workloads.problem import Shape
from cudnn_sweep.workloads.regime import ShapeRegime


@dataclass(frozen=True, kw_only=True)
class Fixed(ShapeRegime):
    """Always the same shape: the default."""

    varies = "nothing"

    def period(self, base: Shape) -> tuple[Shape, ...]:
        return (base,)
