"""What is said between a slot and its fork server, a line at a time: a word, the number of a process, JSON.

A slot begins processes, passes them the baton and ends them; the server says what each said when it
passed the baton back, and what became of it. A process that is begun has the baton until it says something
or ends; one at a time has it then. The server may be of another version of ours. It begins with a greeting, which says the protocol's
number. Of a reply a field that is unknown here is left out, one that is missing there is null; but a
request has to be understood whole, or it would not be measured as asked: the server refuses it.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field, TypeAdapter

from cudnn_sweep.workloads.cells.measurement import LogPass, Measurement, TrialRequest
from cudnn_sweep.workloads.measuring.tracing import Trace, TraceRequest
from cudnn_sweep.workloads.measuring.turns import Said, Turn
from cudnn_sweep.workloads.survey import Survey

EXACT = ConfigDict(ser_json_inf_nan="constants")  # an error of infinity is no missing error

PROTOCOL = 3  # raise it where a word's meaning changes; a field more or less needs no other number
WHOLE = ConfigDict(extra="forbid")
MODULES = "SWEEP_MODULES"
"""The variable with folders where a server looks for modules before what is installed."""

Status = Literal["ok", "error", "out_of_memory", "crash", "killed", "timeout"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Greeting:
    """The server's first line, once it is ready."""

    protocol: int
    version: str


@dataclass(frozen=True, kw_only=True, slots=True)
class TrialJob:
    """Measure one trial."""

    trial: TrialRequest
    takes_turns: bool = False
    """Pass the baton back when one-time costs are paid and once all shapes were met; else measure to the
    end."""
    kind: Literal["trial"] = "trial"


@dataclass(frozen=True, kw_only=True, slots=True)
class LogJob:
    """Say what cuDNN logs of a trial's first step, untimed."""

    trial: TrialRequest
    shapes: int = 0
    """Of the first step at each of the regime's first shapes, so many at most; 0: at the base shape."""
    kind: Literal["log"] = "log"


@dataclass(frozen=True, kw_only=True, slots=True)
class CallJob:
    """Make the first step of a trial, untimed."""

    trial: TrialRequest
    kind: Literal["call"] = "call"


@dataclass(frozen=True, kw_only=True, slots=True)
class SurveyJob:
    """Say what machine this is and what these workloads are."""

    workloads: list[str]
    needs_cuda: bool = False
    """Import none if there is no GPU."""
    kind: Literal["survey"] = "survey"


@dataclass(frozen=True, kw_only=True, slots=True)
class TraceJob:
    """List the convolutions of a user's model."""

    trace: TraceRequest
    kind: Literal["trace"] = "trace"


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """A job for a fresh process, and its limits."""

    __pydantic_config__: ClassVar = WHOLE

    job: Annotated[TrialJob | LogJob | CallJob | SurveyJob | TraceJob, Field(discriminator="kind")]
    timeout_s: float
    """How long it may have the baton, all turns together."""
    host_memory_limit_mib: int | None = None


@dataclass(kw_only=True, slots=True)
class Reply:
    """What a fresh process said itself before it ended."""

    __pydantic_config__: ClassVar = EXACT

    status: Literal["ok", "error", "out_of_memory"] = "ok"
    message: str | None = None
    measured: Measurement | None = None
    log_pass: LogPass | None = None
    survey: Survey | None = None
    trace: Trace | None = None
    is_mistake: bool = False
    """What was asked for is wrong, so that nothing failed."""
    imported: list[str] = field(default_factory=list)
    """Modules that it had to import: what the server should have imported before."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What became of a fresh process; `reply` is None where it ended without a word."""

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
    """How much of `process_s` the baton was elsewhere."""
    exit_s: float | None = None
    gap_s: float | None = None


# A slot's words, and the server's.
BEGIN, PASS, END = b"begin", b"pass", b"end"
SAID, ENDED, REFUSED = b"said", b"ended", b"refused"
# What a process's line to its server begins with, unless it is the last one.
SO_FAR = b"~"  # a reply that another one follows, unless the process dies first
PASSED = b"="  # it passes the baton on

GREETING = TypeAdapter(Greeting)
REQUEST = TypeAdapter(Request)
REPLY = TypeAdapter(Reply)
OUTCOME = TypeAdapter(Outcome)
TURN = TypeAdapter(Turn)
WHAT_WAS_SAID = TypeAdapter(Said)


def line_of(word: bytes, number: int, rest: bytes = b"") -> bytes:
    return b"%b %d %b\n" % (word, number, rest)


def parts_of(line: bytes) -> tuple[bytes, int, bytes]:
    """Word, number and rest of a line that `line_of` made."""
    word, number, rest = line.rstrip(b"\n").split(b" ", 2)
    return word, int(number), rest
