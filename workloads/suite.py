"""Suite: a named choice of workloads × regimes × precisions × layouts × configs × replicates."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveInt

from cudnn_sweep.workloads.cell import Cell
from cudnn_sweep.workloads.config import CudnnConfig
from cudnn_sweep.workloads.errors import WorkloadError, unknown
from cudnn_sweep.workloads.layout import check_layout
from cudnn_sweep.workloads.measurement import MeasureSpec
from cudnn_sweep.workloads.precision import find_precision
from cudnn_sweep.workloads.problem import ConvProblem, Shape, find_problem
from cudnn_sweep.workloads.regime import ShapeRegime, make_regime

STRICT = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)

Batch = Annotated[int, Field(ge=1, lt=2**31)]
RegimeChoice = str | dict[str, dict[str, float]]


class BatchByDevice(BaseModel):
    """One batch size on a GPU, another on a CPU: two different cells."""

    model_config = STRICT

    cuda: Batch
    cpu: Batch


class CellAxes(BaseModel):
    """Cells: a list in any place stands for each of its values, all combined."""

    model_config = STRICT

    workload: str | list[str]
    problem: str | list[str] | None = None
    direction: str | list[str] | None = None
    batch: Batch | BatchByDevice | list[Batch] | None = None
    regime: RegimeChoice | list[RegimeChoice] = "fixed"
    precision: str | list[str] = "tf32"
    layout: str | list[str] = "contiguous"


class SuiteSpec(BaseModel):
    model_config = STRICT

    cells: list[CellAxes] = Field(min_length=1)
    configs: list[CudnnConfig] = Field(
        default=[CudnnConfig(benchmark=False), CudnnConfig(benchmark=True)], min_length=1
    )
    replicates: PositiveInt = 5
    new_compute_caches: PositiveInt = 1
    """How many of a cell's replicates start with an empty cache of compiled kernels."""
    twin_every: Annotated[int, Field(ge=1, le=20)] = 20
    """One block in so many carries an A/A pair: a check of the verdicts on real data."""
    measure: MeasureSpec = MeasureSpec()
    needs_cuda: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkloadFacts:
    """What planning must know of a workload without importing it."""

    directions: tuple[str, ...]
    varies: tuple[str, ...]
    input_shape: Shape | None


def workload_names(suite: SuiteSpec) -> list[str]:
    return list(dict.fromkeys(name for axes in suite.cells for name in _each(axes.workload)))


def expand_cells(
    suite: SuiteSpec,
    facts: Mapping[str, WorkloadFacts],
    *,
    device: Literal["cuda", "cpu"],
    gpu: str,
) -> list[Cell]:
    """The suite's cells on one GPU model, without repetition.

    Raises WorkloadError for a name or a combination that does not exist.
    """
    cells = {
        cell.cell_id: cell
        for axes in suite.cells
        for cell in _combinations(axes, facts, device=device, gpu=gpu)
    }
    return list(cells.values())


def _combinations(
    axes: CellAxes, facts: Mapping[str, WorkloadFacts], *, device: str, gpu: str
) -> Iterator[Cell]:
    batch = getattr(axes.batch, device) if isinstance(axes.batch, BatchByDevice) else axes.batch
    for workload, problem, direction, size, regime, precision, layout in product(
        _each(axes.workload),
        _each(axes.problem),
        _each(axes.direction),
        _each(batch),
        _each(axes.regime),
        _each(axes.precision),
        _each(axes.layout),
    ):
        known = facts[workload]
        sized = _problem(workload, known, problem, size)
        base = sized.input_shape if sized else _with_batch(known.input_shape, size)
        rule = _regime(regime)
        _check_regime(workload, known, rule, base)
        yield Cell(
            workload=workload,
            problem=sized,
            direction=_direction(workload, known, direction),
            input_shape=base,
            regime=rule.name,
            regime_parameters=rule.parameters(),
            precision=find_precision(precision).name,
            layout=check_layout(layout),
            gpu=gpu,
        )


def _each(value: Any) -> list[Any]:
    """An axis's values: pydantic has checked their types."""
    return value if isinstance(value, list) else [value]


def _problem(
    workload: str, known: WorkloadFacts, name: str | None, batch: int | None
) -> ConvProblem | None:
    if known.input_shape is not None:
        if name is not None:
            raise WorkloadError(f"workload {workload} takes no problem, found {name!r}")
        return None
    if name is None:
        raise WorkloadError(f"workload {workload} needs a problem: `problem: tutorials/rgb256`")
    problem = find_problem(name)
    return problem if batch is None else problem.with_batch(batch)


def _with_batch(shape: Shape | None, batch: int | None) -> Shape:
    assert shape is not None
    return shape if batch is None else (batch, *shape[1:])


def _direction(workload: str, known: WorkloadFacts, name: str | None) -> str:
    if name is None:
        return known.directions[0]
    if name not in known.directions:
        raise unknown(f"direction of workload {workload}", name, list(known.directions))
    return name


def _regime(choice: RegimeChoice) -> ShapeRegime:
    if isinstance(choice, str):
        return make_regime(choice, {})
    if len(choice) != 1:
        raise WorkloadError(f"a regime is one name with its parameters, found {', '.join(choice)}")
    ((name, parameters),) = choice.items()
    return make_regime(name, parameters)


def _check_regime(workload: str, known: WorkloadFacts, rule: ShapeRegime, base: Shape) -> None:
    if rule.varies != "nothing" and rule.varies not in known.varies:
        may = " and ".join(known.varies) or "nothing"
        raise WorkloadError(
            f"regime {rule.name} varies {rule.varies}; workload {workload} may vary {may}"
        )
    rule.period(base)
