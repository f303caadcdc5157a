"""The outcome of a night as one value, from which every report, exit code and message is made."""

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
    """A change of software; `date` is the new software's first night."""

    date: date
    software_hash: str
    changes: tuple[Change, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    key: SeriesKey
    state: Literal["confirmed", "refuted", "waiting"]
    """`waiting` if neither fresh trials nor nights decide yet."""
    direction: Direction
    before: float | str | None
    """Typical value of the nights before, in the metric's unit."""
    now: float | str | None
    ratio: float | None
    """Ratio current / last good software of the fresh pairs, or `now` / `before` without pairs.
    The 95% interval is from `ratio_low` to `ratio_high`."""
    ratio_low: float | None
    ratio_high: float | None
    blocks: int
    """Number of judged fresh pairs or, for a Category, fresh trials. 0 if nights were judged."""
    nights: int
    """Number of earlier nights that the finding compares with."""
    since: date
    cause: Cause
    moved: tuple[Change, ...]
    """Parts that changed on the night of `since`, or that differ from last good software."""
    command: str
    """Command that measures the cell again."""
    shared: str | None = None
    """The series_id of the shared finding that is reported in place of this one."""
    wall_ratio: float | None = None
    """For a device time, the ratio of wall times from the same pairs or nights. None if the loop is
    not CPU-bound, or if the wall time has its own confirmed finding."""
    wall_ratio_low: float | None = None
    wall_ratio_high: float | None = None
    message: str | None = None
    """First line of a failed trial's error, if the finding is about failures."""
    kernels: Change | None = None
    """The kernels before and after the change, if they differ."""
    is_news: bool = False
    """Whether new software chose other kernels or computed other bits. News is never an alert."""

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
    """Speed of the calibration's matrix product, divided by the median of the nights before."""
    copy: float | None
    """Speed of the calibration's device-memory copy, divided by the median of the nights before."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LeftOut:
    """The nights that show a confirmed change; later nights are not compared with these."""

    key: SeriesKey
    since: date
    until: date | None
    """The last night that shows the change; None while the change lasts."""

    def covers(self, night: date) -> bool:
        return self.since <= night <= (self.until or date.max)


@dataclass(frozen=True, kw_only=True, slots=True)
class Acceptance:
    """A user's decision that a confirmed change is usual from now on."""

    key: SeriesKey
    first: date
    """The series' nights before this date do not count."""
    reason: str
    told_on: date
    """The night whose alert was accepted; changes that begin after that night are not accepted."""


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
    """Why the state is `could_not_tell` or `learning`, and what to do; empty in other states."""
    nights: int = 0
    """Number of comparable nights before tonight."""
    fine_series: int = 0
    """Number of unchanged series that could have shown a change as small as the least effect."""
    insufficient_series: int = 0
    """Number of series that could not be judged, as they have too few nights or no value tonight."""
    findings: tuple[Finding, ...] = ()
    """Findings to report. Alerts come first."""
    changes: tuple[Change, ...] = ()
    new_baseline: str | None = None
    """Why earlier nights do not count tonight; None if they count or if there are none."""
    versions: tuple[Version, ...] = ()
    """Changes of software between comparable nights, oldest first."""
    left_out: tuple[LeftOut, ...] = ()
    """Nights that show a confirmed but not accepted change, old or new."""
    accepted: tuple[Acceptance, ...] = ()
    blunt_series: int = 0
    """Number of unchanged series too noisy to show a change as small as the least effect."""
    members: tuple[Finding, ...] = ()
    """Findings that are not in `findings`, where a shared finding replaces them."""
    machines: tuple[Machine, ...] = ()
    host: str | None = None
    """The host that the night was started on."""
    skipped: dict[str, str] = field(default_factory=dict)
    """The suite's models whose package cannot be imported, each with the reason."""
    kept_by: int | None = None
    """Exit code of the error that prevented measuring; if None, `state` sets the code."""
    gpu_hours: float | None = None
    """GPU hours from the first to the last trial of each launch. The hours of fresh trials are
    included. None without a GPU."""

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.state] if self.kept_by is None else self.kept_by

    @property
    def alerts(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.is_alert)
