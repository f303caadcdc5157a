"""A launch whose trials run where it was typed: on this machine, or on the fake one."""

import shutil

from rich.console import Console

from cudnn_sweep.cluster.nightly_keys import NightlyKeys
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.planning.night_name import NightName
from cudnn_sweep.orchestrator.planning.request import SweepRequest
from cudnn_sweep.orchestrator.running.place import NightPlace
from cudnn_sweep.orchestrator.running.run_sweep import DONE, Planned, Ran, plan_sweep, run_sweep
from cudnn_sweep.orchestrator.running.this_machine import ThisMachine
from cudnn_sweep.orchestrator.running.trial_run import try_cells
from cudnn_sweep.orchestrator.showing.plan_text import print_limit, print_part
from cudnn_sweep.orchestrator.showing.say import say
from cudnn_sweep.orchestrator.showing.summary import Summary, print_summary
from cudnn_sweep.orchestrator.showing.summary_json import to_json
from cudnn_sweep.workloads.cells.suite import most_replicates


class Here:
    """A Destination."""

    where = "this machine"

    def launch(self, request: SweepRequest, console: Console) -> int:
        place = ThisMachine()
        planned = plan_sweep(request, place)
        tell_without_gpu(planned, console)

        def tell(ran: Ran) -> Summary:
            summary = Summary.of(ran.store, ran.choice, ran.session, ran.progress)
            print_summary(console, summary, request.results, request.options)
            return summary

        ran = run_sweep(planned, place, console, if_cut=tell)
        summary = tell(ran)
        if request.options.json:
            print(to_json(summary, request.results, ran.exit_code))
        return ran.exit_code

    def show(self, request: SweepRequest, console: Console) -> int:
        planned = plan_sweep(request, ThisMachine())
        tell_without_gpu(planned, console)
        print_planned(planned, console)
        if not request.options.try_cells:
            return DONE
        plan = request.options.selection.part(planned.chosen)
        return try_cells(plan, planned.machine, planned.preload, console)

    def for_night(
        self, request: SweepRequest, name: NightName, nightly: NightlyKeys, console: Console
    ) -> NightPlace:
        return ThisMachine(wait_s=60 * nightly.wait_minutes)

    def check_python(self, last_good: str) -> None:
        if not shutil.which(last_good):
            raise SpecError(
                f"metadata.sweep.nightly.last_good: found no program {last_good}; allowed: the Python of a "
                "virtual environment, as /opt/good/bin/python"
            )


def print_planned(planned: Planned, console: Console) -> None:
    request, gpus = planned.request, len(planned.machine.gpus)
    selection, slots = request.options.selection, max(1, gpus)
    print_part(console, planned.chosen, selection, slots, gpu=gpus > 0)
    if request.launched_at is not None and request.budget_minutes is not None:
        at_s = selection.part(planned.chosen).decidable_at_s(slots, gpu=gpus > 0)
        print_limit(console, request.budget_minutes, at_s, request.budget_minutes * 60)


def tell_without_gpu(planned: Planned, console: Console) -> None:
    """What a run is for where flags do nothing."""
    if planned.machine.environment.device == "cuda":
        return
    suite = planned.request.suite
    short = suite.on("cpu")
    few, usual = most_replicates(short.replicates), most_replicates(suite.replicates)
    line = "No GPU here: cuDNN's flags have no effect, so this only shows what a sweep does"
    more = f", in {few} blocks per cell instead of {usual}" if few < usual else ""
    say(console, f"{line}{more}.")
