"""Training steps, then evaluation with another batch size, and again."""

from dataclasses import dataclass

from cudnn_sweep.workloads.errors import WorkloadError
from cudnn_sweep.workloads.problem import Shape
from cudnn_sweep.workloads.regime import ShapeRegime, at_least

MOST_STEPS = 10_000  # a timed group is a whole period


@dataclass(frozen=True, kw_only=True)
class TrainAndEval(ShapeRegime):
    """`train_steps` of the base batch, then `eval_steps` of `eval_batch` times that batch."""

    name = "train_and_eval"
    varies = "batch"

    train_steps: int = 20
    eval_steps: int = 5
    eval_batch: float = 2.0

    def __post_init__(self) -> None:
        at_least(self.name, "train_steps", self.train_steps, 1)
        at_least(self.name, "eval_steps", self.eval_steps, 1)
        if self.train_steps + self.eval_steps > MOST_STEPS:
            raise WorkloadError(
                f"regime train_and_eval: train_steps and eval_steps must be at most {MOST_STEPS} "
                f"together, found {self.train_steps + self.eval_steps}"
            )
        if self.eval_batch <= 0:
            raise WorkloadError(
                f"regime train_and_eval: eval_batch must be above 0, found {self.eval_batch}"
            )

    def period(self, base: Shape) -> tuple[Shape, ...]:
        batch = max(1, round(base[0] * self.eval_batch))
        if batch == base[0]:
            raise WorkloadError(
                f"regime train_and_eval: a batch of {base[0]} times {self.eval_batch} is the same"
            )
        return (base,) * self.train_steps + ((batch, *base[1:]),) * self.eval_steps
