"""Which processes of a server have a gap before them, of processes that are made up."""

from typing import Any

import pytest

from cudnn_sweep.orchestrator.process import server as serving
from cudnn_sweep.orchestrator.process.server import Server


def test_a_process_has_a_gap_if_none_lives_and_one_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s, gaps = [100.0], list[float | None]()

    class Forked:
        pids = ()

        def __init__(self, request: Any, gap_s: float | None) -> None:
            gaps.append(gap_s)

        def bury(self) -> None:
            pass

    class Bytes:
        @staticmethod
        def validate_json(_: bytes) -> None: ...
        @staticmethod
        def dump_json(_: Any) -> bytes:
            return b""

    for name, value in {
        "Forked": Forked,
        "protocol.REQUEST": Bytes,
        "protocol.OUTCOME": Bytes,
        "monotonic": lambda: now_s[0],
        "end_children": lambda but: None,
        "_write": lambda *_: None,
    }.items():
        monkeypatch.setattr(f"{serving.__name__}.{name}", value)
    server = Server(0)
    server._begin(1, b"")
    server._begin(2, b"")
    server._end(1)
    now_s[0] += 2.0
    server._begin(3, b"")
    server._end(2)
    server._end(3)
    now_s[0] += 5.0
    server._begin(4, b"")
    assert gaps == [None, None, None, 5.0]
