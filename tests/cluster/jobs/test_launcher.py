"""The copy of a launch file that `ray up` gets: every Ray in it asks for a token."""

import os
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer
from threading import Thread
from time import monotonic

import pytest

from cudnn_sweep.cluster.errors import ClusterError
from cudnn_sweep.cluster.jobs import launcher
from cudnn_sweep.cluster.jobs.jobs import make_token, refuse_open_ray
from cudnn_sweep.cluster.jobs.launcher import RAY, wait_for_head

FILE = {"provider": {"type": "local", "head_ip": "lab"}, "auth": {"ssh_user": "me"}}
CLOUD = FILE | {"provider": {"type": "aws"}}
PROXIED = FILE | {"auth": {"ssh_proxy_command": "nc %h %p"}}


@pytest.mark.parametrize("umask", [0o000, 0o022])
def test_token_is_its_owners_alone_and_stays(tmp_path: Path, umask: int) -> None:
    path = tmp_path / "clusters" / "mine" / "ray_token"
    before = os.umask(umask)
    try:
        make_token(path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    token = path.read_text()
    assert len(token) == 64
    make_token(path)
    assert path.read_text() == token


@pytest.mark.parametrize("address", ["10.0.0.7:6379", "[fd00::7]:6379", "head.example:6379"])
def test_open_ray_elsewhere_is_refused(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asks = "ray._private.authentication.authentication_utils.is_token_auth_enabled"
    monkeypatch.setattr(asks, lambda: False)
    with pytest.raises(ClusterError, match="takes jobs from anybody who reaches it"):
        refuse_open_ray(address)
    refuse_open_ray("127.0.0.1:6379")
    monkeypatch.setattr(asks, lambda: True)
    refuse_open_ray(address)


class Silent(BaseRequestHandler):
    """As a proxy that takes every connection."""

    def handle(self) -> None:
        self.request.recv(1)


class Ssh(BaseRequestHandler):
    def handle(self) -> None:
        self.request.sendall(b"SSH-2.0-fake\r\n")


@contextmanager
def answering(handler: type[BaseRequestHandler]) -> Iterator[int]:
    with ThreadingTCPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


@pytest.mark.parametrize(
    ("handler", "more", "file", "said"),
    [
        (Ssh, "", FILE, []),
        (Silent, "", FILE, ["waiting for 127.0.0.1:PORT; press Ctrl-C to stop"]),
        (Silent, "proxyjump gateway", FILE, []),
        (Silent, "", CLOUD, []),
        (Silent, "", PROXIED, []),
    ],
)
def test_head_that_does_not_answer_is_named_after_a_stated_time(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    handler: type[BaseRequestHandler],
    more: str,
    file: dict[str, dict[str, str]],
    said: list[str],
) -> None:
    """One that only a proxy reaches is not judged. ssh knows the head's address and port."""
    monkeypatch.setattr("cudnn_sweep.cluster.jobs.launcher.HEAD_S", 2.0)
    told: list[str] = []
    with answering(handler) as port:
        ssh = tmp_path / "ssh"
        ssh.write_text(
            f"#!/bin/sh\nprintf 'hostname 127.0.0.1\\nport {port}\\nsendenv LANG LC_*\\n{more}\\n'\n"
        )
        ssh.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
        began = monotonic()
        if said:
            with pytest.raises(ClusterError, match=f"answered at 127.0.0.1:{port} within 2 s"):
                wait_for_head(file, told.append)
        else:
            wait_for_head(file, told.append)
        assert monotonic() - began < 10
    assert [line.replace(str(port), "PORT") for line in told] == said


def test_ray_takes_no_module_from_the_current_folder(tmp_path: Path) -> None:
    (tmp_path / "yaml.py").write_text("raise SystemExit('stands in')\n")
    done = subprocess.run([*RAY, "--version"], cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("answers_at", "tried"),
    [(0.0, [1.0]), (3.0, [1.0, 10.0, 10.0, 10.0, 10.0]), (None, [1.0, *[10.0] * 11, 9.0])],
)
def test_a_head_is_tried_each_second_until_it_answers_or_the_time_is_up(
    monkeypatch: pytest.MonkeyPatch, answers_at: float | None, tried: list[float]
) -> None:
    """Of 20 s here."""
    now, patience = [100.0], list[float]()

    def speaks(host: str, port: int, timeout_s: float) -> bool:
        assert (host, port) == ("lab", 22)
        patience.append(timeout_s)
        return answers_at is not None and now[0] >= 100 + answers_at

    def sleep(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(launcher, "HEAD_S", 20.0)
    monkeypatch.setattr(launcher, "monotonic", lambda: now[0])
    monkeypatch.setattr(launcher, "sleep", sleep)
    monkeypatch.setattr(launcher, "_speaks_ssh", speaks)
    monkeypatch.setenv("PATH", "")
    told: list[str] = []
    if answers_at is None:
        with pytest.raises(ClusterError, match="no SSH server answered at lab:22 within 20 s"):
            launcher.wait_for_head(FILE, told.append)
        assert (now[0], len(patience)) == (120.0, 21)
    else:
        launcher.wait_for_head(FILE, told.append)
        assert now[0] == 100 + answers_at
    assert patience[: len(tried)] == tried[: len(patience)]
    assert len(told) == (answers_at != 0.0)
