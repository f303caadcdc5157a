"""The fresh process: it limits itself, does its job, says how it went, and ends."""

import os
import re
import resource
import signal
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from time import monotonic
from types import FrameType

import torch

from cudnn_sweep.orchestrator.process.linux import die_with_parent
from cudnn_sweep.orchestrator.process.protocol import (
    PASSED,
    REPLY,
    SO_FAR,
    TURN,
    WHAT_WAS_SAID,
    LogJob,
    Reply,
    Request,
    TraceJob,
    TrialJob,
)
from cudnn_sweep.workloads.cells.measurement import Measurement
from cudnn_sweep.workloads.errors import WorkloadError
from cudnn_sweep.workloads.measuring.log_pass import run_log_pass
from cudnn_sweep.workloads.measuring.model_trace import trace_model
from cudnn_sweep.workloads.measuring.trial import run_trial
from cudnn_sweep.workloads.measuring.turns import Said, Turn
from cudnn_sweep.workloads.models.inputs import what_to_try
from cudnn_sweep.workloads.regime import SpatialRegime
from cudnn_sweep.workloads.survey import survey_machine

MOST_CHARACTERS = 2000  # of an error, in its record and on the screen
ABOUT_SIZES = re.compile(r"must match|shape|[Ss]ize")  # what torch says of tensors that do not fit
NOT_THE_USERS = {"torch", "cudnn_sweep"}  # packages in whose code no mistake is looked for
_replier = 0  # the fresh process's id
CPU_ALLOCATOR_IS_OUT = "DefaultCPUAllocator"  # torch raises a plain RuntimeError for host memory


class PipeBaton:
    """The baton comes as a line in one pipe, and goes as one in the other."""

    def __init__(self, told: int, reply_to: int) -> None:
        self._told = os.fdopen(told, "rb")
        self._reply_to = reply_to
        self.waited_s = 0.0

    def pass_on(self, said: Said) -> Turn:
        began = monotonic()
        _write(self._reply_to, PASSED + WHAT_WAS_SAID.dump_json(said) + b"\n")
        line = self._told.readline()
        if not line:
            os._exit(0)  # the server has gone
        self.waited_s += monotonic() - began
        return TURN.validate_json(line)


def live(request: Request, told: int, reply_to: int, log: int, born: float) -> None:
    """Run the job and write the reply; never returns. `born`: when we were forked, by `monotonic`."""
    global _replier
    _replier = os.getpid()
    try:
        _limit(request, log)
        _close_other_pipes(told, reply_to)
        before = set(sys.modules)
        reply = _work(request, told, reply_to, born)
        reply.imported = sorted(set(sys.modules) - before)
        _write(reply_to, REPLY.dump_json(reply) + b"\n")
    except BaseException:  # noqa: BLE001  # ours: the trial's own are in the reply
        traceback.print_exc()  # goes into the record
        os._exit(1)
    os._exit(0)


def _limit(request: Request, log: int) -> None:
    die_with_parent()
    os.setpgid(0, 0)  # a Ctrl-C at the terminal is the launch's to handle
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # the server's requests are not a trial's to read
    Path("/proc/self/oom_score_adj").write_text(
        "1000"
    )  # out of memory: take the trial, not its host
    os.dup2(log, 1)
    os.dup2(log, 2)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if request.host_memory_limit_mib is not None:
        limit = request.host_memory_limit_mib * 2**20
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def _close_other_pipes(*ours: int) -> None:
    """The server's, to which the code of a trial has no business to write."""
    for each in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # the listing's own is closed by now
            target = os.readlink(f"/proc/self/fd/{each}")
            if target.startswith(("pipe:", "socket:")) and int(each) not in ours:
                os.close(int(each))


def _work(request: Request, told: int, reply_to: int, born: float) -> Reply:
    job = request.job
    reply = Reply()
    try:
        if isinstance(job, TrialJob):
            reply.measured = Measurement(phases_s={"start": monotonic() - born})
            run_trial(
                job.trial,
                reply.measured,
                lambda: _write(reply_to, SO_FAR + REPLY.dump_json(reply) + b"\n"),
                PipeBaton(told, reply_to) if job.takes_turns else None,
            )
        elif isinstance(job, LogJob):
            reply.log_pass = run_log_pass(job.trial, job.shapes)
        elif isinstance(job, TraceJob):
            reply.trace = trace_model(job.trace)
        else:
            reply.survey = survey_machine(job.workloads)
    except WorkloadError as error:
        reply.status, reply.message = "error", _storable(str(error))
    except (MemoryError, torch.OutOfMemoryError) as error:
        reply.status, reply.message = "out_of_memory", _describe(error)
    except (Exception, SystemExit) as error:  # noqa: BLE001  # whatever a user's code raises
        out = isinstance(error, RuntimeError) and CPU_ALLOCATOR_IS_OUT in str(error)
        reply.status = "out_of_memory" if out else "error"
        reply.message = _describe(error) + _hint(job, error)
    return reply


def _describe(error: BaseException) -> str:
    """The error, and the line of code that raised it: the user's last one where there is one."""
    text = _storable(f"{type(error).__name__}: {error}".strip())
    frames = list(traceback.walk_tb(error.__traceback__))
    if not frames:
        return text
    theirs = [(frame, line) for frame, line in frames if _package(frame) not in NOT_THE_USERS]
    frame, line = (theirs or frames)[-1]
    file = os.path.basename(frame.f_code.co_filename)
    return f"{text} ({file}:{line} in {frame.f_code.co_name})"


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _hint(job: object, error: BaseException) -> str:
    """Networks that halve their input and join the halves again take no odd size."""
    if not isinstance(job, TrialJob):
        return ""
    try:
        rule = job.trial.cell.shapes()
    except Exception:  # noqa: BLE001  # a user's own; that is the error, then
        return ""
    if not isinstance(rule, SpatialRegime):
        return what_to_try(error, job.trial.cell.input_shape)
    if rule.multiple > 1 or not ABOUT_SIZES.search(str(error)):
        return ""
    return f"; regime {rule.name} makes sizes that the network may not take: try `multiple: 32`"


def _storable(text: str) -> str:
    """At most so long, and no half characters: JSON has none."""
    whole = text.encode(errors="backslashreplace").decode()
    cut = len(whole) - MOST_CHARACTERS
    return whole if cut <= 0 else f"{whole[:MOST_CHARACTERS]}... ({cut:,} characters more)"


def _write(pipe: int, data: bytes) -> None:
    if os.getpid() != _replier:
        os._exit(0)  # a copy of it that the user's code forked
    while data:
        data = data[os.write(pipe, data) :]
