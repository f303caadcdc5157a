"""A launch that goes to a cluster: brings it up where Ray's launcher is to, sends the sweep, follows it."""

import secrets
import shlex
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from cudnn_sweep.analysis.location import Location
from cudnn_sweep.cluster.errors import ClusterError
from cudnn_sweep.cluster.jobs import Jobs, answers_anybody, refuse_open_cluster
from cudnn_sweep.cluster.known import KnownCluster, SentJob
from cudnn_sweep.cluster.launch_file import LaunchFile
from cudnn_sweep.cluster.launcher import bring_up, take_down, tunnel, workers_at_first
from cudnn_sweep.cluster.secured import SecuredFile, make_token, mark_anew, secure
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.options import LaunchOptions
from cudnn_sweep.orchestrator.remote.follow import follow
from cudnn_sweep.orchestrator.remote.request import HEAD_FOLDER, RemoteRequest
from cudnn_sweep.orchestrator.remote.staging import stage
from cudnn_sweep.orchestrator.say import say
from cudnn_sweep.orchestrator.spec import SweepSpec, choose_suite

ENTRYPOINT = "python -m cudnn_sweep.orchestrator.remote.driver"
DETACHED = 0  # exit code
ANSWER_S = 15.0  # of a head that is up; ssh waits for a dead one for minutes


@dataclass(frozen=True, kw_only=True, slots=True)
class Cluster:
    """What a launch file names."""

    file: LaunchFile[SweepSpec]
    known: KnownCluster

    @contextmanager
    def jobs(self) -> Iterator[Jobs]:
        """Raises ClusterError where it is not reached."""
        address, token = self.file.sweep.address, self._token()
        if address is not None:
            if token is None and not self.file.sweep.allow_unauthenticated:
                refuse_open_cluster(address)
            yield Jobs(address, token)
            return
        with tunnel(self.known.launch_file) as here:
            yield Jobs(here, token)

    def _token(self) -> Path | None:
        if self.file.sweep.token is not None:
            path = Path(self.file.sweep.token).expanduser()
            if not path.is_file():
                raise SpecError(f"metadata.sweep.token: there is no file {path}")
            return path
        return self.known.token if self.known.token.exists() else None


def cluster_of(file: LaunchFile[SweepSpec]) -> Cluster:
    """Raises SpecError for a file that means this machine."""
    if file.where == "this_machine":
        raise SpecError(f"{file.path} names no cluster: it means this machine")
    if file.where == "inside":
        raise SpecError(f"{file.path} is launched on a node of its cluster, and not sent to it")
    name = file.sweep.address or str(file.ray_part["cluster_name"])
    return Cluster(file=file, known=KnownCluster(name=name))


def launch_on_cluster(file: LaunchFile[SweepSpec], options: LaunchOptions, console: Console) -> int:
    """Returns the exit code of the sweep, or 0 where it goes on without us."""
    cluster = cluster_of(file)
    request = request_of(file, options)
    make_ready(cluster, console)
    with cluster.jobs() as jobs:
        job = send(jobs, request)
        cluster.known.remember(job)
        _tell_where(console, request, job.job_id)
        if options.detach:
            _tell_how_to_come_back(console, options)
            return DETACHED
        try:
            return follow(jobs, job.job_id, job.results, console).exit_code
        except KeyboardInterrupt:
            _tell_how_to_come_back(console, options)
            return DETACHED


def send(jobs: Jobs, request: RemoteRequest) -> SentJob:
    job_id = f"sweep-{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
    command, session = request.options.command(), request.session
    with tempfile.TemporaryDirectory(prefix="sweep-stage-") as folder:
        environment = stage(request, Path(folder))
        jobs.submit(job_id, ENTRYPOINT, environment, {"sweep": command})
    sweep_id = session.sweep_id if session else ""
    return SentJob(job_id=job_id, results=request.results, command=command, sweep_id=sweep_id)


def show_what_would_be_launched(
    file: LaunchFile[SweepSpec], options: LaunchOptions, console: Console
) -> None:
    """Of a cluster: what `ray up` would be given besides the user's file, and what would be asked of it."""
    name, suite = choose_suite(file.sweep, options.suite)
    where = "this cluster" if file.where == "inside" else file.sweep.address
    if file.where == "launcher":
        cluster = cluster_of(file)
        where = f"the cluster {cluster.known.name}"
        difference = _secured(cluster).difference
        say(console, difference or "The file asks for tokens itself: it is launched as it is.")
    say(
        console,
        f"\nSuite {name}, {len(suite.cells)} groups of cells, on {where}: its nodes say which GPUs there "
        "are, and each GPU model has a plan of its own"
        + (f", of which shard {options.wish.shard} runs here." if options.wish.shard else "."),
    )


def request_of(file: LaunchFile[SweepSpec], options: LaunchOptions) -> RemoteRequest:
    spec = file.sweep
    name, suite = choose_suite(spec, options.suite)
    results = Location(options.results or spec.results)
    return RemoteRequest(
        options=options,
        suite_name=name,
        suite=suite,
        results=results.text,
        preload=tuple(spec.preload),
        budget_minutes=options.budget_minutes or spec.budget_minutes,
        workers=workers_at_first(file.ray_part) if file.where == "launcher" else 0,
        inside=file.where == "inside",
        allow_unauthenticated=spec.allow_unauthenticated,
    )


def make_ready(cluster: Cluster, console: Console) -> None:
    """Where Ray's launcher is to bring it up: not one that is up as the file has it, as `ray up` would end
    what runs there.
    """
    if cluster.file.where != "launcher":
        return
    text = _secured(cluster).text()
    path = cluster.known.launch_file
    if path.exists() and path.read_text() == text and _answers(cluster):
        return
    path.write_text(text)
    mark_anew(cluster.known.token)
    path.chmod(0o600)
    say(console, f"ray up -y {shlex.quote(str(path))}")
    bring_up(path)
    _end_where_open(cluster, console)


def _end_where_open(cluster: Cluster, console: Console) -> None:
    """Whatever its start commands hold: one that needs no token does not stay. Raises ClusterError."""
    path = cluster.known.launch_file
    with tunnel(path) as here:
        Jobs(here, cluster.known.token)  # it is up, or this says why not
        if not answers_anybody(here):
            return
    console.print("It asks for no token: it is taken down.", highlight=False)
    take_down(path)
    raise ClusterError(
        f"the cluster {cluster.known.name} came up, answered without a token and was taken down: anybody "
        "who reaches its dashboard could run code there (CVE-2023-48022). Its start commands drop the "
        "variables RAY_AUTH_MODE and RAY_AUTH_TOKEN_PATH, as `sudo` or `env -i` does: keep both (`sudo -E`)"
    )


def _answers(cluster: Cluster) -> bool:
    try:
        with tunnel(cluster.known.launch_file, timeout_s=ANSWER_S) as here:
            Jobs(here, cluster.known.token)
            return not answers_anybody(here)
    except ClusterError:
        return False


def _secured(cluster: Cluster) -> SecuredFile:
    make_token(cluster.known.token)
    return secure(cluster.file.ray_part, cluster.known.token)


def _tell_where(console: Console, request: RemoteRequest, job_id: str) -> None:
    say(console, f"Job {job_id}")
    if not Location(request.results).is_url:
        say(
            console,
            f"Results lie in ~/{HEAD_FOLDER}/{request.results} on the head and go with its disk; whoever "
            f"follows gets copies in {request.results}.",
        )


def _tell_how_to_come_back(console: Console, options: LaunchOptions) -> None:
    file = shlex.quote(str(options.file))
    say(
        console,
        f"\nThe sweep goes on. Come back:  sweep attach {file}\n"
        f"Look at it:  sweep status {file}\nEnd it:  sweep stop {file}",
    )
