from dataclasses import dataclass

from cudnn_sweep.workloads.errors import WorkloadError
from cudnn_sweep.workloads.parameters import number
from cudnn_sweep.workloads.problem import Shape
from cudnn_sweep.workloads.regime import ShapeRegime

MOST_STEPS = 10_000  # of each kind: a timed group is a whole period


@dataclass(frozen=True, kw_only=True)
class TrainAndEval(ShapeRegime):
    """`train_steps` steps at the base batch, then `eval_steps` steps at `eval_batch` × base."""

    varies = "batch"

    train_steps: int = number(20, least=1, most=MOST_STEPS)
    eval_steps: int = number(5, least=1, most=MOST_STEPS)
    eval_batch: float = number(2.0, above=0)

    def period(self, base: Shape) -> tuple[Shape, ...]:
        batch = max(1, round(base[0] * self.eval_batch))
        if batch == base[0]:
            raise WorkloadError(
                f"regime train_and_eval: eval_batch {self.eval_batch} leaves the batch at {base[0]}"
            )
        return (base,) * self.train_steps + ((batch, *base[1:]),) * self.eval_steps
