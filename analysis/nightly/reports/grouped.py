"""Findings that say the same as one change: a message tells each fact once, not each of its series."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date

from cudnn_sweep.analysis.nightly.metric import METRIC_OF, STEADY_DEVICE, STEADY_WALL, Amount
from cudnn_sweep.analysis.nightly.outcome import Change, Finding, NightOutcome
from cudnn_sweep.analysis.nightly.reports.words import (
    BLUNT,
    WHY,
    FindingText,
    Group,
    beside_wall,
    cause,
    finding_texts,
    percent_or_times,
    printable,
)
from cudnn_sweep.analysis.report.words import counted, listed

STEADY = {STEADY_WALL.name: "wall", STEADY_DEVICE.name: "device"}
MOST_NAMED = 6  # cells of one change
VERSIONED = {"torch": "torch", "version": "ours", "driver": "driver", "cudnn": "cudnn"}
"""Parts whose versions `sweep compare` takes, as it calls them; the first that moved names the sides."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OneChange:
    """Of one kind of number, one way, for one reason, on one kind of hardware."""

    findings: tuple[FindingText, ...]
    """Wall times first, and of those the largest."""

    @property
    def group(self) -> Group:
        return self.findings[0].group

    @property
    def first(self) -> Finding:
        return self.findings[0].finding

    @property
    def since(self) -> date:
        return min(each.finding.since for each in self.findings)

    @property
    def size(self) -> str:
        """What changed, and by how much: over its series, the smallest and the largest change."""
        ratios = [each.finding.ratio for each in self.findings if each.finding.ratio is not None]
        if len(ratios) < len(self.findings):
            words = dict.fromkeys(each.levels for each in self.findings)
            return f"{self._what}: {listed(list(words)[:MOST_NAMED])}"
        walls = [wall for each in self.findings if (wall := each.finding.wall_ratio) is not None]
        if len(self.findings) == len(walls) == 1:
            return self.findings[0].change
        if walls:
            sizes = [percent_or_times(min(each), max(each)) for each in (ratios, walls)]
            return beside_wall(*sizes)
        return f"{self._what}: {percent_or_times(min(ratios), max(ratios))}"

    @property
    def told(self) -> str:
        return f"{self.size} since {self.since}, {self.why}"

    @property
    def why(self) -> str:
        return cause(self.first)

    @property
    def cells(self) -> str:
        """Its series, in words."""
        cells = list(dict.fromkeys(each.cell for each in self.findings))
        settings = dict.fromkeys(each.settings for each in self.findings)
        more = f" and {counted(len(cells) - MOST_NAMED, 'more cell')}" if cells[MOST_NAMED:] else ""
        series = "1 series" if len(self.findings) == 1 else f"{len(self.findings):,} series"
        return f"{series}: {'; '.join(cells[:MOST_NAMED])}{more} · {listed(list(settings))}"

    @property
    def versions(self) -> tuple[str, str] | None:
        """The two sides that `sweep compare` tells apart, where a version moved."""
        moved = {change.part: change for change in self.first.moved}
        for part, kind in VERSIONED.items():
            if part in moved:
                return f"{kind}={moved[part].before}", f"{kind}={moved[part].now}"
        return None

    def echoes(self, other: "OneChange") -> bool:
        """Whether it shows in no other cell than `other`, the same way."""
        mine = {each.finding.key.cell_id for each in self.findings}
        its = {each.finding.key.cell_id for each in other.findings}
        return mine <= its and _kind(self.first) == _kind(other.first)

    @property
    def largest(self) -> str:
        """What the first of them is called."""
        names = {each.finding.key.metric for each in self.findings}
        return "the largest in wall time" if len(names & set(STEADY)) > 1 else "the largest"

    @property
    def _what(self) -> str:
        names = {each.finding.key.metric for each in self.findings}
        if names <= set(STEADY):
            return (
                f"{listed([STEADY[name] for name in STEADY if name in names])} time of an iteration"
            )
        return self.findings[0].metric


def headline(outcome: NightOutcome) -> str:
    """The answer in one line: whose night, where it ran, and what it found."""
    findings = finding_texts(outcome)
    alerts = [change for change in one_by_one(findings) if change.group == "alert"]
    said = counted_changes(findings)
    if outcome.state in WHY:
        said = [WHY[outcome.state].lower(), *said]
    elif len(alerts) == 1:
        said = [alerts[0].told, *said[1:]]
    elif alerts:
        said = [listed(said)]
    else:
        said = ["no regression", *said, f"{outcome.fine_series:,} series are as they were"]
        if outcome.blunt_series:
            said.append(f"{outcome.blunt_series:,} {BLUNT}")
    return printable(f"{_who(outcome)}, {outcome.date}: {'; '.join(said)}")


def _who(outcome: NightOutcome) -> str:
    """Its name, its machine and its GPU: twenty machines may post to one channel."""
    name = outcome.night.removeprefix(f"night-{outcome.date}-")
    hosts = list(dict.fromkeys(each.host for each in outcome.machines)) or [outcome.host or ""]
    where = hosts[0] if len(hosts) == 1 else f"{len(hosts)} hosts"
    gpus = listed(list(dict.fromkeys(each.gpu for each in outcome.machines)) or [""])
    return " ".join(
        filter(None, [name, f"on {where}" if where else "", f"({gpus})" if gpus else ""])
    )


def one_by_one(findings: Iterable[FindingText]) -> list[OneChange]:
    """Each change once, those of most series first; what wall time does not show comes last."""
    grouped: dict[object, list[FindingText]] = {}
    for each in findings:
        finding = each.finding
        moved: tuple[Change, ...] | date = finding.moved or finding.since
        key = (each.group, finding.key.gpu, _kind(finding), finding.cause, moved)
        grouped.setdefault(key, []).append(each)
    changes = [OneChange(findings=tuple(sorted(mine, key=_size))) for mine in grouped.values()]
    return sorted(
        changes,
        key=lambda change: (change.first.wall_ratio is not None, -len(change.findings)),
    )


def counted_changes(findings: Sequence[FindingText]) -> list[str]:
    """How many changes there are of each kind; what waits beside an alert of the same is none of its own."""
    changes = one_by_one(findings)
    alerts = [change for change in changes if change.group == "alert"]
    worse = [change for change in alerts if change.first.direction == "worse"]
    waiting = [
        change
        for change in changes
        if change.group == "waiting" and not any(change.echoes(alert) for alert in alerts)
    ]
    counts = [
        (len(worse), "confirmed regression"),
        (len(alerts) - len(worse), "other confirmed change"),
    ]
    others = {"better": "better", "refuted": "refuted"}
    said = [counted(count, what) for count, what in counts if count]
    said += [f"{len(waiting):,} waiting"] if waiting else []
    for group, word in others.items():
        count = sum(change.group == group for change in changes)
        said += [f"{count:,} {word}"] if count else []
    return said


def _kind(finding: Finding) -> tuple[str, str, str]:
    """Wall and device time of an iteration are one kind, but for what only the device shows."""
    metric = finding.key.metric
    if finding.wall_ratio is not None:
        return finding.key.env_hash, finding.direction, metric
    return finding.key.env_hash, finding.direction, "steady" if metric in STEADY else metric


def _size(each: FindingText) -> tuple[bool, float]:
    metric = each.finding.key.metric
    is_amount = isinstance(METRIC_OF.get(metric), Amount)
    return metric == STEADY_DEVICE.name, -(each.finding.ratio or 0.0) if is_amount else 0.0
