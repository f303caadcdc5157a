"""What a launch on a cluster would run there, a plan for each GPU model; nothing is started."""

from collections.abc import Iterable
from dataclasses import replace

from rich.console import Console

from cudnn_sweep.orchestrator.asked_file import LAUNCH_FILE
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.gpus.choice import share_of
from cudnn_sweep.orchestrator.plan import narrow
from cudnn_sweep.orchestrator.process.client import ForkServer
from cudnn_sweep.orchestrator.process.survey import survey
from cudnn_sweep.orchestrator.remote.node import Node
from cudnn_sweep.orchestrator.report import print_plan
from cudnn_sweep.orchestrator.request import SweepRequest
from cudnn_sweep.orchestrator.run_sweep import plan_of
from cudnn_sweep.orchestrator.say import say
from cudnn_sweep.orchestrator.spec import cells_named
from cudnn_sweep.workloads.suite import ALL_MODELS, each, workload_names
from cudnn_sweep.workloads.survey import Survey

ANY_MODEL = "of each model"


def refuse_to_try_cells(request: SweepRequest) -> None:
    if request.options.try_cells:
        raise SpecError(
            "--try: cells are tried on this machine alone; the launch file names a cluster"
        )


def refuse_json(request: SweepRequest) -> None:
    if request.options.json:
        raise SpecError(
            "--json: the launch file names a cluster, whose driver says the end in words; allowed are `sweep "
            "status FILE --json`, and `sweep query helps_or_hurts --json` over the results"
        )


def show_plans(request: SweepRequest, where: str, console: Console) -> None:
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


def show_plans_of_nodes(request: SweepRequest, nodes: Iterable[Node], console: Console) -> None:
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
    options = request.options
    with cells_named(options.file or LAUNCH_FILE, request.suite_name):
        plan = plan_of(request.suite_name, request.suite, machine)
    if options.only:
        plan = narrow(plan, list(options.only))
    print_plan(console, options.wish.part(plan), gpus, gpu=True)
    if options.wish.shard is not None:
        say(console, f"Shard {options.wish.shard} of {len(plan.trials)} trials.")
