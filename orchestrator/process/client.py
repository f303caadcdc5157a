"""Starts a fork server, and sends jobs to it."""

import os
import secrets
import select
import signal
import socket
import subprocess
import sys
from collections import defaultdict, deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

from pydantic import ValidationError

from cudnn_sweep.analysis.words import milliseconds
from cudnn_sweep.orchestrator.errors import ModelError, PythonError, ServerError, SpecError
from cudnn_sweep.orchestrator.process import protocol
from cudnn_sweep.orchestrator.process.linux import is_of_this_user
from cudnn_sweep.orchestrator.process.protocol import Outcome, Request
from cudnn_sweep.workloads.cells.measurement import TrialRequest
from cudnn_sweep.workloads.hardware.environment import our_version
from cudnn_sweep.workloads.measuring.tracing import Trace, TraceRequest
from cudnn_sweep.workloads.measuring.turns import Said, Turn
from cudnn_sweep.workloads.problem import sizes_text
from cudnn_sweep.workloads.survey import Survey

# Keeps numerical libraries from starting threads on import, because the server must have only one.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

# Variables that are removed if the server runs the Python of another environment.
OURS_ALONE = ("PYTHONPATH", "PYTHONHOME", "SWEEP_VERSION", "SWEEP_COMMIT")
TRACE_TIMEOUT_S = 600.0  # the first pass of a large model can take minutes
CALL_TIMEOUT_S = 20.0
GREETING_S = 180.0  # enough to import torch from a slow disk
ENDING_S = 1.0
OF_RAY = 15  # niceness of Ray's worker processes
SURVEY_TIMEOUT_S = 120.0  # a first CUDA context on a machine with many GPUs takes tens of seconds


class ForkServer(AbstractContextManager["ForkServer"]):
    """A server that runs each job in a new process, and ends with the process that started it."""

    def __init__(
        self,
        *,
        python: Path | None = None,
        folder: Path | None = None,
        survey_only: bool = False,
        preload: Sequence[str] = (),
        gpu_uuids: Sequence[str] = (),
        variables: Mapping[str, str] | None = None,
        early: "Early | None" = None,
    ) -> None:
        """Start a server. Raises ServerError if it fails, or PythonError if `python` is given.

        `python` is the interpreter of another environment that has torch and cudnn-sweep.
        `survey_only` skips slow imports that only measurements need. `preload` lists modules that
        the server imports once for all jobs. `gpu_uuids` lists the GPUs that jobs may use, by
        default those of this process. `early` is a running server, used if it is still available.
        """
        self._name = f"the fork server of {python}" if python else "the fork server"
        kind = PythonError if python else ServerError
        options = [*(["--survey-only"] if survey_only else []), *preload]
        if early and (taken := _Taken.of(early)) and not self._fault_of(taken):
            return
        try:
            process = _begin(python, options, folder, gpu_uuids, variables or {})
        except OSError as error:
            raise kind(f"{self._name} cannot be started: {error.strerror}") from error
        if fault := self._fault_of(process):
            raise kind(f"{self._name} {fault}")

    def _fault_of(self, process: "subprocess.Popen[bytes] | _Taken") -> str | None:
        """Wait for the greeting of a server. Return an error message if the server fails."""
        assert process.stdin is not None and process.stdout is not None
        self._process, self._requests, self._replies = process, process.stdin, process.stdout
        self._unread = b""
        self._end = FileIO(os.pidfd_open(process.pid))  # readable once the server has ended
        self._count = 0
        self._heard: defaultdict[int, deque[Said | Outcome]] = defaultdict(deque)
        if fault := self._startup_fault():
            process.kill()
            self.close()
        return fault

    def _startup_fault(self) -> str | None:
        line = self._read(within_s=GREETING_S, most=2**16)
        if not line:
            try:
                code = self._process.wait(ENDING_S)  # its output may close before it ends
            except subprocess.TimeoutExpired:
                return f"sent no greeting within {GREETING_S:g} s"
            return f"ended before its greeting, exit code {code}; its error is above"
        try:
            greeting = protocol.GREETING.validate_json(line)
        except ValidationError:
            return (
                f"sent {line[:80]!r} instead of a greeting; install a version of "
                f"cudnn-sweep closer to {our_version()} in its environment"
            )
        if greeting.protocol != protocol.VERSION:
            return (
                f"speaks protocol {greeting.protocol} (cudnn-sweep {greeting.version}) instead "
                f"of {protocol.VERSION}; install a version closer to {our_version()} in its "
                "environment"
            )
        return None

    @property
    def pid(self) -> int:
        return self._process.pid

    def pin(self, cpus: Collection[int]) -> None:
        """Pin the server and the processes of later jobs to `cpus`."""
        os.sched_setaffinity(self.pid, cpus)

    def begin(self, request: Request) -> int:
        """Start a job in a new process. Return the number that identifies the process."""
        self._count += 1
        self._send(protocol.BEGIN, self._count, protocol.REQUEST.dump_json(request))
        return self._count

    def pass_on(self, number: int, turn: Turn) -> None:
        self._send(protocol.PASS, number, protocol.TURN.dump_json(turn))

    def end(self, number: int) -> None:
        self._send(protocol.END, number)
        while isinstance(self.hear(number), Said):
            pass

    def run(self, request: Request) -> Outcome:
        """Run a job and return its outcome. Raises ServerError if the server dies."""
        outcome = self.hear(self.begin(request))
        assert isinstance(outcome, Outcome), outcome
        return outcome

    def _send(self, word: bytes, number: int, rest: bytes = b"") -> None:
        with suppress(ConnectionError):  # the next read fails, too, and reports the cause
            self._requests.write(protocol.line_of(word, number, rest))
            self._requests.flush()

    def hear(self, number: int) -> Said | Outcome:
        """Return a process's next message. An Outcome is the last. Raises ServerError."""
        while not self._heard[number]:
            answer = self._read()
            if not answer.endswith(b"\n"):
                raise ServerError(f"{self._name} died, exit code {self._process.wait()}")
            word, sender, rest = protocol.parts_of(answer)
            if word == protocol.REFUSED:
                raise ServerError(f"{self._name} cannot do what is requested: {rest.decode()}")
            kind = protocol.WHAT_WAS_SAID if word == protocol.SAID else protocol.OUTCOME
            try:
                message = kind.validate_json(rest)
            except ValidationError as error:
                sent = f"{self._name} sent a message that this process cannot read"
                raise ServerError(f"{sent}: {error}") from error
            self._heard[sender].append(message)
        message = self._heard[number].popleft()
        if isinstance(message, Outcome):
            del self._heard[number]
        return message

    def close(self) -> None:
        for stream in (self._requests, self._replies, self._end):
            with suppress(ConnectionError):
                stream.close()
        self._process.wait()

    def _read(self, within_s: float | None = None, most: int = sys.maxsize) -> bytes:
        """Read a line. It is incomplete if the server ends, sends `most` or pauses `within_s`."""
        replies = self._replies.fileno()
        while b"\n" not in self._unread and len(self._unread) < most:
            ready, _, _ = select.select([replies, self._end.fileno()], [], [], within_s)
            data = b""
            with suppress(ConnectionError):  # the peer died with unread data
                data = os.read(replies, 2**16) if replies in ready else b""
            if not data:
                break
            self._unread += data
        line, end, self._unread = self._unread.partition(b"\n")
        return line + end

    def __exit__(self, *raised: object) -> None:
        self.close()


@dataclass(frozen=True, kw_only=True, slots=True)
class Early:
    """Address of a fork server that has no client yet."""

    pid: int
    socket: str


@contextmanager
def early_server(
    folder: Path, preload: Sequence[str], gpu_uuids: Sequence[str], variables: Mapping[str, str]
) -> Iterator[Early]:
    """Start a fork server before its client exists. Yield the server's address.

    The server ends with its only client or the `with` block. Raises OSError if it cannot start.
    """
    name = f"\0sweep-{secrets.token_hex(16)}"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(name)
        listener.listen(1)
        options = [f"{protocol.LISTEN}{listener.fileno()}", *preload]
        process = _begin(None, options, folder, gpu_uuids, variables, [listener.fileno()])
    with process:
        try:
            nice = max(OF_RAY, os.getpriority(os.PRIO_PROCESS, 0))
            os.setpriority(os.PRIO_PROCESS, process.pid, nice)
            yield Early(pid=process.pid, socket=name)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(ENDING_S)
            except subprocess.TimeoutExpired:  # the server is still importing
                process.kill()


class _Taken:
    """Process of an early server, with the parts of Popen that ForkServer uses."""

    def __init__(self, pid: int, connection: socket.socket) -> None:
        self.pid = pid
        self.stdin, self.stdout = connection.makefile("wb"), connection.makefile("rb", buffering=0)
        connection.close()  # the socket closes after both files

    @classmethod
    def of(cls, early: Early) -> "_Taken | None":
        """Connect to an early server. Return None if the server is not available."""
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.settimeout(ENDING_S)
            connection.connect(early.socket)
            connection.settimeout(None)
            os.setpriority(os.PRIO_PROCESS, early.pid, os.getpriority(os.PRIO_PROCESS, 0))
            if is_of_this_user(connection):
                return cls(early.pid, connection)
        except OSError:
            pass
        connection.close()
        return None

    def wait(self, timeout: float | None = None) -> str:
        with suppress(ProcessLookupError), FileIO(os.pidfd_open(self.pid)) as end:
            if not select.select([end], (), (), timeout)[0]:
                raise subprocess.TimeoutExpired("the fork server", timeout or 0.0)
        return "unknown"

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)


def _begin(
    python: Path | None,
    options: Sequence[str],
    folder: Path | None,
    gpu_uuids: Sequence[str],
    variables: Mapping[str, str],
    descriptors: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    program = str(python.expanduser() if python else sys.executable)
    without = OURS_ALONE if python else ()
    ours = {name: value for name, value in os.environ.items() if name not in without}
    visible = {"CUDA_VISIBLE_DEVICES": ",".join(gpu_uuids)} if gpu_uuids else {}
    # Only the process that starts the server handles Ctrl-C
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return subprocess.Popen(
            # -P: Python must not import a random.py from the user's folder
            [program, "-P", "-m", "cudnn_sweep.orchestrator.process.server", *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**ours, **ONE_THREAD, **visible, **variables},
            cwd=folder,
            pass_fds=descriptors,
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def survey(server: ForkServer, workloads: list[str], *, needs_cuda: bool = False) -> Survey:
    """Run a SurveyJob. Raises ServerError, or ModelError if the user's code may be the cause."""
    job = protocol.SurveyJob(workloads=workloads, needs_cuda=needs_cuda)
    try:
        outcome = server.run(Request(job=job, timeout_s=SURVEY_TIMEOUT_S))
        if outcome.reply is not None and outcome.reply.survey is not None:
            return outcome.reply.survey
        raise ServerError(outcome.message or outcome.status)
    except ServerError as error:
        if own := own_code(workloads):  # user code may have killed the server
            raise ModelError(f"importing {own}: {error}") from error
        raise


def trace(server: ForkServer, request: TraceRequest) -> Trace:
    """Trace a model. Raises ModelError if it fails, or SpecError if the request is wrong."""
    outcome = server.run(Request(job=protocol.TraceJob(trace=request), timeout_s=TRACE_TIMEOUT_S))
    if outcome.reply is None or outcome.reply.trace is None:
        raise _fault_of(outcome)(outcome.message or outcome.status)
    return outcome.reply.trace


def _fault_of(outcome: Outcome) -> type[SpecError]:
    is_mistake = outcome.reply is not None and outcome.reply.is_mistake
    return SpecError if is_mistake else ModelError


def call_models(server: ForkServer, trials: Sequence[TrialRequest]) -> Iterator[tuple[str, bool]]:
    """Call each model. Yield messages, and whether each is a warning. Raises `trace`'s errors."""
    for trial in trials:
        outcome = server.run(Request(job=protocol.CallJob(trial=trial), timeout_s=CALL_TIMEOUT_S))
        at = f"{trial.cell.workload} at input {sizes_text(trial.cell.input_shape)}"
        if outcome.status in ("timeout", "out_of_memory"):
            yield f"{at} could not be called before measuring: {outcome.message}", True
        elif outcome.status != "ok":
            raise _fault_of(outcome)(f"{at}: {outcome.message}")
        elif outcome.reply and outcome.reply.step_ms:
            yield (
                f"{at} runs. A first rough timing: {milliseconds(outcome.reply.step_ms)} per step.",
                False,
            )


def survey_of(python: Path, workloads: list[str]) -> Survey:
    with ForkServer(python=python, survey_only=True) as server:
        return survey(server, workloads)


def own_code(workloads: list[str]) -> str:
    """Return the names of the workloads that are defined in the user's files or packages."""
    return ", ".join(name for name in workloads if ":" in name)
