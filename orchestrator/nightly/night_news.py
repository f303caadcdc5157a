"""A night as news: the headline, a few lines a finding, and the night's JSON."""

import json

from cudnn_sweep.analysis.nightly.outcome import NightOutcome
from cudnn_sweep.analysis.nightly.reports.as_json import to_json
from cudnn_sweep.analysis.nightly.reports.words import Told, headline, moves, told
from cudnn_sweep.orchestrator.nightly.news import News


def news_of(outcome: NightOutcome) -> News:
    """What fresh trials have refuted is no news."""
    findings = [_lines(each) for each in told(outcome) if each.group != "refuted"]
    changes = [f"Changed since the night before: {moves(outcome.changes)}"]
    return News(
        headline=headline(outcome),
        findings=(*outcome.reasons, *findings, *(changes if outcome.changes else ())),
        result=json.loads(to_json(outcome)),
    )


def _lines(each: Told) -> str:
    return f"{each.line}\n{each.command}"
