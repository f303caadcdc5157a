"""The fork server: imports what trials need, once, and forks a fresh process for each request.

It has one thread and never touches CUDA; both are asserted, since a fork of anything else may hang or
crash. Requests come by standard input, outcomes go to standard output; it ends when its input does.
"""

import gc
import os
import select
import signal
import sys
import tempfile
from contextlib import suppress
from datetime import UTC, datetime
from importlib import import_module
from time import monotonic

from pydantic import ValidationError

from cudnn_sweep.orchestrator.process.linux import adopt_orphans, end_children, threads
from cudnn_sweep.orchestrator.process.protocol import (
    GREETING,
    OUTCOME,
    PROTOCOL,
    READY,
    REFUSED,
    REPLY,
    REQUEST,
    SO_FAR,
    Greeting,
    Outcome,
    Reply,
    Request,
    Status,
)
from cudnn_sweep.workloads.environment import our_version

IMPORTED_BY_TORCH_LATE = (
    "torch.fx.experimental.symbolic_shapes",  # by the first backward pass, 1.3 s
    "torch._dynamo",  # by the first optimiser, 1.1 s
    "torch.profiler._cupti_monitor",  # by an optimiser's first step
)
REQUESTS = 0  # standard input
EXIT_S = 30.0  # a process that has replied and does not end is killed after this
LAST_WORDS = 800  # characters of a dead process's output that go into its message


def main() -> None:
    replies = os.dup(1)
    os.dup2(2, 1)  # whatever prints while importing must not break the protocol
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    adopt_orphans()
    options = sys.argv[1:]
    _import_all(late="--survey-only" not in options)
    sys.path.append(os.getcwd())  # a user's `package.module:name`
    for option in options:
        if not option.startswith("-"):
            _preload(option)
    gc.freeze()  # children then do not copy pages by collecting what is here
    greeting = Greeting(protocol=PROTOCOL, version=our_version())
    _answer(replies, READY + GREETING.dump_json(greeting))
    last_gone: float | None = None
    with tempfile.TemporaryFile() as log:
        for line in sys.stdin.buffer:
            try:
                request = REQUEST.validate_json(line)
            except ValidationError as error:
                _answer(replies, REFUSED + _refusal(error).encode())
                continue
            outcome = _run(request, log.fileno(), last_gone)
            last_gone = monotonic()
            _answer(replies, OUTCOME.dump_json(outcome))


def _refusal(error: ValidationError) -> str:
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"


def _import_all(*, late: bool) -> None:
    """What a child would import itself, in time that it would measure or lose."""

    from cudnn_sweep.workloads.regime import regime_types
    from cudnn_sweep.workloads.state import state_types
    from cudnn_sweep.workloads.workload import bundled_workloads

    for module in IMPORTED_BY_TORCH_LATE if late else ():
        with suppress(ModuleNotFoundError):  # not every release of torch has it
            import_module(module)
    import_module("cudnn_sweep.orchestrator.process.child")
    import_module("cudnn_sweep.workloads.gpu")
    bundled_workloads()
    regime_types()
    state_types()
    _check_fork("torch and our own modules")


def _preload(module: str) -> None:
    try:
        import_module(module)
    except Exception as error:  # noqa: BLE001  # whatever a package raises
        sys.exit(f"sweep: preload: {module}: {type(error).__name__}: {error}")
    _check_fork(f"preload: {module}")


def _check_fork(imported: str) -> None:
    """A fork has the one thread that forked, and cannot use CUDA if its parent did."""
    import torch

    if threads() != 1:
        sys.exit(
            f"sweep: {imported}: has {threads()} threads after importing; a fork copies only one"
        )
    if torch.cuda.is_initialized():
        sys.exit(f"sweep: {imported}: has touched CUDA while importing")


def _run(request: Request, log: int, last_gone: float | None) -> Outcome:
    from cudnn_sweep.orchestrator.process.child import live

    os.ftruncate(log, 0)
    os.lseek(log, 0, os.SEEK_SET)
    read_end, write_end = os.pipe()
    started_at, born = datetime.now(UTC), monotonic()
    pid = os.fork()
    if pid == 0:
        live(request, write_end, log, born)
    os.close(write_end)
    said, timed_out, exit_began = _listen(pid, read_end, born + request.timeout_s)
    wait_status = os.waitpid(pid, 0)[1]
    end_children()
    reply = _last_reply(said)
    status, message = _judge(request, reply, timed_out, wait_status, log)
    if reply is None and (reply := _reply_so_far(said)) and reply.measured:
        reply.measured.checks_error, status, message = message, "ok", None
    return Outcome(
        status=status,
        message=message,
        reply=reply,
        pid=pid,
        started_at=started_at,
        ended_at=datetime.now(UTC),
        process_s=monotonic() - born,
        exit_s=monotonic() - exit_began if reply else None,
        gap_s=None if last_gone is None else born - last_gone,
    )


def _listen(pid: int, read_end: int, deadline: float) -> tuple[bytes, bool, float]:
    """Wait until the child has replied and ended, and return what it said; kill it at its deadline.

    Its end is watched through a pidfd: a descendant may hold its side of the pipe open for ever.
    """
    said = b""
    pidfd = os.pidfd_open(pid)
    replied: float | None = None
    waiting = {read_end, pidfd, REQUESTS}
    while True:
        ready = select.select(waiting, (), (), max(0.0, deadline - monotonic()))[0]
        if REQUESTS in ready:  # nothing is sent while a job runs: the slot has gone
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            end_children()
            os._exit(0)
        if read_end in ready:
            data = os.read(read_end, 2**16)
            said += data
            if not data or _last_line(said):
                waiting.discard(read_end)
                replied = monotonic()
                deadline = min(deadline, replied + EXIT_S)
        if pidfd in ready and read_end not in ready:
            break
        if not ready:
            os.kill(pid, signal.SIGKILL)
            break
    os.close(pidfd)
    os.close(read_end)
    return said, not ready and not _last_line(said), replied or monotonic()


def _last_line(said: bytes) -> bytes | None:
    """The reply after which no other follows."""
    line = said.removesuffix(b"\n").rpartition(b"\n")[2]
    return line if said.endswith(b"\n") and not line.startswith(SO_FAR) else None


def _last_reply(said: bytes) -> Reply | None:
    line = _last_line(said)
    return REPLY.validate_json(line) if line else None


def _reply_so_far(said: bytes) -> Reply | None:
    line, end, _ = said.partition(b"\n")
    return REPLY.validate_json(line.removeprefix(SO_FAR)) if end else None


def _judge(
    request: Request, reply: Reply | None, timed_out: bool, wait_status: int, log: int
) -> tuple[Status, str | None]:
    if reply is not None:
        return reply.status, reply.message
    words = _last_words(log)
    if timed_out:
        return "timeout", f"no result after {request.timeout_s:g} s: ended{words}"
    if os.WIFSIGNALED(wait_status):
        number = os.WTERMSIG(wait_status)
        status: Status = "killed" if number == signal.SIGKILL else "crash"
        return status, _signal_name(number) + words
    return "crash", f"ended without a result, exit code {os.WEXITSTATUS(wait_status)}{words}"


def _signal_name(number: int) -> str:
    """Python has names for the first and the last real-time signal alone."""
    known = {each.value: each.name for each in signal.Signals}
    return f"{known.get(number, f'signal {number}')} ({signal.strsignal(number)})"


def _last_words(log: int) -> str:
    size = os.fstat(log).st_size
    text = os.pread(log, LAST_WORDS, max(0, size - LAST_WORDS)).decode(errors="replace").strip()
    return f"; its last output: {text}" if text else ""


def _answer(replies: int, line: bytes) -> None:
    data = line + b"\n"
    while data:
        data = data[os.write(replies, data) :]


if __name__ == "__main__":
    main()
