"""Reads YAML 1.2 into pydantic models and dataclasses. Errors name each mistake with its line.

In YAML 1.2, `on`, `no` and `2026-01-01` are text. Types are strict: the number 2.10 is not text.
Unknown keys, repeated keys and tags that create objects are mistakes.
"""

import json
import math
import re
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import chain, groupby
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails
from ruamel.yaml import YAML
from ruamel.yaml.composer import MaxDepthExceededError
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError

from cudnn_sweep.cluster.errors import LaunchFileError

MAX_BYTES = 256 * 1024  # parsing a file of this size takes seconds
MAX_VALUES = 50_000  # values of a file in which all aliases are expanded
MAX_DEPTH = 100
DEEP = f"nested too deeply: more than {MAX_DEPTH} levels, or an alias that contains itself"

STANDARD = "tag:yaml.org,2002:"
KINDS = "str map seq null bool int float timestamp merge"
KNOWN_TAGS = {STANDARD + kind for kind in KINDS.split()}

# Chapter 10.3.2 of the YAML 1.2 specification, without hexadecimal numbers.
WORDS: dict[str, float | None] = {"": None, "~": None, "null": None, "true": True, "false": False}
WORDS |= {".nan": math.nan, ".inf": math.inf, "+.inf": math.inf, "-.inf": -math.inf}
WHOLE = re.compile(r"[-+]?[0-9]{1,300}|0o[0-7]+")  # longer numbers exceed a float
FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")

PASSWORD = re.compile(r"(?<=://)[^/@\s]+(?=@)")  # user and password in a URL
NO_CHARACTER = re.compile("[\0\ud800-\udfff]")  # NUL and surrogates

MAX_FOUND = 60  # most characters of a value in a message

WANTED = {
    "string_type": "text",
    "bool_type": "true or false",
    "float_type": "a number",
    **dict.fromkeys(("int_type", "int_from_float"), "a whole number"),
    **dict.fromkeys(("list_type", "tuple_type"), "a list"),
    **dict.fromkeys(("dict_type", "model_type", "dataclass_type"), "a mapping"),
    **dict.fromkeys(("literal_error", "enum"), "{expected}"),
    "too_short": "at least {min_length} item",
    "string_too_short": "at least {min_length} character",
}
OF_ANOTHER_KIND = re.compile(r"\w+_type|int_from_float|literal_error|enum")
ABOUT_A_KEY = ("missing", "extra_forbidden", "unexpected_keyword_argument")
TRUTH_IN_YAML_1_1 = {"on", "off", "yes", "no", "y", "n"}

KeyPath: TypeAlias = tuple[str | int, ...]
Mistake: TypeAlias = tuple[KeyPath, str]
Plain: TypeAlias = "None | bool | int | float | str | list[Plain] | dict[str, Plain]"
M = TypeVar("M")
Schema: TypeAlias = dict[str, Any]  # JSON Schema from pydantic
Errors: TypeAlias = list[tuple[KeyPath, ErrorDetails]]


@dataclass(frozen=True, slots=True)
class Value:
    line: int
    """Line of the key or list item, counted from 1."""
    plain: Plain
    written: str = ""
    """Text of a scalar in the file, such as `2.10` if `plain` is 2.1."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """A parsed file. Only its syntax has been checked."""

    file: Path
    text: str
    values: dict[KeyPath, Value] = field(default_factory=dict)
    mistakes: dict[KeyPath, str] = field(default_factory=dict)
    """Mistakes that do not stop the parser, by key path. The method `part` raises them."""

    def line(self, at: KeyPath) -> int:
        """Return the line of a key path, or of its nearest ancestor in the file."""
        return self.values[at].line if at in self.values else self.line(at[:-1])

    def part(self, at: KeyPath) -> Plain:
        """Return the value at a key path, or {} if it has none. Raises LaunchFileError."""
        mistakes = {
            key: text for key, text in self.mistakes.items() if key[: len(at)] == at[: len(key)]
        }
        if mistakes:
            raise self.refusal(mistakes.items())
        # A key is null if the lines below it are comments.
        value = self.values.get(at)
        return {} if value is None or value.plain is None else value.plain

    def refusal(self, mistakes: Iterable[Mistake]) -> LaunchFileError:
        lines = "\n".join(
            f"{self.file}:{self.line(key)}: {dotted(key) or 'the file'}: {text}"
            for key, text in mistakes
        )
        return LaunchFileError(PASSWORD.sub("...", lines))


def dotted(key: KeyPath) -> str:
    """Return a key path as text, such as `metadata.sweep.shapes[2].width`."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in key)
    return "".join(steps).removeprefix(".")


def read_document(file: Path) -> Document:
    """Parse a file whose root must be a mapping. Raises LaunchFileError."""
    document = parse(_read_text(file), file)
    if not isinstance(document.values[()].plain, dict | None):
        raise LaunchFileError(f"{file}: found no keys, wanted `key: value` lines")
    return document


def parse(text: str, file: Path) -> Document:
    """Parse a text. Raises LaunchFileError. Messages name `file`, which need not exist."""
    yaml, document = YAML(), Document(file=file, text=text)
    yaml.max_depth = MAX_DEPTH
    yaml.composer.warn_double_anchors = False  # YAML allows an anchor to be set again
    try:
        root = yaml.compose(text) or ScalarNode(STANDARD + "null", "")
        _grow(document, root, (), 1)
    except MarkedYAMLError as error:
        line = (error.problem_mark or error.context_mark).line + 1
        problem = ", ".join(part for part in (error.context, error.problem) if part)
        mistake = DEEP if isinstance(error, MaxDepthExceededError) else f"not YAML: {problem}"
        raise LaunchFileError(f"{file}:{line}: {mistake}") from error
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        mistake = f"found the character #x{error.character:04x}, which YAML does not allow"
        raise LaunchFileError(f"{file}:{line}: not YAML: {mistake}") from error
    return document


def _read_text(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except IsADirectoryError:
        raise LaunchFileError(f"{file}: found a folder, wanted a YAML file") from None
    except OSError as error:
        raise LaunchFileError(f"{file}: cannot be read: {error.strerror}") from error
    if len(raw) > MAX_BYTES:
        raise LaunchFileError(f"{file}: is larger than the {MAX_BYTES:,} bytes allowed")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise LaunchFileError(f"{file}:{line}: found bytes that are not UTF-8 text") from error


def _grow(document: Document, node: Node, at: KeyPath, line: int) -> Plain:
    """Return a node as plain data. Add the node and its descendants to the document."""
    if len(at) > MAX_DEPTH:
        raise MaxDepthExceededError(problem_mark=node.start_mark)
    if len(document.values) > MAX_VALUES:
        mistake = f"contains more than {MAX_VALUES:,} values if its aliases are expanded"
        raise LaunchFileError(f"{document.file}: {mistake}")
    plain: Plain = None
    try:
        if str(node.tag) not in KNOWN_TAGS:
            tag = str(node.tag).replace(STANDARD, "!!")
            allowed = "plain text, numbers, lists, mappings"
            raise ValueError(f"found the tag `{tag}`, allowed: {allowed}")
        if isinstance(node, ScalarNode):
            plain = _scalar(node)
        elif isinstance(node, SequenceNode):
            plain = [
                _grow(document, part, (*at, index), part.start_mark.line + 1)
                for index, part in enumerate(node.value)
            ]
        elif isinstance(node, MappingNode):
            plain = _mapping(document, node, at)
    except ValueError as error:
        document.mistakes[at] = str(error)
    written = str(node.value) if isinstance(node, ScalarNode) else ""
    document.values[at] = Value(line, plain, written)
    return plain


def _mapping(document: Document, node: MappingNode, at: KeyPath) -> dict[str, Plain]:
    plain: dict[str, Plain] = {}
    for key, value in node.value:
        line = key.start_mark.line + 1
        here = (*at, key.value if isinstance(key, ScalarNode) else "?")
        if not isinstance(key, ScalarNode):
            document.mistakes[here] = "found a list or a mapping as a key, allowed: text"
        elif key.value in plain:
            document.mistakes[here] = f"occurs twice, first in line {document.line(here)}"
        else:
            plain[key.value] = _grow(document, value, here, line)
            continue
        document.values[here] = Value(line, None)
    return plain


def _scalar(node: ScalarNode) -> None | bool | int | float | str:
    text = str(node.value)
    if match := NO_CHARACTER.search(text):
        code = f"U+{ord(match[0]):04X}"
        raise ValueError(f"found the character {code}, which no path or name can contain")
    if node.style is not None or str(node.tag) == STANDARD + "str":  # quoted, a block, or `!!str`
        return text
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    if WHOLE.fullmatch(text):
        return int(text, base=0 if "o" in text else 10)
    return float(text) if FLOAT.fullmatch(text) else text


def read_strict(file: Path, model: type[M]) -> M:
    """Read a file into a model. Raises LaunchFileError."""
    return check_part(read_document(file), model)


def read_strict_text(text: str, name: str, model: type[M]) -> M:
    """Read a text into a model. Raises LaunchFileError. Messages use `name` as the file's name."""
    return check_part(parse(text, Path(name)), model)


def check_part(document: Document, model: type[M], at: KeyPath = ()) -> M:
    """Read the part of a document at a key path into a model. Raises LaunchFileError."""
    text = json.dumps(document.part(at))
    adapter = TypeAdapter(model)
    try:
        # From JSON, a strict model accepts a list for a tuple and text for an enum.
        return adapter.validate_json(
            text, strict=True, extra="forbid", context={"folder": document.file.parent}
        )
    except ValidationError as error:
        mistakes = _explain(error, adapter.json_schema(), document, at)
        raise document.refusal(mistakes) from None


def unknown_key(key: str, allowed: Iterable[str]) -> str:
    keys = sorted(set(allowed))
    return f"unknown key{did_you_mean(key, keys)}, allowed: {', '.join(keys) or 'none'}"


def did_you_mean(word: str, allowed: Iterable[str]) -> str:
    near = get_close_matches(word, sorted(allowed), n=1)
    return f" (did you mean `{near[0]}`?)" if near else ""


def _explain(
    error: ValidationError, schema: Schema, document: Document, at: KeyPath
) -> Iterator[Mistake]:
    errors = _nearest(at, [(detail["loc"], detail) for detail in error.errors()], document.values)
    errors.sort(key=lambda located: (document.line(located[0]), located[0]))
    for key, group in groupby(errors, key=lambda located: located[0]):
        first, *more = (detail for _, detail in group)
        if first["type"] == "missing":
            yield key, "is missing"
        elif first["type"] in ABOUT_A_KEY:
            yield key, unknown_key(str(key[-1]), _allowed_keys(schema, key[len(at) : -1]))
        else:
            value = document.values.get(key, Value(1, {}))
            yield key, _misfit(value, [first, *more])


def _nearest(at: KeyPath, errors: Errors, places: Container[KeyPath]) -> Errors:
    """Return errors at key paths in `places`. For a union, choose the best alternative's errors."""
    located: Errors = []
    below: dict[str | int, Errors] = {}
    for steps, error in errors:
        if not steps or (len(steps) == 1 and error["type"] in ABOUT_A_KEY):
            located.append(((*at, *steps), error))
        else:
            below.setdefault(steps[0], []).append((steps[1:], error))
    alternatives: list[Errors] = []
    for step, left in below.items():
        if (*at, step) in places:
            located += _nearest((*at, step), left, places)
        else:
            alternatives.append(_nearest(at, left, places))

    def distance(alternative: Errors) -> tuple[bool, bool, int]:
        here = [error["type"] for key, error in alternative if key == at]
        return any(map(OF_ANOTHER_KIND.fullmatch, here)), bool(here), len(alternative)

    nearest = min(alternatives, key=distance, default=[])
    return located + (list(chain(*alternatives)) if distance(nearest)[0] else nearest)


def _allowed_keys(whole: Schema, path: KeyPath) -> set[str]:
    def resolve(schema: Schema) -> list[Schema]:
        schema = whole.get("$defs", {}).get(schema.get("$ref", "").rpartition("/")[2], schema)
        alternatives = schema.get("anyOf", schema.get("oneOf"))
        return [schema] if alternatives is None else list(chain(*map(resolve, alternatives)))

    schemas = resolve(whole)
    for step in path:
        rest = "items" if isinstance(step, int) else "additionalProperties"
        below = [schema.get("properties", {}).get(step, schema.get(rest)) for schema in schemas]
        schemas = list(chain(*(resolve(schema) for schema in below if isinstance(schema, dict))))
    return {key for schema in schemas for key in schema.get("properties", ())}


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
