"""32 ways to start a Ray in a launch file: each asks for a token, or its cluster is refused and ended."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from rich.console import Console
from ruamel.yaml import YAML

from cudnn_sweep.cluster.errors import ClusterError
from cudnn_sweep.cluster.jobs import launcher
from cudnn_sweep.cluster.jobs.launcher import secure
from cudnn_sweep.cluster.launch_file import read_launch_file
from cudnn_sweep.orchestrator.planning.spec import SweepSpec
from cudnn_sweep.orchestrator.remote.destinations import cluster_of

HEAD = "start --head --dashboard-host=0.0.0.0"
COMMANDS = (Path(__file__).parent / "start_commands.yaml").read_text().replace("HEAD", HEAD)
KEEP_THE_VARIABLES, DROP_THE_VARIABLES = YAML(typ="safe", pure=True).load(COMMANDS).values()
RAY = '#!/bin/sh\necho "$RAY_AUTH_MODE $RAY_AUTH_TOKEN_PATH" >> "$HOME/started"\n'
LAUNCH_FILE = """\
cluster_name: attacked
provider: {type: local, head_ip: 127.0.0.1, worker_ips: []}
auth: {ssh_user: me}
metadata: {sweep: {suite: quick}}
"""


@pytest.mark.parametrize("command", KEEP_THE_VARIABLES)
def test_start_command_asks_for_a_token_and_still_runs(command: str, tmp_path: Path) -> None:
    assert _modes(command, tmp_path) == [f"token {tmp_path}/.cudnn-sweep-token"]


@pytest.mark.parametrize("command", DROP_THE_VARIABLES)
def test_what_cannot_be_made_to_ask_is_left_to_the_look_at_the_cluster(
    command: str, tmp_path: Path
) -> None:
    (mode,) = _modes(command, tmp_path)
    assert not mode.startswith("token ")


def test_cluster_that_answers_without_a_token_is_refused_and_taken_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _head(asks=False) as head, pytest.raises(ClusterError, match="was taken down"):
        _make_ready(head, tmp_path, monkeypatch)
    assert head.done == ["up", "down"]


def test_cluster_that_asks_for_the_token_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _head(asks=True) as head:
        _make_ready(head, tmp_path, monkeypatch)
        _make_ready(head, tmp_path, monkeypatch)  # up as the file has it
    assert head.done == ["up"]


def _ray_part(folder: Path) -> dict[str, object]:
    file = folder / "cluster.yaml"
    file.write_text(LAUNCH_FILE)
    return dict(read_launch_file(file, SweepSpec).ray_part)


def _modes(command: str, home: Path) -> list[str]:
    """What each Ray was given that the secured command starts, as a node runs it."""
    for name in ("ray", "python", "venv/bin/ray", "my venv/bin/ray"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(RAY)
        (home / name).chmod(0o755)
    (home / "start_ray.sh").write_text(f"#!/bin/sh\nray {HEAD}\n")
    (home / "start_ray.sh").chmod(0o755)
    part = {**_ray_part(home), "head_start_ray_commands": [command]}
    *_, secured = secure(part, home / "token")["head_start_ray_commands"]
    there = {"HOME": str(home), "PATH": f"{home}:{os.environ['PATH']}"}
    subprocess.run(["bash", "-c", f"true && ({secured})"], env=there, cwd=home, check=True)
    return (home / "started").read_text().splitlines()


@dataclass(kw_only=True)
class Head:
    address: str = ""
    done: list[str] = field(default_factory=list)


@contextmanager
def _head(*, asks: bool) -> Iterator[Head]:
    """A dashboard that asks for a token, or not."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            refused = asks and "Authorization" not in self.headers
            self.send_response(401 if refused else 200)
            self.end_headers()
            self.wfile.write(b'{"version": "4", "ray_version": "2.60.0", "ray_commit": ""}')

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield Head(address=f"127.0.0.1:{server.server_port}")
        server.shutdown()


def _make_ready(head: Head, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a launch does, with a `ray up` and a `ray down` that only tell."""

    @contextmanager
    def tunnel(file: Path, *, timeout_s: float = 1.0) -> Iterator[str]:
        yield head.address

    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    monkeypatch.setattr(launcher, "tunnel", tunnel)
    monkeypatch.setattr(launcher, "wait_for_head", lambda ray_part, tell: None)
    monkeypatch.setattr(launcher, "bring_up", lambda file, token: head.done.append("up"))
    monkeypatch.setattr(launcher, "take_down", lambda file: head.done.append("down"))
    file = folder / "cluster.yaml"
    file.write_text(LAUNCH_FILE)
    cluster = cluster_of(read_launch_file(file, SweepSpec))
    cluster.make_ready(Console(quiet=True))
