"""What a webhook is told, in the two forms that it can be posted in."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import TypeAlias

Json: TypeAlias = "None | bool | float | str | Sequence[Json] | Mapping[str, Json]"

# For one text that is longer, or for more blocks, Slack refuses the whole message.
HEADER_CHARACTERS = 150
SECTION_CHARACTERS = 3000
SECTIONS = 49  # 50 blocks, one of them the header
# Of all blocks. That limit is not documented: 9,597 were taken, 11,341 refused
# (github.com/slackapi/bolt-js/issues/2867).
ALL_CHARACTERS = 8000
ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


@dataclass(frozen=True, kw_only=True, slots=True)
class News:
    headline: str
    """One line."""
    findings: tuple[str, ...]
    """The findings for people, a few lines each."""
    result: Mapping[str, Json]
    """The night's JSON, for programs; Slack does not get it."""


def json_body(news: News) -> Mapping[str, Json]:
    return {"headline": news.headline, "findings": news.findings, "result": news.result}


def slack_body(news: News) -> Mapping[str, Json]:
    """`text` is what notifications show, `blocks` are the message."""
    header = {"type": "plain_text", "text": _cut(news.headline, HEADER_CHARACTERS)}
    sections = [{"type": "mrkdwn", "text": text} for text in _sections(news.findings)]
    return {
        "text": news.headline.translate(ESCAPES),
        "blocks": [
            {"type": "header", "text": header},
            *({"type": "section", "text": text} for text in sections),
        ],
    }


def _sections(findings: Sequence[str]) -> list[str]:
    texts = [_cut(finding.translate(ESCAPES), SECTION_CHARACTERS) for finding in findings]
    ends = accumulate(map(len, texts))
    fitting = sum(end <= ALL_CHARACTERS for end in islice(ends, SECTIONS - 1))
    left_out = len(texts) - fitting
    return [*texts[:fitting], *([f"and {left_out} more"] if left_out else [])]


def _cut(text: str, characters: int) -> str:
    """An escape that is cut in two goes as a whole."""
    if len(text) <= characters:
        return text
    return re.sub(r"&[a-z]*$", "", text[: characters - 1]) + "…"
