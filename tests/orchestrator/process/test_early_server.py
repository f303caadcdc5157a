"""A fork server that begins before its client, and a client in another process."""

import os
import pickle
import select
import socket
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from cudnn_sweep.orchestrator.errors import ServerError
from cudnn_sweep.orchestrator.process import client, protocol
from cudnn_sweep.orchestrator.process import server as serving
from cudnn_sweep.orchestrator.process.client import Early, ForkServer, early_server, survey
from cudnn_sweep.orchestrator.process.protocol import Request, SurveyJob

ANOTHER = "another one would start here"


def _has_ended(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


@pytest.mark.slow
def test_the_first_client_gets_the_early_server_and_the_second_one_of_its_own(
    tmp_path: Path,
) -> None:
    """Each is as nice as a process that its client starts."""
    (tmp_path / "net.py").write_text("from torch import nn\nNet = nn.Identity\n")
    with early_server(tmp_path, ["net"], ["GPU-of-this-slot"], {"GIVEN": "yes"}) as early:
        nice = os.getpriority(os.PRIO_PROCESS, early.pid)
        assert nice == client.OF_RAY
        os.setpriority(os.PRIO_PROCESS, 0, nice)  # as Ray's workers; make test's are at 10
        with ForkServer(early=pickle.loads(pickle.dumps(early)), survey_only=True) as server:
            assert server.pid == early.pid
            assert survey(server, ["net:Net"]).workloads["net:Net"].is_model
            environment = Path(f"/proc/{early.pid}/environ").read_bytes()
            assert b"CUDA_VISIBLE_DEVICES=GPU-of-this-slot" in environment
            assert b"GIVEN=yes" in environment
            with ForkServer(early=early, survey_only=True) as own:
                assert own.pid != early.pid
        assert select.select([os.pidfd_open(early.pid)], (), (), 10)[0], "it ends with its client"
    assert _has_ended(early.pid)


def test_a_server_that_nobody_takes_ends_at_once_though_it_imports(tmp_path: Path) -> None:
    began = monotonic()
    with early_server(tmp_path, [], [], {}) as early:
        assert not _has_ended(early.pid)
    assert _has_ended(early.pid)
    assert monotonic() - began < client.ENDING_S + 5


@pytest.fixture
def no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a client starts a server of its own, the error is ANOTHER."""

    def begin(*_: object) -> None:
        raise FileNotFoundError(2, ANOTHER)

    monkeypatch.setattr(client, "_begin", begin)


@pytest.mark.usefixtures("no_other")
@pytest.mark.parametrize("accepts", [True, False])
def test_an_early_server_that_dies_before_it_greets_is_replaced(accepts: bool) -> None:
    """A Unix socket reports a peer that died before it accepted by an error, not by an end."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(name := f"\0test-{os.getpid()}")
        listener.listen(1)
        child = os.fork()
        if child == 0:
            select.select([listener], (), ())
            if accepts:
                listener.accept()
            os._exit(3)
        listener.close()
        with pytest.raises(ServerError, match=ANOTHER):
            ForkServer(early=Early(pid=child, socket=name))
        os.waitpid(child, 0)


@pytest.mark.usefixtures("no_other")
def test_an_early_server_that_is_gone_or_another_users_is_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gone = Early(pid=os.getpid(), socket="\0nobody-listens-here")
    with pytest.raises(ServerError, match=ANOTHER):
        ForkServer(early=gone)
    own = os.getuid()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(name := f"\0test-{os.getpid()}")
        listener.listen(1)
        monkeypatch.setattr(os, "getuid", lambda: own + 1)
        with pytest.raises(ServerError, match=ANOTHER):
            ForkServer(early=Early(pid=os.getpid(), socket=name))


def test_a_peer_that_dies_with_unread_words_is_named() -> None:
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        theirs.sendall(b'{"protocol": %d, "version": "0"}\n' % protocol.VERSION)
        select.select([theirs], (), ())  # a request, which it does not read
        os._exit(3)
    theirs.close()
    server: Any = object.__new__(ForkServer)
    server._name = "the fork server"
    assert server._fault_of(client._Taken(child, ours)) is None
    with pytest.raises(ServerError, match="the fork server died, exit code unknown"):
        server.run(Request(job=SurveyJob(workloads=[]), timeout_s=60))
    server.close()
    os.waitpid(child, 0)


@pytest.mark.parametrize(("nice", "least"), [(0, client.OF_RAY), (18, 18)])
def test_an_early_server_is_at_least_as_nice_as_what_starts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nice: int, least: int
) -> None:
    """Without privileges no process can become less nice."""
    given: list[int] = []
    monkeypatch.setattr(os, "getpriority", lambda *_: nice)
    monkeypatch.setattr(os, "setpriority", lambda *of: given.append(of[-1]))
    with early_server(tmp_path, [], [], {}):
        assert given == [least]


def test_only_this_users_clients_are_served(monkeypatch: pytest.MonkeyPatch) -> None:
    """Linux's abstract sockets have no permissions: every user of the machine can connect."""
    own, kept_input = os.getuid(), os.dup(0)
    silent, open_end = os.pipe()  # nothing on standard input
    users = iter([own + 1, own])
    monkeypatch.setattr(os, "getuid", lambda: next(users))
    try:
        os.dup2(silent, 0)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(name := f"\0test-{os.getpid()}")
            listener.listen(2)
            clients = [socket.socket(socket.AF_UNIX) for _ in range(2)]
            for each in clients:
                each.connect(name)
            connection = serving._client_of(listener)
        assert clients[0].recv(1) == b"", "the other user's connection is closed"
        os.write(connection, b"!")
        assert clients[1].recv(1) == b"!"
        clients[1].sendall(b"?")
        assert os.read(0, 1) == b"?", "its connection is standard input"
    finally:
        os.dup2(kept_input, 0)
    for descriptor in (connection, kept_input, silent, open_end):
        os.close(descriptor)
    for each in clients:
        each.close()


def test_the_end_of_its_starter_ends_a_server_that_waits() -> None:
    child = os.fork()
    if child == 0:
        reading, writing = os.pipe()
        os.dup2(reading, 0)
        os.close(writing)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(f"\0test-{os.getpid()}")
            listener.listen(1)
            try:
                serving._client_of(listener)
            except SystemExit:
                os._exit(0)
            finally:
                os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
