"""A night as one HTML file without a script: its sections, with the history of each series as a drawing."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from html import escape
from itertools import pairwise
from math import isfinite
from statistics import median

from cudnn_sweep.analysis.nights.outcome import Finding, NightOutcome
from cudnn_sweep.analysis.nights.reports.report import NightReport
from cudnn_sweep.analysis.nights.reports.sections import (
    OneChange,
    Section,
    Verbatim,
    by_size,
    headline,
    sections,
)
from cudnn_sweep.analysis.nights.reports.words import (
    BLUNT,
    Group,
    amount,
    finding_texts,
    meaning,
    moves,
    smallest_step,
)
from cudnn_sweep.analysis.nights.series import Series, SeriesKey
from cudnn_sweep.analysis.report.pages.formats import document
from cudnn_sweep.analysis.words import one_line

KEY = (
    "In a history a dot is a night. The lines are the usual values before and since a finding; "
    "dots at the edge are beyond the scale. A dashed line is the first night with other software."
)
ROLES: dict[Group | None, str] = {
    "alert": "hurts",
    "changed": "no-effect",
    "waiting": "inconclusive",
    "better": "equivalent",
    "refuted": "no-effect",
}
OPEN = 4  # histories of one change that are open from the start
WIDTH, HEIGHT, LEFT, EDGE = 640, 130, 120, 12
WORD = 18  # characters beside the scale: a dot's title has all
BEYOND = 0.3  # of each level: one odd night must not flatten all others
LEAST_SPAN = 0.1  # of the largest value: the noise of a series that never moves would look large


@dataclass(frozen=True, kw_only=True, slots=True)
class Frame:
    first: date
    last: date
    low: float
    high: float

    def x(self, night: date) -> str:
        days = max((self.last - self.first).days, 1)
        return f"{LEFT + (WIDTH - LEFT - EDGE) * (night - self.first).days / days:.1f}"

    def y(self, height: float) -> str:
        inner = min(max(height, self.low), self.high)
        share = (inner - self.low) / (self.high - self.low or 1.0)
        return f"{HEIGHT - 2 * EDGE - (HEIGHT - 3 * EDGE) * share:.1f}"

    def level(self, start: date, end: date, height: float) -> str:
        across = f'x1="{self.x(start)}" x2="{self.x(end)}"'
        return f'<line {across} y1="{self.y(height)}" y2="{self.y(height)}" stroke-width="3"/>'

    def dashed(self, night: date) -> str:
        x = self.x(night)
        return f'<line x1="{x}" x2="{x}" y1="0" y2="{HEIGHT - EDGE}" stroke-dasharray="3"/>'

    def dot(self, night: date, height: float, role: str, title: str) -> str:
        place = f'cx="{self.x(night)}" cy="{self.y(height)}" r="4" fill="var(--{role})"'
        return f"<circle {place}><title>{_inline(title)}</title></circle>"


@dataclass(frozen=True, kw_only=True, slots=True)
class Histories:
    series: Mapping[SeriesKey, Series]
    versions: Mapping[date, str]
    """Changes of software, by the first night with it."""

    def folded(
        self, key: SeriesKey, text: str, finding: Finding | None = None, *, is_open: bool = False
    ) -> str:
        series = self.series.get(key)
        drawing = self._figure(series, finding) if series is not None else ""
        return f"<details{' open' * is_open}><summary>{_inline(text)}</summary>{drawing}</details>"

    def _figure(self, series: Series, finding: Finding | None) -> str:
        points, (heights, ticks) = series.points, _scale(series, finding)
        first, last = points[0].date, points[-1].date
        frame = Frame(first=first, last=last, low=min(ticks), high=max(ticks))
        software = [b.date for a, b in pairwise(points) if a.software_hash != b.software_hash]
        titles = [f"{point.date}: {_shown(series, point.value)}" for point in points]
        since = date.max if finding is None else finding.since
        drawn = [
            *(
                f'<text x="0" y="{frame.y(at)}">{_inline(text[:WORD])}</text>'
                for at, text in ticks.items()
            ),
            f'<text x="{frame.x(first)}" y="{HEIGHT}">{first:%m-%d}</text>',
            f'<text x="{frame.x(last)}" y="{HEIGHT}" text-anchor="end">{last:%m-%d}</text>',
            *map(frame.dashed, software),
            *(frame.level(*level) for level in _levels(series, finding)),
            *(
                frame.dot(point.date, height, "c1" if point.date < since else "c2", title)
                for point, height, title in zip(points, heights, titles, strict=True)
                if height is not None
            ),
        ]
        step = smallest_step(series)
        notes = [f"the smallest step that it could show: {step}"] if step else []
        notes += [f"{night}: {self.versions.get(night, 'other software')}" for night in software]
        spoken = _inline("; ".join(titles))
        svg = f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{spoken}">{"".join(drawn)}</svg>'
        return f'<figure class="dots">{svg}<figcaption>{_inline("; ".join(notes))}</figcaption></figure>'


def _shown(series: Series, value: float | str | None) -> str:
    return "not measured" if value is None else amount(series.key, value)


def _levels(series: Series, finding: Finding | None) -> list[tuple[date, date, float]]:
    """Return (first night, last night, usual value): before the finding and since, or of all nights."""
    numbers = [number for number in series.numbers if number is not None and isfinite(number)]
    first, last = series.points[0].date, series.points[-1].date
    if finding is not None and isinstance(finding.before, float) and isinstance(finding.now, float):
        since = max(finding.since, first)
        return [(first, since, finding.before), (since, last, finding.now)]
    return [(first, last, median(numbers))] if numbers else []


def _scale(series: Series, finding: Finding | None) -> tuple[list[float | None], dict[float, str]]:
    """Return each night's height, and labels for the lowest and the highest; for words, for all."""
    words = list(dict.fromkeys(word for word in series.words if word is not None))
    if words:
        places = {word: float(-place) for place, word in enumerate(words)}
        heights = [None if word is None else places[word] for word in series.words]
        return heights, {place: word for word, place in places.items()}
    levels = [level for _, _, level in _levels(series, finding)]
    near = [
        value
        for value in series.numbers
        if value is not None and any(abs(value - level) <= BEYOND * abs(level) for level in levels)
    ]
    low, high = min([*levels, *near], default=0.0), max([*levels, *near], default=1.0)
    wanting = max(LEAST_SPAN * abs(high) - (high - low), 0.0) / 2
    ends = (max(low - wanting, 0.0), high + wanting)
    finite = [value if value is not None and isfinite(value) else None for value in series.numbers]
    return finite, {end: _shown(series, end) for end in ends}


def to_html(outcome: NightOutcome, series: Sequence[Series]) -> str:
    histories = Histories(
        series={entry.key: entry for entry in series if entry.points},
        versions={version.date: moves(version.changes) for version in outcome.versions},
    )
    shown = sections(outcome, series)
    names = {
        key: f"{key.cell} · {key.settings}: {meaning(key)}, {key.gpu}" for key in histories.series
    }
    every = [histories.folded(key, names[key]) for key in sorted(names, key=names.__getitem__)]
    text = [_section(section, outcome, histories) for section in shown]
    text.append(f"<section><h2>Every series</h2>{''.join(every)}</section>")
    return document(
        title="cuDNN night report",
        measured=_inline(" · ".join(dict.fromkeys(key.gpu for key in names))),
        headline=_inline(headline(outcome)),
        about=KEY,
        tiles="\n".join(_tiles(outcome, shown)),
        sections="\n".join(text),
        location=_inline(outcome.night),
    )


def _tiles(outcome: NightOutcome, shown: Iterable[Section]) -> Iterable[str]:
    for section in shown:
        if section.group is not None:
            link = f'<a href="#{_anchor(section)}">{section.title.lower()}</a>'
            yield f'<li class="tile {ROLES[section.group]}"><strong>{len(section.changes)}</strong> {link}</li>'
    counts = (outcome.fine_series, outcome.blunt_series, outcome.insufficient_series)
    for count, text in zip(counts, ("as they were", BLUNT, "with too few nights"), strict=True):
        yield f'<li class="tile"><strong>{count:,}</strong> {text}</li>'


def _section(section: Section, outcome: NightOutcome, histories: Histories) -> str:
    rows = [
        f"<tr>{''.join(f'<td>{_inline(cell)}</td>' for cell in row)}</tr>" for row in section.rows
    ]
    head = "".join(f"<th>{title}</th>" for title in section.head)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    parts = [
        _listed(section.reasons),
        *(_article(change, outcome, histories) for change in section.changes),
        *(f"<p>{' '.join(map(_inline, note))}</p>" for note in section.notes),
        f'<div class="scrolls">{table}</div>' if rows else "",
    ]
    return f'<section id="{_anchor(section)}"><h2>{section.title}</h2>{"".join(parts)}</section>'


def _article(change: OneChange, outcome: NightOutcome, histories: Histories) -> str:
    """Return a change with histories of its series; of a shared finding, of its members."""
    ids = {finding.key.series_id for finding in change.findings}
    members = tuple(member for member in outcome.members if member.shared in ids)
    texts = finding_texts(replace(outcome, findings=members))
    drawn = [
        histories.folded(
            text.key,
            f"{text.series}, {meaning(text.key)}: {text.size} · series {text.key.series_id}",
            text.finding,
            is_open=place < OPEN,
        )
        for place, text in enumerate(sorted(texts, key=by_size) or change.findings)
    ]
    title = f"<h3>{_inline(change.summary)}</h3>"
    return f'<article class="{ROLES[change.group]}">{title}{_listed(change.details)}{"".join(drawn)}</article>'


def _listed(lines: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{_inline(line)}</li>' for line in lines)}</ul>" if lines else ""


def _anchor(section: Section) -> str:
    return re.sub(r"\W+", "-", section.title.lower())


def _inline(text: str) -> str:
    safe = escape(one_line(text))
    return f"<code>{safe}</code>" if isinstance(text, Verbatim) else safe


REPORT = NightReport(file="night.html", render=to_html)
