"""The protocol of a slot and its fork server. Each line is `WORD PROCESS JSON`.

A slot begins processes, passes the baton to them and ends them. When a process passes the baton
back, the server sends the process's report. When a process has ended, the server sends its outcome.
Several new processes may have the baton at once, until each reports or ends. After that, only one
process has the baton.

The server may run another version of cudnn-sweep, so its greeting states the protocol's number. In
a reply, an unknown field is ignored, and a missing field gets its default. A request with an
unknown field is refused, as the field may change what is measured.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field, TypeAdapter

from cudnn_sweep.workloads.cells.measurement import LogPass, Measurement, TrialRequest
from cudnn_sweep.workloads.measuring.tracing import Trace, TraceRequest
from cudnn_sweep.workloads.measuring.turns import Said, Turn
from cudnn_sweep.workloads.survey import Survey

EXACT = ConfigDict(ser_json_inf_nan="constants")  # an infinite error must not become null

VERSION = 3  # raise it if a word's meaning changes; added or removed fields keep the number
LISTEN = "--listen="
"""Server's option, followed by a listening socket's descriptor: the first client's connection replaces
standard input and output."""
MODULES = "SWEEP_MODULES"
"""Environment variable that lists folders. They precede installed packages in sys.path."""

Status = Literal["ok", "error", "out_of_memory", "crash", "killed", "timeout", "raced_out"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Greeting:
    protocol: int
    version: str


@dataclass(frozen=True, kw_only=True, slots=True)
class TrialJob:
    trial: TrialRequest
    takes_turns: bool = False
    """Whether the process passes the baton back: after one-time costs, cold calls and each turn."""
    kind: Literal["trial"] = "trial"


@dataclass(frozen=True, kw_only=True, slots=True)
class LogJob:
    """Run a trial's step untimed, and return cuDNN's log of the step."""

    trial: TrialRequest
    shapes: int = 0
    """How many of the regime's first shapes to run and log. If 0, only the base shape is logged."""
    kind: Literal["log"] = "log"


@dataclass(frozen=True, kw_only=True, slots=True)
class CallJob:
    """Run the first steps of a trial. Their time is shown, not stored."""

    trial: TrialRequest
    kind: Literal["call"] = "call"


@dataclass(frozen=True, kw_only=True, slots=True)
class SurveyJob:
    workloads: list[str]
    needs_cuda: bool = False
    """If true, no workload is imported without a GPU."""
    kind: Literal["survey"] = "survey"


@dataclass(frozen=True, kw_only=True, slots=True)
class TraceJob:
    """List the convolutions of a user's model."""

    trace: TraceRequest
    kind: Literal["trace"] = "trace"


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")

    job: Annotated[TrialJob | LogJob | CallJob | SurveyJob | TraceJob, Field(discriminator="kind")]
    timeout_s: float
    """Seconds for which the process may have the baton, summed over all its turns."""
    host_memory_limit_mib: int | None = None


@dataclass(kw_only=True, slots=True)
class Reply:
    __pydantic_config__: ClassVar = EXACT

    status: Literal["ok", "error", "out_of_memory"] = "ok"
    message: str | None = None
    measured: Measurement | None = None
    log_pass: LogPass | None = None
    survey: Survey | None = None
    trace: Trace | None = None
    step_ms: float | None = None
    is_mistake: bool = False
    """Whether an error comes from the request, not from the user's code."""
    imported: list[str] = field(default_factory=list)
    """Modules that the process had to import; the server should preload them."""
    ended_at: float = 0.0
    """Time by `monotonic()` at which the job ended or failed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    __pydantic_config__: ClassVar = EXACT

    status: Status = "ok"
    message: str | None = None
    last_output: str | None = None
    reply: Reply | None = None
    pid: int = 0
    started_at: datetime
    ended_at: datetime
    process_s: float
    waited_s: float = 0.0
    """Part of `process_s` in which the process waited for the baton."""
    exit_s: float | None = None
    gap_s: float | None = None


# A slot's words, and the server's.
BEGIN, PASS, END = b"begin", b"pass", b"end"
SAID, ENDED, REFUSED = b"said", b"ended", b"refused"
# A process's line to its server begins with one of these, unless it is the last one.
SO_FAR = b"~"  # a preliminary reply: the last one follows, unless the process dies first
PASSED = b"="  # the process passes the baton on

GREETING = TypeAdapter(Greeting)
REQUEST = TypeAdapter(Request)
REPLY = TypeAdapter(Reply)
OUTCOME = TypeAdapter(Outcome)
TURN = TypeAdapter(Turn)
WHAT_WAS_SAID = TypeAdapter(Said)


def line_of(word: bytes, number: int, rest: bytes = b"") -> bytes:
    return b"%b %d %b\n" % (word, number, rest)


def parts_of(line: bytes) -> tuple[bytes, int, bytes]:
    word, number, rest = line.rstrip(b"\n").split(b" ", 2)
    return word, int(number), rest
