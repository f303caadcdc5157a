"""The SQL that is made from the schema's settings: nothing else lists them.

A question says `config`, a struct of every setting that the view `records` has besides its columns.
"""

import pyarrow as pa

from cudnn_sweep.analysis.asking.queries import literal
from cudnn_sweep.analysis.asking.settings import PLAIN
from cudnn_sweep.analysis.storing.schema import arrow_schema, settings

QUOTED_MACRO = f"""\
-- Text as a setting has it: in quotes, unless it is a plain word.
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


def with_config(rows: str) -> str:
    """A select of `rows` in which settings that old rows lack have the value that was in force, and
    `config` is a struct of all settings.
    """
    filled = ",\n    ".join(f"{_filled(name)} as {name}" for name in settings())
    listed = ", ".join(f"{name} := {name}" for name in settings())
    return (
        f"select *, struct_pack({listed}) as config from (\n"
        f"select * replace (\n    {filled}\n)\nfrom ({rows})\n)"
    )


def settings_macros() -> str:
    texts = ",\n    ".join(
        f"'{name}': " + text_of(f"struct_extract(config, '{name}')", _type_of(name))
        for name in settings()
    )
    usual = ",\n    ".join(f"{name} := {_usual(name)}" for name in settings())
    return (
        f"{QUOTED_MACRO}\n"
        "-- The text of each setting of a config, and of the twin, by name.\n"
        f"create or replace macro setting_texts(config, twin) as map {{\n    {texts},\n"
        "    'twin': twin::text\n};\n\n"
        "-- PyTorch's own config.\n"
        f"create or replace macro usual_config() as struct_pack(\n    {usual}\n);\n"
    )


def _type_of(name: str) -> pa.DataType:
    return arrow_schema().field(name).type


def _usual(name: str) -> str:
    return f"{literal(settings()[name].usual)}::{sql_type(_type_of(name))}"


def _filled(name: str) -> str:
    """The stored value, the entries of a map in order; in rows from before the column was there, the
    usual one.
    """
    is_map = pa.types.is_map(_type_of(name))
    value = f"map_from_entries(list_sort(map_entries({name})))" if is_map else name
    is_older = f"coalesce(schema_version, 0) < {settings()[name].since}"
    return f"if({name} is null and {is_older}, {_usual(name)}, {value})"


def text_of(value: str, kind: pa.DataType) -> str:
    """The expression of a setting's text: as_text in SQL. `value` is an expression of type `kind`."""
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
