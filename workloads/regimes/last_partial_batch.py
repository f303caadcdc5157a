from dataclasses import dataclass

from cudnn_sweep.workloads.errors import WorkloadError
from cudnn_sweep.workloads.parameters import number
from cudnn_sweep.workloads.problem import Shape
from cudnn_sweep.workloads.regime import ShapeRegime

MOST_BATCHES = 10_000  # all of them are timed together


@dataclass(frozen=True, kw_only=True)
class LastPartialBatch(ShapeRegime):
    """`full_batches` batches of the base size, then one batch of `last` times the base size."""

    varies = "batch"

    full_batches: int = number(7, least=1, most=MOST_BATCHES)
    last: float = number(0.5, above=0, below=1)

    def period(self, base: Shape) -> tuple[Shape, ...]:
        smaller = max(1, round(base[0] * self.last))
        if smaller == base[0]:
            raise WorkloadError(
                f"regime {self.name}: last={self.last} must give a batch size below {base[0]}"
            )
        return (base,) * self.full_batches + ((smaller, *base[1:]),)
