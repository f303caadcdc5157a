"""Batch sizes of a server that takes whatever waits in its queue, up to a full batch."""

import random
from dataclasses import dataclass
from math import exp

from cudnn_sweep.workloads.errors import WorkloadError
from cudnn_sweep.workloads.problem import Shape
from cudnn_sweep.workloads.regime import ShapeRegime, at_least, inside


@dataclass(frozen=True, kw_only=True)
class ServingQueue(ShapeRegime):
    """While one batch runs, requests arrive at random: `load` times the base batch on average.

    Arrivals are a Poisson process. Requests that do not fit into a batch wait for the next one, and
    an idle server serves the first request alone. A period has `batches` batches.
    """

    name = "serving_queue"
    varies = "batch"

    load: float = 0.5
    batches: int = 100
    seed: int = 0
    """Decides when requests arrive."""

    def __post_init__(self) -> None:
        at_least(self.name, "batches", self.batches, 2)
        inside(self.name, "load", self.load)

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
