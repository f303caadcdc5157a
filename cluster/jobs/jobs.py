"""Submits jobs to a Ray cluster and follows them, through Ray's REST interface."""

import asyncio
import logging
import os
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from http.client import HTTPException
from pathlib import Path
from threading import Thread
from time import monotonic, sleep
from typing import Any, TypeVar
from urllib.error import HTTPError
from urllib.parse import urlencode, urlsplit
from urllib.request import Request, urlopen

from filelock import FileLock

from cudnn_sweep.cluster.errors import ClusterError

ENDED = ("STOPPED", "SUCCEEDED", "FAILED")  # states of a job that is over
LOOPBACK = ("127.0.0.1", "localhost", "::1")
ANSWER_S = 10.0  # longest wait for the next byte of an answer
WHOLE_S = 60.0  # longest wait for a whole answer
SUBMIT_S = 600.0  # longest wait for a submission, which uploads the code
DASHBOARD_PORT = 8265
VERSION = "/api/version"  # a path that every dashboard answers
DASHBOARD = f"`address` must be the dashboard's address, usually with port {DASHBOARD_PORT}"
LONGEST = 300  # most characters of a cluster's message
NO_AGENT = "No available agent"  # part of Ray's error while a cluster starts
AGENT_S = 60.0
PORT_TAKEN = "; if another Ray has the agents' port, start Ray with --dashboard-agent-listen-port"
PREFERRED = ("RAY_ADDRESS", "RAY_API_SERVER_ADDRESS")  # they override the client's argument
CHATTY = (
    "ray.dashboard.modules.dashboard_sdk",
    "ray.dashboard.modules.job.sdk",
    "ray._private.runtime_env.packaging",
)

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class SentJob:
    """A launch or a night that was sent to a cluster as a job."""

    job_id: str
    results: str
    """Local folder or URL of the results."""
    sweep: str
    """Command that sends the launch or night again."""
    night: str = ""
    """The night's sweep_id. Empty for a launch."""


class Jobs:
    """The jobs of one cluster. Methods raise ClusterError if a request to the cluster fails."""

    def __init__(self, address: str, token: Path | None) -> None:
        """Connect to the dashboard at HOST:PORT or a URL. Raises ClusterError if that fails."""
        self.url = _url(address)
        self._headers = {"Authorization": f"Bearer {token.read_text().strip()}"} if token else {}
        try:
            _within(WHOLE_S, lambda: _get(f"{self.url}{VERSION}", self._headers))
        except (HTTPException, OSError) as error:  # HTTPError and URLError are OSErrors
            raise ClusterError(f"{self.url} {self._fault(error)}") from error
        from ray.job_submission import JobSubmissionClient

        for name in CHATTY:
            logging.getLogger(name).setLevel(logging.WARNING)
        for name in PREFERRED:
            os.environ.pop(name, None)
        headers = dict(self._headers)
        self._client = self._answer(lambda: JobSubmissionClient(self.url, headers=headers))

    def submit(
        self, job: SentJob, sender: str, entrypoint: str, runtime_env: Mapping[str, Any]
    ) -> None:
        """Submit a job. Retry for up to AGENT_S if the cluster does not take jobs yet."""
        fields = asdict(job)
        submit = partial(
            self._client.submit_job,
            submission_id=fields.pop("job_id"),
            entrypoint=entrypoint,
            runtime_env=dict(runtime_env),
            metadata=fields | {"sender": sender},
        )
        ends = monotonic() + AGENT_S
        while True:
            try:
                self._answer(submit, SUBMIT_S)
                return
            except ClusterError as error:
                if NO_AGENT not in str(error.__cause__):
                    raise
                if monotonic() > ends:
                    raise ClusterError(f"{error}{PORT_TAKEN}") from error
            sleep(1)

    def sent(self, sender: str) -> list[SentJob]:
        """Return the jobs that `sender` has sent, in the order of time."""

        def find() -> list[SentJob]:
            jobs = sorted(self._client.list_jobs(), key=lambda job: job.start_time or 0)
            found = [{**(job.metadata or {}), "job_id": str(job.submission_id)} for job in jobs]
            return [SentJob(**job) for job in found if job.pop("sender", None) == sender]

        return self._answer(find)

    def state(self, job_id: str) -> tuple[str, str]:
        """Return the state of a job, and Ray's message."""
        info = self._answer(lambda: self._client.get_job_info(job_id))
        return str(info.status), info.message or ""

    def stop(self, job_id: str) -> None:
        self._answer(lambda: self._client.stop_job(job_id))

    def output(self, job_id: str) -> str:
        return self._answer(lambda: str(self._client.get_job_logs(job_id)))

    def last_lines(self, job_id: str, lines: int) -> str:
        """Return the last lines of a job's output, or an empty text if the job has not begun."""
        node = self._answer(lambda: self._client.get_job_info(job_id)).driver_node_id
        if node is None:
            return ""
        query = urlencode({"submission_id": job_id, "node_id": node, "lines": lines})
        url = f"{self.url}/api/v0/logs/file?{query}"
        return self._answer(lambda: _get(url, self._headers))

    def follow(self, job_id: str) -> Iterator[str]:
        """Yield the lines of a job's output as they come. The lines may end before the job does."""
        pieces, rest = self._client.tail_job_logs(job_id), ""

        async def following() -> str | None:
            return await anext(pieces, None)

        with self._errors_named(), asyncio.Runner() as runner:
            while (piece := runner.run(following())) is not None:
                *lines, rest = (rest + piece).split("\n")
                yield from lines
            if rest:
                yield rest

    def _answer(self, question: Callable[[], T], limit_s: float | None = None) -> T:
        with self._errors_named():
            return _within(limit_s or WHOLE_S, question)

    @contextmanager
    def _errors_named(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # Ray's client raises errors of many classes
            first_line = next(iter(str(error).splitlines()), "")[:LONGEST]  # a traceback follows
            refuses = isinstance(error, RuntimeError)
            fault = "refuses the request" if refuses else "does not answer like a Ray dashboard"
            name = type(error).__name__
            raise ClusterError(f"{self.url} {fault} ({name}): {first_line}") from error

    def _fault(self, error: Exception) -> str:
        if isinstance(error, HTTPException):
            return f"does not speak HTTP; {DASHBOARD}; port 6379 of `ray start` is for nodes"
        if not isinstance(error, HTTPError):
            return f"does not answer: {getattr(error, 'reason', error)}; {DASHBOARD}"
        answer = f"{error.code} {error.reason}"
        if error.code in (401, 403):
            return f"{'refuses our token' if self._headers else 'requires a token'}: {answer}"
        return f"is not a Ray dashboard: it answers {answer}; {DASHBOARD}"


def _within(limit_s: float, question: Callable[[], T]) -> T:
    """Return the result of `question`. Raises TimeoutError after `limit_s` seconds."""
    answer: Future[T] = Future()

    def wait() -> None:
        try:
            answer.set_result(question())
        except BaseException as error:  # noqa: BLE001  # raised again below
            answer.set_exception(error)

    Thread(target=wait, daemon=True).start()  # continues after a TimeoutError
    try:
        return answer.result(limit_s)
    except TimeoutError:
        if answer.done():
            raise
        raise TimeoutError(f"no complete answer within {limit_s:g} s") from None


def _get(url: str, headers: dict[str, str]) -> str:
    try:
        with urlopen(Request(url, headers=headers), timeout=ANSWER_S) as answer:
            return bytes(answer.read()).decode(errors="replace")
    except HTTPError as error:
        error.close()  # closes its connection
        raise


def refuse_open_cluster(address: str) -> None:
    """Raise ClusterError if a cluster on the network takes jobs without a token."""
    url = _url(address)
    if urlsplit(url).hostname not in LOOPBACK and answers_anybody(address):
        raise ClusterError(_open(url))


def answers_anybody(address: str) -> bool:
    try:
        _within(WHOLE_S, lambda: _get(f"{_url(address)}{VERSION}", {}))
        return True
    except (HTTPException, OSError):  # HTTPError and URLError are OSErrors
        return False


def refuse_open_ray(address: str) -> None:
    """Raise ClusterError if this process uses a Ray on the network that needs no token."""
    from ray._private.authentication.authentication_utils import is_token_auth_enabled

    if not is_token_auth_enabled() and urlsplit(f"//{address}").hostname not in LOOPBACK:
        raise ClusterError(_open(f"the Ray at {address}"))


def _open(cluster: str) -> str:
    return (
        f"{cluster} takes jobs from anybody who reaches it (CVE-2023-48022): start its Ray with "
        "RAY_AUTH_MODE=token, or set `allow_unauthenticated: true` under metadata.sweep"
    )


def _url(address: str) -> str:
    """Return the dashboard's URL. Raises ClusterError if the scheme is not HTTP."""
    scheme, is_url, rest = address.partition("://")
    if is_url and scheme not in ("http", "https"):
        host = urlsplit(f"//{rest}").hostname or "HOST"
        raise ClusterError(
            f"address: found `{address}`, allowed: the dashboard's address, HOST:PORT or "
            f"http(s)://HOST:PORT, such as {host}:{DASHBOARD_PORT}"
        )
    return address if is_url else f"http://{address}"


def make_token(path: Path) -> str:
    """Return the token in a file. If the file is missing, create it with a random token."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with FileLock(path.with_suffix(".lock")):
        if not path.exists():
            path.touch(mode=0o600)
            path.write_text(secrets.token_hex(32))
    return path.read_text()


class KnownCluster:
    """Files about a cluster, in a folder that only this user can read."""

    def __init__(self, name: str) -> None:
        home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
        self._folder = Path(home) / "cudnn-sweep" / "clusters" / re.sub(r"[^\w.-]", "_", name)
        self.name = name
        self.token = self._folder / "ray_token"
        self.launch_file = self._folder / "cluster.yaml"  # copy for `ray up`

    def sender(self) -> str:
        """Return a random name of this machine, which is in the metadata of its jobs."""
        return make_token(self._folder / "sender")

    def fetched(self, night: SentJob) -> Path:
        """Return the path of a file that exists if the night's outcome was fetched."""
        return self._folder / f"fetched-{night.job_id}"
