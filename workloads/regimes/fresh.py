"""Every step has an input size never seen before, as with images of any size: an open loop."""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from cudnn_sweep.workloads.errors import WorkloadError
from cudnn_sweep.workloads.problem import Shape
from cudnn_sweep.workloads.regime import ShapeRegime, resized

MIN_SIZES = 1000  # fewer would end before a loop's budget does


@dataclass(frozen=True, kw_only=True)
class Fresh(ShapeRegime):
    """Sizes drawn without repetition between `smallest` times the base size and the base size.

    The draws are the same for every config and replicate, so that loops can be compared.
    """

    name = "fresh"
    varies = "space"

    smallest: float = 0.5
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.smallest < 1:
            raise WorkloadError(
                f"regime fresh: smallest must be above 0 and below 1, found {self.smallest}"
            )

    def period(self, base: Shape) -> None:
        if self._sizes(base) < MIN_SIZES:
            raise WorkloadError(
                f"regime fresh: {base[2:]} has fewer than {MIN_SIZES} sizes to draw"
            )

    def stream(self, base: Shape) -> Iterator[Shape]:
        """Ends when every size was drawn once."""
        draw = random.Random(self.seed)
        seen: set[Shape] = set()
        while len(seen) < self._sizes(base):
            space = tuple(draw.randint(self._lowest(size), size) for size in base[2:])
            if space not in seen:
                seen.add(space)
                yield resized(base, space)

    def _lowest(self, size: int) -> int:
        return max(1, round(size * self.smallest))

    def _sizes(self, base: Shape) -> int:
        total = 1
        for size in base[2:]:
            total *= size - self._lowest(size) + 1
        return total
