"""A suite's cells on one GPU model: every combination of its axes, checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice, product
from typing import Any, Literal

from cudnn_sweep.workloads.cells.cell import Cell
from cudnn_sweep.workloads.cells.config import CudnnConfig
from cudnn_sweep.workloads.cells.listed_shapes import Listed, ListedChoice, ListedShape
from cudnn_sweep.workloads.cells.suite import (
    ALL_REGIMES,
    CellAxes,
    ModelSpec,
    RegimeChoice,
    SuiteSpec,
    each,
)
from cudnn_sweep.workloads.errors import CellsError, UserCodeError, WorkloadError, unknown
from cudnn_sweep.workloads.find_regime import make_regime, regime_types
from cudnn_sweep.workloads.find_state import make_state
from cudnn_sweep.workloads.layout import BY_STRIDES, check_layout, has_one_order
from cudnn_sweep.workloads.models.inputs import as_json, check_inputs
from cudnn_sweep.workloads.parameters import NamedChoice, checked_numbers, name_and_numbers
from cudnn_sweep.workloads.precision import find_precision
from cudnn_sweep.workloads.problem import ConvProblem, Shape, load_problems, sizes_text
from cudnn_sweep.workloads.regime import ShapeRegime
from cudnn_sweep.workloads.training.choice import ModelChoice
from cudnn_sweep.workloads.user_code import EXTRAS
from cudnn_sweep.workloads.workload import State

OPEN_SHAPES_CHECKED = 1000


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkloadFacts:
    """What planning must know of a workload, or a regime of the user's own, without importing it."""

    directions: tuple[str, ...] = ()
    varies: tuple[str, ...] = ()
    input_shape: Shape | None = None
    """None: a problem's, or a model's own."""
    recomputes: bool = False
    is_model: bool = False
    regime_parameters: dict[str, int | float | None] | None = None
    """Defaults of a regime's parameters, None of one that has to be given; None: it is no regime."""
    fault: str | None = None
    """Why no cell can use it; None: one can."""
    fails: bool = False
    """Whether that is because the user's code fails."""
    by_strides: bool = False
    """Whether a convolution of a model takes channels_last from its weight's strides alone."""


def without_missing(
    suite: SuiteSpec, facts: Mapping[str, WorkloadFacts]
) -> tuple[SuiteSpec, dict[str, str]]:
    """Without the models of packages that only an extra of ours brings, where they cannot be imported, and
    why each cannot. The suite as it is where nothing is left.
    """
    faults = {name: known.fault for name, known in facts.items() if name.split(".")[0] in EXTRAS}
    missing = {name: fault for name, fault in faults.items() if fault is not None}
    left = [
        axes.model_copy(update={"workload": names})
        for axes in suite.cells
        if (names := [name for name in each(axes.workload) if name not in missing])
    ]
    return (suite.model_copy(update={"cells": left}), missing) if left else (suite, {})


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
    return list({cell.cell_id: cell for _, cell in _cells(suite, facts, device, gpu)}.values())


def configs_of_cells(
    suite: SuiteSpec,
    facts: Mapping[str, WorkloadFacts],
    *,
    device: Literal["cuda", "cpu"],
    gpu: str,
) -> dict[str, tuple[CudnnConfig, ...]]:
    """The configs of each cell that has its own, by the cell's id."""
    if all(axes.configs is None for axes in suite.cells):
        return {}
    configs: dict[str, dict[CudnnConfig, None]] = {}
    for axes, cell in _cells(suite, facts, device, gpu):
        configs.setdefault(cell.cell_id, {}).update(dict.fromkeys(axes.configs or suite.configs))
    return {cell_id: tuple(each) for cell_id, each in configs.items()}


def _cells(
    suite: SuiteSpec, facts: Mapping[str, WorkloadFacts], device: str, gpu: str
) -> Iterator[tuple[CellAxes, Cell]]:
    """Each cell with the entry that it is of. Raises CellsError with the entry's number."""
    own = {name: spec.problem(name) for name, spec in suite.problems.items()}
    for number, axes in enumerate(suite.cells):
        try:
            values = axes.values_on(device)
            values |= {"problem": _problems(axes, own), "regime": _regimes(axes)}
            for combination in product(*values.values()):
                chosen = dict(zip(values, combination, strict=True))
                if (cell := _cell(axes, chosen, facts, gpu)) is not None:
                    yield axes, cell
        except WorkloadError as error:
            raise CellsError(number, str(error)) from error


def _cell(
    axes: CellAxes, chosen: dict[str, Any], facts: Mapping[str, WorkloadFacts], gpu: str
) -> Cell | None:
    """None where `regime: all` stands for a rule that does not suit it."""
    workload, problem = chosen.pop("workload"), chosen.pop("problem")
    known = _usable(facts[workload])
    if known.regime_parameters is not None:
        raise WorkloadError(f"workload {workload} is a regime: write it under `regime`")
    shape = _input_shape(workload, known, problem, chosen.pop("input"), chosen.pop("batch"))
    direction = _direction(workload, known, chosen.pop("direction"))
    rule = _suiting_regime(workload, known, chosen.pop("regime"), shape, problem, facts)
    if rule is None:
        return None
    if known.is_model:
        check_inputs(axes.model.inputs, workload, shape, rule.name, rule.varies)
    state = _state(workload, known, direction, chosen.pop("state"))
    cell = Cell(
        workload=workload,
        problem=problem and problem.with_batch(shape[0]),
        model=_model(workload, known, axes.model),
        direction=direction,
        input_shape=shape,
        regime=rule.name,
        regime_parameters=rule.parameters,
        listed_shapes=rule.listed_shapes,
        state=state.name,
        state_parameters=state.parameters(),
        precision=find_precision(chosen.pop("precision")).name,
        layout=check_layout(chosen.pop("layout")),
        gpu=gpu,
        **chosen,
    )
    return replace(cell, placement=BY_STRIDES) if _is_by_strides(cell, known) else cell


def _is_by_strides(cell: Cell, known: WorkloadFacts) -> bool:
    """Return whether a convolution takes channels_last from strides that rows of before version 3 lack.

    Of a network the first convolution, if the input has one channel, or one that `known` tells of.
    """
    tensors = [cell.input_shape, *([cell.problem.weight_shape] if cell.problem else [])]
    return cell.layout == "channels_last" and (known.by_strides or all(map(has_one_order, tensors)))


def _usable(known: WorkloadFacts) -> WorkloadFacts:
    if known.fault is not None:
        raise (UserCodeError if known.fails else WorkloadError)(known.fault)
    return known


def _problems(axes: CellAxes, own: Mapping[str, ConvProblem]) -> list[ConvProblem | None]:
    if axes.problem is None:
        return [None]
    return [problem for name in each(axes.problem) for problem in _named(name, own)]


def _named(name: str, own: Mapping[str, ConvProblem]) -> list[ConvProblem]:
    bundled = load_problems()
    if one := own.get(name) or bundled.get(name):
        return [one]
    of_file = [problem for full, problem in bundled.items() if full.startswith(f"{name}/")]
    if of_file:
        return of_file
    files = sorted({full.partition("/")[0] for full in bundled})
    neighbours = [full for full in bundled if full.startswith(f"{name.partition('/')[0]}/")]
    raise unknown("problem", name, [*own, *files] if own else neighbours or files)


def _input_shape(
    workload: str,
    known: WorkloadFacts,
    problem: ConvProblem | None,
    given: Shape | None,
    batch: int | None,
) -> Shape:
    if problem is not None and (known.input_shape is not None or known.is_model):
        raise WorkloadError(f"workload {workload} takes no problem, found {problem.name!r}")
    if given is not None and not known.is_model:
        found = sizes_text(given)
        raise WorkloadError(f"workload {workload} takes no input (a model does), found {found!r}")
    shape = problem.input_shape if problem is not None else given or known.input_shape
    if shape is None and known.is_model:
        raise WorkloadError(f"model {workload} needs an input: `input: 32x3x224x224`")
    if shape is None:
        raise WorkloadError(f"workload {workload} needs a problem: `problem: tutorials/rgb256`")
    return shape if batch is None else (batch, *shape[1:])


def _model(workload: str, known: WorkloadFacts, spec: ModelSpec) -> ModelChoice | None:
    if not known.is_model:
        if spec != ModelSpec():
            raise WorkloadError(f"workload {workload} is no model: `model` does not apply to it")
        return None
    name, parameters = name_and_numbers("optimiser", spec.optimiser)
    return ModelChoice(
        arguments=spec.arguments,
        inputs=as_json(spec.inputs),
        loss=spec.loss,
        optimiser=name,
        optimiser_parameters=parameters,
        expect=spec.expect,
    )


def _direction(workload: str, known: WorkloadFacts, name: str | None) -> str:
    if name is None:
        return known.directions[0]
    if name not in known.directions:
        raise unknown(f"direction of workload {workload}", name, list(known.directions))
    return name


@dataclass(frozen=True, kw_only=True, slots=True)
class _Rule:
    """A regime as a cell has it."""

    name: str
    parameters: dict[str, float]
    varies: set[str]
    shapes: ShapeRegime | None = None
    """None: a user's own, which is asked for shapes in a trial's process alone."""
    listed_shapes: tuple[ListedShape, ...] = ()


def _regimes(axes: CellAxes) -> list[tuple[RegimeChoice, bool]]:
    """Each with whether it is one of those that `all` stands for."""
    asked = each(axes.regime)
    named = {
        name_and_numbers("regime", choice)[0]
        for choice in asked
        if not isinstance(choice, ListedChoice)
    }
    others = [name for name in sorted(regime_types()) if name not in named]
    return [
        (name, choice == ALL_REGIMES)
        for choice in asked
        for name in (others if choice == ALL_REGIMES else [choice])
    ]


def _suiting_regime(
    workload: str,
    known: WorkloadFacts,
    regime: tuple[RegimeChoice, bool],
    base: Shape,
    problem: ConvProblem | None,
    facts: Mapping[str, WorkloadFacts],
) -> _Rule | None:
    """None where `all` stands for a rule that does not suit the cell."""
    choice, by_all = regime
    try:
        rule = _rule(choice, base, facts)
        if not rule.varies <= set(known.varies):
            may = " and ".join(known.varies) or "nothing"
            varied = " and ".join(sorted(rule.varies))
            raise WorkloadError(
                f"regime {rule.name} varies {varied}; workload {workload} may vary {may}"
            )
        if rule.shapes is not None:
            rule.shapes.period(base)
            _check_outputs(rule.shapes, problem, base)
    except WorkloadError:
        if by_all:
            return None
        raise
    return rule


def _rule(choice: RegimeChoice, base: Shape, facts: Mapping[str, WorkloadFacts]) -> _Rule:
    """Raises WorkloadError for a rule that there is not."""
    if isinstance(choice, ListedChoice):
        spec = choice.listed
        listed = spec.rule(base)
        return _Rule(
            name=spec.name,
            parameters=listed.parameters(),
            varies=spec.varies,
            shapes=listed,
            listed_shapes=listed.shapes,
        )
    name, numbers = name_and_numbers("regime", choice)
    if ":" in name:
        return _own_rule(name, numbers, _usable(facts[name]))
    if name == Listed.name:
        raise WorkloadError("regime listed needs a file: `regime: {listed: {file: shapes.csv}}`")
    rule = make_regime(name, numbers)
    varies = set(rule.varies.split(" and ")) - {"nothing"}
    return _Rule(name=name, parameters=rule.parameters(), varies=varies, shapes=rule)


def _own_rule(name: str, numbers: dict[str, float], known: WorkloadFacts) -> _Rule:
    """Of the user's own. Raises WorkloadError for parameters that it does not take."""
    wanted = known.regime_parameters
    if wanted is None:
        raise WorkloadError(f"regime {name} is no regime: write it under `workload`")
    types = {key: int if isinstance(default, int) else float for key, default in wanted.items()}
    parameters = wanted | checked_numbers(f"regime {name}", types, numbers)
    missing = [parameter for parameter, value in parameters.items() if value is None]
    if missing:
        raise WorkloadError(f"regime {name} needs {', '.join(missing)}: it has no default")
    given = {key: float(value) for key, value in parameters.items() if value is not None}
    return _Rule(name=name, parameters=given, varies=set(known.varies))


def _check_outputs(rule: ShapeRegime, problem: ConvProblem | None, base: Shape) -> None:
    """No shape is smaller than what the problem's kernel reaches over."""
    if problem is None:
        return
    for shape in rule.period(base) or islice(rule.stream(base), OPEN_SHAPES_CHECKED):
        if min(problem.output_shape(shape)) < 1:
            found = sizes_text(shape)
            raise WorkloadError(
                f"regime {rule.name} makes an input of {found}: too small for problem {problem.name}"
            )


def _state(workload: str, known: WorkloadFacts, direction: str, choice: NamedChoice) -> State:
    state = make_state(*name_and_numbers("state", choice))
    if state.recomputes and not known.recomputes:
        raise WorkloadError(
            f"state {state.name} runs the forward pass again; workload {workload} cannot do that"
        )
    if state.recomputes and direction not in ("forward_backward", "training"):
        raise WorkloadError(
            f"state {state.name} needs a backward pass; direction {direction} has none"
        )
    return state
