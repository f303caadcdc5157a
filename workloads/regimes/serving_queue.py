"""Batch sizes of a server that takes whatever waits in its queue, up to a full batch."""

import random
from dataclasses import dataclass
from math import exp

from cudnn_sweep.workloads.errors import WorkloadError
from cudnn_sweep.workloads.parameters import number
from cudnn_sweep.workloads.problem import Shape
from cudnn_sweep.workloads.regime import ShapeRegime


@dataclass(frozen=True, kw_only=True)
class ServingQueue(ShapeRegime):
    """While one batch runs, requests arrive at random: `load` times the base batch on average.

    Arrivals are a Poisson process. Requests that do not fit into a batch wait for the next one, and
    an idle server serves the first request alone. A period has `batches` batches.
    """

    varies = "batch"

    load: float = number(0.5, above=0, below=1)
    batches: int = number(100, least=2)
    seed: int = 0
    """Decides when requests arrive."""

    def period(self, base: Shape) -> tuple[Shape, ...]:
        if base[0] < 2:
            raise WorkloadError(f"regime serving_queue: a batch of {base[0]} has no smaller one")
        draw = random.Random(self.seed)
        waiting, sizes = 0, []
        for _ in range(self.batches):
            waiting += poisson(draw, self.load * base[0])
            batch = min(max(waiting, 1), base[0])
            waiting = max(waiting - batch, 0)
            sizes.append(batch)
        return tuple((size, *base[1:]) for size in sizes)


def poisson(draw: random.Random, mean: float) -> int:
    """Knuth's multiplication of uniform numbers, in parts lest exp(-mean) vanish."""
    if mean > 500:
        return poisson(draw, 500) + poisson(draw, mean - 500)
    limit, product, count = exp(-mean), draw.random(), 0
    while product > limit:
        product *= draw.random()
        count += 1
    return count
