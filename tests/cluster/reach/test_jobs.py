"""A cluster's jobs: the list that is kept here, and what a dashboard may answer."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from pathlib import Path
from threading import Event, Thread
from time import monotonic

import pytest

from cudnn_sweep.cluster.errors import ClusterError
from cudnn_sweep.cluster.reach.jobs import Jobs, KnownCluster, SentJob

SENT = """
import sys
from cudnn_sweep.cluster.reach.jobs import KnownCluster, SentJob
for number in range(20):
    KnownCluster("c").remember(SentJob(job_id=f"{sys.argv[1]}-{number}", results="r", command="c"))
"""


@pytest.fixture
def known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KnownCluster:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return KnownCluster("c")


@pytest.fixture
def file(known: KnownCluster) -> Path:
    """The list, with two jobs."""
    for name in ("one", "two"):
        known.remember(SentJob(job_id=name, results="r", command="sweep launch", sweep_id="night"))
    return known.launch_file.with_name("jobs.json")


def test_no_bit_of_the_list_is_silent(known: KnownCluster, file: Path) -> None:
    whole, jobs = file.read_bytes(), known.jobs()
    silent = []
    for place in range(len(whole)):
        for bit in range(8):
            file.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << bit]) + whole[place + 1 :])
            try:
                found = known.jobs()
            except ClusterError as error:
                assert str(file) in str(error)
            else:
                silent += [(place, bit)] if found != jobs else []
    assert not silent


@pytest.mark.parametrize("text", ["", "[", '{"crc32": 1}', "[1]", '[{"job_id": 1}]', "\udcff"])
def test_bad_list_is_named(known: KnownCluster, file: Path, text: str) -> None:
    file.write_bytes(os.fsencode(text))
    with pytest.raises(ClusterError, match="cannot be read .*restore it") as caught:
        known.job()
    assert str(file) in str(caught.value)


def test_list_of_earlier_versions_is_read(known: KnownCluster, file: Path) -> None:
    file.write_text(json.dumps([{"job_id": "old", "results": "r", "command": "c"}]))
    assert known.job() == SentJob(job_id="old", results="r", command="c")


def test_two_launches_at_once_are_both_remembered(known: KnownCluster, file: Path) -> None:
    both = [subprocess.Popen([sys.executable, "-c", SENT, name]) for name in "ab"]
    assert [each.wait(60) for each in both] == [0, 0]
    wanted = {f"{name}-{number}" for name in "ab" for number in range(20)} | {"one", "two"}
    assert {job.job_id for job in known.jobs()} == wanted


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
            jobs.submit("one", "true", {}, {})


@pytest.mark.parametrize("drip", ["/api/version", "/api/jobs/", "/api/jobs/one"])
def test_an_answer_in_drips_is_waited_for_no_longer_than_stated(
    drip: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cudnn_sweep.cluster.reach.jobs.WHOLE_S", 1.0)
    with dashboard(b"[]", drip) as address:
        began = monotonic()
        with pytest.raises(ClusterError, match=f"{address} .*no whole answer within 1 s"):
            jobs = Jobs(address, None)
            jobs.ids()
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
        f"http://{address} is no Ray dashboard (port, proxy?): it answers 404 Not Found; "
        "`address` is that of the dashboard, usually port 8265"
    )
