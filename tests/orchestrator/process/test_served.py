"""What a fork server does with requests, of processes that are made up; and which packages it refuses to preload."""

import math
import os
import select
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
import torch

from cudnn_sweep.orchestrator.process import protocol, server
from cudnn_sweep.orchestrator.process.protocol import Outcome
from cudnn_sweep.orchestrator.process.server import Server, _check_fork, _preload, _write

NOW = datetime.now(UTC)
OK = Outcome(started_at=NOW, ended_at=NOW, process_s=1.0)
BEGIN, PASS, END = protocol.BEGIN, protocol.PASS, protocol.END
SURVEY = b'{"job": {"kind": "survey", "workloads": []}, "timeout_s": 1.0}'


class Process:
    """A process that reports `says`, one in each round, and ends once it has said all."""

    def __init__(
        self, gap_s: float | None, *says: bytes | None, deadline: float = math.inf
    ) -> None:
        self.gap_s, self.deadline, self.pids = gap_s, deadline, [7]
        self.told: list[bytes] = []
        self.killed, self.given_up, self.watched = 0, 0, {5}
        self._says = list(says)

    def listen(self, _: object) -> bytes | None:
        return self._says.pop(0) if self._says else None

    def has_ended(self, _: object) -> bool:
        return not self._says and self.deadline == math.inf

    def tell(self, turn: bytes) -> None:
        self.told.append(turn)

    def kill(self) -> None:
        self.killed += 1

    def give_up(self) -> None:
        self.given_up, self.deadline = self.given_up + 1, math.inf

    def bury(self) -> Outcome:
        return OK


class Served:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.answers = 100.0, list[tuple[bytes, int]]()
        self.it = Server(9)
        self.made: list[Process] = []
        self.says: Sequence[bytes | None] = ()
        self.spared: list[Any] = []
        monkeypatch.setattr(server, "monotonic", lambda: self.now)
        monkeypatch.setattr(server, "Forked", self._fork)
        monkeypatch.setattr(server, "end_children", lambda but=(): self.spared.append([*but]))
        monkeypatch.setattr(self.it, "_answer", self._answer)

    def _fork(self, _: object, gap_s: float | None) -> Process:
        self.made.append(Process(gap_s, *self.says))
        return self.made[-1]

    def _answer(self, word: bytes, number: int, rest: bytes) -> None:
        self.answers.append((word, number))
        self.last = rest


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Served:
    return Served(monkeypatch)


def test_a_process_begins_is_told_its_turn_and_is_ended(served: Served) -> None:
    served.it._do(BEGIN, 1, SURVEY)
    served.it._do(BEGIN, 2, SURVEY)
    first, second = served.made
    served.it._do(PASS, 2, b"turn")
    assert (first.told, second.told) == ([], [b"turn"])
    served.it._do(END, 1, b"")
    assert (first.killed, second.killed) == (1, 0)
    assert served.answers == [(protocol.ENDED, 1)]
    assert served.spared == [[7]], "orphans of those that live are not told apart"
    for word in (PASS, END):
        served.it._do(word, 1, b"late")
    assert (first.told, first.killed, len(served.answers)) == ([], 1, 1)
    with pytest.raises(AssertionError, match="hello"):
        served.it._do(b"hello", 2, b"")


def test_a_gap_is_known_if_none_lives_and_one_has_ended(served: Served) -> None:
    served.it._do(BEGIN, 1, SURVEY)
    served.it._do(END, 1, b"")
    served.now += 4.0
    served.it._do(BEGIN, 2, SURVEY)
    served.it._do(BEGIN, 3, SURVEY)
    assert [each.gap_s for each in served.made] == [None, 4.0, None]


def test_a_request_that_says_more_is_refused_with_its_key(served: Served) -> None:
    served.it._do(BEGIN, 1, SURVEY.replace(b"timeout_s", b"timeout"))
    assert served.answers == [(protocol.REFUSED, 1)]
    assert served.last.startswith(b"timeout")
    assert served.made == []


@pytest.mark.parametrize(
    ("deadlines", "watched", "limit_s"),
    [
        ([], {0}, None),
        ([math.inf], {0, 5}, None),
        ([130.0, math.inf, 110.0], {0, 5}, 10.0),
        ([90.0], {0, 5}, 0.0),
    ],
)
def test_a_server_waits_for_requests_processes_and_the_first_deadline(
    monkeypatch: pytest.MonkeyPatch,
    served: Served,
    deadlines: list[float],
    watched: set[int],
    limit_s: float | None,
) -> None:
    asked: list[Any] = []

    def wait(of: set[int], _: object, __: object, seconds: float | None) -> Any:
        asked.append((of, seconds))
        return [5], (), ()

    monkeypatch.setattr(select, "select", wait)
    live: Any = {at: Process(None, deadline=each) for at, each in enumerate(deadlines)}
    served.it._live = live
    assert served.it._wait() == {5}
    assert asked == [(watched, limit_s)]


def test_requests_come_in_lines_until_the_slot_closes_the_pipe(
    monkeypatch: pytest.MonkeyPatch, served: Served
) -> None:
    did: list[tuple[bytes, int]] = []
    monkeypatch.setattr(served.it, "_do", lambda word, number, _: did.append((word, number)))
    whole = protocol.line_of(BEGIN, 1, SURVEY)
    parts = iter([whole[:20], whole[20:] + protocol.line_of(END, 1), b""])
    monkeypatch.setattr(os, "read", lambda *_: next(parts))
    assert served.it._read_requests({5}), "nothing came"
    assert [served.it._read_requests({0}) for _ in range(3)] == [True, True, False]
    assert did == [(BEGIN, 1), (END, 1)]


def test_a_server_passes_reports_on_and_gives_up_what_is_late(
    monkeypatch: pytest.MonkeyPatch, served: Served
) -> None:
    talks, late = Process(None, b"said", None), Process(None, None, None, deadline=100.0)
    early = Process(None, *[None] * 9, deadline=100.5)
    live: Any = {1: talks, 2: late, 3: early}
    served.it._live = live
    rounds = iter([True, True, True, True, False])
    monkeypatch.setattr(served.it, "_wait", lambda: {5})
    monkeypatch.setattr(served.it, "_read_requests", lambda _: next(rounds))
    served.it.serve()
    assert served.answers == [(protocol.SAID, 1), (protocol.ENDED, 1), (protocol.ENDED, 2)]
    assert (late.given_up, early.given_up) == (1, 0)
    assert list(served.it._live) == [3]
    assert served.spared[-1] == [], "at its end no process stays"


@pytest.mark.parametrize(
    ("threads", "cuda", "message"),
    [
        (1, False, None),
        (2, False, "sweep: preload: lib: the import leaves 2 threads"),
        (1, True, "sweep: preload: lib: the import has touched CUDA"),
    ],
)
def test_what_no_fork_survives_is_refused(
    monkeypatch: pytest.MonkeyPatch, threads: int, cuda: bool, message: str | None
) -> None:
    monkeypatch.setattr(os, "listdir", lambda _: ["thread"] * threads)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: cuda)
    if message is None:
        _check_fork("preload: lib")
        _preload(["json"])
        return
    with pytest.raises(SystemExit, match=message):
        _check_fork("preload: lib")
    monkeypatch.undo()
    with pytest.raises(SystemExit, match="sweep: preload: no_such_module: ModuleNotFoundError: "):
        _preload(["no_such_module"])


def test_a_long_answer_is_written_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[bytes] = []

    def write(_: int, data: bytes) -> int:
        written.append(data[:3])
        return len(data[:3])

    monkeypatch.setattr(os, "write", write)
    _write(5, b"a long answer\n")
    assert b"".join(written) == b"a long answer\n"


def test_late_modules_are_imported_unless_only_a_survey_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    imported: list[str] = []

    def importing(name: str) -> Iterator[None]:
        imported.append(name)
        if name.endswith("_dynamo"):
            raise ModuleNotFoundError(name)
        return iter(())

    monkeypatch.setattr(server, "import_module", importing)
    monkeypatch.setattr(server, "_check_fork", lambda _: None)
    for name in ("bundled_workloads", "regime_types", "state_types"):
        monkeypatch.setattr(server, name, lambda name=name: imported.append(name))
    of_ours = ["bundled_workloads", "regime_types", "state_types"]
    server._import_all(late=False)
    assert imported == of_ours
    imported.clear()
    server._import_all(late=True)
    assert imported == [*server.IMPORTED_BY_TORCH_LATE, *of_ours]
