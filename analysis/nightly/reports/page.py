"""A night as one HTML file: what was found on top, the history of each of it below, then the rest."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import cache

from cudnn_sweep.analysis.nightly.outcome import NightOutcome
from cudnn_sweep.analysis.nightly.reports.grouped import OneChange, by_size, headline, one_by_one
from cudnn_sweep.analysis.nightly.reports.histories import hardwares, history
from cudnn_sweep.analysis.nightly.reports.report import NightReport
from cudnn_sweep.analysis.nightly.reports.words import (
    TITLES,
    WHY,
    FindingText,
    facts,
    finding_texts,
    how_to_accept,
)
from cudnn_sweep.analysis.nightly.series import Series, SeriesKey
from cudnn_sweep.analysis.report.figures import history as figure
from cudnn_sweep.analysis.report.figures.palette import PAGE
from cudnn_sweep.analysis.report.single_file import single_file

FOLDER = "nightly/reports"


def to_html(outcome: NightOutcome, series: Sequence[Series]) -> str:
    return single_file(
        f"{FOLDER}/night.html",
        script=f"{FOLDER}/night.js",
        looks=(f"{FOLDER}/night.css",),
        data=_data(outcome, series),
    )


def _data(outcome: NightOutcome, series: Sequence[Series]) -> dict[str, object]:
    changes = one_by_one(finding_texts(outcome))
    drawn = [one for one in series if one.points]
    places = {one.key: place for place, one in enumerate(drawn)}
    known = hardwares(outcome, drawn)
    return {
        "headline": headline(outcome),
        "state": outcome.state,
        "reasons": outcome.reasons,
        "why": WHY.get(outcome.state, ""),
        "facts": facts(outcome),
        "titles": TITLES,
        "counts": Counter(change.group for change in changes),
        "fine": outcome.fine_series,
        "blunt": outcome.blunt_series,
        "insufficient": outcome.insufficient_series,
        "new_baseline": outcome.new_baseline,
        "accept": how_to_accept(outcome),
        "changes": [asdict(change) for change in outcome.changes],
        "findings": [_change(change, outcome, places) for change in changes],
        "hardware": {env_hash: asdict(each) for env_hash, each in known.items()},
        "series": [history(one, known[one.key.env_hash]) for one in drawn],
        "columns": [asdict(column) for column in figure.COLUMNS],
        "drawings": _drawings(),
    }


@cache
def _drawings() -> dict[str, dict[str, object]]:
    """The same for all nights, and half of the time that a page takes."""
    return {
        values: {layout: drawing.to_dict() for layout, drawing in layouts.items()}
        for values, layouts in figure.drawings(PAGE).items()
    }


def _change(
    change: OneChange, outcome: NightOutcome, places: Mapping[SeriesKey, int]
) -> dict[str, object]:
    """With the series that show it: of a finding that stands for many, those."""
    ids = {each.series_id for each in change.findings}
    members = tuple(each for each in outcome.members if each.shared in ids)
    texts = finding_texts(replace(outcome, findings=members))
    return _finding(change.findings[0]) | {
        "told": change.told,
        "details": change.details,
        "command": change.command,
        "series": [
            _finding(each) | {"place": places.get(each.finding.key)}
            for each in sorted(texts, key=by_size) or change.findings
        ],
    }


def _finding(each: FindingText) -> dict[str, object]:
    return {
        "group": each.group,
        "direction": each.finding.direction,
        "name": f"{each.series}, {each.metric}",
        "size": each.size,
        "before": each.before,
        "since": str(each.finding.since),
        "series_id": each.series_id,
    }


REPORT = NightReport(file="night.html", render=to_html)
