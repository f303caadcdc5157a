"""Expands a suite into cells and checks each cell."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice, product
from typing import Any, Literal

from cudnn_sweep.workloads.cells.cell import Cell
from cudnn_sweep.workloads.cells.config import Config
from cudnn_sweep.workloads.cells.listed_shapes import Listed, ListedChoice
from cudnn_sweep.workloads.cells.suite import (
    ALL_REGIMES,
    CellAxes,
    ModelSpec,
    RegimeChoice,
    SuiteSpec,
    as_list,
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
    """Facts about a workload, or about a user's own regime, with which cells are planned."""

    directions: tuple[str, ...] = ()
    varies: tuple[str, ...] = ()
    input_shape: Shape | None = None
    """Shape of the input. None if the problem or the cell's `input` gives the shape."""
    recomputes: bool = False
    is_model: bool = False
    regime_parameters: dict[str, int | float | None] | None = None
    """Parameters of a regime with their defaults. None for a workload."""
    fault: str | None = None
    """Reason why no cell can use the workload or regime. None if cells can use it."""
    fails: bool = False
    """Whether `fault` is an error in the user's code."""
    by_strides: bool = False
    """Whether some convolution is channels_last only because of the strides of its weight."""


Facts = Mapping[str, WorkloadFacts]


def without_missing(
    suite: SuiteSpec, facts: Facts, compiler: str | None
) -> tuple[SuiteSpec, dict[str, str]]:
    """Remove what cannot run on this machine. Return the suite, and a reason for each removed name.

    Models are removed if their pip extra is missing. Configs that compile are removed if
    `compiler` is None.
    """
    extras = {name: traits for name, traits in facts.items() if name.split(".")[0] in EXTRAS}
    missing = {name: traits.fault for name, traits in extras.items() if traits.fault is not None}
    compiling = {each for each in suite.every_config if each.how.compiles and compiler is None}
    missing |= {f"execution {each.execution}": "there is no C++ compiler" for each in compiling}

    def runs(configs: list[Config] | None) -> list[Config] | None:
        return configs and [config for config in configs if compiler or not config.how.compiles]

    own = runs(suite.without_gpu.configs) or None
    without_gpu = suite.without_gpu.model_copy(update={"configs": own})
    configs = runs(suite.configs)
    left = [
        axes.model_copy(update={"workload": names, "configs": runs(axes.configs)})
        for axes in suite.cells
        if (names := [name for name in as_list(axes.workload) if name not in missing])
        and (runs(axes.configs) if axes.configs else configs)
    ]
    changed = {"cells": left, "configs": configs, "without_gpu": without_gpu}
    return (suite.model_copy(update=changed), missing) if left else (suite, {})


def expand_cells(
    suite: SuiteSpec, facts: Facts, *, device: Literal["cuda", "cpu"], gpu: str
) -> list[Cell]:
    return list({cell.cell_id: cell for _, cell in _cells(suite, facts, device, gpu)}.values())


def configs_of_cells(
    suite: SuiteSpec, facts: Facts, *, device: Literal["cuda", "cpu"], gpu: str
) -> dict[str, tuple[Config, ...]]:
    """Map each cell_id to its configs. The dict is empty if no cell has configs of its own."""
    if all(axes.configs is None for axes in suite.cells):
        return {}
    configs: dict[str, dict[Config, None]] = {}
    for axes, cell in _cells(suite, facts, device, gpu):
        configs.setdefault(cell.cell_id, {}).update(dict.fromkeys(axes.configs or suite.configs))
    return {cell_id: tuple(of_cell) for cell_id, of_cell in configs.items()}


def _cells(
    suite: SuiteSpec, facts: Facts, device: str, gpu: str
) -> Iterator[tuple[CellAxes, Cell]]:
    own = {name: spec.problem(name) for name, spec in suite.problems.items()}
    for number, axes in enumerate(suite.cells):
        try:
            values = axes.values_on(device)
            if axes.problem is not None:
                names = values["problem"]
                values["problem"] = [part for name in names for part in _named(name, own)]
            values["regime"] = _regimes(axes)
            for combination in product(*values.values()):
                chosen = dict(zip(values, combination, strict=True))
                if (cell := _cell(axes, chosen, facts, gpu)) is not None:
                    yield axes, cell
        except WorkloadError as error:
            raise CellsError(number, str(error)) from error


def _cell(axes: CellAxes, chosen: dict[str, Any], facts: Facts, gpu: str) -> Cell | None:
    """Return a cell. Return None if `regime: all` added a regime that does not suit the cell."""
    workload, problem = chosen.pop("workload"), chosen.pop("problem")
    traits = _usable(facts[workload])
    if traits.regime_parameters is not None:
        raise WorkloadError(f"workload {workload} is a regime: write it under `regime`")
    shape = _input_shape(workload, traits, problem, chosen.pop("input"), chosen.pop("batch"))
    direction = _direction(workload, traits, chosen.pop("direction"))
    rule = _suiting_regime(workload, traits, chosen.pop("regime"), shape, problem, facts)
    if rule is None:
        return None
    if traits.is_model:
        check_inputs(axes.model.inputs, workload, shape, rule.name, rule.varies)
    state = _state(workload, traits, direction, chosen.pop("state"))
    cell = Cell(
        workload=workload,
        problem=problem and replace(problem, input_shape=shape),
        model=_model(workload, traits, axes.model),
        direction=direction,
        input_shape=shape,
        regime=rule.name,
        regime_parameters=rule.parameters,
        listed_shapes=rule.shapes.shapes if isinstance(rule.shapes, Listed) else (),
        state=state.name,
        state_parameters=state.parameters(),
        precision=find_precision(chosen.pop("precision")).name,
        layout=check_layout(chosen.pop("layout")),
        gpu=gpu,
        **chosen,
    )
    tensors = [shape, *([problem.weight_shape] if problem else [])]
    is_by_strides = cell.layout == "channels_last" and (
        traits.by_strides or all(map(has_one_order, tensors))
    )
    return replace(cell, placement=BY_STRIDES) if is_by_strides else cell


def _usable(traits: WorkloadFacts) -> WorkloadFacts:
    if traits.fault is not None:
        raise (UserCodeError if traits.fails else WorkloadError)(traits.fault)
    return traits


def _named(name: str, own: Mapping[str, ConvProblem]) -> list[ConvProblem]:
    bundled = load_problems()
    if problem := own.get(name) or bundled.get(name):
        return [problem]
    if of_file := [problem for full, problem in bundled.items() if full.startswith(f"{name}/")]:
        return of_file
    files = sorted({full.partition("/")[0] for full in bundled})
    neighbours = [full for full in bundled if full.startswith(f"{name.partition('/')[0]}/")]
    raise unknown("problem", name, [*own, *files] if own else neighbours or files)


def _input_shape(
    workload: str,
    traits: WorkloadFacts,
    problem: ConvProblem | None,
    given: Shape | None,
    batch: int | None,
) -> Shape:
    if problem is not None and (traits.input_shape is not None or traits.is_model):
        raise WorkloadError(f"workload {workload} takes no problem, found {problem.name!r}")
    if given is not None and not traits.is_model:
        sizes = sizes_text(given)
        raise WorkloadError(
            f"workload {workload} is not a model, so it takes no input; found {sizes!r}"
        )
    shape = problem.input_shape if problem is not None else given or traits.input_shape
    if shape is None and traits.is_model:
        raise WorkloadError(f"model {workload} needs an input, such as `input: 32x3x224x224`")
    if shape is None:
        raise WorkloadError(
            f"workload {workload} needs a problem, such as `problem: tutorials/rgb256`"
        )
    return shape if batch is None else (batch, *shape[1:])


def _model(workload: str, traits: WorkloadFacts, spec: ModelSpec) -> ModelChoice | None:
    if not traits.is_model:
        if spec != ModelSpec():
            raise WorkloadError(f"workload {workload} is not a model, so it takes no key `model`")
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


def _direction(workload: str, traits: WorkloadFacts, name: str | None) -> str:
    if name is None:
        return traits.directions[0]
    if name not in traits.directions:
        raise unknown(f"direction of workload {workload}", name, list(traits.directions))
    return name


@dataclass(frozen=True, kw_only=True, slots=True)
class _Rule:
    name: str
    parameters: dict[str, float]
    varies: set[str]
    shapes: ShapeRegime | None = None
    """The regime. None for a user's own regime, because planning does not import it."""


def _regimes(axes: CellAxes) -> list[tuple[RegimeChoice, bool]]:
    """Return pairs of a regime and a flag. The flag is True if the word `all` added the regime."""
    choices = as_list(axes.regime)
    chosen = {
        name_and_numbers("regime", choice)[0]
        for choice in choices
        if not isinstance(choice, ListedChoice)
    }
    rest = [name for name in sorted(regime_types()) if name not in chosen]
    return [
        (name, choice == ALL_REGIMES)
        for choice in choices
        for name in (rest if choice == ALL_REGIMES else [choice])
    ]


def _suiting_regime(
    workload: str,
    traits: WorkloadFacts,
    regime: tuple[RegimeChoice, bool],
    base: Shape,
    problem: ConvProblem | None,
    facts: Facts,
) -> _Rule | None:
    """Return the regime's rule, or None if only `all` named the regime and it does not suit."""
    choice, by_all = regime
    try:
        rule = _rule(choice, base, facts)
        if not rule.varies <= set(traits.varies):
            may = " and ".join(traits.varies) or "nothing"
            varied = " and ".join(sorted(rule.varies))
            raise WorkloadError(
                f"regime {rule.name} varies {varied}; allowed for workload {workload}: {may}"
            )
        if rule.shapes is not None:
            _check_shapes(rule.shapes, problem, base)
    except WorkloadError:
        if by_all:
            return None
        raise
    return rule


def _rule(choice: RegimeChoice, base: Shape, facts: Facts) -> _Rule:
    if isinstance(choice, ListedChoice):
        spec, listed = choice.listed, choice.listed.rule(base)
        numbers = listed.parameters()
        return _Rule(name=spec.name, parameters=numbers, varies=spec.varies, shapes=listed)
    name, numbers = name_and_numbers("regime", choice)
    if ":" in name:
        return _own_rule(name, numbers, _usable(facts[name]))
    if name == Listed.name:
        raise WorkloadError("regime listed needs a file; write `{listed: {file: shapes.csv}}`")
    rule = make_regime(name, numbers)
    varies = set(rule.varies.split(" and ")) - {"nothing"}
    return _Rule(name=name, parameters=rule.parameters(), varies=varies, shapes=rule)


def _own_rule(name: str, numbers: dict[str, float], traits: WorkloadFacts) -> _Rule:
    wanted = traits.regime_parameters
    if wanted is None:
        raise WorkloadError(f"regime {name} is a workload: write it under `workload`")
    types = {key: int if isinstance(default, int) else float for key, default in wanted.items()}
    parameters = wanted | checked_numbers(f"regime {name}", types, numbers)
    missing = [parameter for parameter, value in parameters.items() if value is None]
    if missing:
        raise WorkloadError(f"regime {name} needs a value for {', '.join(missing)}")
    given = {key: float(value) for key, value in parameters.items() if value is not None}
    return _Rule(name=name, parameters=given, varies=set(traits.varies))


def _check_shapes(rule: ShapeRegime, problem: ConvProblem | None, base: Shape) -> None:
    for shape in rule.period(base) or islice(rule.stream(base), OPEN_SHAPES_CHECKED):
        if problem is not None and min(problem.output_shape(shape)) < 1:
            raise WorkloadError(
                f"regime {rule.name} makes an input of {sizes_text(shape)}, which is too small for "
                f"problem {problem.name}"
            )


def _state(workload: str, traits: WorkloadFacts, direction: str, choice: NamedChoice) -> State:
    state = make_state(*name_and_numbers("state", choice))
    if state.recomputes and not traits.recomputes:
        raise WorkloadError(
            f"state {state.name} repeats the forward pass, but workload {workload} cannot repeat it"
        )
    if state.recomputes and direction not in ("forward_backward", "training"):
        raise WorkloadError(
            f"state {state.name} needs a backward pass, but direction {direction} has none"
        )
    return state
