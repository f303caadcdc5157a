"""Reads YAML 1.2 into pydantic models and dataclasses, and says exactly what is wrong with a file.

Types are strict: `no` is text and no truth value, 2.10 is a number and no version. Unknown keys are
mistakes, whatever the model says about them.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError
from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode
from ruamel.yaml.nodes import Node as YamlNode

from cudnn_sweep.cluster.errors import LaunchFileError
from cudnn_sweep.cluster.strict.mistakes import explain
from cudnn_sweep.cluster.strict.yaml_tree import (
    NOTHING,
    KeyPath,
    Mistake,
    Plain,
    Value,
    compose,
    dotted,
    grow,
    twice,
)

STRICT = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)  # of our models
MAX_BYTES = 256 * 1024  # a file is a few KB; parsing as much as this takes about a second

M = TypeVar("M")


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """A parsed file, of which nothing but the syntax is checked yet."""

    file: Path
    text: str
    root: YamlNode | None

    def key_lines(self, at: KeyPath = ()) -> dict[str, int]:
        """The keys of the mapping that stands there, each with its line."""
        found = self.find(at)
        pairs = found[0].value if found and isinstance(found[0], MappingNode) else []
        return {str(key.value): key.start_mark.line + 1 for key, _ in pairs}

    def find(self, at: KeyPath) -> tuple[YamlNode, int] | None:
        """What stands there and the line of its key; None where the file has nothing there."""
        node, line = self.root, 1
        for depth, step in enumerate(at, start=1):
            if isinstance(node, SequenceNode) and isinstance(step, int):
                if step >= len(node.value):
                    return None
                node = node.value[step]
                line = node.start_mark.line + 1
                continue
            pairs = node.value if isinstance(node, MappingNode) else []
            found = [pair for pair in pairs if pair[0].value == step]
            if not found:
                return None
            if len(found) > 1:
                first, line = (key.start_mark.line + 1 for key, _ in found[:2])
                mistake = Mistake(line=line, key=at[:depth], text=twice(first))
                raise LaunchFileError(mistake.show(self.file))
            node, line = found[0][1], found[0][0].start_mark.line + 1
        return None if node is None else (node, line)

    def line(self, at: KeyPath) -> int:
        """Where that stands or, if the file has nothing there, the nearest thing that holds it."""
        if found := self.find(at):
            return found[1]
        return self.line(at[:-1]) if at else 1


def read_strict(file: Path, model: type[M]) -> M:
    """Read the whole of a file as one model. Raises LaunchFileError."""
    return check_part(read_document(file), model)


def read_strict_text(text: str, name: str, model: type[M]) -> M:
    """Likewise of text that is in no file; mistakes are told of `name`. Raises LaunchFileError."""
    place = Path(name)
    return check_part(Document(file=place, text=text, root=compose(text, place)), model)


def read_document(file: Path) -> Document:
    """Parse a file that may also hold what others check. Raises LaunchFileError."""
    text = _read_text(file)
    root = compose(text, file)
    if isinstance(root, ScalarNode) and root.style is None and root.value in NOTHING:
        root = None
    if root is not None and not isinstance(root, MappingNode):
        raise LaunchFileError(f"{file}: found no keys, wanted `key: value` lines")
    return Document(file=file, text=text, root=root)


def check_part(document: Document, model: type[M], at: KeyPath = ()) -> M:
    """Read what stands at a key path; nothing there is an empty mapping. Raises LaunchFileError."""
    mistakes: list[Mistake] = []
    value = _part(document, at, mistakes)
    if not mistakes:
        adapter = TypeAdapter(model)
        try:
            # By way of JSON: a strict model takes its lists as tuples and its text as enums. Files that it
            # names lie relative to this one.
            return adapter.validate_json(
                json.dumps(value.plain),
                strict=True,
                extra="forbid",
                context={"folder": document.file.parent},
            )
        except ValidationError as error:
            mistakes = explain(error, adapter, value, at)
    raise LaunchFileError("\n".join(mistake.show(document.file) for mistake in mistakes))


def plain_part(document: Document, at: KeyPath) -> Plain:
    """What stands at a key path, for a copy. Raises LaunchFileError."""
    mistakes: list[Mistake] = []
    value = _part(document, at, mistakes)
    if mistakes:
        raise LaunchFileError("\n".join(mistake.show(document.file) for mistake in mistakes))
    return value.plain


def _part(document: Document, at: KeyPath, mistakes: list[Mistake]) -> Value:
    found = document.find(at)
    if found is None:
        return Value(line=document.line(at), plain={})
    try:
        value = grow(found[0], at, found[1], mistakes)
    except RecursionError:
        raise LaunchFileError(f"{document.file}: {dotted(at)}: nested too deeply") from None
    # A key whose lines are all commented out holds nothing.
    return Value(line=value.line, plain={}) if value.plain is None else value


def _read_text(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except IsADirectoryError:
        raise LaunchFileError(f"{file}: is a folder, wanted a YAML file") from None
    except OSError as error:
        raise LaunchFileError(f"{file}: cannot be read: {error.strerror}") from error
    if len(raw) > MAX_BYTES:
        raise LaunchFileError(f"{file}: is larger than the {MAX_BYTES:,} bytes allowed")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise LaunchFileError(f"{file}:{line}: is not UTF-8 text") from error
