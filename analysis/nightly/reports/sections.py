"""A night's findings as changes, each told once and not for each of its series; and as sections, which its Markdown,
its page and the terminal show, each in its own markup.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import date

from cudnn_sweep.analysis.nightly.outcome import Finding, NightOutcome
from cudnn_sweep.analysis.nightly.reports.words import (
    BLUNT,
    TITLES,
    WHY,
    FindingText,
    Group,
    beside_wall,
    cause,
    facts,
    finding_texts,
    how_to_accept,
    meaning,
    part,
    percent_or_times,
    smallest_step,
    values,
)
from cudnn_sweep.analysis.nightly.series import (
    METRIC_OF,
    STEADY_DEVICE,
    STEADY_WALL,
    Amount,
    Change,
    Series,
)
from cudnn_sweep.analysis.words import counted, listed, one_line

STEADY = {STEADY_WALL.name: "wall", STEADY_DEVICE.name: "device"}
MOST_NAMED = 6  # cells of one change
VERSIONED = {"torch": "torch", "version": "ours", "driver": "driver", "cudnn": "cudnn"}
"""Parts whose versions `sweep compare` takes, as it calls them; the first that moved names the sides."""


class Code(str):
    """What users have named, or may type."""

    __slots__ = ()


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
    def size(self) -> str:
        """What changed, and by how much: over its series, the smallest and the largest change."""
        first = self.findings[0]
        ratios = [each.finding.ratio for each in self.findings if each.finding.ratio is not None]
        walls = [wall for each in self.findings if (wall := each.finding.wall_ratio) is not None]
        if first.is_of_many or len(self.findings) == len(walls) == 1:
            return first.change
        if walls:
            sizes = [percent_or_times(min(each), max(each)) for each in (ratios, walls)]
            return beside_wall(*sizes)
        if len(ratios) == len(self.findings):
            return f"{self._what}: {percent_or_times(min(ratios), max(ratios))}"
        words = dict.fromkeys(each.change for each in self.findings)
        cells = len({each.cell for each in self.findings})
        where = f" in {cells:,} cells" if cells > 1 else ""
        return f"{self._what}{where}: {listed([*words][:MOST_NAMED])}"

    @property
    def told(self) -> str:
        since = min(each.finding.since for each in self.findings)
        comma = "," if self.findings[0].is_of_many else ""
        return f"{self.size}{comma} since {since}, {cause(self.first)}"

    @property
    def cells(self) -> str:
        if self.findings[0].is_of_many:
            return self.findings[0].cell
        cells = list(dict.fromkeys(each.cell for each in self.findings))
        settings = list(dict.fromkeys(one_line(each.key.settings) for each in self.findings))
        more = f" and {counted(len(cells) - MOST_NAMED, 'more cell')}" if cells[MOST_NAMED:] else ""
        series = "1 series" if len(self.findings) == 1 else f"{len(self.findings):,} series"
        return f"{series}: {'; '.join(cells[:MOST_NAMED])}{more} · {listed(settings)}"

    @property
    def details(self) -> list[str]:
        """A line each: its series first; last what `--accept` takes, and the command that measures the first again."""
        first, ids = self.findings[0], [each.key.series_id for each in self.findings[:MOST_NAMED]]
        in_wall = " in wall time" if len(self._metrics & set(STEADY)) > 1 else ""
        is_sized = first.levels and first.finding.ratio
        largest = f"; the largest{in_wall}: {first.size}" if is_sized else ""
        more = " ..." if self.findings[MOST_NAMED:] else ""
        known = filter(None, [first.basis + largest, self._kernels, first.look])
        series = f"series {', '.join(ids)}{more}"
        return [Code(self.cells), *known, series, Code(first.command)]

    @property
    def versions(self) -> tuple[str, str] | None:
        """The two sides that `sweep compare` tells apart, where a version moved."""
        moved = {change.part: change for change in self.first.moved}
        for name, kind in VERSIONED.items():
            if name in moved:
                return f"{kind}={moved[name].before}", f"{kind}={moved[name].now}"
        return None

    def new_of(self, fresh: Collection[Finding]) -> list[FindingText]:
        return [each for each in self.findings if each.finding in fresh]

    @property
    def _kernels(self) -> str:
        """Those that changed with it, and in how many cells."""
        kernels = dict.fromkeys(each.kernels for each in self.findings if each.kernels)
        if not kernels:
            return ""
        cells = counted(len({each.cell for each in self.findings if each.kernels}), "cell")
        return f"kernels changed in {cells}: {listed([*kernels][:MOST_NAMED])}"

    @property
    def _metrics(self) -> set[str]:
        return {each.finding.key.metric for each in self.findings}

    @property
    def _what(self) -> str:
        if self._metrics <= set(STEADY):
            of = [STEADY[name] for name in STEADY if name in self._metrics]
            return f"{listed(of)} time of an iteration"
        return meaning(self.first.key)


def headline(outcome: NightOutcome, fresh: Collection[Finding] = ()) -> str:
    """The answer in one line: whose night, where it ran, and what it found; what is `fresh` comes first."""
    changes = one_by_one(finding_texts(outcome))
    told = [change for change in changes if change.group in ("alert", "changed")]
    told.sort(key=lambda change: (change.group != "alert", not change.new_of(fresh)))
    said = _counted([change for change in changes if change not in told[:1]])
    if told:
        new = told[0].new_of(fresh)
        more = f"{len(new):,} more series: " if 0 < len(new) < len(told[0].findings) else ""
        said = [more + told[0].told, *said]
    if outcome.state in WHY:
        said = [WHY[outcome.state].lower(), *said]
    elif outcome.state == "fine":
        said = ["no regression", *said, f"{outcome.fine_series:,} series are as they were"]
        if outcome.blunt_series:
            said.append(f"{outcome.blunt_series:,} {BLUNT}")
    if outcome.skipped:
        said.append(f"{counted(len(outcome.skipped), 'network')} not measured")
    return one_line(f"{_who(outcome)}, {outcome.date}: {'; '.join(said)}")


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
    changes = [OneChange(findings=tuple(sorted(mine, key=by_size))) for mine in grouped.values()]
    return sorted(
        changes,
        key=lambda change: (
            not change.findings[0].is_of_many,
            change.first.wall_ratio is not None,
            -len(change.findings),
        ),
    )


def _counted(changes: Sequence[OneChange]) -> list[str]:
    counts = Counter(change.group for change in changes)
    said = [counted(counts["alert"], "other confirmed change")] if counts["alert"] else []
    return said + [
        f"{counts[each]:,} {each}" for each in TITLES if counts[each] and each != "alert"
    ]


def _kind(finding: Finding) -> tuple[str, str, str]:
    """Wall and device time of an iteration are one kind, but for what only the device shows."""
    metric = finding.key.metric
    if finding.wall_ratio is not None:
        return finding.key.env_hash, finding.direction, metric
    return finding.key.env_hash, finding.direction, "steady" if metric in STEADY else metric


def by_size(each: FindingText) -> tuple[bool, float]:
    """Wall times first, and of those the largest."""
    metric = each.finding.key.metric
    is_amount = isinstance(METRIC_OF.get(metric), Amount)
    return metric == STEADY_DEVICE.name, -(each.finding.ratio or 0.0) if is_amount else 0.0


# --- Sections ---

MOST_ROWS = 100  # of a list or table: a step's summary may have 1 MiB


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """In this order: reasons, changes, notes, and the table `rows` below `head`."""

    title: str
    group: Group | None = None
    """The group of all its changes."""
    reasons: Sequence[str] = ()
    changes: Sequence[OneChange] = ()
    notes: Sequence[Sequence[str]] = ()
    """A paragraph each, in parts."""
    head: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    is_rest: bool = False
    """Only for those who want to know more."""


def sections(
    outcome: NightOutcome, series: Sequence[Series] = (), results: str | None = None
) -> list[Section]:
    """`results` are those that the command line named."""
    changes = one_by_one(finding_texts(outcome))
    accept = [
        ("To accept a change, from a date on (here the first):", Code(command))
        for command in (how_to_accept(outcome, each, results) for each in outcome.alerts[:1])
    ]
    found = [
        Section(title=WHY.get(outcome.state, "Reasons"), reasons=outcome.reasons),
        _group("alert", changes, *accept),
        _group("changed", changes),
        _environment(outcome),
        _group("waiting", changes),
        _group("better", changes, is_rest=True),
        _group("refuted", changes, is_rest=True),
        _blunt(outcome, series),
        Section(
            title="The night",
            head=("", ""),
            rows=[(name, Code(value)) for name, value in facts(outcome)],
            is_rest=True,
        ),
    ]
    return [each for each in found if each.reasons or each.changes or each.notes or each.rows]


def _group(
    group: Group, changes: Sequence[OneChange], *notes: Sequence[str], is_rest: bool = False
) -> Section:
    mine = [each for each in changes if each.group == group]
    return Section(
        title=TITLES[group],
        group=group,
        changes=mine[:MOST_ROWS],
        notes=[*_more(mine), *notes] if mine else (),
        is_rest=is_rest,
    )


def _more(of: Sequence[object]) -> list[Sequence[str]]:
    return [(f"and {len(of) - MOST_ROWS:,} more: the JSON has all.",)] if of[MOST_ROWS:] else []


def _environment(outcome: NightOutcome) -> Section:
    anew = "A new baseline starts here, and the nights before do not count:"
    notes: list[Sequence[str]] = [(anew, outcome.new_baseline)] if outcome.new_baseline else []
    if not outcome.changes:
        notes.append(("Nothing that is known.",))
    return Section(
        title="What changed since the night before",
        notes=notes,
        head=("part", "before", "now"),
        rows=[(part(each), *map(Code, values(each))) for each in outcome.changes],
    )


def _blunt(outcome: NightOutcome, series: Sequence[Series]) -> Section:
    """Those that a reader would else take for as they were."""
    changed = {finding.key for finding in outcome.findings}
    judged = (each for each in series if each.is_judged and each.key not in changed)
    mine = [each for each in judged if not each.could_show]
    return Section(
        title="Could not show the least effect",
        notes=_more(mine),
        head=("cell and settings", "of", "smallest step that it could show"),
        rows=[
            (
                Code(f"{key.cell} · {key.settings}"),
                meaning(key),
                smallest_step(each) or "its words vary",
            )
            for key, each in ((each.key, each) for each in mine[:MOST_ROWS])
        ],
        is_rest=True,
    )
