from dataclasses import dataclass

from cudnn_sweep.workloads.errors import WorkloadError
from cudnn_sweep.workloads.parameters import number
from cudnn_sweep.workloads.problem import Shape
from cudnn_sweep.workloads.regime import ShapeRegime

MOST_STEPS = 10_000  # of each kind, because they are timed together


@dataclass(frozen=True, kw_only=True)
class TrainAndEval(ShapeRegime):
    """`train_steps` steps, then `eval_steps` steps with `eval_batch` times the base batch size."""

    varies = "batch"

    train_steps: int = number(20, least=1, most=MOST_STEPS)
    eval_steps: int = number(5, least=1, most=MOST_STEPS)
    eval_batch: float = number(2.0, above=0)

    def period(self, base: Shape) -> tuple[Shape, ...]:
        batch = max(1, round(base[0] * self.eval_batch))
        if batch == base[0]:
            raise WorkloadError(
                f"regime {self.name}: eval_batch={self.eval_batch} must change the batch size of "
                f"{batch}"
            )
        return (base,) * self.train_steps + ((batch, *base[1:]),) * self.eval_steps
