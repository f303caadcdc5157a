import random
from dataclasses import dataclass

from cudnn_sweep.workloads.parameters import number
from cudnn_sweep.workloads.problem import Shape
from cudnn_sweep.workloads.regime import SpatialRegime


@dataclass(frozen=True, kw_only=True)
class MultiScale(SpatialRegime):
    """`sizes` input sizes in random order, each for `hold` batches.

    The largest size is the base size. The sizes differ by `step` pixels, rounded up to a multiple
    of `multiple`. With a base size of 608, the defaults are those of YOLOv2 (Redmon and Farhadi
    2017, section 2).
    """

    sizes: int = number(10, least=2)
    step: int = number(32, least=1)
    hold: int = number(10, least=1)
    seed: int = 0
    """Seed of the random order."""

    def period(self, base: Shape) -> tuple[Shape, ...]:
        steps = list(range(self.sizes))
        random.Random(self.seed).shuffle(steps)
        shapes = self.stepped(base, self.step, steps)
        return tuple(shape for shape in shapes for _ in range(self.hold))
