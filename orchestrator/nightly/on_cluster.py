"""A cluster, as a night takes it: what it asks and what it runs there are jobs, whose records come here."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from cudnn_sweep.analysis.store import Store
from cudnn_sweep.cluster.jobs import ENDED, Jobs
from cudnn_sweep.cluster.known import SentJob
from cudnn_sweep.cluster.launch_file import LaunchFile
from cudnn_sweep.orchestrator.doctor.check import Check
from cudnn_sweep.orchestrator.doctor.storage_checks import check_storage
from cudnn_sweep.orchestrator.errors import ServerError, SweepBusyError
from cudnn_sweep.orchestrator.executor import RunSession
from cudnn_sweep.orchestrator.nightly.night_name import NightName, is_of
from cudnn_sweep.orchestrator.options import LaunchOptions
from cudnn_sweep.orchestrator.progress import Progress
from cudnn_sweep.orchestrator.remote.client import cluster_of, make_ready, request_of, send
from cudnn_sweep.orchestrator.remote.events import Looked
from cudnn_sweep.orchestrator.remote.follow import Heard, follow
from cudnn_sweep.orchestrator.remote.inside import run_inside
from cudnn_sweep.orchestrator.remote.request import Look, Run
from cudnn_sweep.orchestrator.remote.status import pull_records
from cudnn_sweep.orchestrator.say import say
from cudnn_sweep.orchestrator.session import Session
from cudnn_sweep.orchestrator.spec import SweepSpec
from cudnn_sweep.workloads.environment import Environment
from cudnn_sweep.workloads.suite import SuiteSpec
from cudnn_sweep.workloads.survey import Survey

LAST_JOBS = 20  # whose records are looked for: a night has seldom more than five


class OnCluster:
    """An Executor, of one night. On a node of the cluster its jobs are processes here."""

    def __init__(
        self,
        file: LaunchFile[SweepSpec],
        options: LaunchOptions,
        name: NightName,
        console: Console,
    ) -> None:
        self._cluster = None if file.where == "inside" else cluster_of(file)
        self._request = request_of(file, options)
        self._name = name
        self._console = console
        self._look_for = Look(last_good=file.sweep.nightly.last_good)
        self._known: Looked | None = None
        self._over: set[str] = set()
        """Jobs that were followed to their end."""

    def come_back(self) -> None:
        """Follow what an earlier start of this night left running, and copy what nobody followed."""
        if self._cluster is None:
            return
        sent = [job for job in self._cluster.known.jobs() if is_of(job.sweep_id, self._name.launch)]
        if not sent:
            return
        with self._reached() as jobs:
            there = jobs.ids()
            sent = [job for job in sent[-LAST_JOBS:] if job.job_id in there]
            for job in sent:
                if job.job_id not in self._over and jobs.state(job.job_id)[0] not in ENDED:
                    self._come_back_to(jobs, job)
            pull_records(jobs, sent)

    def _come_back_to(self, jobs: Jobs, job: SentJob) -> None:
        if job.sweep_id not in (self._name.sweep_id, self._name.confirm_id):
            raise SweepBusyError(
                f"a night of this launch file is in progress: {job.sweep_id}, as job {job.job_id} of "
                f"{jobs.url}; `sweep stop` ends the one sent last"
            )
        say(self._console, f"Sweep {job.sweep_id} goes on there, as job {job.job_id}: following it")
        self._follow(jobs, job)

    def look(self, suite: SuiteSpec) -> Survey:
        """Of one node: those that take part are alike."""
        return self._looked().nodes[0].machine

    def last_good(self, python: Path) -> Environment:
        looked = self._looked()
        if looked.last_good is None:
            raise ServerError(looked.last_good_fails or f"nobody asked for {python}")
        return looked.last_good

    def checks(self, results: str) -> Iterator[Check]:
        """Of the copies' place; the nodes are checked where they are looked at."""
        yield from check_storage(results)

    def modules(self, suite: SuiteSpec, own: Iterable[str]) -> tuple[str, ...]:
        """The nodes know which they have."""
        return ()

    @contextmanager
    def opened(self, store: Store, machine: Survey, console: Console) -> Iterator[RunSession]:
        def run(session: Session, budget_s: float | None, /) -> Progress:
            nodes = self._looked().nodes
            return self._do(Run(session=session, budget_s=budget_s, nodes=nodes)).progress

        yield run

    def _looked(self) -> Looked:
        """The nodes, which are looked at once."""
        self._known = self._known or self._do(self._look_for).looked
        assert self._known is not None
        return self._known

    def _do(self, errand: Look | Run) -> Heard:
        request = replace(self._request, errand=errand)
        if self._cluster is None:
            return run_inside(request, self._console)
        with self._reached() as jobs:
            job = send(jobs, request)
            if isinstance(errand, Run):
                self._cluster.known.remember(job)
            return self._follow(jobs, job)

    def _follow(self, jobs: Jobs, job: SentJob) -> Heard:
        try:
            heard = follow(jobs, job.job_id, job.results, self._console)
        except KeyboardInterrupt:
            if job.sweep_id:
                say(
                    self._console,
                    f"\nSweep {job.sweep_id} goes on there: this night, started again, follows it",
                )
            raise
        self._over.add(job.job_id)
        return heard

    @contextmanager
    def _reached(self) -> Iterator[Jobs]:
        assert self._cluster is not None
        make_ready(self._cluster, self._console)
        with self._cluster.jobs() as jobs:
            yield jobs
