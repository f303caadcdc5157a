"""Full batches, then the smaller one that ends an epoch, and again."""

from dataclasses import dataclass

from cudnn_sweep.workloads.errors import WorkloadError
from cudnn_sweep.workloads.problem import Shape
from cudnn_sweep.workloads.regime import ShapeRegime, at_least, inside

MOST_BATCHES = 10_000  # a timed group is a whole epoch


@dataclass(frozen=True, kw_only=True)
class LastPartialBatch(ShapeRegime):
    """`full_batches` of the base size, then one of `last` times that size."""

    name = "last_partial_batch"
    varies = "batch"

    full_batches: int = 7
    last: float = 0.5

    def __post_init__(self) -> None:
        at_least(self.name, "full_batches", self.full_batches, 1)
        if self.full_batches > MOST_BATCHES:
            raise WorkloadError(
                f"regime last_partial_batch: full_batches must be at most {MOST_BATCHES}, "
                f"found {self.full_batches}"
            )
        inside(self.name, "last", self.last)

    def period(self, base: Shape) -> tuple[Shape, ...]:
        smaller = max(1, round(base[0] * self.last))
        if smaller == base[0]:
            raise WorkloadError(
                f"regime last_partial_batch: a batch of {base[0]} has no smaller one at last={self.last}"
            )
        return (base,) * self.full_batches + ((smaller, *base[1:]),)
