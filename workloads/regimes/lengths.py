"""A regime with random lengths, like those of sentences or recordings."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, log

from cudnn_sweep.workloads.errors import WorkloadError
from cudnn_sweep.workloads.parameters import number
from cudnn_sweep.workloads.problem import Shape
from cudnn_sweep.workloads.regime import SpatialRegime

LEAST_LENGTHS = 1000  # with fewer lengths, an open loop would end before its time limit


@dataclass(frozen=True, kw_only=True)
class Lengths(SpatialRegime):
    """Random lengths with a log-normal distribution, for the last size of the input.

    The longest length is the base size. `median` and `shortest` are shares of it. If `buckets` is
    0, no length repeats. Otherwise `draws` lengths repeat, padded to `buckets` different sizes.
    """

    median: float = number(0.2, above=0)
    spread: float = number(0.8, above=0)
    """Standard deviation of the logarithm of the length."""
    shortest: float = 0.05
    buckets: int = number(0, least=0)
    draws: int = number(100, least=2)
    seed: int = 0
    """Seed of the random lengths."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.shortest < self.median < 1:
            raise WorkloadError(
                "regime lengths: allowed: 0 <= shortest < median < 1; "
                f"found shortest {self.shortest}, median {self.median}"
            )

    def period(self, base: Shape) -> tuple[Shape, ...] | None:
        if self.buckets == 0:
            if self._lengths(base[-1]) <= LEAST_LENGTHS:
                raise WorkloadError(
                    f"regime lengths: found too few lengths, {self._shortest(base[-1])} to "
                    f"{base[-1]}; more than {LEAST_LENGTHS} are needed if buckets is 0"
                )
            return None
        lengths = self._draw(base[-1])
        step = base[-1] / self.buckets
        padded = (ceil(next(lengths) / step) * step for _ in range(self.draws))
        return tuple((*base[:-1], self._padded(round(length), base[-1])) for length in padded)

    def stream(self, base: Shape) -> Iterator[Shape]:
        """Yield the shapes in order. Without buckets, they end after each length has come once."""
        if self.buckets:
            yield from super().stream(base)
            return
        seen: set[int] = set()
        for length in self._draw(base[-1]):
            if length not in seen:
                seen.add(length)
                yield (*base[:-1], length)
            if len(seen) == self._lengths(base[-1]):
                return

    def _draw(self, longest: int) -> Iterator[int]:
        draw = random.Random(self.seed)
        while True:
            length = draw.lognormvariate(log(self.median * longest), self.spread)
            yield self._padded(min(max(self._shortest(longest), round(length)), longest), longest)

    def _padded(self, length: int, longest: int) -> int:
        return min(ceil(length / self.multiple) * self.multiple, self.rounded(longest))

    def _lengths(self, longest: int) -> int:
        first = self._padded(self._shortest(longest), longest)
        return (self.rounded(longest) - first) // self.multiple + 1

    def _shortest(self, longest: int) -> int:
        return max(1, round(self.shortest * longest))
