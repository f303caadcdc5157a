"""Reads YAML 1.2 into pydantic models and dataclasses, and says exactly what is wrong with a file.

Types are strict: `no` is text and no truth value, 2.10 is a number and no version. Unknown keys are
mistakes, whatever the model says about them.
"""

import json
import re
from collections.abc import Container, Iterable, Iterator
from difflib import get_close_matches
from functools import cache
from itertools import chain, groupby
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from cudnn_sweep.cluster.strict.document import (
    Document,
    KeyPath,
    Mistake,
    Value,
    parse,
    read_document,
)

MAX_FOUND = 60  # characters of a value that are shown

WANTED = {
    "string_type": "text",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "dataclass_type": "a mapping",
    "literal_error": "{expected}",
    "enum": "{expected}",
    "too_short": "at least {min_length} item",
    "string_too_short": "at least {min_length} character",
}
OF_ANOTHER_KIND = re.compile(r"\w+_type|int_from_float|literal_error|enum")
ABOUT_A_KEY = ("missing", "extra_forbidden", "unexpected_keyword_argument")
TRUTH_IN_YAML_1_1 = {"on", "off", "yes", "no", "y", "n"}

M = TypeVar("M")
Schema: TypeAlias = dict[str, Any]  # JSON Schema, as pydantic writes it
Errors: TypeAlias = list[tuple[KeyPath, ErrorDetails]]


def read_strict(file: Path, model: type[M]) -> M:
    """Read the whole of a file as one model. Raises LaunchFileError."""
    return check_part(read_document(file), model)


def read_strict_text(text: str, name: str, model: type[M]) -> M:
    """Likewise of text that is in no file; mistakes are told of `name`. Raises LaunchFileError."""
    return check_part(parse(text, Path(name)), model)


def check_part(document: Document, model: type[M], at: KeyPath = ()) -> M:
    """Read what stands at a key path; nothing there is an empty mapping. Raises LaunchFileError."""
    text = json.dumps(document.part(at))
    adapter = TypeAdapter(model)
    try:
        # By way of JSON: a strict model takes its lists as tuples and its text as enums. Files that it
        # names lie relative to this one.
        return adapter.validate_json(
            text, strict=True, extra="forbid", context={"folder": document.file.parent}
        )
    except ValidationError as error:
        mistakes = _explain(error, _schema(model), document, at)  # type: ignore[arg-type]
        raise document.refusal(mistakes) from None


@cache  # to write it takes longer than to read most files
def _schema(model: Any) -> Schema:
    return TypeAdapter(model).json_schema()


def unknown_key(key: str, allowed: Iterable[str]) -> str:
    """Say what is allowed in place of a key, and what it may be a misspelling of."""
    keys = sorted(set(allowed))
    near = get_close_matches(key, keys, n=1)
    guess = f" (did you mean `{near[0]}`?)" if near else ""
    return f"unknown key{guess}, allowed: {', '.join(keys) or 'none'}"


def _explain(
    error: ValidationError, schema: Schema, document: Document, at: KeyPath
) -> Iterator[Mistake]:
    """One mistake for each place in the file, in the order of its lines."""
    errors = _nearest(at, [(each["loc"], each) for each in error.errors()], document.values)
    errors.sort(key=lambda each: (document.line(each[0]), each[0]))
    for key, group in groupby(errors, key=lambda each: each[0]):
        first, *others = (each for _, each in group)
        if first["type"] == "missing":
            yield key, "is missing"
        elif first["type"] in ABOUT_A_KEY:
            yield key, unknown_key(str(key[-1]), _allowed_keys(schema, key[len(at) : -1]))
        else:
            value = document.values.get(key, Value(1, {}))
            yield key, _misfit(value, [first, *others])


def _nearest(at: KeyPath, errors: Errors, places: Container[KeyPath]) -> Errors:
    """Locate errors that are some steps below `at`: keys of the file, and alternatives of unions.

    Where no alternative fits, only the nearest counts, or all if none seems to be meant.
    """
    found: Errors = []
    below: dict[str | int, Errors] = {}
    for steps, error in errors:
        if not steps or (len(steps) == 1 and error["type"] in ABOUT_A_KEY):
            found.append(((*at, *steps), error))
        else:
            below.setdefault(steps[0], []).append((steps[1:], error))
    alternatives: list[Errors] = []
    for step, left in below.items():
        if (*at, step) in places:
            found += _nearest((*at, step), left, places)
        else:
            alternatives.append(_nearest(at, left, places))

    def distance(alternative: Errors) -> tuple[bool, bool, int]:
        here = [error["type"] for key, error in alternative if key == at]
        return any(map(OF_ANOTHER_KIND.fullmatch, here)), bool(here), len(alternative)

    nearest = min(alternatives, key=distance, default=[])
    return found + (list(chain(*alternatives)) if distance(nearest)[0] else nearest)


def _allowed_keys(whole: Schema, path: KeyPath) -> set[str]:

    def resolve(schema: Schema) -> list[Schema]:
        schema = whole.get("$defs", {}).get(schema.get("$ref", "").rpartition("/")[2], schema)
        alternatives = schema.get("anyOf", schema.get("oneOf"))
        return [schema] if alternatives is None else list(chain(*map(resolve, alternatives)))

    found = resolve(whole)
    for step in path:
        others = "items" if isinstance(step, int) else "additionalProperties"
        below = [each.get("properties", {}).get(step, each.get(others)) for each in found]
        found = [one for each in below if isinstance(each, dict) for one in resolve(each)]
    return {key for each in found for key in each.get("properties", ())}


def _misfit(value: Value, errors: list[ErrorDetails]) -> str:
    if errors[0]["type"] == "value_error":
        text = str(errors[0]["ctx"]["error"])
        return text if "found " in text else f"{text}, found {_found(value)}"
    kinds = {error["type"] for error in errors}
    hint = ""
    if "bool_type" in kinds and value.written.lower() in TRUTH_IN_YAML_1_1:
        hint = "; in YAML 1.2 only `true` and `false` are truth values"
    if "string_type" in kinds and isinstance(value.plain, bool | int | float):
        hint = f'; text that looks like something else needs quotes: "{value.written}"'
    wanted = " or ".join(dict.fromkeys(map(_wanted, errors)))
    return f"found {_found(value)}, wanted {wanted}{hint}"


def _wanted(error: ErrorDetails) -> str:
    if error["type"] in WANTED:
        return WANTED[error["type"]].format(**error.get("ctx", {}))
    words = error["msg"].removeprefix("Input should be ")
    return f"a number {words}" if words.startswith(("greater", "less")) else words


def _found(value: Value) -> str:
    match value.plain:
        case dict():
            return "a mapping"
        case list():
            return "a list" if value.plain else "an empty list"
        case None:
            return "nothing"
    written = value.written.replace("\n", " ")
    short = f"{written[:MAX_FOUND]}..." if len(written) > MAX_FOUND else written
    kind = "the text " if isinstance(value.plain, str) else ""
    return f"{kind}`{short}`"
