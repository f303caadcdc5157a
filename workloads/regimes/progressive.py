"""Progressive resizing: training begins with small images and ends with large ones."""

from dataclasses import dataclass

from cudnn_sweep.workloads.errors import WorkloadError
from cudnn_sweep.workloads.parameters import number
from cudnn_sweep.workloads.problem import Shape
from cudnn_sweep.workloads.regime import SpatialRegime, resized


@dataclass(frozen=True, kw_only=True)
class Progressive(SpatialRegime):
    """`stages` sizes in even steps from `smallest` times the base size up to it, each for `hold` steps.

    EfficientNetV2 is trained this way (Tan and Le 2021, section 4: four stages). The timed loop goes through
    all stages again and again.
    """

    stages: int = number(4, least=2)
    smallest: float = number(0.5, above=0, below=1)
    hold: int = number(10, least=1)

    def period(self, base: Shape) -> tuple[Shape, ...]:
        shares = [
            self.smallest + (1 - self.smallest) * stage / (self.stages - 1)
            for stage in range(self.stages)
        ]
        shapes = [
            resized(base, tuple(self.rounded(round(size * share)) for size in base[2:]))
            for share in shares
        ]
        if len(set(shapes)) < self.stages:
            raise WorkloadError(
                f"regime progressive: {base[2:]} has not {self.stages} sizes from {self.smallest} "
                f"times its own{self.of_multiple()}"
            )
        return tuple(shape for shape in shapes for _ in range(self.hold))
