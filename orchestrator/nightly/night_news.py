"""A night as news: the headline, a few lines a finding, and the night's JSON."""

import json
from collections.abc import Collection

from cudnn_sweep.analysis.nightly.outcome import Finding, NightOutcome
from cudnn_sweep.analysis.nightly.reports.as_json import to_json
from cudnn_sweep.analysis.nightly.reports.words import finding_texts, headline, moves
from cudnn_sweep.orchestrator.nightly.news import News


def news_of(outcome: NightOutcome, fresh: Collection[Finding]) -> News:
    """`fresh`: what nobody was told before."""
    changes = [f"Changed since the night before: {moves(outcome.changes)}"]
    return News(
        headline=headline(outcome),
        findings=(
            *(
                f"{each.line}\n{each.command}"
                for each in finding_texts(outcome)
                if each.finding in fresh
            ),
            *outcome.reasons,
            *([f"A new baseline starts: {outcome.new_baseline}"] if outcome.new_baseline else []),
            *(changes if outcome.changes else []),
        ),
        result=json.loads(to_json(outcome)),
    )
