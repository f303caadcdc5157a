"""A report for terminals and pull requests: the words, the verdicts, what was left out."""

from collections.abc import Sequence

import pyarrow as pa

from cudnn_sweep.analysis.asking.formats import escaped, to_markdown
from cudnn_sweep.analysis.report.payload import ComparedWords, Payload
from cudnn_sweep.analysis.report.sheets import Sheet

SHOWN = {
    "label": "cell",
    "baseline_ms": "baseline ms",
    "candidate_ms": "candidate ms",
    "ratio": "ratio",
    "ratio_low": "low",
    "ratio_high": "high",
    "blocks": "blocks",
    "wall_in_words": "verdict",
    "device_ratio": "device ratio",
    "device_verdict": "device verdict",
    "empty_payback": "break-even, empty cache",
    "warm_payback": "break-even, warm cache",
    "memory_ratio": "memory ratio",
    "blocks_needed": "more blocks to decide",
}
FIRST_SENTENCES = 3  # above the table
PARTS = {"part": "part", "kind": "kind", "total_s": "seconds", "share": "share"}


def to_text(payload: Payload) -> str:
    """Markdown, ending in a line break."""
    parts = [
        "# cuDNN sweep report",
        _escaped(" · ".join(payload.common)),
        _escaped(payload.nothing or ""),
    ]
    for number, contrast in enumerate(payload.contrasts):
        parts += _contrast(payload.tables["verdicts"], number, contrast)
    if payload.left_out:
        parts += ["## What was left out", _listed(payload.left_out)]
    if payload.warnings:
        parts += ["## Warnings", _listed(payload.warnings)]
    if payload.tables["time"].rows:
        parts += ["## Where the time went", _escaped(payload.cost)]
        parts.append(_table(payload.tables["time"], PARTS))
        environments = payload.tables["environments"]
        parts += [
            "## Environment",
            _table(environments, {name: name for name in environments.columns}),
        ]
    return "\n\n".join(part.strip() for part in parts if part.strip()) + "\n"


def _contrast(verdicts: Sheet, number: int, contrast: ComparedWords) -> list[str]:
    place = verdicts.columns.index("contrast")
    mine = [row for row in verdicts.rows if row[place] == number]
    table = _table(Sheet(columns=verdicts.columns, rows=mine), SHOWN)
    first, more = contrast.sentences[:FIRST_SENTENCES], contrast.sentences[FIRST_SENTENCES:]
    return [
        f"## {_escaped(contrast.name)}",
        *map(_escaped, [contrast.headline, *first]),
        table,
        _listed([*more, *contrast.left_out]),
    ]


def _table(sheet: Sheet, titles: dict[str, str]) -> str:
    columns = {
        title: [row[sheet.columns.index(name)] for row in sheet.rows]
        for name, title in titles.items()
    }
    kept = {
        title: values for title, values in columns.items() if any(v is not None for v in values)
    }
    return to_markdown(pa.table(kept))


def _listed(sentences: Sequence[str]) -> str:
    return "\n".join(f"- {_escaped(sentence)}" for sentence in sentences)


def _escaped(text: str) -> str:
    """Names come from users: none may become markup."""
    return escaped(" ".join(text.split()))
