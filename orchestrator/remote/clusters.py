"""Clusters on which launches and nights run."""

import secrets
import shlex
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TypeAlias

import yaml  # type: ignore[import-untyped]
from rich.console import Console

from cudnn_sweep.analysis.store.location import Location
from cudnn_sweep.analysis.words import counted
from cudnn_sweep.cluster.errors import ClusterError
from cudnn_sweep.cluster.jobs import launcher
from cudnn_sweep.cluster.jobs.jobs import (
    ENDED,
    Jobs,
    KnownCluster,
    SentJob,
    answers_anybody,
    make_token,
    refuse_open_cluster,
)
from cudnn_sweep.cluster.launch_file import LaunchFile
from cudnn_sweep.orchestrator.errors import SpecError, SweepBusyError
from cudnn_sweep.orchestrator.exit_codes import ExitCode
from cudnn_sweep.orchestrator.planning.request import SweepRequest
from cudnn_sweep.orchestrator.planning.spec import SweepSpec, is_of
from cudnn_sweep.orchestrator.process.client import ForkServer, survey
from cudnn_sweep.orchestrator.remote.follow import Follower, fetch, follow
from cudnn_sweep.orchestrator.remote.job import (
    HEAD_FOLDER,
    VARIABLES,
    Ended,
    JobRequest,
    NightJob,
    stage,
    take_own_code,
    write_request,
)
from cudnn_sweep.orchestrator.running.run_sweep import planned_on
from cudnn_sweep.orchestrator.terminal.plan_text import print_part
from cudnn_sweep.orchestrator.terminal.say import say
from cudnn_sweep.workloads.cells.suite import ALL_MODELS, as_list, workload_names

ANSWER_S = 15.0  # time within which a running head answers
UNTIL_THE_LAUNCH = "unknown until the launch"

Keep: TypeAlias = Callable[[str, str], None]
"""Function that stores a night's sweep_id and outcome as JSON. It may raise AnalysisError."""


class Cluster:
    """A cluster on which a driver runs a launch or a night."""

    where = "the cluster that this machine is a node of"

    def __init__(self, file: LaunchFile[SweepSpec]) -> None:
        self.file = file

    def show(self, request: SweepRequest, console: Console) -> int:
        models = request.suite.gpus.models
        with ForkServer(survey_only=True) as server:
            machine = survey(server, workload_names(request.suite))
        where = f"On {self.where} ({self._size()}), records in {request.results}."
        say(console, f"{where} Each GPU model has a plan of its own.")
        for name in ["each GPU model"] if models == ALL_MODELS else as_list(models):
            environment = replace(machine.environment, device="cuda", gpu=name)
            planned = planned_on(replace(machine, environment=environment), request)
            print_part(console, planned.chosen, request.options, None, gpu=True)
        return ExitCode.FINE

    def _size(self) -> str:
        return f"hosts and GPUs {UNTIL_THE_LAUNCH}"

    def _job(self, request: SweepRequest, night: NightJob | None = None) -> JobRequest:
        if request.options.json:
            raise SpecError(
                "--json: a launch on a cluster prints only text; use `sweep status FILE --json`, "
                "or `sweep query helps_or_hurts --json` over the results"
            )
        open_to_all = self.file.sweep.allow_unauthenticated
        return JobRequest(sweep=request, night=night, allow_unauthenticated=open_to_all)


class Inside(Cluster):
    """The cluster that this machine belongs to. The driver is a child of this process."""

    def night(self, request: SweepRequest, night: NightJob, keep: Keep, console: Console) -> None:
        keep(night.name.sweep_id, self._run(self._job(request, night), console).outcome)

    def launch(self, request: SweepRequest, console: Console) -> int:
        return self._run(self._job(request), console).exit_code

    def _job(self, request: SweepRequest, night: NightJob | None = None) -> JobRequest:
        where = Location(request.results)
        if not where.is_url:
            request = replace(request, results=str(where.folder.absolute()))
        return replace(super()._job(request, night), inside=True)

    def _run(self, request: JobRequest, console: Console) -> Ended:
        """Run the driver. Raises UnfinishedError if it is killed, or SpecError if it fails."""
        follower = Follower(request.sweep.results, console, is_here=True)
        with tempfile.TemporaryDirectory(prefix="sweep-inside-") as folder:
            work = Path(folder)
            write_request(request, work)
            take_own_code(request.sweep, work)
            command = [sys.executable, "-m", request.driver]
            try:
                with launcher.running(
                    command, end_s=10.0, variables=VARIABLES, folder=work
                ) as driver:
                    for line in driver.stdout or ():
                        follower.take(line.rstrip("\n"))
                    driver.wait()
            finally:
                follower.close()
        return follower.report(f"the sweep's driver ended early with exit code {driver.returncode}")


class RunningCluster(Cluster):
    """A running cluster that the launch file names. The driver is a Ray job on the cluster."""

    def __init__(self, file: LaunchFile[SweepSpec]) -> None:
        super().__init__(file)
        self.known = KnownCluster(str(file.sweep.address or file.ray_part["cluster_name"]))
        self.where = f"the cluster {self.known.name}"

    def night(self, request: SweepRequest, night: NightJob, keep: Keep, console: Console) -> None:
        """Run or follow the night. Raises SweepBusyError if another night of the file runs."""
        tonight = night.name.sweep_id
        self.make_ready(console)
        with self.jobs() as jobs:
            job = self._fetch_nights(jobs, night, keep)
            if job is None:
                job = self._send(jobs, self._job(request, night))
            elif self.known.fetched(job).exists():
                say(console, f"Sweep {tonight} has ended on the cluster. This is its outcome")
                return
            else:
                say(
                    console,
                    f"Following job {job.job_id}, in which sweep {tonight} is still running",
                )
        try:
            report = follow(self.jobs, job, console)
        except KeyboardInterrupt:
            continues = f"Sweep {tonight} continues on the cluster"
            say(console, f"\n{continues}. To follow it, repeat the command")
            raise
        keep(tonight, report.outcome)
        self.known.fetched(job).touch()

    def _fetch_nights(self, jobs: Jobs, night: NightJob, keep: Keep) -> SentJob | None:
        """Store new outcomes of nights. Return tonight's job if it runs or has a new outcome."""
        tonight = None
        for job in jobs.sent(self.known.sender()):
            mark, is_tonight = self.known.fetched(job), job.night == night.name.sweep_id
            if not is_of(job.night, night.name.launch) or mark.exists():
                continue
            if jobs.state(job.job_id)[0] in ENDED:
                ended = fetch(jobs, job).ended
                if ended and ended.outcome:  # if not, the night is measured again
                    keep(job.night, ended.outcome)
                    tonight = job if is_tonight else tonight
                mark.touch()
            elif is_tonight:
                tonight = job
            else:
                raise SweepBusyError(
                    f"a night of this launch file is in progress: {job.night}, as job {job.job_id} "
                    f"of {jobs.url}; `sweep cluster stop` ends the job sent last"
                )
        return tonight

    def launch(self, request: SweepRequest, console: Console) -> int:
        """Send the sweep and follow it. Return its exit code, or 0 if following ends earlier."""
        sent, file = self._job(request), shlex.quote(str(request.options.file))
        self.make_ready(console)
        with self.jobs() as jobs:
            job = self._send(jobs, sent)
        say(console, f"Job {job.job_id}")
        if not Location(job.results).is_url:
            say(
                console,
                f"Results are in ~/{HEAD_FOLDER}/{job.results} on the head, and are lost with the "
                f"head's disk. While you follow the sweep, they are copied to {job.results}.",
            )
        try:
            if not request.options.detach:
                return follow(self.jobs, job, console).exit_code
        except KeyboardInterrupt:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # the text below must be printed
        say(console, f"\nThe sweep continues. Follow it:  sweep cluster attach {file}")
        say(console, f"See its progress:  sweep status {file}\nStop it:  sweep cluster stop {file}")
        return ExitCode.FINE

    @contextmanager
    def jobs(self) -> Iterator[Jobs]:
        """Connect to the cluster and yield its jobs. Raises ClusterError if this fails."""
        address, token = str(self.file.sweep.address), self._token()
        if token is None and not self.file.sweep.allow_unauthenticated:
            refuse_open_cluster(address)
        yield Jobs(address, token)

    def make_ready(self, console: Console) -> None:
        """Do nothing, because the cluster must be running already."""

    def _send(self, jobs: Jobs, request: JobRequest) -> SentJob:
        job = SentJob(
            job_id=f"sweep-{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}",
            results=request.sweep.results,
            sweep=request.command,
            night=request.night.name.sweep_id if request.night else "",
        )
        with tempfile.TemporaryDirectory(prefix="sweep-stage-") as folder:
            environment = stage(request, Path(folder))
            jobs.submit(job, self.known.sender(), f"python -m {request.driver}", environment)
        return job

    def sent(self, jobs: Jobs) -> list[SentJob]:
        """Return the jobs that this machine has sent. Raises ClusterError if there are none."""
        if not (sent := jobs.sent(self.known.sender())):
            raise ClusterError(
                f"no sweep was sent to {self.where} from this machine since the cluster's head "
                "started. `sweep launch` resumes a sweep from the records on this machine"
            )
        return sent

    def _token(self) -> Path | None:
        if self.file.sweep.token is not None:
            path = Path(self.file.sweep.token).expanduser()
            if not path.is_file():
                raise SpecError(f"metadata.sweep.token: there is no file {path}")
            return path
        return self.known.token if self.known.token.exists() else None


class BroughtUpCluster(RunningCluster):
    """The cluster that Ray's cluster launcher starts from the launch file."""

    @contextmanager
    def jobs(self) -> Iterator[Jobs]:
        if not self.known.launch_file.exists():
            raise ClusterError(
                f"cluster {self.known.name} was not brought up from here; `sweep launch` does that"
            )
        with launcher.tunnel(self.known.launch_file) as here:
            yield Jobs(here, self._token())

    def _job(self, request: SweepRequest, night: NightJob | None = None) -> JobRequest:
        workers = launcher.hosts_at_first(self.file.ray_part)[0] - 1
        return replace(super()._job(request, night), workers=workers)

    def make_ready(self, console: Console) -> None:
        """Start the cluster unless it runs. Raises ClusterError if it asks for no token."""
        launcher.wait_for_head(self.file.ray_part, partial(say, console))
        make_token(self.known.token)
        config, path = launcher.secure(self.file.ray_part, self.known.token), self.known.launch_file
        text = yaml.safe_dump(config, sort_keys=False)
        if path.exists() and path.read_text() == text:
            with suppress(ClusterError):
                if not self._is_open(ANSWER_S):
                    return
        path.write_text(text)
        path.chmod(0o600)
        say(console, f"ray up -y {shlex.quote(str(path))}")
        launcher.bring_up(path, self.known.token)
        if not self._is_open():
            return
        say(console, "Anybody can use this cluster without a token, so it is taken down.")
        launcher.take_down(path)
        raise ClusterError(
            f"the cluster {self.known.name} came up, answered without a token and was taken down, "
            "because anybody who reaches its dashboard could run code there (CVE-2023-48022). The "
            "start commands lose the variables RAY_AUTH_MODE and RAY_AUTH_TOKEN_PATH, for example "
            "by `sudo` or `env -i`. Keep both (`sudo -E`)"
        )

    def _is_open(self, timeout_s: float = launcher.TUNNEL_S) -> bool:
        """Return whether the cluster needs no token. Raises ClusterError if our token fails."""
        with launcher.tunnel(self.known.launch_file, timeout_s=timeout_s) as here:
            Jobs(here, self.known.token)
            return answers_anybody(here)

    def show(self, request: SweepRequest, console: Console) -> int:
        ray_part = self.file.ray_part
        say(console, launcher.difference(ray_part, launcher.secure(ray_part, self.known.token)))
        return super().show(request, console)

    def _size(self) -> str:
        hosts, gpus = launcher.hosts_at_first(self.file.ray_part)
        if gpus is None:
            return f"{counted(hosts, 'host')}, GPUs {UNTIL_THE_LAUNCH}"
        stated = f"{counted(hosts, 'host')} with {counted(gpus, 'GPU')}"
        return f"{stated} according to the launch file, GPU models {UNTIL_THE_LAUNCH}"
