"""What a webhook is told, in the two forms that it can be posted in."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

Json: TypeAlias = "None | bool | float | str | Sequence[Json] | Mapping[str, Json]"

# For one text that is longer, or for more blocks, Slack refuses the whole message.
HEADER_CHARACTERS = 150
SECTION_CHARACTERS = 3000
SECTIONS = 49  # 50 blocks, one of them the header
ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


@dataclass(frozen=True, kw_only=True, slots=True)
class News:
    headline: str
    """One line."""
    findings: tuple[str, ...]
    """For people, a few lines each."""
    result: Mapping[str, Json]
    """For programs, the night's JSON; Slack does not get it."""


def json_body(news: News) -> Mapping[str, Json]:
    return {"headline": news.headline, "findings": news.findings, "result": news.result}


def slack_body(news: News) -> Mapping[str, Json]:
    """`text` is what notifications show, `blocks` are the message."""
    header = {"type": "plain_text", "text": _cut(news.headline, HEADER_CHARACTERS)}
    texts = list(news.findings)
    if len(texts) > SECTIONS:
        texts[SECTIONS - 1 :] = [f"and {len(texts) - SECTIONS + 1} more"]
    return {
        "text": news.headline.translate(ESCAPES),
        "blocks": [{"type": "header", "text": header}, *map(_section, texts)],
    }


def _section(text: str) -> Mapping[str, Json]:
    escaped = _cut(text.translate(ESCAPES), SECTION_CHARACTERS)
    return {"type": "section", "text": {"type": "mrkdwn", "text": escaped}}


def _cut(text: str, characters: int) -> str:
    """An escape that is cut in two goes as a whole."""
    if len(text) <= characters:
        return text
    return re.sub(r"&[a-z]*$", "", text[: characters - 1]) + "…"
