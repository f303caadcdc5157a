"""A headless Chromium, spoken to over a pipe in its DevTools protocol: no driver, no port."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.makers import Need

FLAGS = """--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking
--disable-component-update --disable-sync --hide-scrollbars --remote-debugging-pipe"""
DRAWN_S = 100  # on two slow cores, with other programs beside it
Message = dict[str, object]
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)


class Browser:
    """One page of a Chromium; remembers what the page complained about and what it asked for."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._to, self._from = to_browser, from_browser
        self._buffer = b""
        self._calls = 0
        self._session: str | None = None
        self.complaints: list[str] = []
        self.requests: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = str(attached["sessionId"])
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: object) -> Message:
        """The browser's answer to one command."""
        self._calls += 1
        message: Message = {"id": self._calls, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._calls:
                assert "error" not in answer, answer["error"]
                result = answer["result"]
                assert isinstance(result, dict)
                return result
            self._note(answer)

    def evaluate(self, script: str) -> object:
        """The value of a script's last expression, promises awaited."""
        found = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        result = found["result"]
        assert isinstance(result, dict)
        return result.get("value")

    def open(
        self,
        file: Path,
        *,
        width: int = 1400,
        height: int = 900,
    ) -> None:
        """Show a report and wait until its charts are drawn."""
        self.resize(width, height)
        self.complaints.clear()
        self.requests.clear()
        self.call("Page.navigate", url=file.as_uri())
        self.wait("document.body?.dataset.drawn === 'yes'")

    def resize(self, width: int, height: int) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)

    def wait(self, condition: str) -> None:
        deadline = time.monotonic() + DRAWN_S
        while not self.evaluate(condition):
            assert time.monotonic() < deadline, (
                f"not within {DRAWN_S} s: {condition}: {self.complaints}"
            )
            time.sleep(0.05)

    def reading(self, file: Path) -> Iterator[Browser]:
        """The file, open; nothing of it may complain or ask for anything, whatever a test does."""
        self.open(file)
        yield self
        assert self.complaints == []
        assert self.requests == [file.as_uri()]

    def text(self, selector: str) -> str:
        return str(self.evaluate(f"document.querySelector({selector!r})?.textContent"))

    def count(self, selector: str) -> object:
        return self.evaluate(f"document.querySelectorAll({selector!r}).length")

    def click(self, selector: str) -> None:
        self.evaluate(f"document.querySelector({selector!r}).click()")

    def press(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            code = {"Tab": 9, "Enter": 13}[key]
            text = {"text": "\r"} if key == "Enter" and kind == "keyDown" else {}
            self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **text
            )

    def _next(self) -> Message:
        while b"\0" not in self._buffer:
            read = os.read(self._from, 1 << 20)
            assert read, "the browser has ended"
            self._buffer += read
        text, _, self._buffer = self._buffer.partition(b"\0")
        message: Message = json.loads(text)
        return message

    def _note(self, event: Message) -> None:
        method, parameters = event.get("method"), event.get("params")
        assert isinstance(parameters, dict)
        if method == "Runtime.exceptionThrown":
            self.complaints.append(str(parameters["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning"):
            self.complaints.append(str(parameters["args"]))
        elif method == "Log.entryAdded":
            self.complaints.append(str(parameters["entry"]))
        elif method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser | None]:
    """Started once; none where it is not installed."""
    if CHROMIUM is None:
        yield None
        return
    profile = tmp_path_factory.mktemp("chromium")
    its_input, to_browser = os.pipe()
    from_browser, its_output = os.pipe()
    # The protocol speaks on descriptors 3 and 4: bash puts the pipes there.
    placed = f'exec "$@" 3<&{its_input} 4>&{its_output}'
    with subprocess.Popen(
        ["bash", "-c", placed, "bash", CHROMIUM, *FLAGS.split(), f"--user-data-dir={profile}"],
        pass_fds=(its_input, its_output),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        os.close(its_input)
        os.close(its_output)
        try:
            yield Browser(to_browser, from_browser)
        finally:
            process.terminate()
            process.wait()
            os.close(to_browser)
            os.close(from_browser)


@pytest.fixture
def browser(chromium: Browser | None, need: Need) -> Browser:
    need(chromium is not None, "chromium")
    assert chromium is not None
    return chromium
