"""YAML 1.2's core schema as plain data that still knows where each value stands.

But for hexadecimal numbers: `0x3` is text, sizes such as a padding.

YAML 1.1 reads `on`, `no` and `2026-01-01` as truth values and dates; here they are text. No tag
makes an object, no key stands twice, and aliases cannot blow a small file up.
"""

import math
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, ReusedAnchorWarning
from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode
from ruamel.yaml.nodes import Node as YamlNode
from ruamel.yaml.reader import ReaderError

from cudnn_sweep.cluster.errors import LaunchFileError

MAX_VALUES = 50_000  # with every alias written out; about what the largest readable file holds
MAX_OPEN = 100  # brackets; to parse 1,000 that nobody closes takes seconds
MAX_DIGITS = 400  # a float has fewer; Python refuses to convert whole numbers from 4,300 on

STANDARD = "tag:yaml.org,2002:"
TEXT_TAG = STANDARD + "str"
KNOWN_TAGS = {
    STANDARD + name
    for name in ("str", "map", "seq", "null", "bool", "int", "float", "timestamp", "merge")
}

# From chapter 10.3.2 of the YAML 1.2 specification.
NOTHING = ("", "~", "null", "Null", "NULL")
CONSTANTS: dict[str, None | bool | float] = {
    **dict.fromkeys(NOTHING, None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
WHOLE = re.compile(r"[-+]?[0-9]+")
OCTAL = re.compile(r"0o[0-7]+")
PASSWORD = re.compile(r"(?<=://)[^/@\s]+(?=@)")  # of a URL, the user's name with it
HALF_CHARACTER = re.compile("[\ud800-\udfff]")  # no file and no JSON can hold it
BRACKET = re.compile(r"[][{}]")
FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")

KeyPath: TypeAlias = tuple[str | int, ...]
Plain: TypeAlias = "None | bool | int | float | str | list[Plain] | dict[str, Plain]"


@dataclass(frozen=True, kw_only=True, slots=True)
class Value:
    line: int
    """Where its key stands, counted from 1; in a list, where it begins."""
    plain: Plain
    written: str = ""
    """A scalar as the file has it: `2.10` where `plain` is 2.1."""
    children: "Mapping[str | int, Value]" = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Mistake:
    line: int
    key: KeyPath
    text: str

    def show(self, file: Path) -> str:
        told = f"{file}:{self.line}: {dotted(self.key) or 'the file'}: {self.text}"
        told = PASSWORD.sub("...", told)
        return "".join(each if each.isprintable() or each == "\n" else "\ufffd" for each in told)


def dotted(key: KeyPath) -> str:
    """`metadata.sweep.shapes[2].width`."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in key)
    return "".join(steps).removeprefix(".")


def twice(first: int) -> str:
    """What is said of a key that already stands in line `first`."""
    return f"occurs twice, first in line {first}"


def compose(text: str, file: Path) -> YamlNode | None:
    """Parse one document; None where it is empty."""
    _refuse_deep(text, file)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", ReusedAnchorWarning
            )  # the latest counts, as YAML has it
            node: YamlNode | None = YAML().compose(text)
        if node is not None and _written_out(node, {}) > MAX_VALUES:
            raise LaunchFileError(
                f"{file}: holds more than {MAX_VALUES:,} values once its aliases are written out"
            )
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f":{mark.line + 1}" if mark is not None else ""
        problem = ", ".join(part for part in (error.context, error.problem) if part)
        raise LaunchFileError(f"{file}{line}: not YAML: {problem}") from error
    except ReaderError as error:
        at = text.count("\n", 0, error.position) + 1
        problem = f"found the character #x{error.character:04x}, which YAML does not allow"
        raise LaunchFileError(f"{file}:{at}: not YAML: {problem}") from error
    except RecursionError:
        raise LaunchFileError(f"{file}: nested too deeply, or an alias holds itself") from None
    return node


def _refuse_deep(text: str, file: Path) -> None:
    """Brackets in quotes and comments count too: nobody has so many that stay open."""
    still_open = 0
    for bracket in BRACKET.finditer(text):
        still_open += 1 if bracket[0] in "[{" else -1
        if still_open > MAX_OPEN:
            line = text.count("\n", 0, bracket.start()) + 1
            told = f"nested too deeply: more than {MAX_OPEN} brackets are open"
            raise LaunchFileError(f"{file}:{line}: {told}")


def _written_out(node: YamlNode, known: dict[int, int]) -> int:
    """Count values as if every alias were written out; an alias that holds itself never ends."""
    if id(node) not in known:
        known[id(node)] = 1 + sum(_written_out(child, known) for child in _parts(node))
    return known[id(node)]


def _parts(node: YamlNode) -> list[YamlNode]:
    if isinstance(node, MappingNode):
        return [part for pair in node.value for part in pair]
    return list(node.value) if isinstance(node, SequenceNode) else []


def grow(node: YamlNode, at: KeyPath, line: int, mistakes: list[Mistake]) -> Value:
    """Turn a parsed document into plain data; what may not stand in it is added to `mistakes`."""
    if str(node.tag) not in KNOWN_TAGS:
        text = f"found the tag `{_short(node.tag)}`, allowed: plain text, numbers, lists, mappings"
        mistakes.append(Mistake(line=line, key=at, text=text))
    elif isinstance(node, MappingNode):
        return _grow_mapping(node, at, line, mistakes)
    elif isinstance(node, SequenceNode):
        return _grow_list(node, at, line, mistakes)
    elif isinstance(node, ScalarNode):
        try:
            return Value(line=line, plain=_scalar(node), written=node.value)
        except ValueError as error:
            mistakes.append(Mistake(line=line, key=at, text=str(error)))
    return Value(line=line, plain=None)


def _grow_mapping(node: MappingNode, at: KeyPath, line: int, mistakes: list[Mistake]) -> Value:
    children: dict[str | int, Value] = {}
    for key, value in node.value:
        key_line = key.start_mark.line + 1
        if not isinstance(key, ScalarNode):
            text = "found a list or a mapping as a key, allowed: text"
            mistakes.append(Mistake(line=key_line, key=at, text=text))
            continue
        here = (*at, key.value)
        if key.value in children:
            mistakes.append(Mistake(line=key_line, key=here, text=twice(children[key.value].line)))
        children[key.value] = grow(value, here, key_line, mistakes)
    plain = {str(key): child.plain for key, child in children.items()}
    return Value(line=line, plain=plain, children=children)


def _grow_list(node: SequenceNode, at: KeyPath, line: int, mistakes: list[Mistake]) -> Value:
    children: dict[str | int, Value] = {
        index: grow(part, (*at, index), part.start_mark.line + 1, mistakes)
        for index, part in enumerate(node.value)
    }
    plain = [child.plain for child in children.values()]
    return Value(line=line, plain=plain, children=children)


def _scalar(node: ScalarNode) -> None | bool | int | float | str:
    text = str(node.value)
    if HALF_CHARACTER.search(text):
        raise ValueError("found half a character, as in `\\ud800`, allowed: whole ones")
    if "\0" in text:
        raise ValueError("found the character NUL, which no path and no name has")
    if node.style is not None or str(node.tag) == TEXT_TAG:  # quoted, a block, or `!!str`
        return text
    if text in CONSTANTS:
        return CONSTANTS[text]
    if WHOLE.fullmatch(text) or OCTAL.fullmatch(text):
        if len(text) > MAX_DIGITS:
            raise ValueError(f"found a number of {len(text)} digits, allowed: {MAX_DIGITS}")
        return int(text, base=10 if WHOLE.fullmatch(text) else 0)
    return float(text) if FLOAT.fullmatch(text) else text


def _short(tag: object) -> str:
    return str(tag).replace(STANDARD, "!!")
