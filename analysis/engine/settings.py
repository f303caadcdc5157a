"""Writes settings as text, in Python and in SQL.

A setting is a column that workloads/records/row.py marks as one. Settings are compared as text.
Every value except a plain word is quoted."""

import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias
from zlib import crc32

import pyarrow as pa

from cudnn_sweep.analysis.engine.queries import literal
from cudnn_sweep.analysis.store.schema import arrow_schema, axes, setting_name, settings
from cudnn_sweep.workloads.records.row import BUNDLED, Axis, Setting, SettingValue

PLAIN = r"[A-Za-z0-9_.:/+-]+"  # text that needs no quotes, for Python and DuckDB
PAIR = re.compile(r'(?P<name>\w+)=(?P<text>"(?:[^"\\]|\\.)*"|[^",]*)(?:, |$)', re.DOTALL)
LONG = re.compile(r'"(?:[^"\\]|\\.){48,}"', re.DOTALL)
SHOWN = 24  # number of characters of a long text that are kept
ALWAYS_SAID = "benchmark"  # every config's name includes this setting

ArrowMap: TypeAlias = Sequence[tuple[str, bool | int | float | str]]
QUOTED_MACRO = f"""\
-- Text of a setting's value, in quotes if it is not a plain word.
create or replace macro quoted(words) as if(
    regexp_full_match(words, '{PLAIN}') and words <> 'null',
    words,
    '"' || replace(replace(words, '\\', '\\\\'), '"', '\\"') || '"'
);
"""
SQL_TYPES = {
    pa.string(): "VARCHAR",
    pa.bool_(): "BOOLEAN",
    pa.int64(): "BIGINT",
    pa.float64(): "DOUBLE",
    pa.timestamp("us", tz="UTC"): "TIMESTAMP WITH TIME ZONE",
}


def as_text(value: SettingValue | ArrowMap) -> str:
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
    """Return the text of each setting in a row of `records`."""
    return {setting_name(column): as_text(values[column]) for column in settings()}


def texts_in(line: str) -> dict[str, str]:
    """Parse a line of the form `name=text, name=text`."""
    return {match["name"]: match["text"] for match in PAIR.finditer(line)}


def unusual_in(line: str) -> list[str]:
    """Return the settings in a line that differ from PyTorch's defaults, sorted."""
    return sorted(f"{name}={text}" for name, text in besides_usual(texts_in(line)).items())


def besides_usual(texts: Mapping[str, str]) -> dict[str, str]:
    """Return `texts` without the settings that have PyTorch's default value."""
    usual = usual_texts()
    return {name: text for name, text in texts.items() if text != usual.get(name)}


def usual_texts() -> dict[str, str]:
    """Return PyTorch's default of each setting, as text."""
    return {setting_name(column): as_text(mark.usual) for column, mark in settings().items()}


def config_name(texts: Mapping[str, str]) -> str:
    """Return `benchmark=...` and all settings that differ from PyTorch's defaults."""
    said = {ALWAYS_SAID: texts[ALWAYS_SAID]} | besides_usual(texts)
    return " ".join(f"{name}={text}" for name, text in said.items())


def shortened(line: str) -> str:
    """Replace each long quoted text in a line by its beginning and a hash."""
    return LONG.sub(lambda long: f'"{long[0][1:SHOWN]}... #{crc32(long[0].encode()):08x}"', line)


def _quoted(text: str) -> str:
    if re.fullmatch(PLAIN, text) and text != "null":
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def with_config(rows: str) -> str:
    """Return a SELECT that adds the config columns to `rows`, and defaults that old rows lack."""
    marks: dict[str, Axis | Setting] = {**axes(), **settings()}
    filled = ",\n    ".join(
        f"{_filled(name, mark)} as {name}" for name, mark in marks.items() if mark.usual is not None
    )
    listed = ", ".join(f"{name} := {name}" for name in settings())
    return (
        f"select *, struct_pack({listed}) as config,\n    {config_name_sql()} as settings,\n"
        "    left(md5(settings), 16) as config_hash\nfrom (\n"
        f"select * replace (\n    replace(workload, '{BUNDLED}', '') as workload,\n"
        f"    {filled}\n)\nfrom ({rows})\n)"
    )


def config_name_sql() -> str:
    usual = usual_texts() | {ALWAYS_SAID: ""}
    texts = {setting_name(c): f"coalesce({text_of(c, _type_of(c))}, 'null')" for c in settings()}
    texts = {ALWAYS_SAID: texts[ALWAYS_SAID]} | texts
    parts = (f"'{name}=' || nullif({text}, {literal(usual[name])})" for name, text in texts.items())
    return f"concat_ws(' ', {', '.join(parts)})"


def settings_macros() -> str:
    texts = ",\n    ".join(
        f"'{setting_name(c)}': " + text_of(f"struct_extract(config, '{c}')", _type_of(c))
        for c in settings()
    )
    usual = ",\n    ".join(f"{name} := {_usual(name, mark)}" for name, mark in settings().items())
    read = [literal(setting_name(c)) for c, mark in settings().items() if mark.read_by == "cudnn"]
    return (
        f"{QUOTED_MACRO}\n"
        "-- Texts of the twin and of each setting of a config, by name.\n"
        f"create or replace macro setting_texts(config, twin) as map {{\n    {texts},\n"
        "    'twin': twin::text\n};\n\n"
        "-- PyTorch's default config.\n"
        f"create or replace macro usual_config() as struct_pack(\n    {usual}\n);\n\n"
        "-- Whether cuDNN reads a setting.\n"
        f"create or replace macro read_by_cudnn(flag) as flag in ({', '.join(read)});\n"
    )


def _type_of(name: str) -> pa.DataType:
    return arrow_schema().field(name).type


def _usual(name: str, mark: Axis | Setting) -> str:
    return f"{literal(mark.usual)}::{sql_type(_type_of(name))}"


def _filled(name: str, mark: Axis | Setting) -> str:
    is_map = pa.types.is_map(_type_of(name))
    value = f"map_from_entries(list_sort(map_entries({name})))" if is_map else name
    is_nullable = arrow_schema().field(name).nullable
    return value if is_nullable else f"coalesce({value}, {_usual(name, mark)})"


def text_of(value: str, kind: pa.DataType) -> str:
    """Return SQL that turns `value` into text. `value` is an SQL expression of type `kind`."""
    if pa.types.is_map(kind):
        pair = f"quoted(entry.key) || '=' || {text_of('entry.value', kind.item_type)}"
        pairs = f"list_transform(list_sort(map_entries({value})), lambda entry: {pair})"
        return f"quoted(array_to_string({pairs}, ','))"
    if pa.types.is_string(kind):
        return f"quoted({value})"
    return f"{value}::text"


def sql_type(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return f"{sql_type(kind.value_type)}[]"
    if pa.types.is_map(kind):
        return f"MAP({sql_type(kind.key_type)}, {sql_type(kind.item_type)})"
    if pa.types.is_struct(kind):
        inner = ", ".join(f"{field.name} {sql_type(field.type)}" for field in kind)
        return f"STRUCT({inner})"
    return SQL_TYPES[kind]
