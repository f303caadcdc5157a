"""The fork server. It imports modules once, and forks a new process for each request."""

import gc
import math
import os
import select
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from time import monotonic

import torch
from pydantic import ValidationError

from cudnn_sweep.orchestrator.process import protocol
from cudnn_sweep.orchestrator.process.forked import Forked
from cudnn_sweep.orchestrator.process.linux import adopt_orphans, end_children, is_of_this_user
from cudnn_sweep.workloads.find_regime import regime_types
from cudnn_sweep.workloads.find_state import state_types
from cudnn_sweep.workloads.find_workload import bundled_workloads
from cudnn_sweep.workloads.hardware.environment import our_version

IMPORTED_BY_TORCH_LATE = (
    "torch.fx.experimental.symbolic_shapes",  # imported by the first backward pass in 1.3 s
    "torch._dynamo",  # imported by the first optimiser in 1.1 s
    "torch.profiler._cupti_monitor",  # imported by an optimiser's first step
)
REQUESTS = 0  # standard input


def main() -> None:
    replies = os.dup(1)
    os.dup2(2, 1)  # a module that prints on import must not break the protocol
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # the parent has blocked it
    adopt_orphans()
    gc.disable()  # garbage collection would take a fifth of the import time
    options = sys.argv[1:]
    if folders := os.environ.get(protocol.MODULES):  # they follow Python's own modules
        theirs = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        own = [entry for entry in sys.path if entry not in theirs]
        at = next((at for at, path in enumerate(own) if path.endswith("-packages")), len(own))
        sys.path[:] = [*own[:at], *folders.split(os.pathsep), *filter(None, theirs), *own[at:]]
    _import_all(late="--survey-only" not in options)
    sys.path.append(os.getcwd())  # the user's own modules
    _preload([option for option in options if not option.startswith("-")])
    for option in options:
        if option.startswith(protocol.LISTEN):
            descriptor = int(option.removeprefix(protocol.LISTEN))
            replies = _client_of(socket.socket(fileno=descriptor))
    gc.freeze()  # garbage collection in a child must not copy the server's memory
    gc.enable()
    with suppress(ConnectionError):  # the slot ended during the imports
        greeting = protocol.Greeting(protocol=protocol.VERSION, version=our_version())
        _write(replies, protocol.GREETING.dump_json(greeting) + b"\n")
        Server(replies).serve()


def _client_of(listener: socket.socket) -> int:
    """Wait for a client, and make its connection standard input. Return the descriptor."""
    while True:
        if REQUESTS in select.select([listener.fileno(), REQUESTS], (), ())[0]:
            sys.exit()
        connection, _ = listener.accept()
        if is_of_this_user(connection):
            os.dup2(connection.fileno(), REQUESTS)
            listener.close()
            return connection.detach()
        connection.close()


class Server:
    def __init__(self, replies: int) -> None:
        self._answers = replies
        self._requests = b""
        self._live: dict[int, Forked] = {}
        self._last_gone: float | None = None

    def serve(self) -> None:
        """Handle requests until the slot closes its pipe. Then kill all processes."""
        with suppress(ConnectionError):
            while self._read_requests(ready := self._wait()):
                for number, process in list(self._live.items()):
                    if passed := process.listen(ready):
                        self._answer(protocol.SAID, number, passed)
                    elif process.has_ended(ready):
                        self._end(number)
                    elif process.deadline <= monotonic():
                        process.give_up()
        end_children()

    def _wait(self) -> set[int]:
        watched = {REQUESTS}.union(*(process.watched for process in self._live.values()))
        deadline = min((process.deadline for process in self._live.values()), default=math.inf)
        limit_s = None if deadline == math.inf else max(0.0, deadline - monotonic())
        return set(select.select(watched, (), (), limit_s)[0])

    def _read_requests(self, ready: set[int]) -> bool:
        """Handle the requests that have arrived. Return False if the slot has closed its pipe."""
        if REQUESTS not in ready:
            return True
        data = os.read(REQUESTS, 2**16)
        *lines, self._requests = (self._requests + data).split(b"\n")
        for line in lines:
            self._do(*protocol.parts_of(line))
        return bool(data)

    def _do(self, word: bytes, number: int, rest: bytes) -> None:
        if word == protocol.BEGIN:
            self._begin(number, rest)
        elif number not in self._live:
            pass  # the process has ended, and the slot has its outcome
        elif word == protocol.PASS:
            self._live[number].tell(rest)
        else:
            assert word == protocol.END, word
            self._live[number].kill()
            self._end(number)

    def _begin(self, number: int, rest: bytes) -> None:
        try:
            request = protocol.REQUEST.validate_json(rest)
        except ValidationError as error:
            first = error.errors()[0]
            refusal = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
            self._answer(protocol.REFUSED, number, refusal.encode())
            return
        gone = None if self._live else self._last_gone
        self._live[number] = Forked(request, None if gone is None else monotonic() - gone)

    def _end(self, number: int) -> None:
        outcome = self._live.pop(number).bury()
        # This also ends orphans of other live processes.
        end_children(but=[pid for process in self._live.values() for pid in process.pids])
        self._last_gone = monotonic()
        self._answer(protocol.ENDED, number, protocol.OUTCOME.dump_json(outcome))

    def _answer(self, word: bytes, number: int, rest: bytes) -> None:
        _write(self._answers, protocol.line_of(word, number, rest))


def _import_all(*, late: bool) -> None:
    if late:
        for module in IMPORTED_BY_TORCH_LATE:
            with suppress(ModuleNotFoundError):  # some releases of torch lack the module
                import_module(module)
        _check_fork("modules that torch imports late")
    bundled_workloads()
    regime_types()
    state_types()
    _check_fork("torch and our own modules")


def _preload(modules: Sequence[str]) -> None:
    for module in modules:
        try:
            import_module(module)
        except Exception as error:  # noqa: BLE001  # whatever a package raises
            sys.exit(f"sweep: preload: {module}: {type(error).__name__}: {error}")
        _check_fork(f"preload: {module}")


def _check_fork(imported: str) -> None:
    """Exit with an error message if an import started a thread or used CUDA."""
    if (count := len(os.listdir("/proc/self/task"))) != 1:
        sys.exit(f"sweep: {imported}: the import leaves {count} threads; a fork copies only one")
    if torch.cuda.is_initialized():
        sys.exit(f"sweep: {imported}: the import has touched CUDA; a fork cannot use it")


def _write(replies: int, data: bytes) -> None:
    while data:
        data = data[os.write(replies, data) :]


if __name__ == "__main__":
    main()
