"""Posting a night's news to a server on this machine, which may misbehave: told in time, the URL never shown."""

import json
import logging
import socket
import sys
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from threading import Thread
from types import ModuleType
from typing import Any, Literal

import pytest
from urllib3.exceptions import MaxRetryError

from cudnn_sweep.orchestrator.errors import SpecError, WebhookError
from cudnn_sweep.orchestrator.nightly import news
from cudnn_sweep.orchestrator.nightly.news import (
    News,
    Webhook,
    find_webhook,
    slack_body,
    tell,
)
from cudnn_sweep.orchestrator.planning.spec import WebhookKeys

SECRET = "T0001/B0002/c0ffee"
NEWS = News(
    headline="1 regression confirmed on NVIDIA H200",
    findings=("mnist <training> & more: 10% slower",),
    result={"exit_code": 1, "ratio": 1.1, "cells": ["mnist"]},
)
Answer = bytes | Callable[[socket.socket], None]


def status(code: int, **headers: str) -> bytes:
    named = "".join(f"{name.replace('_', '-')}: {text}\r\n" for name, text in headers.items())
    return f"HTTP/1.1 {code} x\r\n{named}Content-Length: 0\r\nConnection: close\r\n\r\n".encode()


def dripping(data: bytes, more: bytes = b"x") -> Answer:
    """A bit now and then, for ever."""

    def answer(caller: socket.socket) -> None:
        caller.sendall(data)
        while True:
            caller.sendall(more)
            time.sleep(0.05)

    return answer


def silent(caller: socket.socket) -> None:
    time.sleep(0.5)


@dataclass(kw_only=True)
class Receiver:
    """Gives its answers one by one, the last for ever, and keeps what it was sent and when."""

    url: str = ""
    answers: list[Answer] = field(default_factory=lambda: [status(200)])
    heads: list[str] = field(default_factory=list)
    bodies: list[Any] = field(default_factory=list)
    times: list[float] = field(default_factory=list)

    def webhook(self, form: Literal["json", "slack"] = "json") -> Webhook:
        return Webhook(url=self.url, form=form)

    def serve(self, server: socket.socket) -> None:
        with suppress(OSError):
            while True:
                caller, _ = server.accept()
                self.times.append(time.monotonic())
                with suppress(OSError), caller, caller.makefile("rb") as request:
                    lines = list(iter(request.readline, b"\r\n"))
                    head = b"".join(lines).decode().lower()
                    self.heads.append(b"".join(lines).decode())
                    self.bodies.append(
                        json.loads(request.read(int(head.split("length: ")[1].split()[0])))
                    )
                    answer = self.answers.pop(0) if self.answers[1:] else self.answers[0]
                    caller.sendall(answer) if isinstance(answer, bytes) else answer(caller)


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(news, "PAUSE_S", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as server:
        kept = Receiver(url=f"http://127.0.0.1:{server.getsockname()[1]}/services/{SECRET}")
        Thread(target=kept.serve, args=(server,), daemon=True).start()
        yield kept


@pytest.fixture(autouse=True)
def _no_secret_is_shown(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> Iterator[None]:
    caplog.set_level(logging.DEBUG)
    yield
    assert SECRET not in caplog.text + "".join(capfd.readouterr())


def test_json_goes_whole_and_once(receiver: Receiver) -> None:
    receiver.answers = [status(204)]
    tell(receiver.webhook(), NEWS)
    assert receiver.bodies == [
        {"headline": NEWS.headline, "findings": list(NEWS.findings), "result": NEWS.result}
    ]
    (head,) = receiver.heads
    assert head.startswith(f"POST /services/{SECRET} ") and "application/json" in head


def test_slack_gets_its_form_and_takes_the_worst_night(receiver: Receiver) -> None:
    tell(receiver.webhook("slack"), NEWS)
    text = f"*{NEWS.headline}*\n\nmnist &lt;training&gt; &amp; more: 10% slower"
    assert receiver.bodies == [{"text": text}]
    worst: Any = slack_body(News(headline="h" * 400, findings=("&" * 5000,) * 80, result={}))
    assert len(worst["text"]) < 40_000


def test_busy_server_is_tried_again_with_growing_pauses(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver.answers = [status(503), socket.socket.close, status(502), status(200)]
    monkeypatch.setattr(news, "PAUSE_S", 0.1)
    tell(receiver.webhook(), NEWS)
    first, second, third, fourth = receiver.times
    assert second - first < 0.2 <= third - second < 0.4 <= fourth - third
    assert receiver.bodies[0] == receiver.bodies[-1]


def test_retry_after_is_kept(receiver: Receiver) -> None:
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=-5), usegmt=True)
    receiver.answers = [*(status(429, Retry_After=text) for text in ("1", soon)), status(200)]
    tell(receiver.webhook(), NEWS)
    assert len(receiver.times) == 3
    assert receiver.times[1] - receiver.times[0] >= 1.0


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (status(404), "answered 404 Not Found"),
        (status(302, Location=f"/login/{SECRET}"), "answered 302 Found"),
    ],
)
def test_refusal_is_not_tried_again_and_a_redirect_not_followed(
    receiver: Receiver, answer: bytes, said: str
) -> None:
    receiver.answers = [answer]
    with pytest.raises(WebhookError, match=rf"^http://127.0.0.1:\d+: {said}"):
        tell(receiver.webhook(), NEWS)
    assert len(receiver.heads) == 1


MISBEHAVING: dict[str, Answer] = {
    "drips a header": dripping(b"HTTP/1.1 200 OK\r\nX-Slow: "),
    "drips the first line": dripping(b"HTTP/1.1 2"),
    "says 100 Continue for ever": dripping(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "is silent": silent,
    "closes": socket.socket.close,
    "redirects a POST to a file": status(307, Location="file:///etc/passwd"),
    "says garbage": b"\x00\xff" * 400 + b"\r\n\r\n",
    "says 999": status(999),
    "has huge headers": status(200, X="x" * 200_000),
    "has many headers": b"HTTP/1.1 200 OK\r\n" + b"X: x\r\n" * 2000 + b"\r\n",
    "asks for a long pause": status(503, Retry_After="999999999"),
    "asks for a pause of many years": status(503, Retry_After="9" * 30),
    "asks for an odd pause": b"HTTP/1.1 503 x\r\nRetry-After: \xc2\xb2\r\n\r\n",
    "asks for a pause in 1970": status(429, Retry_After="Thu, 01 Jan 1970 00:00:00 GMT"),
}


@pytest.mark.parametrize("how", MISBEHAVING)
def test_other_side_that_misbehaves_holds_no_night(
    receiver: Receiver, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("TRIES", 2), ("SILENCE_S", 0.2), ("LIMIT_S", 0.6)):
        monkeypatch.setattr(news, name, value)
    receiver.answers = [MISBEHAVING[how]]
    with pytest.raises(WebhookError, match=r"^http://127.0.0.1:\d+: "):
        tell(receiver.webhook(), NEWS)
    assert time.monotonic() - receiver.times[0] < 2.6


def test_the_environments_proxy_is_used(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = receiver.url.removeprefix("http://").partition("/")[0]
    monkeypatch.setenv("http_proxy", f"me:p%40ss@{address}")
    tell(Webhook(url=f"http://hooks.example/{SECRET}", form="json"), NEWS)
    (head,) = receiver.heads
    assert head.startswith(f"POST http://hooks.example/{SECRET} ")
    assert f"Basic {b64encode(b'me:p@ss').decode()}" in head


def test_url_comes_from_a_variable_or_a_file(tmp_path: Path) -> None:
    url = f"https://hooks.example/services/{SECRET}"
    file = tmp_path / "hook"
    file.write_text(f"{url}\n")
    from_variable = find_webhook(WebhookKeys(url_env="HOOK", form="slack"), {"HOOK": url})
    assert from_variable == find_webhook(WebhookKeys(url_file=str(file), form="slack"), {})
    assert from_variable.url == url and from_variable.shown == "https://hooks.example"
    assert SECRET not in repr(from_variable)


@pytest.mark.parametrize(
    ("url", "is_taken"),
    [
        ("https://hooks.example/x", True),
        ("http://hooks.example:8080/x", True),
        ("https://hooks.example/\u00e4", False),
        ("https://hooks.example/a b", False),
        ("https://hooks.example/a\x07b", False),
        ("https://me@hooks.example/x", False),
        ("https:///x", False),
        ("ftp://hooks.example/x", False),
        ("hooks.example/x", False),
        ("https://hooks.example:port/x", False),
        ("", False),
    ],
)
def test_only_a_plain_url_is_taken_and_none_is_quoted(url: str, is_taken: bool) -> None:
    keys = WebhookKeys(url_env="HOOK")
    if is_taken:
        assert find_webhook(keys, {"HOOK": url}).url == url
        return
    with pytest.raises(
        SpecError, match="^metadata.sweep.nightly.webhook.url_env: HOOK must contain"
    ):
        find_webhook(keys, {"HOOK": url})


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (OSError(111, "Connection refused"), "ConnectionRefusedError, Connection refused"),
        (OSError("of our own"), "OSError"),
        (ValueError(SECRET), "ValueError"),
        (
            caused(ValueError(SECRET), OSError(113, "No route to host")),
            "ValueError, No route to host",
        ),
        (caused(OSError(110, "timed out"), ValueError(SECRET)), "TimeoutError"),
        (MaxRetryError(None, SECRET, OSError(5, "odd")), "OSError, odd"),  # type: ignore[arg-type]
    ],
)
def test_a_failure_is_an_error_with_the_systems_reason(error: Exception, text: str) -> None:
    assert news._failure(error) == text


@pytest.mark.parametrize(("code", "posts"), [(429, 5), (500, 5), (499, 1), (300, 1), (199, 1)])
def test_a_busy_server_is_asked_five_times_and_any_other_once(
    receiver: Receiver, code: int, posts: int
) -> None:
    receiver.answers = [status(code)]
    with pytest.raises(WebhookError):
        tell(receiver.webhook(), NEWS)
    assert len(receiver.bodies) == posts


def test_missing_variable_and_file_are_named(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="url_env: HOOK is not set"):
        find_webhook(WebhookKeys(url_env="HOOK"), {})
    with pytest.raises(SpecError, match="gone cannot be read: FileNotFoundError"):
        find_webhook(WebhookKeys(url_file=str(tmp_path / "gone")), {})


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, str]]:
    """What an apprise that knows `mailto:` alone was given: URL, title, body."""
    found: list[tuple[str, str, str]] = []

    class Apprise(list[str]):
        def add(self, url: str) -> None:
            self.extend([url] if url.startswith("mailto:") else [])

        def notify(self, *, title: str, body: str, body_format: str) -> bool:
            assert body_format == "text", "else a name may be markup"
            found.append((*self, title, body))
            return "refused" not in self[0]

    module = ModuleType("apprise")
    module.Apprise = Apprise  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "apprise", module)
    return found


def test_apprise_gets_a_message_and_no_part_of_its_url_is_shown(
    sent: list[tuple[str, str, str]], tmp_path: Path
) -> None:
    keys = WebhookKeys(url_env="HOOK", form="apprise")
    url = f"mailto://me:{SECRET}@lab.example"
    tell(find_webhook(keys, {"HOOK": url}), NEWS)
    assert sent == [(url, NEWS.headline, NEWS.findings[0])]
    with pytest.raises(WebhookError, match="^mailto://: apprise could not send the news$"):
        tell(find_webhook(keys, {"HOOK": f"{url}/refused"}), NEWS)
    with pytest.raises(SpecError, match="HOOK contains no URL that apprise supports$"):
        find_webhook(keys, {"HOOK": f"telegraph://{SECRET}"})


def test_a_name_that_apprise_sends_mentions_nobody(sent: list[tuple[str, str, str]]) -> None:
    keys = WebhookKeys(url_env="HOOK", form="apprise")
    hostile = News(headline="@here: slower", findings=("@everyone: slower",), result={})
    tell(find_webhook(keys, {"HOOK": "mailto://lab.example"}), hostile)
    assert sent[0][1:] == ("@\u200bhere: slower", "@\u200beveryone: slower")


def test_apprise_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "apprise", None)
    with pytest.raises(SpecError, match="form: apprise needs `pip install apprise`"):
        find_webhook(WebhookKeys(url_env="HOOK", form="apprise"), {"HOOK": SECRET})
