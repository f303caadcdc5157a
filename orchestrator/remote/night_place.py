"""A cluster, as a night takes it: what it asks and what it runs there are jobs, whose records come here."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from cudnn_sweep.analysis.storing.store import Store
from cudnn_sweep.cluster.reach.jobs import ENDED, Jobs, SentJob
from cudnn_sweep.orchestrator.doctor.check import Check
from cudnn_sweep.orchestrator.doctor.storage_checks import check_storage
from cudnn_sweep.orchestrator.errors import ServerError, SweepBusyError
from cudnn_sweep.orchestrator.planning.session import Session
from cudnn_sweep.orchestrator.planning.spec import NightName, is_of
from cudnn_sweep.orchestrator.recording.recorder import Progress
from cudnn_sweep.orchestrator.remote.events import NodesFound
from cudnn_sweep.orchestrator.remote.follow import JobReport, follow
from cudnn_sweep.orchestrator.remote.inside import run_inside
from cudnn_sweep.orchestrator.remote.launch_there import RunningCluster, send
from cudnn_sweep.orchestrator.remote.request import JobRequest, SessionJob, SurveyJob
from cudnn_sweep.orchestrator.remote.status import pull_records
from cudnn_sweep.orchestrator.running.place import RunSession
from cudnn_sweep.orchestrator.showing.say import say
from cudnn_sweep.workloads.cells.suite import SuiteSpec
from cudnn_sweep.workloads.hardware.environment import Environment
from cudnn_sweep.workloads.survey import Survey

LAST_JOBS = 20  # whose records are looked for: a night has seldom more than five


class NightOnCluster:
    """A NightPlace whose sessions are planned here and run there."""

    def __init__(self, request: JobRequest, last_good: str | None, console: Console) -> None:
        self._request = request
        self._console = console
        self._survey = SurveyJob(last_good=last_good)
        self._known: NodesFound | None = None

    def follow_running_jobs(self) -> None:
        """There are none: a driver on this node ends with its launch."""

    def announce(self, session: Session, reason: str, console: Console) -> None:
        say(console, f"Sweep {session.sweep_id} ({reason})")

    def look(self, suite: SuiteSpec) -> Survey:
        """The survey of one node: those that take part are alike."""
        return self._found().nodes[0].machine

    def last_good(self, python: Path) -> Environment:
        found = self._found()
        if found.last_good is None:
            raise ServerError(found.last_good_fails or f"nobody asked for {python}")
        return found.last_good

    def checks(self, results: str) -> Iterator[Check]:
        """Checks of the place for the copies; the nodes are checked where they are looked at."""
        yield from check_storage(results)

    def modules(self, suite: SuiteSpec, own: Iterable[str]) -> tuple[str, ...]:
        """None are named here: the nodes know which modules they have."""
        return ()

    @contextmanager
    def opened(self, store: Store, machine: Survey, console: Console) -> Iterator[RunSession]:
        def run(session: Session, budget_s: float | None, /) -> Progress:
            nodes = self._found().nodes
            return self._do(SessionJob(session=session, budget_s=budget_s, nodes=nodes)).progress

        yield run

    def _found(self) -> NodesFound:
        self._known = self._known or self._do(self._survey).found
        assert self._known is not None
        return self._known

    def _do(self, job: SurveyJob | SessionJob) -> JobReport:
        return run_inside(replace(self._request, job=job), self._console)


class NightByJobs(NightOnCluster):
    """The same from a machine outside the cluster: a job each, which goes on where its night is cut."""

    def __init__(
        self,
        cluster: RunningCluster,
        request: JobRequest,
        name: NightName,
        last_good: str | None,
        console: Console,
    ) -> None:
        super().__init__(request, last_good, console)
        self._cluster = cluster
        self._name = name
        self._over: set[str] = set()
        """Jobs that were followed to their end."""

    def follow_running_jobs(self) -> None:
        """And copy what nobody followed."""
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
        say(
            self._console,
            f"Sweep {job.sweep_id} is still running there, as job {job.job_id}: following it",
        )
        self._follow(jobs, job)

    def _do(self, job: SurveyJob | SessionJob) -> JobReport:
        with self._reached() as jobs:
            sent = send(jobs, replace(self._request, job=job), self._console)
            if sent.sweep_id:
                self._cluster.known.remember(sent)
            return self._follow(jobs, sent)

    def _follow(self, jobs: Jobs, job: SentJob) -> JobReport:
        try:
            report = follow(jobs, job.job_id, job.results, self._console)
        except KeyboardInterrupt:
            if job.sweep_id:
                say(
                    self._console,
                    f"\nSweep {job.sweep_id} continues there. To follow it, start this night again",
                )
            raise
        self._over.add(job.job_id)
        return report

    @contextmanager
    def _reached(self) -> Iterator[Jobs]:
        self._cluster.make_ready(self._console)
        with self._cluster.jobs() as jobs:
            yield jobs
