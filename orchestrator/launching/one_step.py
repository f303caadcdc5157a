"""A step of one model or workload, with benchmark off and on, on this machine: what `sweep advise` measures; or the
cells of a suite, for `sweep bans` and `sweep bisect`.
"""

from collections.abc import Mapping, Sequence
from time import monotonic

import typer
from pydantic import ValidationError

from cudnn_sweep.analysis.answering.advice import StoredCell
from cudnn_sweep.analysis.answering.min_effect import MIN_EFFECT
from cudnn_sweep.cluster.strict_yaml import read_strict_text
from cudnn_sweep.orchestrator.errors import ModelError, SpecError
from cudnn_sweep.orchestrator.launching.step_options import AdviseOptions, CellsOptions, TurnOptions
from cudnn_sweep.orchestrator.planning.options import LaunchOptions
from cudnn_sweep.orchestrator.planning.request import Planned, SweepRequest
from cudnn_sweep.orchestrator.planning.session import Code, Job, modules_to_preload
from cudnn_sweep.orchestrator.planning.spec import SweepSpec, choose_suite, is_path, suite_names
from cudnn_sweep.orchestrator.planning.spelling import words_of
from cudnn_sweep.orchestrator.running.run_sweep import planned_on
from cudnn_sweep.workloads.cells.config import CudnnConfig
from cudnn_sweep.workloads.cells.expand import WorkloadFacts, expand_cells
from cudnn_sweep.workloads.cells.listed_shapes import ListedChoice, ListedSpec
from cudnn_sweep.workloads.cells.measurement import MeasureSpec
from cudnn_sweep.workloads.cells.suite import (
    CellAxes,
    ModelSpec,
    Replicates,
    SuiteSpec,
    WithoutGpu,
    workload_names,
)
from cudnn_sweep.workloads.errors import CellsError
from cudnn_sweep.workloads.models.inputs import Inputs
from cudnn_sweep.workloads.problem import Shape, none_empty, parse_sizes
from cudnn_sweep.workloads.survey import Survey, workload_facts
from cudnn_sweep.workloads.training.choice import Expect
from cudnn_sweep.workloads.training.loss import MEAN_SQUARE

REPLICATES_WITHOUT_GPU = 1  # with an A/A twin: two processes show how far times scatter
LOOKING = "Looking at this machine and at {workload}, and importing torch for that."
START_AND_END_S = 10.0  # Ray's start and end
LEAST_S = 15.0  # two blocks of a small network
LEAST_TIMEOUT_S = 60.0  # of a process: a search of a large network takes half of it
# Of `sweep bans` and `sweep bisect`: what says nothing of a model.
OF_CELLS = (
    *("workload", "only", "results", "wait", "benchmark", "min_effect", "minutes", "json"),
    "pythons",
)


def suite_of(
    options: AdviseOptions | TurnOptions, replicates: Replicates, measure: MeasureSpec | None = None
) -> SuiteSpec:
    """One cell, `benchmark` off and on; without a GPU off alone."""
    one_input(options.input)
    asked: dict[str, object] = {
        "workload": options.workload,
        "precision": options.precision,
        "layout": options.layout,
        "direction": options.direction,
        "input": options.input[0] if options.input else None,
        "regime": _regime(options),
        "model": ModelSpec(
            arguments=options.arguments,
            inputs=read_inputs(options.inputs),
            expect=_read_expect(options.expect),
            loss=options.loss or MEAN_SQUARE,
        ),
    }
    try:
        cell = CellAxes.model_validate(asked)
    except ValidationError as error:
        first = error.errors()[0]
        told = first["msg"].removeprefix("Value error, ")
        raise SpecError(f"--{first['loc'][0]}: {told}") from None
    without_gpu = WithoutGpu(
        configs=[CudnnConfig(benchmark=False)], replicates=REPLICATES_WITHOUT_GPU
    )
    measure = measure or MeasureSpec(reference_replicates=0, logged_replicates=0)
    return SuiteSpec(cells=[cell], replicates=replicates, measure=measure, without_gpu=without_gpu)


def suite_asked(options: CellsOptions, measure: MeasureSpec) -> tuple[str, SuiteSpec]:
    """A suite's cells, or a step of a model, and the name; in one block, without configs of their own.

    Raises SpecError for an unknown suite, or options that are none of a suite's.
    """
    name, suite = options.workload, suite_of(options, 1, measure)
    if is_path(name) or name in suite_names():
        name, suite = choose_suite(SweepSpec(), name)
        if given := words_of(options, without=OF_CELLS):
            raise SpecError(f"found {' '.join(given)}, which is for a model; {name} is a suite")
    changed = {
        "cells": [axes.model_copy(update={"configs": None}) for axes in suite.cells],
        "configs": [CudnnConfig(benchmark=options.benchmark)],
        "replicates": 1,
        "measure": measure,
        "without_gpu": WithoutGpu(),
    }
    return name, suite.model_copy(update=changed)


def plan_cells(options: CellsOptions, name: str, suite: SuiteSpec, machine: Survey) -> Planned:
    """A process of each cell that is asked for; its caller says how long may be measured.

    Raises SpecError for a cell that cannot be used.
    """
    if options.workload in machine.workloads:
        check_step(options, machine)
    request = SweepRequest(
        options=LaunchOptions(only=options.only),
        suite_name=name,
        suite=suite,
        results=options.location,
        min_effect=options.min_effect,
    )
    return planned_on(machine, request, modules_to_preload(suite, ()))


def is_step(options: AdviseOptions, stored: StoredCell) -> bool:
    """Whether a stored cell is the step that these options describe; without `--input` any input matches.

    The workload is not imported: what must be known of it is as it was stored.
    """
    suite = suite_of(options, 1)
    if not options.input and stored.is_model:
        cells = [suite.cells[0].model_copy(update={"input": tuple(stored.input_shape)})]
        suite = suite.model_copy(update={"cells": cells})
    known = WorkloadFacts(
        directions=("training", "inference") if stored.is_model else (stored.direction,),
        varies=("batch", "space"),
        input_shape=None if stored.is_model else tuple(stored.input_shape),
        is_model=stored.is_model,
        by_strides=stored.by_strides,
    )
    regimes = [name for name in workload_names(suite) if name != options.workload]
    facts = {**workload_facts(regimes), options.workload: known}
    try:
        cells_of_it = expand_cells(suite, facts, device=stored.device, gpu=stored.gpu)
    except CellsError:
        return False
    return any(cell.cell_id == stored.cell_id for cell in cells_of_it)


def plan_step(
    options: AdviseOptions | TurnOptions,
    suite: SuiteSpec,
    machine: Survey,
    *,
    suite_name: str,
    minutes: float,
    job: Job | None = None,
    codes: Mapping[str, Code] | None = None,
    min_effect: float = MIN_EFFECT,
) -> Planned:
    """`minutes`: of the whole command; no process outlasts half of what is left of them.

    Raises SpecError, with the reason, for a workload that cannot be used.
    """
    check_step(options, machine)
    left_s = minutes * 60 - (monotonic() - options.began)
    suite = suite.on(machine.environment.device)
    timeout_s = float(round(max(left_s / 2, LEAST_TIMEOUT_S)))
    measure = suite.measure.model_copy(update={"timeout_s": timeout_s})
    suite = suite.model_copy(update={"measure": measure, "without_gpu": WithoutGpu()})
    request = SweepRequest(
        options=LaunchOptions(new=True),
        suite_name=suite_name,
        suite=suite,
        results=options.location,
        budget_minutes=blocks_minutes(options, minutes),
        job=job,
        codes=codes or {},
        min_effect=min_effect,
    )
    return planned_on(machine, request)


def check_step(options: AdviseOptions | TurnOptions, machine: Survey) -> None:
    """Raises SpecError, with the reason, for a workload that cannot be used; ModelError if its import fails."""
    known = machine.workloads[options.workload]
    if known.fault is not None:
        raise (ModelError if known.fails else SpecError)(known.fault)
    if known.is_model and not options.input:
        raise SpecError(f"{options.workload} is a model: it needs --input, such as 32x3x224x224")


def blocks_minutes(options: AdviseOptions | TurnOptions, minutes: float) -> float:
    """Of the command's minutes, what is left for blocks."""
    left_s = minutes * 60 - (monotonic() - options.began)
    return max(left_s - START_AND_END_S, LEAST_S) / 60


def read_inputs(text: str | None) -> Inputs | None:
    """Raises LaunchFileError for what no suite's `inputs` takes."""
    if text is None:
        return None
    return read_strict_text(f"inputs: {text}", "--inputs", ModelSpec).inputs


def _read_expect(text: str | None) -> Expect | None:
    """Raises LaunchFileError for other counts than those of `Expect`."""
    if text is None:
        return None
    given = text.replace("=", ": ")
    return read_strict_text(f"expect: {{{given}}}", "--expect", ModelSpec).expect


def one_input(texts: Sequence[str]) -> Shape | None:
    """The sizes of `--input`. Raises SpecError."""
    try:
        shapes = [none_empty(parse_sizes(text)) for text in texts]
    except ValueError as error:
        raise SpecError(f"--input: {error}") from None
    if len(shapes) > 1:
        tensors = ", ".join(f"{{shape: {list(shape)}}}" for shape in shapes)
        raise typer.BadParameter(
            f"found {len(shapes)}, allowed: one. If the model takes several tensors: --inputs '[{tensors}]'",
            param_hint="--input",
        )
    return shapes[0] if shapes else None


def _regime(options: AdviseOptions | TurnOptions) -> object:
    regime, shapes = options.regime, options.shapes
    if regime is not None and shapes is not None:
        raise SpecError("found --regime and --shapes; give one")
    if shapes is not None:
        try:
            return ListedChoice(listed=ListedSpec(file=shapes))
        except ValidationError as error:
            told = error.errors()[0]["msg"].removeprefix("Value error, ")
            raise SpecError(f"--shapes: {told}") from None
    if regime is None:
        return "fixed"
    text = f"workload: noop\nregime: {regime}"
    return read_strict_text(text, "--regime", CellAxes).regime
