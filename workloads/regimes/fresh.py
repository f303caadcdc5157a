"""A regime in which each step has a new input size, like photographs of any size."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, prod

from cudnn_sweep.workloads.errors import WorkloadError
from cudnn_sweep.workloads.parameters import number
from cudnn_sweep.workloads.problem import Shape
from cudnn_sweep.workloads.regime import SpatialRegime

MIN_SIZES = 1000  # with fewer sizes, a loop would end before its time limit


@dataclass(frozen=True, kw_only=True)
class Fresh(SpatialRegime):
    """Random sizes between `smallest` times the base size and the base size, without repetition.

    If `multiple` leaves fewer than 1,000 sizes, they repeat in a random order.
    """

    smallest: float = number(0.5, above=0, below=1)
    seed: int = 0
    """Seed of the random sizes."""

    def period(self, base: Shape) -> tuple[Shape, ...] | None:
        sizes = self._sizes(base)
        if sizes >= MIN_SIZES:
            return None
        if self.multiple > 1 and sizes > 1:
            return tuple(self._drawn(base))
        which = "" if self.multiple == 1 else f" that are multiples of {self.multiple}"
        raise WorkloadError(
            f"regime fresh: found {sizes} sizes up to {base[2:]}{which}; "
            f"allowed: at least {MIN_SIZES}, or at least 2 with a `multiple`"
        )

    def stream(self, base: Shape) -> Iterator[Shape]:
        """Yield shapes in random order. Each comes once if `period` is None; else they repeat."""
        yield from self._drawn(base) if self.period(base) is None else super().stream(base)

    def _drawn(self, base: Shape) -> Iterator[Shape]:
        draw = random.Random(self.seed)
        seen: set[Shape] = set()
        while len(seen) < self._sizes(base):
            space = tuple(
                self.multiple * draw.randint(self._lowest(size), size // self.multiple)
                for size in base[2:]
            )
            if space not in seen:
                seen.add(space)
                yield (*base[:2], *space)

    def _lowest(self, size: int) -> int:
        """Return the smallest allowed size, divided by `multiple`."""
        return max(1, ceil(round(size * self.smallest) / self.multiple))

    def _sizes(self, base: Shape) -> int:
        return prod(max(0, size // self.multiple - self._lowest(size) + 1) for size in base[2:])
