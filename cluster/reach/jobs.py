"""A cluster's jobs, by Ray's REST interface: how a sweep runs where nobody's laptop must stay open."""

import logging
import os
import re
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
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
from pydantic import TypeAdapter

from cudnn_sweep.cluster.errors import ClusterError
from cudnn_sweep.cluster.reach.checksum import content_of, with_checksum

NO_JOB = re.compile(r"status code 404|does not exist")
ENDED = ("STOPPED", "SUCCEEDED", "FAILED")
LOOPBACK = ("127.0.0.1", "localhost", "::1")
ANSWER_S = 10.0  # of silence
WHOLE_S = 60.0  # for a whole answer, which may come in drips
SUBMIT_S = 600.0  # with the package of code, whose upload takes long from home
# By Ray's client, of an answer that it cannot read.
NONSENSE = (ValueError, LookupError, TypeError, AttributeError)
DASHBOARD_PORT = 8265
VERSION = "/api/version"  # which each dashboard answers
DASHBOARD = f"`address` is that of the dashboard, usually port {DASHBOARD_PORT}"
LONGEST = 300  # characters of what the cluster says
NO_AGENT = "No available agent"  # as Ray says it of a cluster that has just come up
AGENT_S = 60.0
PORT_TAKEN = "; if another Ray on its head has the port of the agents, start it with --dashboard-agent-listen-port"
PREFERRED = ("RAY_ADDRESS", "RAY_API_SERVER_ADDRESS")  # by Ray's client to what it is given
CHATTY = (
    "ray.dashboard.modules.dashboard_sdk",
    "ray.dashboard.modules.job.sdk",
    "ray._private.runtime_env.packaging",
)


T = TypeVar("T")


class Jobs:
    """The jobs of one cluster. `address`: of its dashboard, HOST:PORT or a URL; `token`: a file with the token.

    Each method raises ClusterError if the cluster does not answer, or knows no such job.
    """

    def __init__(self, address: str, token: Path | None) -> None:
        """Raises ClusterError if the cluster does not answer, or refuses the token."""
        self.url = _url(address)
        self._headers = {"Authorization": f"Bearer {token.read_text().strip()}"} if token else {}
        self._get(VERSION)
        from ray.job_submission import JobSubmissionClient

        for name in CHATTY:
            logging.getLogger(name).setLevel(logging.WARNING)
        for name in PREFERRED:
            os.environ.pop(name, None)
        headers = dict(self._headers)
        self._client = self._answer(lambda: JobSubmissionClient(self.url, headers=headers))

    def submit(
        self, job_id: str, entrypoint: str, runtime_env: Mapping[str, Any], metadata: dict[str, str]
    ) -> None:
        """Submit a job, for up to AGENT_S again while the cluster has no agent."""
        ends = monotonic() + AGENT_S
        while True:
            try:
                submit = partial(
                    self._client.submit_job,
                    submission_id=job_id,
                    entrypoint=entrypoint,
                    runtime_env=dict(runtime_env),
                    metadata=metadata,
                )
                _within(SUBMIT_S, submit)
                return
            except RuntimeError as error:
                hint = PORT_TAKEN if NO_AGENT in str(error) else ""
                if not hint or monotonic() > ends:
                    reason = f"{_brief(error)}{hint}"
                    raise ClusterError(f"{self.url} does not take the job: {reason}") from error
            except (OSError, HTTPException, *NONSENSE) as error:
                raise self._unanswered(error) from error
            sleep(1)

    def state(self, job_id: str) -> tuple[str, str]:
        """The job's state, one of ENDED if it has, and what Ray says about it."""
        info = self._answer(lambda: self._client.get_job_info(job_id), job_id)
        return str(info.status), info.message or ""

    def stop(self, job_id: str) -> None:
        self._answer(lambda: self._client.stop_job(job_id), job_id)

    def ids(self) -> set[str]:
        """Submission ids of the jobs that this head has had."""
        jobs = self._answer(self._client.list_jobs)
        return {job.submission_id for job in jobs if job.submission_id}

    def output(self, job_id: str) -> str:
        return self._answer(lambda: str(self._client.get_job_logs(job_id)), job_id)

    def last_lines(self, job_id: str, lines: int) -> str:
        """The last lines of the job's output; empty where it has not begun."""
        node = self._answer(lambda: self._client.get_job_info(job_id), job_id).driver_node_id
        if node is None:
            return ""
        query = urlencode({"submission_id": job_id, "node_id": node, "lines": lines})
        return self._get(f"/api/v0/logs/file?{query}").decode(errors="replace")

    async def follow(self, job_id: str) -> AsyncIterator[str]:
        """The job's output from its beginning, as it comes. The job may go on after the stream's end."""
        from aiohttp import ClientError

        try:
            async for piece in self._client.tail_job_logs(job_id):
                yield piece
        except (ClientError, RuntimeError, OSError, *NONSENSE) as error:
            raise self._unanswered(error) from error

    def _answer(self, question: Callable[[], T], job_id: str | None = None) -> T:
        try:
            return _within(WHOLE_S, question)
        except (RuntimeError, OSError, HTTPException, *NONSENSE) as error:  # requests' are OSErrors
            if job_id is not None and NO_JOB.search(str(error)):
                raise ClusterError(
                    f"{self.url} knows nothing of job {job_id}: the cluster was restarted since. "
                    "`sweep launch` again goes on from the records that are here"
                ) from error
            raise self._unanswered(error) from error

    def _unanswered(self, error: Exception) -> ClusterError:
        kind = f" as Ray does ({type(error).__name__})" if isinstance(error, NONSENSE) else ""
        return ClusterError(f"{self.url} does not answer{kind}: {_brief(error)}")

    def _get(self, path: str) -> bytes:
        request = Request(f"{self.url}{path}", headers=self._headers)
        try:
            return _within(WHOLE_S, lambda: _read(request))
        except (HTTPException, OSError) as error:  # HTTPError and URLError are OSErrors
            why = f"does not answer: {getattr(error, 'reason', error)}; {DASHBOARD}"
            if isinstance(error, HTTPException):
                why = f"speaks no HTTP: {DASHBOARD}, not the one that `ray start` prints for nodes (6379)"
            elif isinstance(error, HTTPError):
                refusal = "refuses our token" if self._headers else "asks for a token"
                why = f"answers {error.code} {error.reason}"
                if error.code in (401, 403):
                    why = f"{refusal}: {error.code} {error.reason}"
                elif path == VERSION:
                    why = f"is no Ray dashboard (port, proxy?): it {why}; {DASHBOARD}"
            raise ClusterError(f"{self.url} {why}") from error


def _within(seconds: float, question: Callable[[], T]) -> T:
    """Return the answer. Raises TimeoutError if it is not whole by then: what waits for it ends with the process."""
    found: Future[T] = Future()

    def answer() -> None:
        try:
            found.set_result(question())
        except BaseException as error:  # noqa: BLE001  # raised where the answer is awaited
            if isinstance(error, HTTPError):
                error.close()  # its connection
            found.set_exception(error)

    Thread(target=answer, daemon=True).start()
    try:
        return found.result(seconds)
    except TimeoutError:
        if found.done():
            raise
        raise TimeoutError(f"no whole answer within {seconds:g} s") from None


def _read(request: Request) -> bytes:
    with urlopen(request, timeout=ANSWER_S) as answer:
        return bytes(answer.read())


def refuse_open_cluster(address: str) -> None:
    """Raises ClusterError for a cluster elsewhere that needs no token: anybody could run code there."""
    url = _url(address)
    if urlsplit(url).hostname not in LOOPBACK and answers_anybody(address):
        raise ClusterError(_open(url))


def answers_anybody(address: str) -> bool:
    """Whether the cluster needs no token; False if it does not answer."""
    try:
        _within(WHOLE_S, lambda: urlopen(f"{_url(address)}{VERSION}", timeout=ANSWER_S).close())
        return True
    except (HTTPException, OSError):  # of which HTTPError and URLError are
        return False


def refuse_open_ray(address: str) -> None:
    """Raises ClusterError if the Ray that this process has joined needs no token."""
    from ray._private.authentication.authentication_utils import is_token_auth_enabled

    if not is_token_auth_enabled() and urlsplit(f"//{address}").hostname not in LOOPBACK:
        raise ClusterError(_open(f"the Ray at {address}"))


def _open(what: str) -> str:
    return (
        f"{what} takes jobs from anybody who reaches it (CVE-2023-48022): start its Ray with "
        "RAY_AUTH_MODE=token, or say `allow_unauthenticated: true` under metadata.sweep"
    )


def _url(address: str) -> str:
    """Raises ClusterError for Ray Client's, which takes no jobs."""
    scheme, is_url, rest = address.partition("://")
    if is_url and scheme not in ("http", "https"):
        host = urlsplit(f"//{rest}").hostname or "HOST"
        raise ClusterError(
            f"address: found `{address}`, allowed: the dashboard's, HOST:PORT or http(s)://HOST:PORT, "
            f"as {host}:{DASHBOARD_PORT}"
        )
    return address if is_url else f"http://{address}"


def _brief(error: Exception) -> str:
    """The error's first line: tracebacks of the cluster follow it."""
    return next(iter(str(error).splitlines()), type(error).__name__)[:LONGEST]


@dataclass(frozen=True, kw_only=True, slots=True)
class SentJob:
    """A launch or a night that was sent to a cluster as a job."""

    job_id: str
    results: str
    """Where copies of its records go here, or the URL where they are."""
    command: str
    """The command that sends it again."""
    sweep_id: str = ""
    """Sweep of a night whose outcome was not fetched yet."""


SENT_JOBS = TypeAdapter(list[SentJob])


class KnownCluster:
    """What is kept of a cluster, in a folder that only this user can read."""

    def __init__(self, name: str) -> None:
        home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
        folder = Path(home) / "cudnn-sweep" / "clusters" / re.sub(r"[^\w.-]", "_", name)
        self.name = name
        self.token = folder / "ray_token"
        self.launch_file = folder / "cluster.yaml"
        """The copy that `ray up` was given."""
        self._jobs_file = folder / "jobs.json"

    def remember(self, job: SentJob) -> None:
        with self._held():
            self._write([*self.jobs(), job])

    def forget_night(self, job: SentJob) -> None:
        """The night's outcome was fetched, or is lost."""
        done = replace(job, sweep_id="")
        with self._held():
            self._write([done if each == job else each for each in self.jobs()])

    def _held(self) -> FileLock:
        """Return the lock of who reads the list and writes it."""
        self._jobs_file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        return FileLock(self._jobs_file.with_name("jobs.lock"))

    def _write(self, jobs: list[SentJob]) -> None:
        new = self._jobs_file.with_name("jobs.new")
        new.write_text(with_checksum(SENT_JOBS.dump_json(jobs).decode()))
        new.replace(self._jobs_file)

    def forget_jobs(self) -> None:
        with self._held():
            self._jobs_file.unlink(missing_ok=True)

    def jobs(self) -> list[SentJob]:
        """Jobs in the order in which they were sent; the cluster may have been lost since.

        Raises ClusterError if the list is not as it was written.
        """
        try:
            text = self._jobs_file.read_text()
            is_plain = text.startswith("[")  # as earlier versions wrote it
            return SENT_JOBS.validate_json(text if is_plain else content_of(text))
        except FileNotFoundError:
            return []
        except (OSError, ValueError, RecursionError) as error:
            why = str(error).partition("\n")[0][:LONGEST]
            raise ClusterError(
                f"{self._jobs_file}, the list of jobs sent to cluster {self.name}, cannot be read ({why}): "
                "restore it; or copy what you need from the cluster and remove this file"
            ) from None

    def job(self) -> SentJob:
        """The job that was sent last. Raises ClusterError if there is none."""
        if not (jobs := self.jobs()):
            raise ClusterError(f"no sweep was sent to cluster {self.name} from here")
        return jobs[-1]
