"""Lengths of sentences or recordings, most of them short. They can be padded to buckets."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, log

from cudnn_sweep.workloads.errors import WorkloadError
from cudnn_sweep.workloads.parameters import number
from cudnn_sweep.workloads.problem import Shape
from cudnn_sweep.workloads.regime import SpatialRegime

LEAST_LENGTHS = 1000  # that an open loop draws from: fewer would end before its budget


@dataclass(frozen=True, kw_only=True)
class Lengths(SpatialRegime):
    """The last size is log-normal around `median` × base, between `shortest` × base and the base.

    With `buckets` 0, lengths are used as they come, in an open loop without repetitions. Otherwise
    they are padded to the next of `buckets` equidistant sizes up to the base, with `draws` lengths
    per period. To pad everything to the base size, use the regime `fixed`.
    """

    median: float = number(0.2, above=0)
    spread: float = number(0.8, above=0)
    """Standard deviation of the logarithm of the last size."""
    shortest: float = 0.05
    buckets: int = number(0, least=0)
    draws: int = number(100, least=2)
    seed: int = 0
    """Decides which lengths are drawn."""

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
                    f"regime lengths: too few lengths, {self._shortest(base[-1])} to {base[-1]}; "
                    f"if buckets is 0, over {LEAST_LENGTHS} are needed"
                )
            return None
        lengths = self._draw(base[-1])
        step = base[-1] / self.buckets
        padded = (ceil(next(lengths) / step) * step for _ in range(self.draws))
        return tuple((*base[:-1], self._padded(round(length), base[-1])) for length in padded)

    def stream(self, base: Shape) -> Iterator[Shape]:
        """Yield the shapes in order. Without buckets they end when each length has come once."""
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
