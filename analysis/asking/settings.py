"""A config's settings as text, and what a config is called.

A setting is a column of `records` that analysis/storing/schema.py marks as one. Trials are compared by this
text, so that it is never ambiguous: what is no plain word stands in quotes. SQL writes the same
(analysis/asking/settings_sql.py).
"""

import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias
from zlib import crc32

from cudnn_sweep.analysis.storing.schema import SettingValue, settings

PLAIN = r"[A-Za-z0-9_.:/+-]+"  # text that needs no quotes, alike in Python and in DuckDB
PAIR = re.compile(r'(?P<name>\w+)=(?P<text>"(?:[^"\\]|\\.)*"|[^",]*)(?:, |$)', re.DOTALL)
LONG = re.compile(r'"(?:[^"\\]|\\.){48,}"', re.DOTALL)
SHOWN = 24  # characters
ALWAYS_SAID = "benchmark"  # in a config's name, whatever its value


ArrowMap: TypeAlias = Sequence[tuple[str, bool | int | float | str]]


def as_text(value: SettingValue | ArrowMap) -> str:
    """A setting's value as `setting_texts` writes it in SQL."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, int | float):
        return str(value)
    items = dict(value)
    return _quoted(",".join(f"{_quoted(key)}={as_text(items[key])}" for key in sorted(items)))


def texts_of(values: Mapping[str, SettingValue | ArrowMap]) -> dict[str, str]:
    """Every setting's text, in the schema's order, of a row that has a column for each."""
    return {name: as_text(values[name]) for name in settings()}


def texts_in(line: str) -> dict[str, str]:
    """Each setting's text in a line as questions have it: `name=text, name=text`."""
    return {match["name"]: match["text"] for match in PAIR.finditer(line)}


def unusual_in(line: str) -> list[str]:
    """`name=text` of each setting in a line as questions have it that is not as PyTorch has it."""
    return sorted(f"{name}={text}" for name, text in besides_usual(texts_in(line)).items())


def besides_usual(texts: Mapping[str, str]) -> dict[str, str]:
    """The settings that are not as PyTorch has them, and what is no setting of the config."""
    usual = usual_texts()
    return {name: text for name, text in texts.items() if text != usual.get(name)}


def usual_texts() -> dict[str, str]:
    """PyTorch's own config."""
    return {name: as_text(setting.usual) for name, setting in settings().items()}


def config_name(texts: Mapping[str, str]) -> str:
    """What a config is called: `benchmark=true`, and whatever else is not as PyTorch has it."""
    said = {ALWAYS_SAID: texts[ALWAYS_SAID]} | besides_usual(texts)
    return " ".join(f"{name}={text}" for name, text in said.items())


def shortened(line: str) -> str:
    """For the eye: of a long quoted text its beginning, and a hash that tells it from others."""
    return LONG.sub(lambda long: f'"{long[0][1:SHOWN]}... #{crc32(long[0].encode()):08x}"', line)


def _quoted(text: str) -> str:
    if re.fullmatch(PLAIN, text) and text != "null":
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
