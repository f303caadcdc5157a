"""Multi-scale training: a size is held for some steps, then another one of the same few comes."""

import random
from dataclasses import dataclass

from cudnn_sweep.workloads.problem import Shape
from cudnn_sweep.workloads.regime import SpatialRegime, at_least


@dataclass(frozen=True, kw_only=True)
class MultiScale(SpatialRegime):
    """`sizes` sizes, from the base size downwards in steps of `step` pixels, each for `hold` steps.

    The defaults are those of YOLOv2 at a base size of 608: 320 to 608 by 32, a new one every ten
    batches (Redmon and Farhadi 2017, section 2). Sizes come in random order, each once per round.
    """

    name = "multi_scale"

    sizes: int = 10
    step: int = 32
    hold: int = 10
    seed: int = 0
    """Decides the order of the sizes."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self.name, "sizes", self.sizes, 2)
        at_least(self.name, "step", self.step, 1)
        at_least(self.name, "hold", self.hold, 1)

    def period(self, base: Shape) -> tuple[Shape, ...]:
        steps = list(range(self.sizes))
        random.Random(self.seed).shuffle(steps)
        shapes = self.stepped(base, self.step, steps)
        return tuple(shape for shape in shapes for _ in range(self.hold))
