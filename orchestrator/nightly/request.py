"""What a night is to do, checked before anything runs; and the fresh trials of its candidates: of two softwares side
by side where there is a last good one.
"""

import random
import secrets
import shlex
import shutil
import socket
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import date, timedelta
from pathlib import Path
from time import monotonic
from typing import TypeAlias

from rich.console import Console

from cudnn_sweep.analysis.answering.contrast import Contrast
from cudnn_sweep.analysis.asking.settings import config_name
from cudnn_sweep.analysis.nightly.candidates import Candidate, FreshTrials, Remeasured, read_fresh
from cudnn_sweep.analysis.nightly.detect import LOOKS
from cudnn_sweep.analysis.nightly.history import SOFTWARE_AND_COMMIT, differences
from cudnn_sweep.analysis.nightly.series import COLD_EMPTY, ENGINE, ERROR, MISSING, SIGN, SeriesKey
from cudnn_sweep.analysis.storing.location import Location
from cudnn_sweep.analysis.storing.store import Store, open_store
from cudnn_sweep.cluster.errors import ClusterError
from cudnn_sweep.cluster.launch_file import read_launch_file
from cudnn_sweep.orchestrator.errors import OrchestratorError, SpecError
from cudnn_sweep.orchestrator.launching.destinations import Destination, Here, destination_of
from cudnn_sweep.orchestrator.locks.private_folder import scratch_folder
from cudnn_sweep.orchestrator.nightly.diary import Diary
from cudnn_sweep.orchestrator.nightly.news import Webhook, find_webhook
from cudnn_sweep.orchestrator.planning.options import LaunchOptions, NightOptions
from cudnn_sweep.orchestrator.planning.plan import LAST_GOOD, OWN_SOFTWARE, Plan, Trial, balanced
from cudnn_sweep.orchestrator.planning.request import SweepRequest, request_of
from cudnn_sweep.orchestrator.planning.session import Session, modules_to_preload
from cudnn_sweep.orchestrator.planning.spec import NightlyKeys, NightName, SweepSpec, launch_name
from cudnn_sweep.orchestrator.planning.standing import contrasts_of, settings_of
from cudnn_sweep.orchestrator.remote.job import NightJob
from cudnn_sweep.orchestrator.running.run_sweep import Place, plan_of, tell_stopped
from cudnn_sweep.orchestrator.running.this_machine import ThisMachine
from cudnn_sweep.orchestrator.showing.plan_text import cell_labels
from cudnn_sweep.orchestrator.showing.say import say, warn
from cudnn_sweep.workloads.cells.cell import Cell
from cudnn_sweep.workloads.cells.config import CudnnConfig
from cudnn_sweep.workloads.cells.suite import FIXED_BLOCKS, CellAxes, SuiteSpec
from cudnn_sweep.workloads.hashes import content_hash

NO_SUITE = SuiteSpec(cells=[CellAxes(workload="noop")])  # of a night whose own suite cannot be read
COMPARED_WITH = timedelta(days=100)  # nights that a job takes along, where none is pinned
TIME_SHARE = 0.5  # of the night's budget, besides it
OF_EVERY_CONFIG = (SIGN.name, MISSING.name)
Suspect: TypeAlias = tuple[Cell, Sequence[CudnnConfig]]


@dataclass(frozen=True, kw_only=True, slots=True)
class NightRequest:
    options: NightOptions
    keys: NightlyKeys
    request: SweepRequest
    """The sweep that the night runs."""
    name: NightName
    host: str = field(default_factory=socket.gethostname)
    """The host that it was started on."""
    place: Place
    """Where this process measures, if the destination does not."""
    destination: Destination = field(default_factory=Here)
    webhook: Webhook | SpecError | None = None
    """The webhook of the launch file, or why it cannot be used."""
    fault: Exception | None = None
    """A mistake in the suite or in what it needs. The night reports it before it fails."""

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

    def job(self) -> NightJob:
        since = self.diary().baseline() or self.name.date - COMPARED_WITH
        return NightJob(
            options=self.options, keys=self.keys, name=self.name, host=self.host, since=since
        )

    def again(self, cell_id: str | None = None) -> str:
        """What to type to measure a cell again, or all of them."""
        words = [self.options.program, "launch", str(self.options.file)]
        words += ["--suite", self.request.suite_name]
        if self.options.results is not None:
            words += ["--results", self.options.results]
        only = [] if cell_id is None else ["--only", f"cell_id={cell_id}"]
        return shlex.join([*words, "--new", *only])


def read_night(
    options: NightOptions, environment: Mapping[str, str], place: Place | None = None
) -> NightRequest:
    """Raises an error of the folders for a mistake in the launch file. One in what it names is the night's
    `fault`, so that somebody hears of it. `place`: measure there, whatever the launch file names.
    """
    file = read_launch_file(options.file, SweepSpec)
    keys = file.sweep.nightly
    name = NightName(date=options.night or date.today(), launch=launch_name(file))
    launch = LaunchOptions(
        file=options.file,
        suite=options.suite or keys.suite,
        results=options.results,
        sweep_id=name.sweep_id,
        minutes=options.budget_minutes or keys.budget_minutes,
        dry_run=options.dry_run,
        program=options.program,
    )
    destination = destination_of(file) if place is None else Here()
    fault: Exception | None = None
    webhook: Webhook | SpecError | None = None
    try:
        request = request_of(file, launch)
        if options.measure and place is None and isinstance(destination, Here):
            check_python(keys.last_good)
    except (ClusterError, OrchestratorError) as error:
        if options.suite is not None:  # somebody typed it
            raise
        fault = error
        results = Location(options.results or file.sweep.results).text
        request = SweepRequest(
            options=launch, suite_name=keys.suite, suite=NO_SUITE, results=results
        )
    try:
        webhook = find_webhook(keys.webhook, environment) if keys.webhook is not None else None
    except SpecError as error:  # the night is measured, and says that nobody will be told
        webhook = error
    # each night as many: what a series is compared with stays
    request = replace(request, suite=request.suite.with_blocks(FIXED_BLOCKS), may_skip=True)
    return NightRequest(
        options=options,
        keys=keys,
        request=request,
        name=name,
        place=place or ThisMachine(wait_s=60 * keys.wait_minutes),
        destination=destination,
        webhook=webhook,
        fault=fault,
    )


def check_python(last_good: str | None) -> None:
    """Raises SpecError if there is no such program; the nodes of a cluster check it themselves."""
    if last_good is not None and not shutil.which(last_good):
        raise SpecError(
            f"metadata.sweep.nightly.last_good: found no program {last_good}; allowed: the Python of a "
            "virtual environment, as /opt/good/bin/python"
        )


def measure_again(
    night: NightRequest, candidates: Sequence[Candidate], console: Console
) -> dict[SeriesKey, Remeasured]:
    """The judgement of new candidates by fresh trials.

    None of an amount where there is no last good software: its trials join the night's value. Where
    nothing is to be measured: by trials that an earlier start of this night measured.
    """
    if night.options.measure:
        try:
            return _measure(night, candidates, console)
        except (OrchestratorError, ClusterError) as error:
            warn(console, f"warning: nothing could be measured again: {error}")
            return {}
    fresh = _fresh_trials(night)
    return fresh.judge_all(candidates, fresh.differences(), is_cut=True)


def _measure(
    night: NightRequest, candidates: Sequence[Candidate], console: Console
) -> dict[SeriesKey, Remeasured]:
    """Each look adds blocks, of what is not settled by then."""
    store, confirm_id, name = night.store(), night.name.confirm_id, night.request.suite_name
    machine = night.place.look(night.suite)
    whole = plan_of(name, night.suite, machine, may_skip=True)
    of_two, pythons = None, {}
    if night.keys.last_good is not None:
        pythons = {LAST_GOOD: Path(night.keys.last_good)}
        good = night.place.last_good(pythons[LAST_GOOD])
        if good.software_hash != machine.environment.software_hash:
            parts = (asdict(good), asdict(machine.environment))
            of_two = differences(*parts, SOFTWARE_AND_COMMIT)
    minutes = night.request.budget_minutes or night.keys.budget_minutes
    ends = monotonic() + TIME_SHARE * minutes * 60
    suite = suite_again(night.suite, candidates, max(LOOKS))
    suspects = suspects_of(candidates, whole)
    softwares = (OWN_SOFTWARE,) if of_two is None else (OWN_SOFTWARE, LAST_GOOD)
    judged: dict[SeriesKey, Remeasured] = {}
    waiting = list(candidates)
    with night.place.opened(store, machine, console) as run:
        for look in LOOKS:
            plan = confirmation_plan(name, suite, suspects, blocks=look, softwares=softwares)
            cells = {each.key.cell_id for each in waiting}
            is_over = {each.trial_id for each in plan.trials if each.cell.cell_id not in cells}
            todo = plan.without(is_over.union(store.stored_trials(confirm_id)))
            left_s = ends - monotonic()
            if todo.trials and left_s > 0:
                labels = ", ".join(cell_labels(trial.cell for trial in todo.trials).values())
                say(console, f"Measuring again, {len(todo.trials)} trials: {labels}")
                session = Session(
                    sweep_id=confirm_id,
                    launch_id=f"launch-{secrets.token_hex(4)}",
                    plan=todo,
                    plan_hash=plan.plan_hash,
                    plan_trials=len(plan.trials),
                    retries={},
                    scratch=scratch_folder(confirm_id),
                    folder=Path.cwd(),
                    preload=modules_to_preload(night.suite, night.request.preload),
                    pythons=pythons,
                )
                tell_stopped(store, run(session, left_s), console)
            judged |= _fresh_trials(night).judge_all(waiting, of_two, is_cut=monotonic() > ends)
            more = {key for key, each in judged.items() if each.confirmation.more_blocks}
            waiting = [each for each in waiting if each.key in more]
            if not waiting or of_two is None or left_s <= 0:
                break
    shutil.rmtree(scratch_folder(confirm_id), ignore_errors=True)
    return judged


def _fresh_trials(night: NightRequest) -> FreshTrials:
    return read_fresh(night.store(), night.name.launch, night.name.confirm_id, night.contrasts)


def confirmation_plan(
    name: str,
    suite: SuiteSpec,
    suspects: Sequence[Suspect],
    *,
    blocks: int,
    softwares: Sequence[str] = (OWN_SOFTWARE, LAST_GOOD),
) -> Plan:
    """`blocks` of each cell, each with every config of it under every software, interleaved on one slot in an
    order that is balanced over them.

    In rounds of every cell once: the first n rounds, the trials whose replicate is below n, are n
    blocks of each cell, and the same ones of a plan that asks for more.
    """
    order = random.Random(content_hash([cell.cell_id for cell, _ in suspects]))
    starts = {}
    for cell, configs in suspects:
        placed = [(config, software) for config in configs for software in softwares]
        starts[cell.cell_id] = order.sample(placed, len(placed))
    trials: list[Trial] = []
    for replicate in range(blocks):
        for place, (cell, _) in enumerate(order.sample(suspects, len(suspects))):
            for config, software in balanced(starts[cell.cell_id], replicate):
                trial = Trial(
                    cell=cell,
                    config=config,
                    replicate=replicate,
                    twin=0,
                    block=replicate * len(suspects) + place,
                    position=len(trials),
                    cache_generation=min(replicate, suite.new_compute_caches - 1),
                    software=software,
                )
                trials.append(trial)
    return Plan(suite=name, measure=suite.measure, trials=tuple(trials))


def suspects_of(candidates: Sequence[Candidate], whole: Plan) -> list[Suspect]:
    """Their cells and configs, in the plan's order; cells that it has no more are left out."""
    suspect = {
        (each.key.cell_id, None if each.key.metric in OF_EVERY_CONFIG else each.key.settings)
        for each in candidates
    }
    named = [(config, config_name(settings_of(config))) for config in whole.configs()]
    suspects = [
        (cell, [config for config, name in named if suspect & {(cell_id, None), (cell_id, name)}])
        for cell_id, cell in {each.cell.cell_id: each.cell for each in whole.trials}.items()
    ]
    return [(cell, configs) for cell, configs in suspects if configs]


def suite_again(suite: SuiteSpec, candidates: Sequence[Candidate], blocks: int) -> SuiteSpec:
    """Measured as the suite does, but that each block has what the candidates are about."""
    metrics = {candidate.key.metric for candidate in candidates}
    measure = suite.measure.model_copy(
        update={
            "reference_replicates": blocks if ERROR.name in metrics else 0,
            "logged_replicates": blocks if ENGINE.name in metrics else 0,
        }
    )
    caches = blocks if COLD_EMPTY.name in metrics else suite.new_compute_caches
    return suite.model_copy(update={"measure": measure, "new_compute_caches": caches})
