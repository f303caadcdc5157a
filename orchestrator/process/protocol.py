"""The protocol between a slot and its fork server. Each line is `WORD PROCESS JSON`.

A process works only while it has the baton. The server may run another version of cudnn-sweep.
Unknown fields of a reply are ignored, and missing fields get their defaults. A request with an
unknown field is refused.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field, TypeAdapter

from cudnn_sweep.workloads.cells.measurement import LogPass, Measurement, TrialRequest
from cudnn_sweep.workloads.measuring.tracing import Trace, TraceRequest
from cudnn_sweep.workloads.measuring.turns import Said, Turn
from cudnn_sweep.workloads.survey import Survey

EXACT = ConfigDict(ser_json_inf_nan="constants")  # keeps infinite numbers

VERSION = 3  # increase it if a word's meaning changes, but not if fields do
LISTEN = "--listen="
"""Option of the server, followed by the file descriptor of a socket that it listens on."""
MODULES = "SWEEP_MODULES"
"""Environment variable with folders that precede installed packages in sys.path."""

Status = Literal["ok", "error", "out_of_memory", "crash", "killed", "timeout", "raced_out"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Greeting:
    protocol: int
    version: str


@dataclass(frozen=True, kw_only=True, slots=True)
class TrialJob:
    trial: TrialRequest
    takes_turns: bool = False
    """Whether the process passes the baton back after each turn."""
    kind: Literal["trial"] = "trial"


@dataclass(frozen=True, kw_only=True, slots=True)
class LogJob:
    """Job that runs a trial's step without timing, and returns cuDNN's log of the step."""

    trial: TrialRequest
    shapes: int = 0
    """Number of the regime's shapes to log. If 0, only the base shape is logged."""
    kind: Literal["log"] = "log"


@dataclass(frozen=True, kw_only=True, slots=True)
class CallJob:
    """Job that runs the first steps of a trial. Their time is printed but not stored."""

    trial: TrialRequest
    kind: Literal["call"] = "call"


@dataclass(frozen=True, kw_only=True, slots=True)
class SurveyJob:
    workloads: list[str]
    needs_cuda: bool = False
    """Whether workloads are imported only if there is a GPU."""
    kind: Literal["survey"] = "survey"


@dataclass(frozen=True, kw_only=True, slots=True)
class TraceJob:
    """Job that lists the convolutions of a user's model."""

    trace: TraceRequest
    kind: Literal["trace"] = "trace"


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")

    job: Annotated[TrialJob | LogJob | CallJob | SurveyJob | TraceJob, Field(discriminator="kind")]
    timeout_s: float
    """Seconds for which the process may have the baton in total."""
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
    """Whether the error is a mistake in the request, and not in the user's code."""
    imported: list[str] = field(default_factory=list)
    """Modules that the process imported because the server had not preloaded them."""
    ended_at: float = 0.0
    """Value of `monotonic()` when the job ended or failed."""


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
    """Seconds of `process_s` that the process spent waiting for the baton."""
    exit_s: float | None = None
    gap_s: float | None = None


# Words that a slot sends, and words that the server sends.
BEGIN, PASS, END = b"begin", b"pass", b"end"
SAID, ENDED, REFUSED = b"said", b"ended", b"refused"
# Each line from a process to its server begins with one of these, except the last line.
SO_FAR = b"~"  # a preliminary reply, used if the process dies before the last one
PASSED = b"="  # the process passes the baton back

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
