"""A slot's end of the fork server: starts it, sends one job at a time, closes it."""

import os
import subprocess
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from pydantic import ValidationError

from cudnn_sweep.orchestrator.errors import ServerError
from cudnn_sweep.orchestrator.process.protocol import (
    GREETING,
    OUTCOME,
    PROTOCOL,
    READY,
    REFUSED,
    REQUEST,
    Outcome,
    Request,
)
from cudnn_sweep.workloads.environment import our_version

SERVER = "cudnn_sweep.orchestrator.process.server"

# Numerical libraries start their threads when they are imported; the server must stay at one. A child
# sets its own number (torch.set_num_threads).
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

# What of our own environment is about our own Python and version: not for another one's.
OURS_ALONE = ("PYTHONPATH", "PYTHONHOME", "SWEEP_VERSION", "SWEEP_COMMIT")


class ForkServer:
    """A server process that runs each job in a fresh process.

    Not started in a session of its own, and it ends when our side of its input closes: it cannot
    outlive the process that holds this object.
    """

    def __init__(
        self,
        *,
        python: Path | None = None,
        folder: Path | None = None,
        survey_only: bool = False,
        preload: Sequence[str] = (),
        gpu_uuids: Sequence[str] = (),
    ) -> None:
        """`python`: another environment's, with a torch and a cudnn-sweep of its own. `survey_only`: leave
        out what only measuring needs, 1 s of imports. `preload`: modules that children find imported.
        `gpu_uuids`: the GPUs that they see, where not those of this process.

        Raises ServerError where it does not come up.
        """
        options = [*(["--survey-only"] if survey_only else []), *preload]
        without = OURS_ALONE if python else ()
        ours = {name: value for name, value in os.environ.items() if name not in without}
        visible = {"CUDA_VISIBLE_DEVICES": ",".join(gpu_uuids)} if gpu_uuids else {}
        self._name = f"the fork server of {python}" if python else "the fork server"
        try:
            self._process = subprocess.Popen(
                # -P: a random.py in the user's folder must not stand in for Python's own
                [
                    str(python.expanduser() if python else sys.executable),
                    "-P",
                    "-m",
                    SERVER,
                    *options,
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**ours, **ONE_THREAD, **visible},
                cwd=folder,
            )
        except OSError as error:
            raise ServerError(f"{self._name} cannot be started: {error.strerror}") from error
        self._greet()

    def _greet(self) -> None:
        line = self._read()
        if not line:
            code = self._process.wait()
            self.close()
            raise ServerError(f"{self._name} ended at its start, exit code {code}: see above")
        try:
            greeting = GREETING.validate_json(line.removeprefix(READY))
        except ValidationError:
            self.close()
            raise ServerError(
                f"{self._name} begins with {line[:80]!r}: its cudnn-sweep is another version, too "
                "far from this one; install a nearer one there"
            ) from None
        if greeting.protocol != PROTOCOL:
            self.close()
            raise ServerError(
                f"{self._name} speaks protocol {greeting.protocol} (cudnn-sweep {greeting.version}), "
                f"allowed is {PROTOCOL}, that of cudnn-sweep {our_version()}: install a nearer "
                "version there"
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def pin(self, cpus: Collection[int]) -> None:
        """Keep later jobs' processes on these CPUs: they inherit it from the server's one thread."""
        os.sched_setaffinity(self.pid, cpus)

    def run(self, request: Request) -> Outcome:
        """Raises ServerError where the server dies; what the job itself does is in the Outcome."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(REQUEST.dump_json(request) + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # reading finds the same end, and says how it came
        answer = self._read()
        if not answer.endswith(b"\n"):
            raise ServerError(f"{self._name} died, exit code {self._process.wait()}")
        if answer.startswith(REFUSED):
            reason = answer.removeprefix(REFUSED).decode().strip()
            raise ServerError(f"{self._name} cannot do what is asked: {reason}")
        try:
            return OUTCOME.validate_json(answer)
        except ValidationError as error:
            raise ServerError(f"{self._name} says what this one cannot read: {error}") from error

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.close()
        except BrokenPipeError:
            pass
        self._process.stdout.close()
        self._process.wait()

    def _read(self) -> bytes:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
