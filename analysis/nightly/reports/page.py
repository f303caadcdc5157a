"""A night as one HTML file: what was found on top, the history of each of it below, then the rest."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache

from cudnn_sweep.analysis.nightly.outcome import NightOutcome, Series
from cudnn_sweep.analysis.nightly.reports.grouped import headline
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
    findings = finding_texts(outcome)
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
        "counts": Counter(each.group for each in findings),
        "fine": outcome.fine_series,
        "blunt": outcome.blunt_series,
        "insufficient": outcome.insufficient_series,
        "new_baseline": outcome.new_baseline,
        "accept": how_to_accept(outcome),
        "changes": [asdict(change) for change in outcome.changes],
        "findings": [
            _finding(each) | {"series": places.get(each.finding.key)} for each in findings
        ],
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


def _finding(each: FindingText) -> dict[str, object]:
    finding = each.finding
    return {
        "group": each.group,
        "direction": finding.direction,
        "cell": each.cell,
        "settings": each.settings,
        "series_id": each.series_id,
        "metric": each.metric,
        "change": each.change,
        "before": each.before,
        "now": each.now,
        "nights": each.nights,
        "since": finding.since.isoformat(),
        "confirmation": each.confirmation,
        "moved": each.moved,
        "command": each.command,
    }


REPORT = NightReport(file="night.html", render=to_html)
