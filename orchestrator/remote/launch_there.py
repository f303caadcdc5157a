"""A launch that goes to a cluster: brings it up where Ray's launcher is to, sends the sweep, follows it."""

import secrets
import shlex
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from rich.console import Console

from cudnn_sweep.analysis.storing.location import Location
from cudnn_sweep.cluster.errors import ClusterError
from cudnn_sweep.cluster.keys import NightlyKeys
from cudnn_sweep.cluster.launch_file import LaunchFile
from cudnn_sweep.cluster.reach.jobs import (
    Jobs,
    KnownCluster,
    SentJob,
    answers_anybody,
    refuse_open_cluster,
)
from cudnn_sweep.cluster.reach.launcher import bring_up, take_down, tunnel, workers_at_first
from cudnn_sweep.cluster.reach.secured import SecuredFile, make_token, mark_anew, secure
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.planning.options import LaunchOptions
from cudnn_sweep.orchestrator.planning.request import SweepRequest
from cudnn_sweep.orchestrator.planning.spec import NightName, SweepSpec
from cudnn_sweep.orchestrator.remote.follow import JobReport, follow
from cudnn_sweep.orchestrator.remote.plans import (
    refuse_json,
    refuse_to_try_cells,
    show_plans,
)
from cudnn_sweep.orchestrator.remote.request import HEAD_FOLDER, JobRequest, SurveyJob
from cudnn_sweep.orchestrator.remote.staging import stage
from cudnn_sweep.orchestrator.running.place import NightPlace
from cudnn_sweep.orchestrator.running.run_sweep import DONE
from cudnn_sweep.orchestrator.showing.say import say

ENTRYPOINT = "python -m cudnn_sweep.orchestrator.remote.driver"
DETACHED = 0  # exit code
ANSWER_S = 15.0  # of a head that is up; ssh waits for a dead one for minutes


class RunningCluster:
    """A Destination: the cluster whose dashboard the launch file names."""

    def __init__(self, file: LaunchFile[SweepSpec]) -> None:
        self.file = file
        self.known = KnownCluster(name=self._name())

    def _name(self) -> str:
        return str(self.file.sweep.address)

    @property
    def comes_up(self) -> bool:
        """Whether launches bring it up."""
        return False

    @property
    def where(self) -> str:
        return f"the cluster {self.known.name}"

    def launch(self, request: SweepRequest, console: Console) -> int:
        """Returns the exit code of the sweep, or 0 where it goes on without us."""
        refuse_json(request)
        self.make_ready(console)
        with self.jobs() as jobs:
            job = send(jobs, self.job_request(request), console)
            self.known.remember(job)
            _tell_where(console, request, job.job_id)
            if request.options.detach:
                _tell_how_to_come_back(console, request.options)
                return DETACHED
            try:
                return follow(jobs, job.job_id, job.results, console).exit_code
            except KeyboardInterrupt:
                signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C would cut it short
                _tell_how_to_come_back(console, request.options)
                return DETACHED

    def show(self, request: SweepRequest, console: Console) -> int:
        refuse_to_try_cells(request)
        self._show_start(console)
        show_plans(request, self.where, lambda: self._survey(request, console), console)
        return DONE

    def for_night(
        self, request: SweepRequest, name: NightName, nightly: NightlyKeys, console: Console
    ) -> NightPlace:
        from cudnn_sweep.orchestrator.remote.night_place import NightByJobs

        return NightByJobs(self, self.job_request(request), name, nightly.last_good, console)

    def check_python(self, last_good: str) -> None:
        """Its nodes are asked, when they are looked at."""

    @contextmanager
    def jobs(self) -> Iterator[Jobs]:
        """Raises ClusterError where it is not reached."""
        address, token = str(self.file.sweep.address), self._token()
        if token is None and not self.file.sweep.allow_unauthenticated:
            refuse_open_cluster(address)
        yield Jobs(address, token)

    def make_ready(self, console: Console) -> None:
        """It is up already, or `jobs` says that it is not."""

    def job_request(self, request: SweepRequest) -> JobRequest:
        return JobRequest(
            sweep=request, allow_unauthenticated=self.file.sweep.allow_unauthenticated
        )

    def _show_start(self, console: Console) -> None:
        """How it would be brought up."""

    def _survey(self, request: SweepRequest, console: Console) -> JobReport:
        with self.jobs() as jobs:
            job = send(jobs, replace(self.job_request(request), job=SurveyJob()), console)
            return follow(jobs, job.job_id, job.results, console)

    def _token(self) -> Path | None:
        if self.file.sweep.token is not None:
            path = Path(self.file.sweep.token).expanduser()
            if not path.is_file():
                raise SpecError(f"metadata.sweep.token: there is no file {path}")
            return path
        return self.known.token if self.known.token.exists() else None


class BroughtUpCluster(RunningCluster):
    """A Destination: the cluster that Ray's launcher brings up by this file."""

    @property
    def comes_up(self) -> bool:
        return True

    def _name(self) -> str:
        return str(self.file.ray_part["cluster_name"])

    @contextmanager
    def jobs(self) -> Iterator[Jobs]:
        if not self.known.launch_file.exists():
            raise ClusterError(
                f"cluster {self.known.name} is not up: nothing was brought up from here; `sweep launch` does it"
            )
        with tunnel(self.known.launch_file) as here:
            yield Jobs(here, self._token())

    def job_request(self, request: SweepRequest) -> JobRequest:
        return replace(super().job_request(request), workers=workers_at_first(self.file.ray_part))

    def make_ready(self, console: Console) -> None:
        """Not where it is up as the file has it: `ray up` would end what runs there."""
        make_token(self.known.token)
        text = self._secured().text()
        path = self.known.launch_file
        if path.exists() and path.read_text() == text and self._answers():
            return
        path.write_text(text)
        mark_anew(self.known.token)
        path.chmod(0o600)
        say(console, f"ray up -y {shlex.quote(str(path))}")
        bring_up(path)
        self._end_where_open(console)

    def _show_start(self, console: Console) -> None:
        say(console, self._secured().difference)

    def _end_where_open(self, console: Console) -> None:
        """Whatever its start commands hold: one that needs no token does not stay. Raises ClusterError."""
        path = self.known.launch_file
        with tunnel(path) as here:
            Jobs(here, self.known.token)  # it is up, or this says why not
            if not answers_anybody(here):
                return
        console.print("It asks for no token, so it is taken down.", highlight=False)
        take_down(path)
        raise ClusterError(
            f"the cluster {self.known.name} came up, answered without a token and was taken down: anybody "
            "who reaches its dashboard could run code there (CVE-2023-48022). Its start commands drop the "
            "variables RAY_AUTH_MODE and RAY_AUTH_TOKEN_PATH, as `sudo` or `env -i` does: keep both (`sudo -E`)"
        )

    def _answers(self) -> bool:
        try:
            with tunnel(self.known.launch_file, timeout_s=ANSWER_S) as here:
                Jobs(here, self.known.token)
                return not answers_anybody(here)
        except ClusterError:
            return False

    def _secured(self) -> SecuredFile:
        return secure(self.file.ray_part, self.known.token)


def send(jobs: Jobs, request: JobRequest, console: Console) -> SentJob:
    job_id = f"sweep-{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
    command, session = request.sweep.options.command(), request.session
    with tempfile.TemporaryDirectory(prefix="sweep-stage-") as folder:
        environment = stage(request, Path(folder))
        jobs.submit(job_id, ENTRYPOINT, environment, {"sweep": command}, partial(say, console))
    sweep_id = session.sweep_id if session else ""
    return SentJob(job_id=job_id, results=request.sweep.results, command=command, sweep_id=sweep_id)


def _tell_where(console: Console, request: SweepRequest, job_id: str) -> None:
    say(console, f"Job {job_id}")
    if not Location(request.results).is_url:
        say(
            console,
            f"Results are in ~/{HEAD_FOLDER}/{request.results} on the head and are lost with its disk. While you "
            f"follow, they are copied to {request.results}.",
        )


def _tell_how_to_come_back(console: Console, options: LaunchOptions) -> None:
    file = shlex.quote(str(options.file))
    say(
        console,
        f"\nThe sweep continues. Follow it:  sweep attach {file}\n"
        f"See its progress:  sweep status {file}\nStop it:  sweep stop {file}",
    )
