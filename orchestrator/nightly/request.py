"""What a night is to do: the launch file and the command line together, checked before anything runs."""

import shlex
import shutil
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path

from cudnn_sweep.analysis.answering.contrast import Contrast
from cudnn_sweep.analysis.storing.location import Location
from cudnn_sweep.analysis.storing.store import Store, open_store
from cudnn_sweep.cluster.errors import ClusterError
from cudnn_sweep.cluster.keys import NightlyKeys
from cudnn_sweep.cluster.launch_file import read_launch_file
from cudnn_sweep.orchestrator.errors import OrchestratorError, SpecError
from cudnn_sweep.orchestrator.launching.destinations import Destination, Here, destination_of
from cudnn_sweep.orchestrator.nightly.diary import Diary
from cudnn_sweep.orchestrator.nightly.fake.machine import read_fake_machine
from cudnn_sweep.orchestrator.nightly.webhook import Webhook, find_webhook
from cudnn_sweep.orchestrator.planning.options import LaunchOptions, NightOptions
from cudnn_sweep.orchestrator.planning.request import SweepRequest, request_of
from cudnn_sweep.orchestrator.planning.spec import NightName, SweepSpec, launch_name
from cudnn_sweep.orchestrator.planning.standing import contrasts_of
from cudnn_sweep.orchestrator.running.run_sweep import Place
from cudnn_sweep.orchestrator.running.this_machine import ThisMachine
from cudnn_sweep.workloads.cells.suite import FIXED_BLOCKS, CellAxes, SuiteSpec

NO_SUITE = SuiteSpec(cells=[CellAxes(workload="noop")])  # of a night whose own suite cannot be read


@dataclass(frozen=True, kw_only=True, slots=True)
class NightRequest:
    options: NightOptions
    keys: NightlyKeys
    request: SweepRequest
    """The sweep that the night runs."""
    name: NightName
    host: str = field(default_factory=socket.gethostname)
    """The host that it was started on."""
    place: Place | None = None
    """Where this process measures; None: nowhere."""
    destination: Destination | None = None
    webhook: Webhook | SpecError | None = None
    """Whom to tell, or why the webhook that is asked for is not to be had."""
    fault: Exception | None = None
    """A mistake in the suite or in what else it needs, which a night tells before it fails."""

    @property
    def suite(self) -> SuiteSpec:
        return self.request.suite

    @property
    def contrasts(self) -> tuple[Contrast, ...]:
        return contrasts_of(self.suite.every_config)

    @property
    def reports(self) -> Path:
        """Folder of a folder for each date."""
        if self.options.reports is not None:
            return self.options.reports
        where = Location(self.request.results)
        beside = Path("nightly-reports") if where.is_url else where.folder / "nightly"
        return beside / self.name.launch / "reports"

    def diary(self) -> Diary:
        return Diary(store=self.store(), launch=self.name.launch)

    def store(self) -> Store:
        return open_store(self.request.results)

    def again(self, cell_id: str | None = None) -> str:
        """What to type to measure a cell again, or all of them."""
        words = [self.options.program, "launch", str(self.options.file)]
        words += ["--suite", self.request.suite_name]
        if self.options.results is not None:
            words += ["--results", self.options.results]
        only = [] if cell_id is None else ["--only", f"cell_id={cell_id}"]
        return shlex.join([*words, "--new", *only])


def read_night(options: NightOptions, environment: Mapping[str, str]) -> NightRequest:
    """Raises an error of the folders for a mistake in the launch file. One in what it names is the night's
    `fault`, so that somebody hears of it.
    """
    file = read_launch_file(options.file, SweepSpec)
    keys = file.sweep.nightly
    night = NightName(date=options.night or date.today(), launch=launch_name(file))
    launch = LaunchOptions(
        file=options.file,
        suite=options.suite or keys.suite,
        results=options.results,
        sweep_id=night.sweep_id,
        minutes=options.budget_minutes or keys.budget_minutes,
        dry_run=options.dry_run,
        program=options.program,
    )
    destination = destination_of(file)
    fault: Exception | None = None
    try:
        request = request_of(file, launch)
        if options.measure and options.fake is None and isinstance(destination, Here):
            check_python(keys.last_good)
    except (ClusterError, OrchestratorError) as error:
        if options.suite is not None:  # somebody typed it
            raise
        fault = error
        results = Location(options.results or file.sweep.results).text
        request = SweepRequest(
            options=launch, suite_name=keys.suite, suite=NO_SUITE, results=results
        )
    # each night as many: what a series is compared with stays
    request = replace(request, suite=request.suite.with_blocks(FIXED_BLOCKS), may_skip=True)
    place: Place | None = None
    if options.fake is not None and fault is None:
        place = read_fake_machine(options.fake, request, night.date)
    elif isinstance(destination, Here):
        place = ThisMachine(wait_s=60 * keys.wait_minutes)
    return NightRequest(
        options=options,
        keys=keys,
        request=request,
        name=night,
        place=place,
        destination=destination,
        webhook=_webhook(keys, environment),
        fault=fault,
    )


def check_python(last_good: str | None) -> None:
    """Raises SpecError where there is no such program; the nodes of a cluster say so when they are looked at."""
    if last_good is not None and not shutil.which(last_good):
        raise SpecError(
            f"metadata.sweep.nightly.last_good: found no program {last_good}; allowed: the Python of a "
            "virtual environment, as /opt/good/bin/python"
        )


def _webhook(keys: NightlyKeys, environment: Mapping[str, str]) -> Webhook | SpecError | None:
    """A webhook that is not to be had costs no night: it is measured, and says so."""
    try:
        return find_webhook(keys.webhook, environment) if keys.webhook is not None else None
    except SpecError as error:
        return error
