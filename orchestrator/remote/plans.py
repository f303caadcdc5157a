"""What a launch on a cluster would run there, a plan for each GPU model; nothing is started."""

from collections.abc import Callable, Iterable
from dataclasses import replace

from rich.console import Console

from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.gpus.choice import share_of
from cudnn_sweep.orchestrator.planning.request import SweepRequest
from cudnn_sweep.orchestrator.process.client import ForkServer, survey
from cudnn_sweep.orchestrator.remote.follow import JobReport
from cudnn_sweep.orchestrator.remote.request import Node
from cudnn_sweep.orchestrator.running.run_sweep import planned_on
from cudnn_sweep.orchestrator.showing.plan_text import print_part
from cudnn_sweep.orchestrator.showing.say import say
from cudnn_sweep.workloads.cells.suite import ALL_MODELS, each, workload_names
from cudnn_sweep.workloads.survey import Survey

ANY_MODEL = "of each model"


def refuse_to_try_cells(request: SweepRequest) -> None:
    if request.options.try_:
        raise SpecError(
            "--try: cells are tried only on this machine, but the launch file names a cluster"
        )


def refuse_json(request: SweepRequest) -> None:
    if request.options.json:
        raise SpecError(
            "--json: the launch file names a cluster, whose driver says the end in words; allowed are `sweep "
            "status FILE --json`, and `sweep query helps_or_hurts --json` over the results"
        )


def show_plans(
    request: SweepRequest, where: str, ask: Callable[[], JobReport], console: Console
) -> None:
    """For each model that the suite names or, with --ask, that the cluster's nodes have."""
    if request.options.ask:
        found = ask().found
        assert found is not None
        _show_plans_of_nodes(request, found.nodes, console)
    else:
        _show_plans_of_models(request, where, console)


def _show_plans_of_models(request: SweepRequest, where: str, console: Console) -> None:
    """The models that the suite names; what a cluster has is not asked."""
    models = request.suite.gpus.models
    names = [ANY_MODEL] if models == ALL_MODELS else each(models)
    with ForkServer(survey_only=True) as server:
        machine = survey(server, workload_names(request.suite))
    say(
        console,
        f"On {where}, into {request.results}. Its nodes say which GPUs there are, and each GPU model has a "
        "plan of its own; `--dry-run --ask` asks them.",
    )
    for name in names:
        environment = replace(machine.environment, device="cuda", gpu=f"GPU {name}")
        _show(request, replace(machine, environment=environment), 1, console)


def _show_plans_of_nodes(request: SweepRequest, nodes: Iterable[Node], console: Console) -> None:
    of_model: dict[str, list[Node]] = {}
    for node in nodes:
        of_model.setdefault(node.model, []).append(node)
    for alike in of_model.values():
        gpus = sum(node.accelerators for node in alike)
        say(
            console,
            "".join(f"{node.address}: {node.accelerators} × {node.model}\n" for node in alike),
        )
        _show(request, alike[0].machine, share_of(request.suite.gpus, gpus), console)


def _show(request: SweepRequest, machine: Survey, gpus: int, console: Console) -> None:
    planned = planned_on(machine, request)
    print_part(console, planned.chosen, request.options.selection, gpus, gpu=True)
