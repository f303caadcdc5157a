"""What a forked process replies: whose error it is, what to try, how long a text is; and how its server sees its end.
Nothing is forked: the job runs in the test's own process.
"""

import math
import os
import select
import signal
from collections.abc import Iterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from cudnn_sweep.orchestrator.process import forked, protocol
from cudnn_sweep.orchestrator.process.forked import (
    FOREIGN_BYTES,
    MOST_CHARACTERS,
    Follower,
    Forked,
    _describe,
    _hint,
    _lacks_memory,
    _run_trial,
    _storable,
    _text,
    _work,
    first_fault,
    live,
)
from cudnn_sweep.orchestrator.process.protocol import Reply, TrialJob
from cudnn_sweep.workloads.errors import TRY, UserCodeError, WorkloadError
from cudnn_sweep.workloads.regime import SpatialRegime


@pytest.mark.parametrize(
    ("more", "end"),
    [(-1, ""), (0, ""), (1, "... (1 characters more)"), (1500, "... (1,500 characters more)")],
)
def test_a_long_text_is_cut_and_says_by_how_much(more: int, end: str) -> None:
    text = "x" * (MOST_CHARACTERS + more)
    assert _storable(text) == text[:MOST_CHARACTERS] + end
    assert _storable("half \ud800") == "half \\ud800"


class HasNoText(RuntimeError):
    def __str__(self) -> str:
        raise ValueError("no text")


def raised(*frames: tuple[str, str], error: BaseException | None = None) -> BaseException:
    """Return an error that passed through functions: a module and a file each, the innermost last."""

    def innermost() -> None:
        raise error or ValueError("odd")

    call: Any = innermost
    for module, file in reversed(frames):
        names: dict[str, Any] = {"__name__": module, "inner": call}
        exec(compile("def step():\n    inner()\n", file, "exec"), names)  # noqa: S102
        call = names["step"]
    try:
        call()
    except BaseException as caught:  # noqa: BLE001
        found = caught
    of_file = found.__traceback__
    assert of_file is not None
    kept = of_file.tb_next
    last = kept
    for _ in frames[1:]:
        assert last is not None
        last = last.tb_next
    assert last is not None
    last.tb_next = None  # the function that raises stands for code in C
    return found.with_traceback(kept)


NET, LIB, TORCH, OURS = (
    ("nets", "/home/me/nets.py"),
    ("lib.layers", "/lib/layers.py"),
    ("torch.nn", "/torch/conv.py"),
    ("cudnn_sweep.workloads", "/ours/trial.py"),
)


@pytest.mark.parametrize(
    ("frames", "place"),
    [
        ([NET], "nets.py:2 in step"),
        ([OURS, NET], "nets.py:2 in step"),
        ([OURS, NET, TORCH], "nets.py:2 in step"),
        ([OURS, NET, TORCH, LIB, TORCH], "layers.py:2 in step"),
        ([OURS, TORCH], "conv.py:2 in step"),
        ([TORCH, OURS], "trial.py:2 in step"),
    ],
)
def test_an_error_names_the_users_innermost_line(frames: list[tuple[str, str]], place: str) -> None:
    assert _describe(raised(*frames)) == f"ValueError: odd ({place})"


def test_an_error_without_a_text_is_still_described() -> None:
    assert _text(HasNoText()) == "its __str__ raised ValueError"
    assert _describe(raised(NET, error=HasNoText())).startswith("HasNoText: its __str__ raised")
    assert _describe(raised(NET, error=KeyError())) == "KeyError: (nets.py:2 in step)"


NO_MEMORY = f"[enforce fail] {forked.CPU_ALLOCATOR_IS_OUT}: not enough memory"


@pytest.mark.parametrize(
    ("error", "lacks"),
    [
        (MemoryError(), True),
        (torch.OutOfMemoryError("CUDA"), True),
        (RuntimeError(NO_MEMORY), True),
        (RuntimeError("shapes differ"), False),
        (ValueError(NO_MEMORY), False),
        (HasNoText(), False),
    ],
)
def test_lack_of_memory_is_told_from_other_errors(error: BaseException, lacks: bool) -> None:
    assert _lacks_memory(error) is lacks


def trial_job(rule: Any = None, ranks: int = 1, *, takes_turns: bool = False) -> TrialJob:
    cell = SimpleNamespace(
        shapes=rule or (lambda: None), input_shape=(8, 3, 9, 9), rank_count=ranks
    )
    job = object.__new__(TrialJob)
    for name, value in {"trial": SimpleNamespace(cell=cell), "takes_turns": takes_turns}.items():
        object.__setattr__(job, name, value)
    return job


def work(job: Any) -> Reply:
    return _work(SimpleNamespace(job=job), None, 0, 0.0, None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("error", "status", "is_mistake", "message"),
    [
        (None, "ok", False, None),
        (WorkloadError("no such problem"), "error", True, "no such problem; hint"),
        (UserCodeError("cannot be imported"), "error", False, "cannot be imported; hint"),
        (WorkloadError(f"it fails{TRY}--inputs"), "error", True, f"it fails{TRY}--inputs"),
        (ValueError("odd"), "error", False, "ValueError: odd ("),
        (SystemExit(3), "error", False, "SystemExit: 3 ("),
        (MemoryError(), "out_of_memory", False, "MemoryError: ("),
        (RuntimeError(NO_MEMORY), "out_of_memory", False, "RuntimeError: [enforce fail]"),
    ],
)
def test_a_reply_says_whose_error_it_is_and_what_to_try(
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    error: BaseException | None,
    status: str,
    is_mistake: bool,
    message: str | None,
) -> None:
    def run(*_: object) -> None:
        if error is not None:
            raise error

    monkeypatch.setattr(forked, "run_trial", run)
    monkeypatch.setattr(forked, "_hint", lambda *_: "; hint")
    reply = work(trial_job())
    assert (reply.status, reply.is_mistake) == (status, is_mistake)
    assert (reply.message or "").startswith(message or "")
    is_hinted = status == "error" and TRY not in (message or "")
    assert (reply.message or "").endswith("; hint") is is_hinted
    assert reply.measured is not None and reply.measured.phases_s["start"] > 0
    assert ("Traceback" in capfd.readouterr().err) is (error is not None)


class Rule(SpatialRegime):
    name = "sizes"
    multiple = 1

    def __init__(self, multiple: int) -> None:
        object.__setattr__(self, "multiple", multiple)

    def shape(self, *_: Any, **__: Any) -> Any: ...


@pytest.mark.parametrize(
    ("multiple", "fits", "hint"),
    [
        (1, False, f"{TRY}`multiple: 32`: some sizes of regime sizes seem not to fit the network"),
        (2, False, "; other"),
        (1, True, "; other"),
        (None, False, "; other"),
    ],
)
def test_sizes_of_a_rule_that_do_not_fit_may_be_multiples(
    monkeypatch: pytest.MonkeyPatch, multiple: int | None, fits: bool, hint: str
) -> None:
    monkeypatch.setattr(Rule, "__abstractmethods__", frozenset())
    monkeypatch.setattr(forked, "does_not_fit", lambda *_: not fits)
    monkeypatch.setattr(forked, "what_to_try", lambda *_: "; other")
    rule = SimpleNamespace(multiple=1) if multiple is None else Rule(multiple)  # type: ignore[abstract]
    assert _hint(trial_job(lambda: rule), ValueError()) == hint

    def fails() -> None:
        raise KeyError("a regime of one's own")

    assert _hint(trial_job(fails), ValueError()) == ""
    assert _hint(object(), ValueError()) == ""


class Seat:
    def __init__(self) -> None:
        self.links: list[Any] = []
        self.gave: list[Any] = []
        self.saw = 0

    def see_own_gpu(self) -> None:
        self.saw += 1

    def taking_turns(self, baton: Any) -> Any:
        self.gave.append(baton)
        return "of ranks"


@pytest.mark.parametrize(
    ("has_turns", "takes_turns", "has_seat", "baton"),
    [
        (True, True, False, "pipe"),
        (True, False, False, None),
        (False, True, False, None),
        (True, True, True, "of ranks"),
        (False, True, True, "of ranks"),
        (True, False, True, None),
    ],
)
def test_a_trial_that_takes_turns_has_the_baton_and_only_rank_0_reports(
    monkeypatch: pytest.MonkeyPatch,
    has_turns: bool,
    takes_turns: bool,
    has_seat: bool,
    baton: str | None,
) -> None:
    got: list[Any] = []
    written: list[bytes] = []
    monkeypatch.setattr(forked, "PipeBaton", lambda *_: "pipe")
    monkeypatch.setattr(forked, "run_trial", lambda *given: got.extend(given))
    monkeypatch.setattr(forked, "_write", lambda _, data: written.append(data))
    seat: Any = Seat() if has_seat else None
    measured: Any = None
    turns = 7 if has_turns else None
    _run_trial(trial_job(takes_turns=takes_turns), Reply(), measured, turns, 8, seat)
    _, _, report, given, _ = got
    assert given == baton
    report()
    assert len(written) == has_turns
    assert all(line.startswith(protocol.SO_FAR) and line.endswith(b"\n") for line in written)
    if seat is not None:
        assert seat.saw == 1
        assert seat.gave == ["pipe" if has_turns else None] * takes_turns


@pytest.mark.parametrize(
    ("turns", "reply", "code", "replies"),
    [
        (7, Reply(), 0, 1),
        (7, Reply(status="error"), 0, 1),
        (None, Reply(), 0, 0),
        (None, Reply(status="error"), 0, 1),
        (7, None, 1, 0),
    ],
)
def test_a_rank_above_0_replies_only_if_it_fails(
    monkeypatch: pytest.MonkeyPatch, turns: int | None, reply: Reply | None, code: int, replies: int
) -> None:
    written: list[bytes] = []
    kept_open: list[int] = []

    def work(*_: object) -> Reply:
        if reply is None:
            raise KeyError("a bug of ours")
        return reply

    def ends(code: int) -> None:
        raise SystemExit(code)

    for name, value in {
        "_limit": lambda *_: None,
        "_close_other_pipes": lambda *pipes: kept_open.extend(pipes),
        "_work": work,
        "_write": lambda _, data: written.append(data),
        "_replier": 0,
    }.items():
        monkeypatch.setattr(forked, name, value)
    monkeypatch.setattr(os, "_exit", ends)
    links = [SimpleNamespace(fileno=lambda: 11)]
    seat: Any = SimpleNamespace(links=links) if turns is None else None
    with pytest.raises(SystemExit) as ended:
        live(SimpleNamespace(), turns, 8, 9, 0.0, seat)  # type: ignore[arg-type]
    assert ended.value.code == code
    assert len(written) == replies
    assert kept_open == ([8, 7] if turns else [8, 11])


def test_only_what_the_server_left_open_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    there = {"3": "pipe:[1]", "4": "socket:[2]", "5": "/dev/null", "6": "pipe:[3]", "7": None}
    closed: list[int] = []

    def readlink(path: str) -> str:
        target = there[path.rpartition("/")[2]]
        if target is None:
            raise FileNotFoundError(path)
        return target

    monkeypatch.setattr(os, "listdir", lambda _: list(there))
    monkeypatch.setattr(os, "readlink", readlink)
    monkeypatch.setattr(os, "close", closed.append)
    forked._close_other_pipes(6, 9)
    monkeypatch.undo()
    assert closed == [3, 4]


def test_a_long_reply_is_written_whole_and_a_copy_of_the_process_writes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written: list[bytes] = []

    def write(_: int, data: bytes) -> int:
        written.append(data[:4])
        return len(data[:4])

    def ends(code: int) -> None:
        raise SystemExit(code)

    monkeypatch.setattr(os, "write", write)
    monkeypatch.setattr(os, "_exit", ends)
    monkeypatch.setattr(forked, "_replier", os.getpid())
    forked._write(5, b"a long reply\n")
    assert b"".join(written) == b"a long reply\n"
    monkeypatch.setattr(forked, "_replier", os.getpid() + 1)
    with pytest.raises(SystemExit):
        forked._write(5, b"forged\n")
    assert b"".join(written) == b"a long reply\n"


@pytest.mark.parametrize(("ranks", "seats"), [(1, 0), (2, 2), (3, 3)])
def test_only_a_trial_over_several_gpus_has_seats(
    monkeypatch: pytest.MonkeyPatch, ranks: int, seats: int
) -> None:
    monkeypatch.setattr(forked, "make_ranks", lambda count: ["seat"] * count)
    request: Any = SimpleNamespace(job=trial_job(ranks=ranks))
    assert len(forked._seats(request)) == seats
    other: Any = SimpleNamespace(job=object())
    assert forked._seats(other) == []


def follower(rank: int, *, fault: Reply | int | None = None, running: bool = True) -> Any:
    ended = SimpleNamespace(rank=rank, pid=100 + rank, pidfd=30 + rank, replies=40 + rank)
    ended.wait_status = None if running else 0
    ended.listen, ended.end, ended.fault = (lambda: None), (lambda: None), (lambda: fault)
    return ended


def test_a_rank_whose_process_died_is_to_blame_before_one_that_misses_it() -> None:
    misses, died = Reply(status="error", message="connection closed"), 9
    ranks = [follower(1, fault=misses), follower(2, fault=died), follower(3)]
    assert first_fault(ranks) == (2, died)
    assert first_fault(ranks[:1]) == (1, misses)
    assert first_fault(ranks[2:]) is None and first_fault([]) is None


@pytest.mark.parametrize(
    ("unread", "wait_status", "status"),
    [
        (b"", None, None),
        (b'{"status": "error"}', None, None),
        (b'{"status": "error"}\n', None, "error"),
        (b"hello\n", None, "error"),
        (b"", 0, None),
        (b'{"status": "error"}\n', 9, 9),
    ],
)
def test_a_rank_has_failed_if_it_died_or_wrote_a_whole_line(
    unread: bytes, wait_status: int | None, status: str | int | None
) -> None:
    rank = Follower(rank=1, pid=2, pidfd=3, replies=4, unread=unread, wait_status=wait_status)
    fault = rank.fault()
    assert (fault.status if isinstance(fault, Reply) else fault) == status


class Ended:
    """A process that ended at 200 s, of which the server waits for the end."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, wait_status: int, **of: Any) -> None:
        monkeypatch.setattr(forked, "monotonic", lambda: 200.0)
        for name, value in {
            "waitpid": lambda *_: (0, wait_status),
            "close": lambda _: None,
        }.items():
            monkeypatch.setattr(os, name, value)
        monkeypatch.setattr(select, "select", lambda *_: ([], [], []))
        self.it: Any = object.__new__(Forked)
        now = datetime.now(UTC)
        usual: dict[str, Any] = {name: 3 for name in ("_pidfd", "_replies", "_pass_to", "pid")} | {
            "_so_far": None,
            "_reply": None,
            "_waited_s": 10.0,
            "_passed_on_at": None,
            "_replied_at": None,
            "_timed_out": False,
            "_followers": [],
            "_counts": None,
            "_fault": None,
            "_foreign": None,
            "_request": SimpleNamespace(timeout_s=60.0),
            "_end_of_output": lambda most: "bye"[:most],
            "_log": SimpleNamespace(close=lambda: None),
            "_started_at": now,
            "_born": 100.0,
            "_gap_s": 1.5,
            "_is_silent": False,
            "deadline": 160.0,
        }
        vars(self.it).update(usual | of)


@pytest.fixture
def _closing(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    yield
    monkeypatch.undo()  # before pytest closes anything


MEASURED_SO_FAR = protocol.REPLY.validate_json(b'{"measured": {}}')


@pytest.mark.usefixtures("_closing")
@pytest.mark.parametrize(
    ("of", "wait_status", "status", "waited_s", "exit_s", "output"),
    [
        ({"_reply": Reply()}, 0, "ok", 10.0, 0.0, None),
        ({"_reply": Reply(), "_replied_at": 190.0}, 0, "ok", 10.0, 10.0, None),
        ({"_reply": Reply(status="error"), "_passed_on_at": 150.0}, 0, "error", 60.0, 0.0, "bye"),
        ({}, 9, "killed", 10.0, None, "bye"),
        ({"_end_of_output": lambda _: ""}, 9, "killed", 10.0, None, None),
        ({"_so_far": Reply()}, 9, "killed", 10.0, 0.0, "bye"),
        ({"_so_far": MEASURED_SO_FAR}, 9, "ok", 10.0, 0.0, None),
        ({"_followers": [follower(1)], "_reply": Reply()}, 0, "ok", 10.0, 0.0, None),
        ({"_followers": [follower(1, fault=11)]}, 9, "crash", 10.0, None, "bye"),
        ({"_followers": [follower(1, fault=11)], "_reply": Reply()}, 0, "ok", 10.0, 0.0, None),
    ],
)
def test_an_outcome_has_the_processs_times_and_its_last_output_if_it_failed(
    monkeypatch: pytest.MonkeyPatch,
    of: dict[str, Any],
    wait_status: int,
    status: str,
    waited_s: float,
    exit_s: float | None,
    output: str | None,
) -> None:
    outcome = Ended(monkeypatch, wait_status, **of).it.bury()
    monkeypatch.undo()
    assert (outcome.status, outcome.last_output) == (status, output)
    assert (outcome.waited_s, outcome.exit_s) == (waited_s, exit_s)
    assert (outcome.process_s, outcome.gap_s) == (100.0, 1.5)
    if "_so_far" in of and status == "ok":
        assert outcome.reply.measured.checks_error.startswith("SIGKILL")


@pytest.mark.usefixtures("_closing")
def test_a_process_is_watched_until_it_and_its_ranks_have_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    process = Ended(monkeypatch, 0, _pidfd=3, _replies=4, pid=99).it
    assert process.watched == {3, 4}
    process._is_silent = True
    assert process.watched == {3}
    process._followers = [follower(1), follower(2, running=False)]
    assert process.watched == {3, 31, 41}
    assert process.pids == [99, 101, 102]
    ready = [({3, 4}, False), ({3}, True), ({4}, False), (set[int](), False)]
    assert [process.has_ended(files) for files, _ in ready] == [ended for _, ended in ready]


@pytest.mark.usefixtures("_closing")
@pytest.mark.parametrize(("reply", "timed_out"), [(None, True), (Reply(), False)])
def test_a_process_that_replied_and_does_not_end_is_no_timeout(
    monkeypatch: pytest.MonkeyPatch, reply: Reply | None, timed_out: bool
) -> None:
    killed: list[int] = []
    process = Ended(monkeypatch, 9, _reply=reply, _pidfd=5).it
    monkeypatch.setattr(signal, "pidfd_send_signal", lambda fd, _: killed.append(fd))
    process.give_up()
    assert (process._timed_out, process.deadline, killed) == (timed_out, math.inf, [5])


@pytest.mark.usefixtures("_closing")
def test_what_keeps_a_process_from_a_result_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def judged(wait_status: int, **of: Any) -> Any:
        found: Any = Ended(monkeypatch, wait_status, **of).it._judge(wait_status)
        return found

    words = "; its last output: bye"
    late = {"_timed_out": True, "_followers": [follower(1)], "_counts": [4, 3]}
    monkeypatch.setattr(forked, "behind", lambda _: [1])
    waits = "no result after 60 s: ended; the others wait for rank 1"
    assert judged(9, **late) == ("timeout", waits + words)
    monkeypatch.setattr(forked, "behind", lambda _: [])
    assert judged(9, **late) == ("timeout", "no result after 60 s: ended" + words)
    foreign = {"_foreign": b"x" * (FOREIGN_BYTES + 9), "_timed_out": True}
    status, message = judged(9, **foreign)
    assert status == "error" and message.endswith(f"found b'{'x' * FOREIGN_BYTES}'{words}")
    assert judged(40) == ("crash", f"signal 40 (Real-time signal 6){words}")
    ranks = {"_followers": [follower(1), follower(2)]}
    assert judged(11, **ranks) == ("crash", f"rank 0 of 3: SIGSEGV (Segmentation fault){words}")
    assert judged(0, **ranks, _fault=(2, 9)) == ("killed", f"rank 2 of 3: SIGKILL (Killed){words}")
    fault = (1, Reply(status="error", message="odd", ended_at=5.0))
    assert judged(0, **ranks, _fault=fault) == ("error", "rank 1 of 3: odd")
    later = Reply(status="error", message="own", ended_at=5.0)
    assert judged(0, **ranks, _fault=fault, _reply=later) == ("error", "rank 0 of 3: own")
    assert judged(0, **ranks, _fault=fault, _reply=Reply()) == ("ok", None)
