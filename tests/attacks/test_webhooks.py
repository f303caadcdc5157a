"""A webhook whose other side misbehaves: told in time, the URL never shown."""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from cudnn_sweep.orchestrator.errors import WebhookError
from cudnn_sweep.orchestrator.nightly.night import WhereToLook, news_of
from cudnn_sweep.orchestrator.nightly.webhook import News, Patience, Webhook, tell

if TYPE_CHECKING:
    from cudnn_sweep.analysis.nightly.outcome import NightOutcome
    from cudnn_sweep.analysis.nightly.series import Series

SECRET = "T0001/B0002/c0ffee"
PATIENCE = Patience(tries=1, try_limit_s=0.4, limit_s=1.0)
Answer = Callable[[socket.socket], None]


def dripping(head: bytes) -> Answer:
    """A byte now and then, for ever."""

    def answer(caller: socket.socket) -> None:
        caller.sendall(head)
        while True:
            caller.sendall(b"x")
            time.sleep(0.05)

    return answer


def saying(data: bytes) -> Answer:
    return lambda caller: caller.sendall(data)


def going_on_for_ever(caller: socket.socket) -> None:
    while True:
        caller.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        time.sleep(0.05)


def silent(caller: socket.socket) -> None:
    time.sleep(3)


ANSWERS: dict[str, Answer] = {
    "drips a header": dripping(b"HTTP/1.1 200 OK\r\nX-Slow: "),
    "drips the first line": dripping(b"HTTP/1.1 2"),
    "says 100 Continue for ever": going_on_for_ever,
    "is silent": silent,
    "closes": lambda caller: caller.close(),
    "redirects": saying(b"HTTP/1.1 302 x\r\nLocation: http://127.0.0.1:1/\r\n\r\n"),
    "redirects a POST to a file": saying(b"HTTP/1.1 307 x\r\nLocation: file:///etc/passwd\r\n\r\n"),
    "says garbage": saying(b"\x00\xff" * 400 + b"\r\n\r\n"),
    "says 999": saying(b"HTTP/1.1 999 x\r\n\r\n"),
    "has huge headers": saying(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000 + b"\r\n\r\n"),
    "has many headers": saying(b"HTTP/1.1 200 OK\r\n" + b"X: x\r\n" * 2000 + b"\r\n"),
    "asks for a long pause": saying(b"HTTP/1.1 503 x\r\nRetry-After: 999999999\r\n\r\n"),
    "asks for an odd pause": saying(b"HTTP/1.1 503 x\r\nRetry-After: \xc2\xb2\r\n\r\n"),
    "asks for a pause in 1970": saying(
        b"HTTP/1.1 429 x\r\nRetry-After: Thu, 01 Jan 1970 00:00:00 GMT\r\n\r\n"
    ),
}


WHERE = WhereToLook(folder=Path("/srv"), program="sweep", results="results", page="page")


@pytest.fixture
def news(night: "tuple[NightOutcome, list[Series]]") -> News:
    outcome, _ = night
    return news_of(outcome, list(outcome.alerts), WHERE)


@contextmanager
def answering(answer: Answer) -> Iterator[Webhook]:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    caller, _ = server.accept()
                    caller.recv(2**16)
                    with suppress(OSError), caller:
                        answer(caller)

        Thread(target=serve, daemon=True).start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/services/{SECRET}"
        yield Webhook(url=url, form="slack")


@pytest.mark.parametrize("how", ANSWERS)
def test_other_side_that_misbehaves_holds_no_night(
    how: str, news: News, capfd: pytest.CaptureFixture[str]
) -> None:
    began = time.monotonic()
    with answering(ANSWERS[how]) as webhook, pytest.raises(WebhookError) as failed:
        tell(webhook, news, PATIENCE)
    assert time.monotonic() - began < PATIENCE.limit_s + 2
    assert SECRET not in str(failed.value) + "".join(capfd.readouterr())
