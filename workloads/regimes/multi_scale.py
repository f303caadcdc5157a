import random
from dataclasses import dataclass

from cudnn_sweep.workloads.parameters import number
from cudnn_sweep.workloads.problem import Shape
from cudnn_sweep.workloads.regime import SpatialRegime


@dataclass(frozen=True, kw_only=True)
class MultiScale(SpatialRegime):
    """The base size and `sizes` - 1 smaller sizes in steps of `step` pixels, each size for `hold`
    batches. The `step` is rounded up to a multiple of `multiple`.

    The defaults are those of YOLOv2 at a base size of 608: 320 to 608 by 32, a new one every ten
    batches (Redmon and Farhadi 2017, section 2). Sizes come in random order, each once per round.
    """

    sizes: int = number(10, least=2)
    step: int = number(32, least=1)
    hold: int = number(10, least=1)
    seed: int = 0
    """Decides the order of the sizes."""

    def period(self, base: Shape) -> tuple[Shape, ...]:
        steps = list(range(self.sizes))
        random.Random(self.seed).shuffle(steps)
        shapes = self.stepped(base, self.step, steps)
        return tuple(shape for shape in shapes for _ in range(self.hold))
