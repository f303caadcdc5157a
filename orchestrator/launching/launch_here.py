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
from cudnn_sweep.orchestrator.showing.plan_text import print_part
from cudnn_sweep.orchestrator.showing.say import say
from cudnn_sweep.orchestrator.showing.summary import Summary, print_summary
from cudnn_sweep.orchestrator.showing.summary_json import to_json
from cudnn_sweep.workloads.cells.suite import most_replicates


class Here:
    """A Destination."""

    where = "this machine"

    def launch(self, request: SweepRequest, console: Console) -> int:
        place = ThisMachine()
        say(console, "Looking at this machine: torch is imported.")
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
        if not request.options.try_:
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
    selection, gpus = planned.request.options.selection, planned.machine.gpus
    print_part(console, planned.chosen, selection, max(1, len(gpus)), gpu=bool(gpus))


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
