"""A cluster's jobs: what is kept of them here, and what a dashboard may answer."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from pathlib import Path
from threading import Event, Thread
from time import monotonic

import pytest

from cudnn_sweep.cluster.errors import ClusterError
from cudnn_sweep.cluster.jobs.jobs import Jobs, KnownCluster, SentJob

SENDER = """
from cudnn_sweep.cluster.jobs.jobs import KnownCluster
print(KnownCluster("c").sender())
"""
NIGHT = SentJob(job_id="one", results="r", sweep="sweep launch", night="night")


def test_launches_at_once_send_under_one_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    command = [sys.executable, "-c", SENDER]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    names = {launch.communicate(timeout=60)[0].strip() for launch in both}
    assert names == {KnownCluster("c").sender()}
    assert len(names.pop()) == 64


def test_nights_are_marked_as_fetched_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    known = KnownCluster("c")
    known.sender()
    known.fetched(NIGHT).touch()
    assert KnownCluster("c").fetched(NIGHT).exists()
    assert not known.fetched(replace(NIGHT, job_id="two")).exists()


def test_a_sender_gets_its_own_jobs_oldest_first() -> None:
    def details(job_id: str | None, sender: str, start_time: int) -> dict[str, object]:
        metadata = {"sender": sender, "results": "r", "sweep": "sweep launch", "night": "night"}
        job = {"type": "SUBMISSION", "entrypoint": "true", "status": "RUNNING"}
        return {**job, "submission_id": job_id, "metadata": metadata, "start_time": start_time}

    jobs = [details("two", "us", 2), details("theirs", "them", 3), details("one", "us", 1)]
    foreign = {**details(None, "us", 4), "metadata": None}
    with dashboard(json.dumps([*jobs, foreign]).encode()) as address:
        assert Jobs(address, None).sent("us") == [NIGHT, replace(NIGHT, job_id="two")]


@contextmanager
def dashboard(body: bytes, drip: str | None = None) -> Iterator[str]:
    """A dashboard that answers its version, and everything else by this; `drip`: what it answers a byte a second."""
    ended = Event()

    class Dashboard(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            said = json.dumps({"version": "4", "ray_version": version("ray")}).encode()
            self.send_response(200)
            self.send_header("Content-Length", "100" if drip == self.path else "")
            self.end_headers()
            while drip == self.path and not ended.wait(0.1):
                self.wfile.write(b" ")
            self.wfile.write(said if self.path == "/api/version" else body)
            self.close_connection = True

        do_POST = do_PUT = do_GET

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Dashboard) as server:
        server.daemon_threads = True
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}"
        ended.set()
        server.shutdown()


ANSWERS = [b"", b"5", b"null", b"[]", b"[3]", b"{}", b'{"status": 5}', b"\xff\xfe", b"<html>"]


@pytest.mark.parametrize("answer", ANSWERS)
def test_nonsense_of_a_dashboard_is_named(answer: bytes) -> None:
    with dashboard(answer) as address:
        jobs = Jobs(address, None)
        with pytest.raises(ClusterError, match=f"{address} does not answer"):
            jobs.state("one")
        with pytest.raises(ClusterError, match=f"{address} does not answer"):
            jobs.last_lines("one", 3)
        with pytest.raises(ClusterError, match=f"{address} does not answer"):
            jobs.submit(NIGHT, "us", "true", {})


@pytest.mark.parametrize("drip", ["/api/version", "/api/jobs/", "/api/jobs/one"])
def test_an_answer_in_drips_is_waited_for_no_longer_than_stated(
    drip: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cudnn_sweep.cluster.jobs.jobs.WHOLE_S", 1.0)
    with dashboard(b"[]", drip) as address:
        began = monotonic()
        with pytest.raises(ClusterError, match=f"{address} .*no complete answer within 1 s"):
            jobs = Jobs(address, None)
            jobs.sent("us")
            jobs.state("one")
        assert monotonic() - began < 5


def test_a_server_that_is_no_dashboard_is_named() -> None:
    class Other(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(404)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Other) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        address = f"127.0.0.1:{server.server_address[1]}"
        with pytest.raises(ClusterError) as caught:
            Jobs(address, None)
        server.shutdown()
    assert str(caught.value) == (
        f"http://{address} is not a Ray dashboard: it answers 404 Not Found; "
        "`address` must be the dashboard's address, usually with port 8265"
    )
