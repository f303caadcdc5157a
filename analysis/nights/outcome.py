"""Types for the outcome of a night. Reports, messages and the exit code are made from it."""

from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Literal, TypeAlias

from cudnn_sweep.analysis.nights.series import Change, SeriesKey

Direction: TypeAlias = Literal["worse", "better", "other"]
Cause: TypeAlias = Literal["software", "hardware", "unknown"]
NightState: TypeAlias = Literal["fine", "learning", "regression", "could_not_tell"]
EXIT_CODES: dict[NightState, int] = {"fine": 0, "learning": 0, "regression": 1, "could_not_tell": 3}


@dataclass(frozen=True, kw_only=True, slots=True)
class Version:
    """A change of software. `date` is the first night of the new software."""

    date: date
    software_hash: str
    changes: tuple[Change, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    key: SeriesKey
    state: Literal["confirmed", "refuted", "waiting"]
    """`waiting` means that the finding is not decided yet."""
    direction: Direction
    before: float | str | None
    """Typical value of the earlier nights, in the metric's unit."""
    now: float | str | None
    ratio: float | None
    """New value divided by old value, from fresh pairs if there are any. The 95% interval is from
    `ratio_low` to `ratio_high`."""
    ratio_low: float | None
    ratio_high: float | None
    blocks: int
    """Number of fresh pairs or fresh trials that were judged. 0 if nights were judged."""
    nights: int
    """Number of earlier nights in the comparison."""
    since: date
    cause: Cause
    moved: tuple[Change, ...]
    """Changes that may explain the finding."""
    command: str
    """Command that measures the cell again."""
    shared: str | None = None
    """The series_id of the shared finding that is reported in place of this one."""
    wall_ratio: float | None = None
    """Ratio of wall times, if the finding is about the device time of a CPU-bound loop."""
    wall_ratio_low: float | None = None
    wall_ratio_high: float | None = None
    message: str | None = None
    """First line of a failed trial's error, if the finding is about failures."""
    kernels: Change | None = None
    """Kernels before and after the change, if they differ."""
    is_news: bool = False
    """Whether the finding reports other kernels or bits of new software, which is no alert."""

    @property
    def is_alert(self) -> bool:
        return self.state == "confirmed" and self.direction != "better" and not self.is_news


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    gpu: str
    gpu_uuid: str | None
    host: str
    cpu_model: str | None
    trials: int
    matmul: float | None
    """Speed of the calibration's matrix product, divided by its median on earlier nights."""
    copy: float | None
    """Speed of the calibration's device-memory copy, divided by its median on earlier nights."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LeftOut:
    """Nights that show a confirmed change. Later nights are not compared with them."""

    key: SeriesKey
    since: date
    until: date | None
    """Last night that shows the change. None while the change lasts."""

    def covers(self, night: date) -> bool:
        return self.since <= night <= (self.until or date.max)


@dataclass(frozen=True, kw_only=True, slots=True)
class Acceptance:
    """A user's decision that a change is intended."""

    key: SeriesKey
    first: date
    """First night with which later nights of the series are compared."""
    reason: str
    told_on: date
    """Night whose alert was accepted. Changes that begin later are not accepted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NightOutcome:
    night: str
    """The night's sweep_id."""
    date: date
    launch_file: str
    suite: str
    started_at: datetime
    ended_at: datetime
    planned_trials: int = 0
    recorded_trials: int = 0
    state: NightState
    reasons: tuple[str, ...]
    """Reasons for the state `could_not_tell` or `learning`. Empty in other states."""
    nights: int = 0
    """Number of comparable nights before tonight."""
    fine_series: int = 0
    """Number of unchanged series that are precise enough to show the least effect."""
    insufficient_series: int = 0
    """Number of series that have too few nights, or no value tonight."""
    findings: tuple[Finding, ...] = ()
    """Findings to report. Alerts come first."""
    changes: tuple[Change, ...] = ()
    new_baseline: str | None = None
    """Reason if earlier nights exist but none is comparable with tonight."""
    versions: tuple[Version, ...] = ()
    """Changes of software between comparable nights, oldest first."""
    left_out: tuple[LeftOut, ...] = ()
    accepted: tuple[Acceptance, ...] = ()
    blunt_series: int = 0
    """Number of unchanged series that are too noisy to show the least effect."""
    members: tuple[Finding, ...] = ()
    """Findings that a shared finding replaces in `findings`."""
    machines: tuple[Machine, ...] = ()
    host: str | None = None
    """Host on which the night was started."""
    skipped: dict[str, str] = field(default_factory=dict)
    """Models whose package cannot be imported, with the reason."""
    kept_by: int | None = None
    """Exit code of an error that prevented measuring. If None, `state` determines the code."""
    gpu_hours: float | None = None
    """GPU hours of the night, with its fresh trials. None without a GPU."""

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.state] if self.kept_by is None else self.kept_by

    @property
    def alerts(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.is_alert)
