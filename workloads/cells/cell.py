"""A cell: one workload with its regime, state, precision and layout on one GPU model."""

import json
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property

from cudnn_sweep.workloads.cells.config import OF_CELL, Config
from cudnn_sweep.workloads.cells.listed_shapes import Listed
from cudnn_sweep.workloads.find_regime import make_regime
from cudnn_sweep.workloads.hashes import text_hash
from cudnn_sweep.workloads.problem import ConvProblem, Shape
from cudnn_sweep.workloads.records.row import ListedShape
from cudnn_sweep.workloads.regime import ShapeRegime
from cudnn_sweep.workloads.training.choice import ModelChoice

ONE_RANK = "1_rank"


@dataclass(frozen=True, kw_only=True)
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
    """Model of the GPU. On a machine without CUDA, it is the model of the CPU."""
    listed_shapes: tuple[ListedShape, ...] = ()
    ranks: str = ONE_RANK
    """Number of processes that train together, written as `1_rank` or `2_ranks`."""
    placement: str = ""
    """`strides` if only the strides of tensors make the cell channels_last, else empty."""

    def under(self, config: Config) -> "Cell":
        """Return a copy of the cell with the layout and precision that `config` sets."""
        given = {name: value for name in OF_CELL if (value := getattr(config, name)) is not None}
        return replace(self, **given)

    @cached_property
    def cell_id(self) -> str:
        return text_hash(self.as_json())

    def as_json(self) -> str:
        """Return the fields as JSON. Fields with default values are left out."""
        values = asdict(self)
        for field in fields(self):
            if values[field.name] == field.default:
                del values[field.name]
        if self.model is not None:
            del values["model"]["expect"]
            if self.model.inputs is None:
                del values["model"]["inputs"]
        return json.dumps(values, sort_keys=True)

    @property
    def rank_count(self) -> int:
        return int(self.ranks.partition("_")[0])

    def shapes(self) -> ShapeRegime:
        """Return the cell's regime. A user's own regime is imported."""
        if self.listed_shapes:
            draws, seed = (int(self.regime_parameters[name]) for name in ("draws", "seed"))
            return Listed(shapes=self.listed_shapes, draws=draws, seed=seed)
        return make_regime(self.regime, self.regime_parameters)

    def may_end(self) -> bool:
        """Return whether the shapes repeat. A user's own regime is assumed to repeat them."""
        return self.own_regime is not None or self.shapes().period(self.input_shape) is not None

    @property
    def own_regime(self) -> str | None:
        return self.regime if ":" in self.regime and not self.listed_shapes else None
