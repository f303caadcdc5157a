"""A slot's end of the fork server: starts it, sends one job at a time, closes it."""

import os
import subprocess
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from cudnn_sweep.orchestrator.errors import ServerError
from cudnn_sweep.orchestrator.process.protocol import OUTCOME, REQUEST, Outcome, Request

SERVER = "cudnn_sweep.orchestrator.process.server"

# Numerical libraries start their threads when they are imported; the server must stay at one. A child
# sets its own number (torch.set_num_threads).
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


class ForkServer:
    """A server process that runs each job in a fresh process.

    Not started in a session of its own, and it ends when our side of its input closes: it cannot
    outlive the process that holds this object.
    """

    def __init__(
        self,
        *,
        folder: Path | None = None,
        survey_only: bool = False,
        preload: Sequence[str] = (),
        gpu_uuids: Sequence[str] = (),
    ) -> None:
        """`survey_only`: leave out what only measuring needs, 1 s of imports. `preload`: modules that
        children find imported. `gpu_uuids`: the GPUs that they see, where not those of this process.

        Raises ServerError where it does not come up.
        """
        options = [*(["--survey-only"] if survey_only else []), *preload]
        visible = {"CUDA_VISIBLE_DEVICES": ",".join(gpu_uuids)} if gpu_uuids else {}
        self._process = subprocess.Popen(
            # -P: a random.py in the user's folder must not stand in for Python's own
            [sys.executable, "-P", "-m", SERVER, *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **ONE_THREAD, **visible},
            cwd=folder,
        )
        if self._read() != b"ready\n":
            code = self._process.wait()
            self.close()
            raise ServerError(f"the fork server ended at its start, exit code {code}: see above")

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
            raise ServerError(f"the fork server died, exit code {self._process.wait()}")
        return OUTCOME.validate_json(answer)

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
