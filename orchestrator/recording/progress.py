"""Progress: how far a launch has come, as whoever displays it sees it."""

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime

from cudnn_sweep.workloads.warnings import WarningName


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    trial_id: str
    status: str
    message: str


@dataclass(frozen=True, kw_only=True, slots=True)
class SlotState:
    """What one slot is doing: the trial it began last."""

    position: int
    attempt: int
    began_at: datetime


@dataclass(kw_only=True, slots=True)
class Progress:
    statuses: dict[str, int] = field(default_factory=dict)
    """Trials recorded in this launch, by status."""
    slots: dict[str, SlotState] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    warnings: list[WarningName] = field(default_factory=list)
    """What is wrong with what is timed, each once."""
    repeated: int = 0
    """Records that came for a trial that had one: the first counts."""
    lost: int = 0
    """Tries that ended without a record, with their worker."""
    held: int = 0
    """Records that could not be written yet."""
    kept_in: dict[str, int] = field(default_factory=dict)
    """Where held records were saved instead, and how many in each folder."""
    reasons: list[str] = field(default_factory=list)
    """Why workers gave up trials, each once."""
    given_up: list[str] = field(default_factory=list)
    """Trials that took their worker along too often."""
    hopeless: dict[str, str] = field(default_factory=dict)
    """Cells of which no further trial is run, by cell_id, and what each of their configs raised."""
    standings: str | None = None
    """How many cells are decided, in words, where each gets its blocks until it is."""
    stopped: str | None = None
    """Why no new trial starts."""

    def then(self, later: "Progress") -> "Progress":
        """Both together, of a launch that ran one plan after another."""
        return Progress(
            statuses=dict(Counter(self.statuses) + Counter(later.statuses)),
            slots=dict(later.slots),
            failures=self.failures + later.failures,
            warnings=list(dict.fromkeys(self.warnings + later.warnings)),
            repeated=self.repeated + later.repeated,
            lost=self.lost + later.lost,
            held=self.held + later.held,
            kept_in=dict(Counter(self.kept_in) + Counter(later.kept_in)),
            reasons=list(dict.fromkeys(self.reasons + later.reasons)),
            given_up=self.given_up + later.given_up,
            hopeless=self.hopeless | later.hopeless,
            standings=later.standings or self.standings,
            stopped=self.stopped or later.stopped,
        )

    @property
    def recorded(self) -> int:
        return sum(self.statuses.values())
