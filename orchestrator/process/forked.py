"""Forks a process for a job, reads the process's replies and enforces its deadline."""

import math
import os
import resource
import select
import signal
import sys
import tempfile
import traceback
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from types import FrameType
from typing import TypeVar

import torch
from pydantic import TypeAdapter, ValidationError

from cudnn_sweep.orchestrator.process import protocol
from cudnn_sweep.orchestrator.process.linux import die_with_parent
from cudnn_sweep.orchestrator.process.protocol import Outcome, Reply, Request, Status, TrialJob
from cudnn_sweep.workloads.cells.measurement import Measurement
from cudnn_sweep.workloads.errors import TRY, UserCodeError, WorkloadError
from cudnn_sweep.workloads.measuring.first_call import call_once
from cudnn_sweep.workloads.measuring.log_pass import run_log_pass
from cudnn_sweep.workloads.measuring.model_trace import trace_model
from cudnn_sweep.workloads.measuring.ranks import Ranks, behind, make_ranks
from cudnn_sweep.workloads.measuring.trial import run_trial
from cudnn_sweep.workloads.measuring.turns import Baton, Said, Turn
from cudnn_sweep.workloads.models.inputs import what_to_try
from cudnn_sweep.workloads.models.remedies import does_not_fit
from cudnn_sweep.workloads.regime import SpatialRegime
from cudnn_sweep.workloads.survey import survey_machine

EXIT_S = 30.0  # a process that does not end after its reply is killed after this time
DYING_S = 0.2  # time to wait for a rank's death if another rank has failed
LAST_WORDS = 800  # bytes of a dead process's output that its message quotes
LAST_OUTPUT = 4096  # bytes of a failed process's output that are stored
FOREIGN_BYTES = 80  # bytes that are printed of a line that is not a reply

Heard = TypeVar("Heard")

MOST_CHARACTERS = 2000  # length limit of an error message
NOT_THE_USERS = {"torch", "cudnn_sweep"}  # packages that are not the user's code
_replier = 0  # id of the only process that may write replies
CPU_ALLOCATOR_IS_OUT = "DefaultCPUAllocator"  # part of torch's error about host memory


class PipeBaton:
    def __init__(self, turns: int, reply_to: int) -> None:
        self._turns = os.fdopen(turns, "rb")
        self._reply_to = reply_to
        self.waited_s = 0.0

    def pass_on(self, said: Said) -> Turn:
        began = monotonic()
        _write(self._reply_to, protocol.PASSED + protocol.WHAT_WAS_SAID.dump_json(said) + b"\n")
        turn = protocol.TURN.validate_json(self._turns.readline())
        self.waited_s += monotonic() - began
        return turn


@dataclass(kw_only=True, slots=True)
class Follower:
    """Process of a rank above 0. It writes a Reply to the pipe `replies` if its job fails."""

    rank: int
    pid: int
    pidfd: int
    replies: int
    unread: bytes = b""
    wait_status: int | None = None  # None while the process runs

    def listen(self) -> None:
        if select.select([self.replies], (), (), 0)[0]:
            self.unread += os.read(self.replies, 2**16)
        if self.wait_status is None and select.select([self.pidfd], (), (), 0)[0]:
            self.wait_status = os.waitpid(self.pid, 0)[1]

    def fault(self) -> Reply | int | None:
        """Return the reply or the wait status of a process that failed, or None."""
        if self.wait_status:
            return self.wait_status
        line, end, _ = self.unread.partition(b"\n")
        if not end:
            return None
        try:
            return protocol.REPLY.validate_json(line)
        except ValidationError:
            return Reply(status="error", message="the user's code wrote to the pipe for replies")

    def end(self) -> None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
        if self.wait_status is None:
            os.waitpid(self.pid, 0)
        os.close(self.pidfd)
        os.close(self.replies)


def first_fault(followers: Iterable[Follower]) -> tuple[int, Reply | int] | None:
    """Return a rank that failed and its fault, if any. Prefer a rank whose process died."""
    faults = [
        (follower.rank, fault) for follower in followers if (fault := follower.fault()) is not None
    ]
    return min(faults, key=lambda found: isinstance(found[1], Reply), default=None)


class Forked:
    def __init__(self, request: Request, gap_s: float | None) -> None:
        """Fork a process that begins with the baton."""
        self._request = request
        self._gap_s = gap_s
        born = monotonic()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  # closed when the process has ended
        seats = _seats(request)
        self._counts = seats[0].counts if seats else None
        self._followers = [self._follower(seat, born) for seat in seats[1:]]
        self._fault: tuple[int, Reply | int] | None = None
        """First rank above 0 that failed, and its fault."""
        self._replies, reply_to = os.pipe()
        turns, self._pass_to = os.pipe()
        self._unread = b""
        self._so_far: Reply | None = None
        self._reply: Reply | None = None
        self._started_at, self._born = datetime.now(UTC), born
        self._left_s = request.timeout_s
        self.deadline = self._born + request.timeout_s
        """Value of `monotonic()` at which the process is killed."""
        self._waited_s = 0.0
        self._passed_on_at: float | None = None
        self._replied_at: float | None = None
        self._is_silent = False
        self._timed_out = False
        self._foreign: bytes | None = None
        self.pid = os.fork()
        if self.pid == 0:
            live(request, turns, reply_to, self._log.fileno(), born, seats[0] if seats else None)
        os.close(reply_to)
        os.close(turns)
        for seat in seats:
            seat.close()
        # The pipe does not show when the process ends, because a descendant may keep it open.
        self._pidfd = os.pidfd_open(self.pid)

    def _follower(self, seat: Ranks, born: float) -> Follower:
        replies, reply_to = os.pipe()
        pid = os.fork()
        if pid == 0:
            live(self._request, None, reply_to, self._log.fileno(), born, seat)
        os.close(reply_to)
        return Follower(rank=seat.rank, pid=pid, pidfd=os.pidfd_open(pid), replies=replies)

    @property
    def pids(self) -> list[int]:
        return [self.pid, *(follower.pid for follower in self._followers)]

    @property
    def watched(self) -> set[int]:
        own = {self._pidfd} if self._is_silent else {self._pidfd, self._replies}
        running = (follower for follower in self._followers if follower.wait_status is None)
        return own.union(*({follower.pidfd, follower.replies} for follower in running))

    def tell(self, turn: bytes) -> None:
        """Pass the baton to the process. `turn` is a Turn as JSON."""
        now = monotonic()
        if self._passed_on_at is not None:
            self._waited_s += now - self._passed_on_at
            self._passed_on_at = None
            self.deadline = now + self._left_s
        with suppress(BrokenPipeError):  # the process has died, and its outcome reports the cause
            os.write(self._pass_to, turn + b"\n")

    def listen(self, ready: set[int]) -> bytes | None:
        """Read what the process wrote. Return its report as JSON if it passed the baton back."""
        self._watch_followers()
        if self._replies not in ready:
            return None
        data, passed = os.read(self._replies, 2**16), None
        *lines, self._unread = (self._unread + data).split(b"\n")
        self._is_silent = not data
        for line in lines:
            if line.startswith(protocol.PASSED):
                passed = self._pass_on(line.removeprefix(protocol.PASSED))
            elif line.startswith(protocol.SO_FAR):
                self._so_far = self._understood(protocol.REPLY, line.removeprefix(protocol.SO_FAR))
            else:
                self._reply = self._understood(protocol.REPLY, line)
                self._is_silent = True
        if self._is_silent:
            self._replied_at = monotonic()
            self.deadline = min(self.deadline, self._replied_at + EXIT_S)
        return passed

    def _watch_followers(self) -> None:
        """Store the fault and kill rank 0 if another rank failed before rank 0 did."""
        for follower in self._followers:
            follower.listen()
        if self._fault or (fault := first_fault(self._followers)) is None:
            return
        if not self._rank_0_died(DYING_S if isinstance(fault[1], Reply) else 0.0):
            self._fault = fault
            self.kill()

    def _rank_0_died(self, patience_s: float) -> bool:
        """Return whether rank 0 fails within `patience_s` seconds."""
        if not select.select([self._pidfd], (), (), patience_s)[0]:
            return False
        end = os.waitid(os.P_PIDFD, self._pidfd, os.WEXITED | os.WNOWAIT)
        return end is not None and end.si_status != 0

    def _pass_on(self, said: bytes) -> bytes | None:
        if self._understood(protocol.WHAT_WAS_SAID, said) is None:
            return None
        self._passed_on_at = monotonic()
        self._left_s = self.deadline - self._passed_on_at
        self.deadline = math.inf
        return said

    def has_ended(self, ready: set[int]) -> bool:
        """Return whether the process has ended and all its replies are read."""
        return self._pidfd in ready and self._replies not in ready

    def give_up(self) -> None:
        self._timed_out = self._reply is None
        self.deadline = math.inf
        self.kill()

    def kill(self) -> None:
        signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def bury(self) -> Outcome:
        exit_began = self._replied_at or monotonic()
        wait_status = os.waitpid(self.pid, 0)[1]
        now = monotonic()
        if self._passed_on_at is not None:
            self._waited_s += now - self._passed_on_at
        reply = self._reply
        if self._followers and reply is not None and reply.status != "ok":
            select.select([follower.pidfd for follower in self._followers], (), (), DYING_S)
        for follower in self._followers:
            follower.listen()
        died = first_fault(self._followers)
        if died and isinstance(died[1], int):
            self._fault = died  # rank 0 may have failed only because this rank died
        status, message = self._judge(wait_status)
        for follower in self._followers:
            follower.end()
        if reply is None and (reply := self._so_far) and reply.measured:
            reply.measured.checks_error, status, message = message, "ok", None
        last_output = None if status == "ok" else self._end_of_output(LAST_OUTPUT) or None
        for descriptor in (self._pidfd, self._replies, self._pass_to):
            os.close(descriptor)
        self._log.close()
        return Outcome(
            status=status,
            message=message,
            last_output=last_output,
            reply=reply,
            pid=self.pid,
            started_at=self._started_at,
            ended_at=datetime.now(UTC),
            process_s=now - self._born,
            waited_s=self._waited_s,
            exit_s=now - exit_began if reply else None,
            gap_s=self._gap_s,
        )

    def _understood(self, kind: TypeAdapter[Heard], line: bytes) -> Heard | None:
        """Parse a line. If it is invalid, return None, and let the process be killed."""
        try:
            return kind.validate_json(line)
        except ValidationError:
            self._foreign = self._foreign or line
            self.deadline = monotonic()
            return None

    def _judge(self, wait_status: int) -> tuple[Status, str | None]:
        reply, rank = self._reply, 0
        if self._fault is not None and (reply is None or reply.status != "ok"):
            failed, fault = self._fault
            if not isinstance(fault, Reply):
                rank, reply, wait_status = failed, None, fault
            elif reply is None or fault.ended_at < reply.ended_at:
                rank, reply, wait_status = failed, fault, 0
        status, message = self._judge_rank(reply, wait_status)
        if self._followers and message is not None and not self._timed_out:
            message = f"rank {rank} of {len(self._followers) + 1}: {message}"
        return status, message

    def _judge_rank(self, reply: Reply | None, wait_status: int) -> tuple[Status, str | None]:
        if reply is not None:
            return reply.status, reply.message
        last = self._end_of_output(LAST_WORDS)
        words = f"; its last output: {last}" if last else ""
        if self._foreign is not None:
            wrote = "the user's code wrote to the pipe of the process's replies"
            return "error", f"{wrote}: found {self._foreign[:FOREIGN_BYTES]!r}{words}"
        if self._timed_out:
            late = behind(self._counts) if self._counts else []
            missing = f"; the others wait for rank {' and '.join(map(str, late))}" if late else ""
            limit_s = self._request.timeout_s
            return "timeout", f"no result after {limit_s:g} s: ended{missing}{words}"
        if os.WIFSIGNALED(wait_status):
            number = os.WTERMSIG(wait_status)
            status: Status = "killed" if number == signal.SIGKILL else "crash"
            names = {each.value: each.name for each in signal.Signals}  # lacks real-time signals
            name = names.get(number, f"signal {number}")
            return status, f"{name} ({signal.strsignal(number)}){words}"
        code = os.WEXITSTATUS(wait_status)
        return "crash", f"ended without a result, exit code {code}{words}"

    def _end_of_output(self, most_bytes: int) -> str:
        log = self._log.fileno()
        size = os.fstat(log).st_size
        return os.pread(log, most_bytes, max(0, size - most_bytes)).decode(errors="replace").strip()


def live(
    request: Request, turns: int | None, reply_to: int, log: int, born: float, seat: Ranks | None
) -> None:
    """Run the job, write the reply and end this process.

    `turns` is the pipe that brings the baton, or None for a rank above 0. `born` is the value of
    `monotonic()` when the process was forked.
    """
    global _replier
    _replier = os.getpid()
    try:
        _limit(request, log)
        links = [link.fileno() for link in seat.links] if seat else []
        _close_other_pipes(reply_to, *links, *([] if turns is None else [turns]))
        before = set(sys.modules)
        reply = _work(request, turns, reply_to, born, seat)
        reply.imported = sorted(set(sys.modules) - before)
        if turns is not None or reply.status != "ok":
            _write(reply_to, protocol.REPLY.dump_json(reply) + b"\n")
    except BaseException:  # noqa: BLE001  # a bug in cudnn-sweep
        traceback.print_exc()  # the record contains this output
        os._exit(1)
    os._exit(0)


def _limit(request: Request, log: int) -> None:
    die_with_parent()
    os.setpgid(0, 0)  # only the launch handles a Ctrl-C at the terminal
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # a trial must not read the server's requests
    Path("/proc/self/oom_score_adj").write_text("1000")  # if memory runs out, it is killed first
    os.dup2(log, 1)
    os.dup2(log, 2)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if request.host_memory_limit_mib is not None:
        limit = request.host_memory_limit_mib * 2**20
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def _close_other_pipes(*ours: int) -> None:
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        with suppress(OSError):  # the descriptor of the listing is closed by now
            target = os.readlink(f"/proc/self/fd/{descriptor}")
            if target.startswith(("pipe:", "socket:")) and descriptor not in ours:
                os.close(descriptor)


def _seats(request: Request) -> list[Ranks]:
    job = request.job
    count = job.trial.cell.rank_count if isinstance(job, TrialJob) else 1
    return make_ranks(count) if count > 1 else []


def _work(
    request: Request, turns: int | None, reply_to: int, born: float, seat: Ranks | None
) -> Reply:
    job = request.job
    reply = Reply()
    try:
        if isinstance(job, TrialJob):
            reply.measured = Measurement(phases_s={"start": monotonic() - born})
            _run_trial(job, reply, reply.measured, turns, reply_to, seat)
        elif isinstance(job, protocol.LogJob):
            reply.log_pass = run_log_pass(job.trial, job.shapes)
        elif isinstance(job, protocol.CallJob):
            reply.step_ms = call_once(job.trial)
        elif isinstance(job, protocol.TraceJob):
            reply.trace = trace_model(job.trace)
        else:
            reply.survey = survey_machine(job.workloads, needs_cuda=job.needs_cuda)
    except (Exception, SystemExit) as error:  # noqa: BLE001  # whatever a user's code raises
        with suppress(BaseException):  # user code may have closed or replaced the stream
            sys.stdout.flush()
        with suppress(OSError):
            os.write(2, traceback.format_exc().encode(errors="backslashreplace"))
        reply.status = "out_of_memory" if _lacks_memory(error) else "error"
        is_ours = isinstance(error, WorkloadError)
        reply.message = _storable(str(error)) if is_ours else _describe(error)
        if reply.status == "error" and TRY not in reply.message:  # the message has no hint yet
            reply.message += _hint(job, error)
        reply.is_mistake = is_ours and not isinstance(error, UserCodeError)
    reply.ended_at = monotonic()
    return reply


def _run_trial(
    job: TrialJob,
    reply: Reply,
    measured: Measurement,
    turns: int | None,
    reply_to: int,
    seat: Ranks | None,
) -> None:
    def report() -> None:
        if turns is not None:
            _write(reply_to, protocol.SO_FAR + protocol.REPLY.dump_json(reply) + b"\n")

    baton: Baton | None = None
    if job.takes_turns and turns is not None:
        baton = PipeBaton(turns, reply_to)
    if seat is not None:
        seat.see_own_gpu()
        baton = seat.taking_turns(baton) if job.takes_turns else None
    run_trial(job.trial, measured, report, baton, seat)


def _lacks_memory(error: BaseException) -> bool:
    is_host = isinstance(error, RuntimeError) and CPU_ALLOCATOR_IS_OUT in _text(error)
    return is_host or isinstance(error, MemoryError | torch.OutOfMemoryError)


def _describe(error: BaseException) -> str:
    """Return the error's text and the line of the user's code in which it was raised."""
    text = _storable(f"{type(error).__name__}: {_text(error)}".strip())
    frames = list(traceback.walk_tb(error.__traceback__))
    theirs = [each for each in frames if _package(each[0]) not in NOT_THE_USERS]
    frame, line = (theirs or frames)[-1]
    file = os.path.basename(frame.f_code.co_filename)
    return f"{text} ({file}:{line} in {frame.f_code.co_name})"


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as failure:  # noqa: BLE001  # a user's own __str__
        return f"its __str__ raised {type(failure).__name__}"


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _hint(job: object, error: BaseException) -> str:
    if isinstance(job, protocol.TraceJob):
        return what_to_try(error, job.trace.input)
    if not isinstance(job, TrialJob | protocol.CallJob):
        return ""
    cell = job.trial.cell
    try:
        rule = cell.shapes()
        is_of_rule = isinstance(rule, SpatialRegime) and rule.multiple <= 1
        if is_of_rule and does_not_fit(error, cell.input_shape):
            return (
                f"{TRY}`multiple: 32`: some sizes of regime {rule.name} seem not to fit the network"
            )
    except Exception:  # noqa: BLE001  # the user's regime raised `error`
        return ""
    return what_to_try(error, cell.input_shape)


def _storable(text: str) -> str:
    """Shorten a text to MOST_CHARACTERS, and escape characters that JSON cannot store."""
    whole = text.encode(errors="backslashreplace").decode()
    cut = len(whole) - MOST_CHARACTERS
    return whole if cut <= 0 else f"{whole[:MOST_CHARACTERS]}... ({cut:,} characters more)"


def _write(pipe: int, data: bytes) -> None:
    if os.getpid() != _replier:
        os._exit(0)  # the user's code has forked this process
    while data:
        data = data[os.write(pipe, data) :]
