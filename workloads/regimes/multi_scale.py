"""Multi-scale training: a size is held for some steps, then another one of the same few comes."""

import random
from dataclasses import dataclass

from cudnn_sweep.workloads.errors import WorkloadError
from cudnn_sweep.workloads.problem import Shape
from cudnn_sweep.workloads.regime import ShapeRegime, at_least, resized


@dataclass(frozen=True, kw_only=True)
class MultiScale(ShapeRegime):
    """`sizes` sizes, from the base size downwards in steps of `step` pixels, each for `hold` steps.

    The defaults are those of YOLOv2 at a base size of 608: 320 to 608 by 32, a new one every ten
    batches (Redmon and Farhadi 2017, section 2). Sizes come in random order, each once a round.
    """

    name = "multi_scale"
    varies = "space"

    sizes: int = 10
    step: int = 32
    hold: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        at_least(self.name, "sizes", self.sizes, 2)
        at_least(self.name, "step", self.step, 1)
        at_least(self.name, "hold", self.hold, 1)

    def period(self, base: Shape) -> tuple[Shape, ...]:
        steps = list(range(self.sizes))
        if min(base[2:], default=0) - self.step * steps[-1] < 1:
            raise WorkloadError(
                f"regime multi_scale: {self.sizes} sizes in steps of {self.step} do not fit below "
                f"{base[2:]}"
            )
        random.Random(self.seed).shuffle(steps)
        shapes = (resized(base, tuple(size - self.step * i for size in base[2:])) for i in steps)
        return tuple(shape for shape in shapes for _ in range(self.hold))
