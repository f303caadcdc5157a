"""Posting a night's news to a real server on this machine."""

import json
import logging
import re
import threading
import time
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal

import pytest

from cudnn_sweep.cluster.keys import WebhookKeys
from cudnn_sweep.orchestrator.errors import SpecError, WebhookError
from cudnn_sweep.orchestrator.nightly.webhook import (
    News,
    Patience,
    Webhook,
    find_webhook,
    slack_body,
    tell,
)

SECRET = "T0001/B0002/c0ffee"
NEWS = News(
    headline="1 regression confirmed on NVIDIA H200",
    findings=("mnist <training> & more: 10% slower",),
    result={"exit_code": 1, "ratio": 1.1, "cells": ["mnist"]},
)
QUICK = Patience(tries=4, pause_s=0.01, try_limit_s=5.0, limit_s=20.0)


@dataclass(frozen=True, kw_only=True)
class Answer:
    code: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    after_s: float = 0.0
    hang_up: bool = False


@dataclass(kw_only=True)
class Receiver:
    """Gives its answers one by one, and keeps what it was sent and when."""

    url: str = ""
    answers: list[Answer] = field(default_factory=list)
    bodies: list[Any] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    logins: list[str | None] = field(default_factory=list)

    def webhook(self, form: Literal["json", "slack"] = "json") -> Webhook:
        return Webhook(url=self.url, form=form)


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    kept = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            kept.times.append(time.monotonic())
            kept.paths.append(self.path)
            kept.logins.append(self.headers["Proxy-Authorization"])
            assert self.headers["Content-Type"] == "application/json"
            kept.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            answer = kept.answers.pop(0)
            time.sleep(answer.after_s)
            if answer.hang_up:
                return
            self.send_response(answer.code)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def do_GET(self) -> None:
            kept.paths.append(f"GET {self.path}")
            self.send_error(500)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.block_on_close = False  # a late answer is nobody's
        kept.url = f"http://127.0.0.1:{server.server_port}/services/{SECRET}"
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield kept
        server.shutdown()


@pytest.fixture(autouse=True)
def _no_secret_is_shown(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> Iterator[None]:
    caplog.set_level(logging.DEBUG)
    yield
    assert SECRET not in caplog.text + "".join(capfd.readouterr())


def test_json_goes_whole_and_once(receiver: Receiver) -> None:
    receiver.answers = [Answer(code=204)]
    tell(receiver.webhook(), NEWS)
    assert receiver.bodies == [
        {"headline": NEWS.headline, "findings": list(NEWS.findings), "result": NEWS.result}
    ]
    assert receiver.paths == [f"/services/{SECRET}"]


def test_slack_gets_its_form(receiver: Receiver) -> None:
    receiver.answers = [Answer()]
    tell(receiver.webhook("slack"), NEWS)
    (body,) = receiver.bodies
    assert body == {
        "text": NEWS.headline,
        "blocks": [
            {"type": "header", "text": {"type": "plain_text", "text": NEWS.headline}},
            {
                "type": "section",
                "text": {
                    "type": "mrkdwn",
                    "text": "mnist &lt;training&gt; &amp; more: 10% slower",
                },
            },
        ],
    }


@pytest.mark.parametrize(("findings", "sections"), [(("&" * 5000,) * 80, 3), (("&",) * 80, 49)])
def test_slack_takes_the_worst_night(findings: tuple[str, ...], sections: int) -> None:
    body: Any = slack_body(News(headline="h" * 400, findings=findings, result={}))
    header, *texts = (block["text"]["text"] for block in body["blocks"])
    assert len(header) == 150 and len(texts) == sections
    assert max(map(len, texts)) <= 3000 and sum(map(len, texts)) < 9000
    assert texts[-1] == f"and {80 - sections + 1} more"
    assert all(re.fullmatch("(&amp;)+…?", text) for text in texts[:-1])


def test_busy_server_is_tried_again_with_growing_pauses(receiver: Receiver) -> None:
    receiver.answers = [Answer(code=503), Answer(hang_up=True), Answer(code=502), Answer()]
    patience = Patience(tries=4, pause_s=0.1, try_limit_s=5.0, limit_s=20.0)
    tell(receiver.webhook(), NEWS, patience)
    first, second, third, fourth = receiver.times
    assert second - first < 0.2 <= third - second < 0.4 <= fourth - third
    assert receiver.bodies[0] == receiver.bodies[-1]


def test_retry_after_is_kept(receiver: Receiver) -> None:
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=-5), usegmt=True)
    answers = ("1", soon)
    receiver.answers = [Answer(code=429, headers={"Retry-After": text}) for text in answers]
    receiver.answers.append(Answer())
    tell(receiver.webhook(), NEWS, QUICK)
    assert len(receiver.times) == 3
    assert receiver.times[1] - receiver.times[0] >= 1.0


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Answer(code=404), "answered 404 Not Found"),
        (Answer(code=302, headers={"Location": f"/login/{SECRET}"}), "answered 302 Found"),
    ],
)
def test_refusal_is_not_tried_again_and_a_redirect_not_followed(
    receiver: Receiver, answer: Answer, said: str
) -> None:
    receiver.answers = [answer]
    with pytest.raises(WebhookError, match=rf"^http://127.0.0.1:\d+: {said}"):
        tell(receiver.webhook(), NEWS, QUICK)
    assert receiver.paths == [f"/services/{SECRET}"]


def test_patience_ends(receiver: Receiver) -> None:
    receiver.answers = [Answer(after_s=0.5)] * 2
    with pytest.raises(WebhookError, match="ReadTimeoutError$"):
        tell(receiver.webhook(), NEWS, Patience(tries=2, pause_s=0.01, try_limit_s=0.1))
    assert len(receiver.times) == 2
    receiver.answers = [Answer(code=503, headers={"Retry-After": "3600"})]
    with pytest.raises(WebhookError, match="gave no whole answer in 0.5 s$"):
        tell(receiver.webhook(), NEWS, Patience(limit_s=0.5))


def test_the_environments_proxy_is_used(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = receiver.url.removeprefix("http://").partition("/")[0]
    monkeypatch.setenv("http_proxy", f"me:p%40ss@{address}")
    receiver.answers = [Answer()]
    tell(Webhook(url=f"http://hooks.example/{SECRET}", form="json"), NEWS, QUICK)
    assert receiver.paths == [f"http://hooks.example/{SECRET}"]
    assert receiver.logins == [f"Basic {b64encode(b'me:p@ss').decode()}"]


def test_url_comes_from_a_variable_or_a_file(tmp_path: Path) -> None:
    url = f"https://hooks.example/services/{SECRET}"
    file = tmp_path / "hook"
    file.write_text(f"{url}\n")
    from_variable = find_webhook(WebhookKeys(url_env="HOOK", form="slack"), {"HOOK": url})
    assert from_variable == find_webhook(WebhookKeys(url_file=str(file), form="slack"), {})
    assert from_variable.url == url and from_variable.shown == "https://hooks.example"
    assert SECRET not in repr(from_variable)


def test_missing_variable_and_file_are_named(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="url_env: HOOK is not set"):
        find_webhook(WebhookKeys(url_env="HOOK"), {})
    with pytest.raises(SpecError, match="gone cannot be read: FileNotFoundError"):
        find_webhook(WebhookKeys(url_file=str(tmp_path / "gone")), {})
