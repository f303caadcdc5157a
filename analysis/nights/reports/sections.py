"""Makes the sections of a night's answer. Each change is shown once, with all affected series."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial

from cudnn_sweep.analysis.answers.answer import Section, Verbatim
from cudnn_sweep.analysis.nights.outcome import Finding, NightOutcome
from cudnn_sweep.analysis.nights.reports.words import (
    BLUNT,
    TITLES,
    WHY,
    FindingText,
    Group,
    beside_wall,
    cause,
    facts,
    finding_texts,
    history,
    how_to_accept,
    meaning,
    not_measured,
    part,
    percent_or_times,
    smallest_step,
    values,
)
from cudnn_sweep.analysis.nights.series import (
    METRIC_OF,
    STEADY_DEVICE,
    STEADY_WALL,
    Amount,
    Change,
    Series,
    SeriesKey,
)
from cudnn_sweep.analysis.words import counted, listed, one_line

STEADY = {STEADY_WALL.name: "wall", STEADY_DEVICE.name: "device"}
ROLES: dict[Group, str] = {
    "alert": "hurts",
    "changed": "no-effect",
    "waiting": "inconclusive",
    "better": "equivalent",
    "refuted": "no-effect",
}
MOST_ROWS = 100  # most rows of a list or table
MOST_NAMED = 6  # most cells named for one change
VERSIONED = {"torch": "torch", "version": "ours", "driver": "driver", "cudnn": "cudnn"}
"""KIND of each part, in a side KIND=NAME of `sweep compare`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OneChange:
    """Findings that are shown as one change, because they have the same direction and cause."""

    findings: tuple[FindingText, ...]
    """Findings, sorted by `by_size`."""

    @property
    def group(self) -> Group:
        return self.findings[0].group

    @property
    def first(self) -> Finding:
        return self.findings[0].finding

    @property
    def size(self) -> str:
        """Text about what changed and by how much."""
        first = self.findings[0]
        ratios = [text.finding.ratio for text in self.findings if text.finding.ratio is not None]
        walls = [wall for text in self.findings if (wall := text.finding.wall_ratio) is not None]
        if first.is_of_many or len(self.findings) == len(walls) == 1:
            return first.change
        if walls:
            sizes = [percent_or_times(min(values), max(values)) for values in (ratios, walls)]
            return beside_wall(*sizes)
        if len(ratios) == len(self.findings):
            return f"{self._what}: {percent_or_times(min(ratios), max(ratios))}"
        words = dict.fromkeys(text.change for text in self.findings)
        cells = len({text.cell for text in self.findings})
        where = f" in {cells:,} cells" if cells > 1 else ""
        return f"{self._what}{where}: {listed([*words][:MOST_NAMED])}"

    @property
    def summary(self) -> str:
        since = min(text.finding.since for text in self.findings)
        comma = "," if self.findings[0].is_of_many else ""
        return f"{self.size}{comma} since {since}, {cause(self.first)}"

    @property
    def cells(self) -> str:
        if self.findings[0].is_of_many:
            return self.findings[0].cell
        cells = list(dict.fromkeys(text.cell for text in self.findings))
        settings = list(dict.fromkeys(one_line(text.key.settings) for text in self.findings))
        more = f" and {counted(len(cells) - MOST_NAMED, 'more cell')}" if cells[MOST_NAMED:] else ""
        series = "1 series" if len(self.findings) == 1 else f"{len(self.findings):,} series"
        return f"{series}: {'; '.join(cells[:MOST_NAMED])}{more} · {listed(settings)}"

    @property
    def details(self) -> list[str]:
        first, ids = self.findings[0], [text.key.series_id for text in self.findings[:MOST_NAMED]]
        in_wall = " in wall time" if self._metrics >= set(STEADY) else ""
        is_sized = first.levels and first.finding.ratio
        largest = f"; the largest{in_wall}: {first.size}" if is_sized else ""
        more = " ..." if self.findings[MOST_NAMED:] else ""
        facts = filter(None, [first.basis + largest, self._kernels, first.look])
        series = f"series {', '.join(ids)}{more}"
        again = Verbatim(one_line(self.first.command))
        return [Verbatim(self.cells), *facts, series, again]

    @property
    def versions(self) -> tuple[str, str] | None:
        """The two sides for `sweep compare`. None if no version changed."""
        moved = {change.part: change for change in self.first.moved}
        for name, kind in VERSIONED.items():
            if name in moved:
                return f"{kind}={moved[name].before}", f"{kind}={moved[name].now}"
        return None

    def new_of(self, fresh: Collection[Finding]) -> list[FindingText]:
        return [text for text in self.findings if text.finding in fresh]

    @property
    def _kernels(self) -> str:
        kernels = dict.fromkeys(text.kernels for text in self.findings if text.kernels)
        if not kernels:
            return ""
        cells = counted(len({text.cell for text in self.findings if text.kernels}), "cell")
        return f"kernels changed in {cells}: {listed([*kernels][:MOST_NAMED])}"

    @property
    def _metrics(self) -> set[str]:
        return {text.finding.key.metric for text in self.findings}

    @property
    def _what(self) -> str:
        if self._metrics <= set(STEADY):
            of = [STEADY[name] for name in STEADY if name in self._metrics]
            return f"{listed(of)} time of an iteration"
        return meaning(self.first.key)


def headline(outcome: NightOutcome, fresh: Collection[Finding] = ()) -> str:
    """Return a line that describes one change and counts the others. `fresh` alerts come first."""
    changes = one_by_one(finding_texts(outcome))
    confirmed = [change for change in changes if change.group in ("alert", "changed")]
    confirmed.sort(key=lambda change: (change.group != "alert", not change.new_of(fresh)))
    counts = Counter(change.group for change in changes if change not in confirmed[:1])
    parts = [f"{counts[group]:,} {group}" for group in TITLES if group != "alert" and counts[group]]
    if counts["alert"]:
        parts = [counted(counts["alert"], "other confirmed change"), *parts]
    if confirmed:
        new = confirmed[0].new_of(fresh)
        more = f"{len(new):,} more series: " if 0 < len(new) < len(confirmed[0].findings) else ""
        parts = [more + confirmed[0].summary, *parts]
    if outcome.state in WHY:
        parts = [WHY[outcome.state].lower(), *parts]
    elif outcome.state == "fine":
        parts = ["no regression", *parts, f"{outcome.fine_series:,} series are as they were"]
        if outcome.blunt_series:
            parts.append(f"{outcome.blunt_series:,} {BLUNT}")
    if outcome.skipped:
        parts.append(f"{counted(len(outcome.skipped), 'network')} not measured")
    return one_line(f"{_who(outcome)}, {outcome.date}: {'; '.join(parts)}")


def _who(outcome: NightOutcome) -> str:
    """Return the night's name with its host and GPU."""
    name = outcome.night.removeprefix(f"night-{outcome.date}-")
    hosts = [*dict.fromkeys(part.host for part in outcome.machines)] or [outcome.host or ""]
    where = hosts[0] if len(hosts) == 1 else f"{len(hosts)} hosts"
    gpus = listed([*dict.fromkeys(part.gpu for part in outcome.machines)] or [""])
    parts = [name, f"on {where}" if where else "", f"({gpus})" if gpus else ""]
    return " ".join(filter(None, parts))


def one_by_one(findings: Iterable[FindingText]) -> list[OneChange]:
    """Group findings into changes. Shared changes come first."""
    grouped: dict[object, list[FindingText]] = {}
    for text in findings:
        finding = text.finding
        hardware, metric = (finding.key.gpu, finding.key.env_hash), finding.key.metric
        if metric in STEADY and finding.wall_ratio is None:
            metric = "steady"  # wall and device time are shown as one metric
        moved: tuple[Change, ...] | date = finding.moved or finding.since
        key = (text.group, hardware, finding.direction, metric, finding.cause, moved)
        grouped.setdefault(key, []).append(text)
    changes = [OneChange(findings=tuple(sorted(mine, key=by_size))) for mine in grouped.values()]

    def place(change: OneChange) -> tuple[bool, bool, int]:
        first = change.findings[0]
        return not first.is_of_many, first.finding.wall_ratio is not None, -len(change.findings)

    return sorted(changes, key=place)


def by_size(text: FindingText) -> tuple[bool, float]:
    """Return a sort key. Larger ratios come first, and device times come last."""
    metric = text.finding.key.metric
    is_amount = isinstance(METRIC_OF.get(metric), Amount)
    return metric == STEADY_DEVICE.name, -(text.finding.ratio or 0.0) if is_amount else 0.0


def sections(
    outcome: NightOutcome, series: Sequence[Series] = (), results: str | None = None
) -> list[Section]:
    """Return the sections of a night. `results` is the value of `--results` in their commands."""
    changes = one_by_one(finding_texts(outcome))
    histories = {entry.key: history(entry) for entry in series if entry.points}
    group = partial(_group, changes, histories)
    how = "To accept a change, run a command like this one for the first alert:"
    accept = [(how, Verbatim(how_to_accept(outcome, alert, results))) for alert in outcome.alerts]
    reasons = [(reason,) for reason in outcome.reasons]
    of_the_night = [(name, Verbatim(value)) for name, value in facts(outcome)]
    shown = [
        Section(title=WHY.get(outcome.state, "Reasons"), items=reasons),
        group("alert", *accept[:1]),
        group("changed"),
        environment(outcome),
        group("waiting"),
        group("better", is_rest=True),
        group("refuted", is_rest=True),
        Section(title="The night", rows=of_the_night, is_rest=True),
        _every(series, histories),
    ]
    return [each for each in shown if not each.is_empty]


def _group(
    changes: Sequence[OneChange],
    histories: Mapping[SeriesKey, str],
    group: Group,
    *notes: Sequence[str],
    is_rest: bool = False,
) -> Section:
    mine = [change for change in changes if change.group == group]
    items = []
    for change in mine[:MOST_ROWS]:
        key = change.first.key
        drawn = [f"history: {histories[key]}"] if key in histories else []
        items.append((change.summary, *drawn, *change.details))
    return Section(
        title=TITLES[group],
        role=ROLES[group],
        items=items,
        notes=[*_more(mine), *notes] if mine else (),
        is_rest=is_rest,
    )


def _every(series: Sequence[Series], histories: Mapping[SeriesKey, str]) -> Section:
    """Return a table of all series. Series that are too noisy come first."""
    rows = [
        (
            not entry.is_judged or entry.could_show,
            Verbatim(f"{key.cell} · {key.settings}: {meaning(key)}, {key.gpu}"),
            smallest_step(entry) or "values vary" * (entry.is_judged and not entry.could_show),
            histories.get(key, ""),
        )
        for entry in series
        if (key := entry.key)
    ]
    return Section(
        title="Every series",
        notes=_more(rows),
        head=("series", "smallest change that would show", "a bar for each night"),
        rows=[row for _, *row in sorted(rows)[:MOST_ROWS]],
        is_rest=True,
    )


def _more(of: Sequence[object]) -> list[Sequence[str]]:
    more = f"and {len(of) - MOST_ROWS:,} more. The JSON report has all of them."
    return [(more,)] if of[MOST_ROWS:] else []


def environment(outcome: NightOutcome) -> Section:
    anew = "A new baseline starts here, because the earlier nights are not comparable:"
    notes: list[Sequence[str]] = [(anew, outcome.new_baseline)] if outcome.new_baseline else []
    if outcome.skipped:
        notes.append((f"Not measured: {not_measured(outcome)}",))
    return Section(
        title="What changed since the night before",
        notes=notes,
        head=("part", "before", "now"),
        rows=[(part(change), *map(Verbatim, values(change))) for change in outcome.changes],
    )
