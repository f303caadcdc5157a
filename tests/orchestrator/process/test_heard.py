"""What a client hears from its fork server: lines, half of them, none, and what is no answer; the test holds the pipes."""

import io
import os
from collections import defaultdict, deque
from collections.abc import Iterator
from datetime import UTC, datetime
from subprocess import TimeoutExpired
from types import SimpleNamespace
from typing import Any

import pytest

from cudnn_sweep.orchestrator.errors import ModelError, ServerError
from cudnn_sweep.orchestrator.process import forked, protocol
from cudnn_sweep.orchestrator.process.client import ForkServer, survey
from cudnn_sweep.orchestrator.process.forked import PipeBaton
from cudnn_sweep.orchestrator.process.protocol import Outcome, Reply
from cudnn_sweep.workloads.measuring.turns import Said, Turn

NOW = datetime.now(UTC)
OK = Outcome(started_at=NOW, ended_at=NOW, process_s=1.0)


class Client:
    def __init__(self) -> None:
        replies, self.says = os.pipe()
        ended, self.ends = os.pipe()
        self.it: Any = object.__new__(ForkServer)
        self.sent = io.BytesIO()
        process = SimpleNamespace(wait=lambda *_: 7, pid=1, kill=lambda: None)
        vars(self.it).update(
            _replies=os.fdopen(replies, "rb"),
            _end=os.fdopen(ended, "rb", buffering=0),
            _requests=self.sent,
            _unread=b"",
            _count=0,
            _name="the fork server",
            _heard=defaultdict(deque),
            _process=process,
        )

    def say(self, *data: bytes) -> None:
        os.write(self.says, b"".join(data))

    def die(self) -> None:
        os.close(self.ends)
        self.ends = -1


@pytest.fixture
def client() -> Iterator[Client]:
    made = Client()
    yield made
    made.it._replies.close()
    made.it._end.close()
    for pipe in (made.says, made.ends):
        if pipe >= 0:
            os.close(pipe)


def said(number: int, pid: int) -> bytes:
    return protocol.line_of(protocol.SAID, number, protocol.WHAT_WAS_SAID.dump_json(Said(pid=pid)))


def ended(number: int) -> bytes:
    return protocol.line_of(protocol.ENDED, number, protocol.OUTCOME.dump_json(OK))


def test_lines_come_one_by_one_however_they_arrive(client: Client) -> None:
    client.say(b"one\ntw")
    assert client.it._read() == b"one\n"
    client.say(b"o\nthree\n")
    assert [client.it._read(), client.it._read()] == [b"two\n", b"three\n"]
    client.say(b"half")
    assert client.it._read(within_s=0.01) == b"half"
    client.say(b"x" * 20)
    assert client.it._read(most=9) == b"x" * 20
    client.say(b"last words")
    client.die()
    assert client.it._read() == b"last words"
    assert client.it._read() == b""


def test_messages_of_other_processes_are_kept(client: Client) -> None:
    client.say(said(2, 22), said(1, 11), ended(2), ended(1))
    assert client.it.hear(1).pid == 11
    assert client.it.hear(2).pid == 22
    assert client.it.hear(1) == OK == client.it.hear(2)
    assert dict(client.it._heard) == {}


def test_a_process_that_is_ended_is_heard_to_its_end(client: Client) -> None:
    client.say(said(1, 11), said(1, 11), ended(1), said(2, 22))
    client.it.end(1)
    word, number, _ = protocol.parts_of(client.sent.getvalue())
    assert (word, number) == (protocol.END, 1)
    assert client.it.hear(2).pid == 22


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (protocol.line_of(protocol.REFUSED, 1, b"too old"), "cannot do what is requested: too old"),
        (protocol.line_of(protocol.SAID, 1, b"{}x"), "sent a message that this process cannot"),
        (protocol.line_of(protocol.ENDED, 1, b"{}"), "sent a message that this process cannot"),
        (b"half a line", "the fork server died, exit code 7"),
    ],
)
def test_a_server_that_does_not_answer_is_an_error(
    client: Client, line: bytes, message: str
) -> None:
    client.say(line)
    client.die()
    with pytest.raises(ServerError, match=message):
        client.it.hear(1)


def _still_runs(within_s: float) -> None:
    raise TimeoutExpired("the server", within_s)


@pytest.mark.parametrize(
    ("line", "code", "fault"),
    [
        (b'{"protocol": %d, "version": "1"}\n' % protocol.VERSION, None, None),
        (
            b'{"protocol": 1, "version": "0.0.1"}\n',
            None,
            r"speaks protocol 1 \(cudnn-sweep 0.0.1\)",
        ),
        (b"hello\n", None, "sent b'hello"),
        (b"", 7, "ended before its greeting, exit code 7"),
        (b"", None, "sent no greeting within"),
    ],
)
def test_a_server_greets_in_its_clients_protocol(
    client: Client, line: bytes, code: int | None, fault: str | None
) -> None:
    client.say(line)
    if not line:
        client.die()
    if code is None:
        client.it._process.wait = _still_runs
    found = client.it._startup_fault()
    if fault is None:
        assert found is None
    else:
        with pytest.raises(ServerError, match=fault):
            raise ServerError(found)


@pytest.mark.parametrize(
    ("workloads", "kind", "message"),
    [
        (["noop"], ServerError, "^SIGKILL$"),
        (["noop", "nets.py:Net", "lib:Net"], ModelError, "^importing nets.py:Net, lib:Net: SIGK"),
    ],
)
def test_a_survey_that_fails_is_the_fault_of_the_users_code_if_there_is_any(
    workloads: list[str], kind: type[Exception], message: str
) -> None:
    for reply in (None, Reply()):
        outcome = Outcome(
            started_at=NOW, ended_at=NOW, process_s=1.0, message="SIGKILL", reply=reply
        )
        server: Any = SimpleNamespace(run=lambda _, found=outcome: found)
        with pytest.raises(kind, match=message):
            survey(server, workloads)
    silent: Any = SimpleNamespace(run=lambda _: OK)
    with pytest.raises(ServerError, match="^ok$"):
        survey(silent, [])


def test_the_time_that_a_process_waits_for_its_turn_is_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    turns, gives = os.pipe()
    written: list[bytes] = []
    ticks = iter([100.0, 103.0, 200.0, 204.5])
    monkeypatch.setattr(forked, "monotonic", lambda: next(ticks))
    monkeypatch.setattr(forked, "_write", lambda _, data: written.append(data))
    baton = PipeBaton(turns, 9)
    for number, stage in enumerate(("wall", "device"), 1):
        os.write(gives, protocol.TURN.dump_json(Turn(stage=stage)) + b"\n")  # type: ignore[arg-type]
        assert baton.pass_on(Said(pid=7)).stage == stage
        assert len(written) == number and written[-1].startswith(protocol.PASSED)
    assert baton.waited_s == 7.5
    os.close(gives)
    baton._turns.close()
