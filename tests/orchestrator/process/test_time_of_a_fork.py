"""The time that a forked process has, without what it waits for the baton; and why one ended, by its wait status."""

import json
import math
import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from cudnn_sweep.orchestrator.process import forked
from cudnn_sweep.orchestrator.process.forked import EXIT_S, Forked
from cudnn_sweep.orchestrator.process.protocol import PASSED, Reply

SAID = json.dumps({"pid": 7}).encode()
NOW = [100.0]


@pytest.fixture
def child(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A forked process that began at 100 s and has 60 s; the test holds its pipes."""
    NOW[0] = 100.0
    monkeypatch.setattr(forked, "monotonic", lambda: NOW[0])
    replies, written = os.pipe()
    heard, pass_to = os.pipe()
    child: Any = object.__new__(Forked)
    vars(child).update(
        _replies=replies,
        _pass_to=pass_to,
        _unread=b"",
        _so_far=None,
        _reply=None,
        _left_s=60.0,
        deadline=160.0,
        _waited_s=0.0,
        _passed_on_at=None,
        _replied_at=None,
        _is_silent=False,
        _timed_out=False,
        _followers=[],
        _counts=None,
        _fault=None,
        _foreign=None,
        _request=SimpleNamespace(timeout_s=60.0),
        _end_of_output=lambda _: "bye",
        written=written,
    )
    yield child
    for pipe in (replies, written, heard, pass_to):
        os.close(pipe)


def hear(child: Any, line: bytes) -> bytes | None:
    os.write(child.written, line)
    heard: bytes | None = child.listen({child._replies})
    return heard


def test_waiting_for_the_baton_is_not_a_process_s_own_time(child: Any) -> None:
    NOW[0] = 110.0
    assert hear(child, PASSED + SAID + b"\n") == SAID
    assert child.deadline == math.inf
    NOW[0] = 500.0
    child.tell(b"{}")
    assert (child._waited_s, child.deadline) == (390.0, 550.0)
    NOW[0] = 505.0
    child.tell(b"{}")
    assert (child._waited_s, child.deadline) == (390.0, 550.0), "it had the baton"
    assert hear(child, PASSED + SAID + b"\n") == SAID
    NOW[0] = 506.0
    child.tell(b"{}")
    assert (child._waited_s, child.deadline) == (391.0, 551.0)


def test_half_a_line_waits_for_its_end_and_a_reply_for_the_process(child: Any) -> None:
    reply = b'{"status": "ok"}'
    assert hear(child, reply[:5]) is None and child._reply is None
    NOW[0] = 120.0
    hear(child, reply[5:] + b"\n")
    assert child._reply == Reply() and child.deadline == 120 + EXIT_S
    assert child.listen(set()) is None


def test_a_line_of_the_user_s_code_ends_the_process_at_once(child: Any) -> None:
    NOW[0] = 130.0
    assert hear(child, PASSED + b"hello\n") is None
    assert (child._foreign, child.deadline) == (b"hello", 130.0)
    assert child._judge(0)[1].startswith("the user's code wrote to the pipe")


@pytest.mark.parametrize(
    ("changed", "wait_status", "status", "message"),
    [
        ({"_reply": replace(Reply(), status="error", message="why")}, 9, "error", "why"),
        ({"_timed_out": True}, 9, "timeout", "no result after 60 s: ended; its last output: bye"),
        ({}, 9, "killed", "SIGKILL (Killed); its last output: bye"),
        ({}, 11, "crash", "SIGSEGV (Segmentation fault); its last output: bye"),
        (
            {"_end_of_output": lambda _: ""},
            3 << 8,
            "crash",
            "ended without a result, exit code 3",
        ),
    ],
)
def test_an_end_has_its_reason(
    child: Any, changed: dict[str, Any], wait_status: int, status: str, message: str
) -> None:
    vars(child).update(changed)
    assert child._judge(wait_status) == (status, message)


@pytest.mark.parametrize(("end", "blamed"), [("kill -9 $$", None), ("exit 3", None), ("exit 0", 1)])
def test_a_rank_that_misses_rank_0_is_to_blame_only_if_rank_0_replied_too(
    child: Any, end: str, blamed: int | None
) -> None:
    """The other rank's reply arrives before rank 0's end shows."""
    reply = Reply(status="error", message="connection closed by peer")
    with subprocess.Popen(["sh", "-c", f"sleep 0.05; {end}"]) as rank_0:
        child._pidfd = os.pidfd_open(rank_0.pid)
        child._followers = [SimpleNamespace(rank=1, listen=lambda: None, fault=lambda: reply)]
        child._watch_followers()
    os.close(child._pidfd)
    assert child._fault == (None if blamed is None else (blamed, reply))


@pytest.mark.parametrize(("own_end", "other_end", "blamed"), [(5.0, 6.0, 0), (6.0, 5.0, 1)])
def test_of_two_ranks_that_replied_the_one_that_failed_first_is_to_blame(
    child: Any, own_end: float, other_end: float, blamed: int
) -> None:
    child._followers = [SimpleNamespace(rank=1)]
    child._reply = Reply(status="out_of_memory", message="why", ended_at=own_end)
    child._fault = (1, Reply(status="out_of_memory", message="why", ended_at=other_end))
    assert child._judge(0) == ("out_of_memory", f"rank {blamed} of 2: why")
