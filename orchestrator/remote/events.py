"""What a sweep on a cluster says to whoever follows it: lines in the job's output, among plain ones."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationError

from cudnn_sweep.analysis.answering.contrast import Contrast
from cudnn_sweep.analysis.storing.schema import RunRecord
from cudnn_sweep.orchestrator.planning.plan import Plan
from cudnn_sweep.orchestrator.process.protocol import EXACT
from cudnn_sweep.orchestrator.recording.recorder import Progress

MARK = "\x1esweep "  # nobody prints a record separator by chance; str.splitlines ends a line at it


@dataclass(frozen=True, kw_only=True, slots=True)
class Started:
    sweep_id: str
    reason: str
    plan: Plan
    contrasts: tuple[Contrast, ...]
    kind: Literal["started"] = "started"


@dataclass(frozen=True, kw_only=True, slots=True)
class Progressed:
    """How far a sweep is. The last of them stands for all that was said before."""

    sweep_id: str
    launch_id: str
    progress: Progress
    """How far the trials are that run now: the plan's, or blocks that run again."""
    planned: int
    """How many trials of the sweep this launch has planned in all."""
    recorded: int
    """How many trials of the sweep this launch has recorded."""
    sweeps: int
    """How many sweeps, of a GPU model each, the job has."""
    kind: Literal["progressed"] = "progressed"


@dataclass(frozen=True, kw_only=True, slots=True)
class Recorded:
    """A trial that is durable there."""

    record: RunRecord
    kind: Literal["recorded"] = "recorded"


@dataclass(frozen=True, kw_only=True, slots=True)
class Compared:
    """What became of a night."""

    outcome: str
    """As `night.json` of its reports."""
    kind: Literal["compared"] = "compared"


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    exit_code: int
    reason: str | None = None
    """Why nothing was started."""
    sweeps: int = 1
    """How many of these the job says."""
    kind: Literal["ended"] = "ended"


Event = Annotated[Started | Progressed | Recorded | Compared | Ended, Field(discriminator="kind")]
EVENT: TypeAdapter[Event] = TypeAdapter(Event, config=EXACT)


def to_line(event: Event) -> str:
    # Records hold tuples where their columns are lists: one thing in JSON, and no warning to followers.
    return MARK + EVENT.dump_json(event, warnings=False).decode()


def from_line(line: str) -> Event | None:
    """None where the line is no event: somebody's print."""
    if not line.startswith(MARK):
        return None
    try:
        return EVENT.validate_json(line.removeprefix(MARK))
    except ValidationError:  # cut off
        return None
