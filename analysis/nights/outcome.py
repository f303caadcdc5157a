"""The outcome of a night as one value: every report, exit code and message is made from it."""

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
    """A change of software, and the night from which on it was installed."""

    date: date
    software_hash: str
    changes: tuple[Change, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    key: SeriesKey
    state: Literal["confirmed", "refuted", "waiting"]
    """Whether fresh trials agree, disagree or cannot decide; it then waits for further nights."""
    direction: Direction
    before: float | str | None
    """Typical value of the nights before, in the metric's unit."""
    now: float | str | None
    ratio: float | None
    """Now over before, with its 95% interval; from the fresh pairs if there are any."""
    ratio_low: float | None
    ratio_high: float | None
    blocks: int
    """Number of fresh pairs behind the ratio, or of fresh trials of a word; 0: nights alone."""
    nights: int
    """Number of nights that it was compared with."""
    since: date
    """The first night that shows it."""
    cause: Cause
    moved: tuple[Change, ...]
    """Changes on the first night that shows it, or differences of the fresh pairs' softwares."""
    command: str
    """The command that measures it again."""
    shared: str | None = None
    """The series_id of the finding that stands for this one, if there is one."""
    wall_ratio: float | None = None
    """For a device time: the ratio of wall times from the same pairs or nights; None unless the
    loop is CPU-bound and wall time has no confirmed change. """
    wall_ratio_low: float | None = None
    wall_ratio_high: float | None = None
    message: str | None = None
    """For a failure: the message of a failed trial."""
    kernels: Change | None = None
    """The kernels before and since, if they changed with it."""
    is_news: bool = False
    """Kernels or bits that came with new software: reported on its first night, and no alert."""

    @property
    def is_alert(self) -> bool:
        return self.state == "confirmed" and self.direction != "better" and not self.is_news


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """A GPU and its host, on which part of the night ran."""

    gpu: str
    gpu_uuid: str | None
    host: str
    cpu_model: str | None
    trials: int
    matmul: float | None
    """Speed of its calibration's matrix product, as a share of the usual one of the nights before."""
    copy: float | None
    """The same share for its copy in device memory."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LeftOut:
    """Nights of a confirmed change: later nights of the series are not compared with them."""

    key: SeriesKey
    since: date
    until: date | None
    """The change's last night; None as long as the change lasts."""

    def covers(self, night: date) -> bool:
        return self.since <= night and (self.until is None or night <= self.until)


@dataclass(frozen=True, kw_only=True, slots=True)
class Acceptance:
    """A user's decision that a confirmed change is how it should be."""

    key: SeriesKey
    first: date
    """From this night on the series starts anew."""
    reason: str
    told_on: date
    """The night whose alert was accepted: a change that begins after it is another one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NightOutcome:
    night: str
    """Its sweep_id."""
    date: date
    launch_file: str
    suite: str
    started_at: datetime
    ended_at: datetime
    planned_trials: int = 0
    recorded_trials: int = 0
    state: NightState
    reasons: tuple[str, ...]
    """Reasons for the state `could_not_tell` or `learning`, a line each, with what to do; else empty."""
    nights: int = 0
    """Comparable nights before this one."""
    fine_series: int = 0
    """Unchanged series whose nights could have shown a change of the least effect."""
    insufficient_series: int = 0
    """Series with too few nights yet."""
    findings: tuple[Finding, ...] = ()
    """The night's findings, alerts first."""
    changes: tuple[Change, ...] = ()
    """Changes of software and hardware since the night before."""
    new_baseline: str | None = None
    """Why a new baseline starts; None if the nights before count."""
    versions: tuple[Version, ...] = ()
    """Each change of software since the baseline, oldest first: histories are marked with them."""
    left_out: tuple[LeftOut, ...] = ()
    """Spans of all changes but accepted ones; every night keeps those of the nights before."""
    accepted: tuple[Acceptance, ...] = ()
    """The acceptances that hold on this night."""
    blunt_series: int = 0
    """Series without a visible change; noise would have hidden a change of the least effect."""
    members: tuple[Finding, ...] = ()
    """Findings of most series of one GPU that moved alike: one of `findings` stands for them."""
    machines: tuple[Machine, ...] = ()
    """The machines that tonight ran on."""
    host: str | None = None
    """The host that the night was started on."""
    skipped: dict[str, str] = field(default_factory=dict)
    """Models of the suite whose package cannot be imported, and why."""
    kept_by: int | None = None
    """Exit code of the error that prevented measuring, if it says more than `could_not_tell`."""
    gpu_hours: float | None = None
    """Hours of GPUs, each from its first trial to its last one, fresh trials included; None without a GPU."""

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.state] if self.kept_by is None else self.kept_by

    @property
    def alerts(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.is_alert)
