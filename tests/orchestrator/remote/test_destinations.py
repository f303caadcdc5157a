"""Where a launch goes, and what its dry run shows."""

import json
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from http.server import BaseHTTPRequestHandler
from importlib.metadata import version
from pathlib import Path
from socketserver import BaseRequestHandler, TCPServer
from threading import Thread
from types import SimpleNamespace

import pytest
from rich.console import Console

from cudnn_sweep.cluster.errors import ClusterError
from cudnn_sweep.cluster.jobs.jobs import SentJob
from cudnn_sweep.cluster.launch_file import LaunchFile, read_launch_file
from cudnn_sweep.orchestrator.planning.options import LaunchOptions
from cudnn_sweep.orchestrator.planning.spec import SweepSpec
from cudnn_sweep.orchestrator.recording.recorder import Progress
from cudnn_sweep.orchestrator.remote.clusters import BroughtUpCluster, Inside, RunningCluster
from cudnn_sweep.orchestrator.remote.destinations import Here, destination_of, launch
from cudnn_sweep.orchestrator.remote.follow import follow
from cudnn_sweep.orchestrator.remote.job import (
    Ended,
    Event,
    Progressed,
    SweepStatus,
    to_line,
)
from tests.orchestrator.typed import invoke

LAUNCHED = """
cluster_name: lab
provider: {type: local, head_ip: 10.0.0.1, worker_ips: [10.0.0.2]}
auth: {ssh_user: me}
"""
ADDRESS = "metadata: {sweep: {address: 'head:8265'}}\n"
NOOP = "cells: [{workload: noop}], replicates: 2"


def read(folder: Path, text: str) -> LaunchFile[SweepSpec]:
    file = folder / "cluster.yaml"
    file.write_text(text)
    return read_launch_file(file, SweepSpec)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", Here),
        ("metadata: {sweep: {address: null}}", Here),
        (ADDRESS, RunningCluster),
        (LAUNCHED + ADDRESS, RunningCluster),
        ("metadata: {sweep: {address: auto}}", Inside),
        (LAUNCHED, BroughtUpCluster),
    ],
)
def test_the_launch_file_says_where(tmp_path: Path, text: str, kind: type) -> None:
    assert type(destination_of(read(tmp_path, text))) is kind


def test_commands_that_a_detached_launch_names_work_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr("cudnn_sweep.orchestrator.cli.failing.leave", lambda code: None)
    here = tmp_path / "my lab"
    here.mkdir()
    file = read(here, ADDRESS.replace("}}", f", results: '{here / 'results'}', {NOOP}}}}}"))
    progress = Progress(stopped="the disk is full")
    sweep = SweepStatus(
        sweep_id="june", trials_planned=8, trials_recorded=3, stopped=progress.stopped
    )
    said: list[Event] = [
        Progressed(progress=progress, sweeps={"launch": sweep}),
        Ended(exit_code=0),
    ]
    stopped = []

    class Answering:
        """A cluster's jobs, of which it has one."""

        def submit(self, job: SentJob, *more: object) -> None:
            self.job = job
            self.job_id = job.job_id

        def sent(self, sender: str) -> list[SentJob]:
            return [self.job]

        def state(self, job_id: str) -> tuple[str, str]:
            return "RUNNING", f"{job_id} goes on.\nmore"

        def last_lines(self, job_id: str, lines: int) -> str:
            return "a print\n" + "".join(f"{to_line(each)}\n" for each in said)

        def follow(self, job_id: str) -> Iterator[str]:
            yield from self.last_lines(job_id, 9).split("\n")

        def stop(self, job_id: str) -> None:
            stopped.append(job_id)

    jobs = Answering()
    monkeypatch.setattr(RunningCluster, "jobs", lambda self: nullcontext(jobs))

    def typed(*words: str) -> str:
        return invoke(words, catch_exceptions=False).stdout

    told = typed("launch", str(file.path), "--detach")
    attach, status, stop = re.findall(r"(?<=  )sweep .*|(?<=: )sweep .*", told)
    assert "a print" in typed(*shlex.split(attach)[1:])
    assert typed(*shlex.split(status)[1:]).splitlines() == [
        f"{jobs.job_id}: running. {jobs.job_id} goes on.",
        "sweep june: 3 of 8 trials recorded",
        f"no new trial starts: {progress.stopped}",
    ]
    found = json.loads(typed(*shlex.split(status)[1:], "--json"))
    assert (found["job_id"], found["state"]) == (jobs.job_id, "running")
    assert found["results"] == str(here / "results")
    (sweep,) = found["sweeps"]
    assert (sweep["sweep_id"], sweep["trials_recorded"], sweep["trials_planned"]) == ("june", 3, 8)
    assert sweep["stopped"] == progress.stopped
    assert f"sweep launch '{file.path}'" in typed(*shlex.split(stop)[1:])
    assert stopped == [jobs.job_id]


class Restarted(BaseHTTPRequestHandler):
    """The dashboard of a cluster that has had no job yet."""

    def do_GET(self) -> None:
        known = {"/api/version": {"version": "4", "ray_version": version("ray")}, "/api/jobs/": []}
        found = known.get(self.path)
        self.send_response(404 if found is None else 200)
        self.end_headers()
        self.wfile.write(
            b"Job none does not exist" if found is None else json.dumps(found).encode()
        )

    do_POST = do_GET

    def log_message(self, format: str, *args: object) -> None:
        pass


class NoDashboard(BaseRequestHandler):
    """A port of Ray's own protocol."""

    def handle(self) -> None:
        self.request.recv(1024)
        self.request.sendall(b"\x00\x00\x18\x04\x00\x00\x00\x00\x00\x00\x04\x00@\x00\x00\r\n")


@contextmanager
def serving(handler: type[BaseRequestHandler]) -> Iterator[str]:
    with TCPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_commands_of_a_cluster_that_is_not_as_it_was_end_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    def told(address: str, command: str) -> str:
        file = read(tmp_path, f"metadata: {{sweep: {{address: '{address}', {NOOP}}}}}")
        done = invoke([*command.split(), str(file.path)])
        assert done.exit_code == 2, done.output
        assert done.stderr.startswith("sweep: ") and done.stderr.count("\n") == 1, done.stderr
        return done.stderr

    with serving(Restarted) as address:
        for command in ("status", "cluster attach", "cluster stop"):
            assert "no sweep was sent to the cluster" in told(address, command)
    with serving(NoDashboard) as address:
        for command in ("launch", "status", "cluster pull"):
            assert "does not speak HTTP; `address` must be the dashboard's" in told(
                address, command
            )
    assert "does not answer: " in told(address, "launch"), "nobody listens there any more"
    assert "found `ray://head:10001`, allowed: the dashboard's" in told(
        "ray://head:10001", "launch"
    )


def test_a_sweep_that_has_ended_is_not_asked_to_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    file = read(tmp_path, ADDRESS)
    job = SentJob(job_id="june-1", results="results", sweep="sweep launch")
    ended = SimpleNamespace(state=lambda _: ("SUCCEEDED", ""), sent=lambda _: [job])
    monkeypatch.setattr(RunningCluster, "jobs", lambda self: nullcontext(ended))
    told = invoke(["cluster", "stop", str(file.path)], catch_exceptions=False)
    assert told.stdout == "june-1 has ended already: succeeded.\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", [pytest.param(ADDRESS, marks=pytest.mark.long), LAUNCHED + "metadata: {sweep: {}}\n"]
)
def test_dry_run_of_a_cluster_shows_a_plan_for_each_model_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    state = tmp_path / "state"
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    asked = f"gpus: {{models: [H100, L4]}}, {NOOP}"
    file = read(tmp_path, kind.replace("sweep: {", f"sweep: {{{asked}, ").replace(", }", "}"))
    console = Console(record=True, width=150, quiet=False)
    options = LaunchOptions(file=file.path, dry_run=True)
    with console.capture() as shown:
        assert launch(options, console) == 0
    text = shown.get()
    hosts = "2 hosts, GPUs" if "provider" in kind else "hosts and GPUs"
    assert f"({hosts} unknown until the launch), records in results." in text
    assert re.search(r"^On H100, about [\d.]+ GPU minutes\.$", text, re.MULTILINE)
    assert re.search(r"^On L4, about [\d.]+ GPU minutes\.$", text, re.MULTILINE)
    assert text.count("1 cell × 2 configs in 2 blocks") == 2
    assert ("RAY_AUTH_MODE=token" in text) == ("provider" in kind)
    assert [each.name for each in tmp_path.iterdir()] == ["cluster.yaml"]


def test_the_way_to_a_cluster_is_opened_anew_where_it_was_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As while a laptop sleeps."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr("cudnn_sweep.orchestrator.remote.follow.RECONNECT_S", 0.01)
    opened: list[str] = []
    ends_after = 2

    class Way:
        def follow(self, job_id: str) -> Iterator[str]:
            if len(opened) < ends_after:
                raise ClusterError("connection reset")
            yield to_line(Ended(exit_code=4))

        def state(self, job_id: str) -> tuple[str, str]:
            return "RUNNING", ""

    @contextmanager
    def jobs(self: RunningCluster) -> Iterator[Way]:
        opened.append(self.where)
        yield Way()

    monkeypatch.setattr(RunningCluster, "jobs", jobs)
    cluster = RunningCluster(read(tmp_path, ADDRESS))
    job = SentJob(job_id="june-1", results=str(tmp_path / "results"), sweep="sweep launch")
    assert follow(cluster.jobs, job, Console(quiet=True)).exit_code == 4
    assert len(opened) == 2
    opened.clear()
    ends_after = 9
    monkeypatch.setattr("cudnn_sweep.orchestrator.remote.follow.LOST_S", 0.0)
    with pytest.raises(ClusterError, match="connection reset"):
        follow(cluster.jobs, job, Console(quiet=True))
    assert len(opened) == 1
