"""Cell: one workload × regime × state × precision × layout on one GPU model."""

import json
from dataclasses import asdict, dataclass, fields

from cudnn_sweep.workloads.hashes import text_hash
from cudnn_sweep.workloads.models.choice import ModelChoice
from cudnn_sweep.workloads.problem import ConvProblem, Shape
from cudnn_sweep.workloads.regime import ShapeRegime, make_regime


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    workload: str
    problem: ConvProblem | None
    model: ModelChoice | None
    direction: str
    input_shape: Shape
    regime: str
    regime_parameters: dict[str, float]
    state: str
    state_parameters: dict[str, float]
    precision: str
    layout: str
    gpu: str
    """The GPU's model, or the processor's where there is no CUDA."""

    @property
    def cell_id(self) -> str:
        own = {each.name: getattr(self, each.name) for each in fields(self)}
        return text_hash(json.dumps(own, sort_keys=True, default=asdict))

    def shapes(self) -> ShapeRegime:
        return make_regime(self.regime, self.regime_parameters)
