"""`sweep advise`."""

from enum import StrEnum
from time import monotonic
from typing import Annotated

import typer

from cudnn_sweep.orchestrator.cli.job_arguments import Start
from cudnn_sweep.orchestrator.cli.model_arguments import (
    ArgumentOption,
    DirectionOption,
    InputOption,
    InputsOption,
    LayoutOption,
    LossOption,
    ModelArgument,
    PrecisionOption,
    StepResultsOption,
    step_options,
)


class Form(StrEnum):
    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"


def advise(
    workload: ModelArgument,
    input: InputOption = None,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Steps of your job in one process.  [default: 10000]")
    ] = None,
    hours: Annotated[
        float | None,
        typer.Option(min=0.0001, help="Instead of --steps: how long your job runs with it off."),
    ] = None,
    regime: Annotated[
        str | None,
        typer.Option(
            metavar="YAML", help="How sizes arrive, such as fresh or '{cycle: {sizes: 4}}'."
        ),
    ] = None,
    shapes: Annotated[
        str | None,
        typer.Option(
            metavar="FILE.csv",
            help="Sizes that your data has, with a column `count`: batch,height,width,count.",
        ),
    ] = None,
    state: Annotated[
        Start,
        typer.Option(
            help="Where your job starts: in a new container (CUDA's cache of compiled kernels is empty) or on a "
            "warm machine."
        ),
    ] = Start.CONTAINER,
    minutes: Annotated[
        float, typer.Option(min=0.1, help="Time to measure; less where it is decided earlier.")
    ] = 3.0,
    memory_limit: Annotated[
        float | None,
        typer.Option(
            min=0.001, metavar="GIB", help="What needs more memory than this does not fit."
        ),
    ] = None,
    runs: Annotated[
        int,
        typer.Option(min=1, help="The interval holds the mean of so many runs with each setting."),
    ] = 1,
    argument: ArgumentOption = None,
    inputs: InputsOption = None,
    loss: LossOption = None,
    precision: PrecisionOption = "tf32",
    layout: LayoutOption = "contiguous",
    direction: DirectionOption = None,
    from_store: Annotated[
        bool,
        typer.Option("--from-store", help="Answer from what is stored; measure nothing."),
    ] = False,
    format: Annotated[Form, typer.Option(help="Format of the answer.")] = Form.TEXT,
    results: StepResultsOption = None,
) -> None:
    """Decide for your model whether benchmark should be on, and say what that saves in your job.

    It measures until the answer is decided or the minutes are over. Its trials are stored like those of any
    launch. Without a GPU it answers from a stored measurement of this step, or says how to measure.

    Exit codes: 0 there is a decision; 5 the minutes did not suffice, or there is no GPU and none was stored; 4
    the model does not run; 2 a mistake in what was typed; 1 interrupted by something else.
    """
    began = monotonic()
    from cudnn_sweep.orchestrator.cli.failing import leave
    from cudnn_sweep.orchestrator.cli.standing_by import UNFINISHED, stand_by

    if steps is not None and hours is not None:
        raise typer.BadParameter("found both, allowed: one", param_hint="--steps, --hours")
    if not from_store:
        stand_by(lost=UNFINISHED)
    from cudnn_sweep.orchestrator.launching.advising import AdviseOptions
    from cudnn_sweep.orchestrator.launching.advising import advise as measure_and_tell
    from cudnn_sweep.orchestrator.planning.job import DEFAULT_STEPS, Job
    from cudnn_sweep.orchestrator.running.this_machine import ThisMachine
    from cudnn_sweep.orchestrator.showing.say import console_here

    step = step_options(
        workload,
        input=input or (),
        argument=argument,
        inputs=inputs,
        loss=loss,
        precision=precision,
        layout=layout,
        direction=direction,
        results=results,
        began=began,
        regime=regime,
        shapes=shapes,
    )
    job = Job(
        steps=steps or DEFAULT_STEPS,
        hours=hours,
        state=state.value,
        memory_limit_gib=memory_limit,
        runs=runs,
    )
    options = AdviseOptions(
        step=step,
        job=job,
        minutes=minutes,
        format=format.value,
        from_store=from_store,
    )
    is_text = format is Form.TEXT
    leave(
        measure_and_tell(options, console_here(stderr=not is_text), ThisMachine(), console_here())
    )
