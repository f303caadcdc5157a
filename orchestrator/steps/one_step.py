"""Plans a sweep of a model's step, or of a suite for `sweep bans` and `sweep bisect`."""

from collections.abc import Iterator, Mapping, Sequence
from time import monotonic

from pydantic import ValidationError

from cudnn_sweep.analysis.results.advice import StoredCell, stored_cells
from cudnn_sweep.analysis.results.min_effect import MIN_EFFECT
from cudnn_sweep.analysis.store.store import Store
from cudnn_sweep.cluster.strict_yaml import read_strict_text
from cudnn_sweep.orchestrator.errors import ModelError, SpecError
from cudnn_sweep.orchestrator.planning.options import LaunchOptions
from cudnn_sweep.orchestrator.planning.request import Planned, SweepRequest
from cudnn_sweep.orchestrator.planning.session import CodeLocation, Job, modules_to_preload
from cudnn_sweep.orchestrator.planning.spec import SweepSpec, choose_suite, is_path, suite_names
from cudnn_sweep.orchestrator.planning.spelling import words_of
from cudnn_sweep.orchestrator.running.run_sweep import planned_on
from cudnn_sweep.orchestrator.steps.step_options import AdviseOptions, CellsOptions, TurnOptions
from cudnn_sweep.orchestrator.steps.typed_inputs import one_input, read_inputs
from cudnn_sweep.workloads.cells.config import Config
from cudnn_sweep.workloads.cells.expand import WorkloadFacts, expand_cells
from cudnn_sweep.workloads.cells.listed_shapes import ListedChoice, ListedSpec
from cudnn_sweep.workloads.cells.measurement import MeasureSpec
from cudnn_sweep.workloads.cells.suite import (
    CellAxes,
    ModelSpec,
    Replicates,
    SuiteSpec,
    UntilDecided,
    WithoutGpu,
    workload_names,
)
from cudnn_sweep.workloads.errors import CellsError
from cudnn_sweep.workloads.survey import Survey, workload_facts
from cudnn_sweep.workloads.training.choice import Expect
from cudnn_sweep.workloads.training.loss import MEAN_SQUARE

UNTIL = UntilDecided(until="decided", at_most=20)  # blocks
LOOKING = "Importing torch to examine this machine and {workload}."
START_AND_END_S = 10.0  # start and end of Ray
LEAST_S = 15.0  # two blocks of a small network
LEAST_TIMEOUT_S = 60.0  # of a process; the search of a large network takes half of it
OF_STEP = ("workload", "precision", "layout", "direction")  # axes of a cell that are also options
# Options of `sweep bans` and `sweep bisect` that also apply to a suite.
OF_CELLS = (
    *("workload", "only", "results", "wait", "benchmark", "min_effect", "minutes", "json", "write"),
    "pythons",
)


def suite_of(
    options: AdviseOptions | TurnOptions,
    replicates: Replicates,
    measure: MeasureSpec | None = None,
    configs: Sequence[Config] = (),
) -> SuiteSpec:
    """Return a suite of one cell. By default, it compares benchmark off and on."""
    one_input(options.input)
    axes: dict[str, object] = {
        **{axis: getattr(options, axis) for axis in OF_STEP},
        "input": options.input[0] if options.input else None,
        "ranks": (options.measure_ranks if isinstance(options, AdviseOptions) else None) or 1,
        "regime": _regime(options),
        "model": ModelSpec(
            arguments=options.arguments,
            inputs=read_inputs(options.inputs),
            expect=_read_expect(options.expect),
            loss=options.loss or MEAN_SQUARE,
        ),
    }
    try:
        cell = CellAxes.model_validate(axes)
    except ValidationError as error:
        raise SpecError(f"--{error.errors()[0]['loc'][0]}: {_reason(error)}") from None
    measure = measure or MeasureSpec(reference_replicates=0, logged_replicates=0)
    suite = SuiteSpec(cells=[cell], replicates=replicates, measure=measure)
    if configs:
        return suite.model_copy(update={"configs": list(configs), "without_gpu": WithoutGpu()})
    off = WithoutGpu(configs=[Config(benchmark=False)], replicates=1)  # with an A/A twin
    return suite.model_copy(update={"without_gpu": off})


def suite_to_compare(
    options: AdviseOptions,
    errata: str | None = None,
    float64: bool = False,
    *,
    configs: Sequence[Config] = (),
    until: UntilDecided = UNTIL,
) -> SuiteSpec:
    """Return a suite that measures a job. `errata` adds a config with these rules."""
    measure = MeasureSpec(
        reference_replicates=int(float64), logged_replicates=0, calibrate=False, device_budget_s=0.3
    )
    suite = suite_of(options, until, measure, configs)
    with_errata = [] if errata is None else [Config(errata=errata)]
    return suite.model_copy(update={"configs": [*suite.configs, *with_errata]})


def suite_asked(options: CellsOptions, measure: MeasureSpec) -> tuple[str, SuiteSpec]:
    """Return the name and the suite that the options request. The suite has one config and one
    block. Raises SpecError if options for a model are given with a suite.
    """
    name, suite = options.workload, suite_of(options, 1, measure)
    if is_path(name) or name in suite_names():
        name, suite = choose_suite(SweepSpec(), name)
        if given := words_of(options, without=OF_CELLS):
            raise SpecError(f"found {' '.join(given)}, which is for a model; {name} is a suite")
    changed = {
        "cells": [axes.model_copy(update={"configs": None}) for axes in suite.cells],
        "configs": [Config(benchmark=options.benchmark)],
        "replicates": 1,
        "measure": measure,
        "without_gpu": WithoutGpu(),
    }
    return name, suite.model_copy(update=changed)


def plan_cells(options: CellsOptions, name: str, suite: SuiteSpec, machine: Survey) -> Planned:
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


def stored_sweeps(
    store: Store, options: AdviseOptions, suite_name: str, *, on_gpu: bool = False
) -> Iterator[str]:
    """Yield ids of sweeps that measured this step, the newest first, but those on a CPU last."""
    cells = stored_cells(store, suite_name, options.workload)
    for cell in sorted(cells, key=lambda cell: cell.device == "cpu"):
        if (cell.device != "cpu" or not on_gpu) and is_step(options, cell):
            yield cell.sweep_id


def is_step(options: AdviseOptions, stored: StoredCell) -> bool:
    """Return whether a stored cell measured this step. Without `--input`, all inputs match."""
    suite = suite_of(options, 1)
    if not options.input and stored.is_model:
        cells = [suite.cells[0].model_copy(update={"input": tuple(stored.input_shape)})]
        suite = suite.model_copy(update={"cells": cells})
    as_stored = WorkloadFacts(
        directions=("training", "inference") if stored.is_model else (stored.direction,),
        varies=("batch", "space"),
        input_shape=None if stored.is_model else tuple(stored.input_shape),
        is_model=stored.is_model,
        by_strides=stored.by_strides,
    )
    regimes = [name for name in workload_names(suite) if name != options.workload]
    facts = {**workload_facts(regimes), options.workload: as_stored}
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
    sweep_id: str | None = None,
    left_s: float | None = None,
    whole_s: float | None = None,
    job: Job | None = None,
    codes: Mapping[str, CodeLocation] | None = None,
    min_effect: float = MIN_EFFECT,
    one_sided: bool = False,
) -> Planned:
    """Plan a sweep of at most `left_s` seconds. Raises SpecError for an unusable workload.

    A process may take half of `whole_s` or `left_s`, but at least LEAST_TIMEOUT_S.
    """
    check_step(options, machine)
    left_s = left_s or left_of_minutes_s(options)
    suite = suite.on(machine.environment.device)
    timeout_s = float(round(max((whole_s or left_s) / 2, LEAST_TIMEOUT_S)))
    measure = suite.measure.model_copy(update={"timeout_s": timeout_s})
    suite = suite.model_copy(update={"measure": measure, "without_gpu": WithoutGpu()})
    request = SweepRequest(
        options=LaunchOptions(new=sweep_id is None, sweep_id=sweep_id),
        suite_name=suite_name,
        suite=suite,
        results=options.location,
        budget_minutes=blocks_minutes(left_s),
        job=job,
        codes=codes or {},
        min_effect=min_effect,
        one_sided=one_sided,
    )
    return planned_on(machine, request)


def check_step(options: AdviseOptions | TurnOptions, machine: Survey) -> None:
    """Raise SpecError if the workload cannot be used, or ModelError if the user's code fails."""
    facts = machine.workloads[options.workload]
    if facts.fault is not None:
        raise (ModelError if facts.fails else SpecError)(facts.fault)
    if facts.is_model and not options.input:
        raise SpecError(f"{options.workload} is a model, so it needs --input, such as 32x3x224x224")


def blocks_minutes(left_s: float) -> float:
    return max(left_s - START_AND_END_S, LEAST_S) / 60


def left_of_minutes_s(options: AdviseOptions | TurnOptions) -> float:
    return options.limit_minutes * 60 - (monotonic() - options.began)


def _read_expect(text: str | None) -> Expect | None:
    if text is None:
        return None
    counts = text.replace("=", ": ")
    return read_strict_text(f"expect: {{{counts}}}", "--expect", ModelSpec).expect


def _regime(options: AdviseOptions | TurnOptions) -> object:
    regime, shapes = options.regime, options.shapes
    if regime is not None and shapes is not None:
        raise SpecError("found --regime and --shapes; give only one")
    if shapes is not None:
        try:
            return ListedChoice(listed=ListedSpec(file=shapes))
        except ValidationError as error:
            raise SpecError(f"--shapes: {_reason(error)}") from None
    text = f"workload: noop\nregime: {'fixed' if regime is None else regime}"
    return read_strict_text(text, "--regime", CellAxes).regime


def _reason(error: ValidationError) -> str:
    return error.errors()[0]["msg"].removeprefix("Value error, ")
