"""Turns pydantic's complaints about a file into lines that a user can act on."""

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import groupby
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from cudnn_sweep.cluster.strict.model_keys import allowed_keys
from cudnn_sweep.cluster.strict.yaml_tree import KeyPath, Mistake, Value

MAX_FOUND = 60  # characters of a value that are shown

WANTED = {
    "string_type": "text",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "none_required": "nothing",
    **dict.fromkeys(("list_type", "tuple_type", "set_type", "frozen_set_type"), "a list"),
    **dict.fromkeys(("dict_type", "model_type", "dataclass_type"), "a mapping"),
}
TOO_SHORT = {"too_short": "item", "string_too_short": "character"}
CHOICES = ("literal_error", "enum")
UNKNOWN_KEY = ("extra_forbidden", "unexpected_keyword_argument")
MISSING_KEY = ("missing", "union_tag_not_found")
TRUTH_IN_YAML_1_1 = {"on", "off", "yes", "no", "y", "n"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Complaint:
    """One of pydantic's errors, its location split into what the file has and what it has not."""

    error: ErrorDetails
    path: KeyPath
    """Keys and positions in the file; the last may be a key that is missing there."""
    branches: tuple[tuple[int, str], ...]
    """Alternatives of unions on the way, each after how many steps of `path` it was tried."""
    value: Value
    """What stands at `path` or, where that is missing, around it."""

    @property
    def kind(self) -> str:
        return self.error["type"]

    @property
    def misfit(self) -> bool:
        """Something of another type was wanted, so this alternative was not meant."""
        return self.kind in WANTED or self.kind in CHOICES or self.kind.endswith("_type")


def explain(
    error: ValidationError, adapter: TypeAdapter[Any], value: Value, at: KeyPath
) -> list[Mistake]:
    """One mistake for each place in the file, in the order of its lines."""
    complaints = _likeliest([_locate(details, value) for details in error.errors()])
    complaints.sort(key=lambda complaint: (complaint.value.line, complaint.path))
    places = groupby(complaints, key=lambda complaint: complaint.path)
    return [_mistake(list(group), adapter, at) for _, group in places]


def _locate(error: ErrorDetails, value: Value) -> Complaint:
    path: KeyPath = ()
    branches: list[tuple[int, str]] = []
    steps = list(error["loc"])
    if error["type"].startswith("union_tag"):  # located at the mapping: name the key in it
        steps.append(error["ctx"]["discriminator"].strip("'"))
    for left, step in zip(reversed(range(len(steps))), steps, strict=True):
        if step in value.children:
            value, path = value.children[step], (*path, step)
        elif left == 0 and error["type"] in MISSING_KEY:
            path = (*path, step)
        else:
            branches.append((len(path), str(step)))
    return Complaint(error=error, path=path, branches=tuple(branches), value=value)


def _likeliest(complaints: list[Complaint]) -> list[Complaint]:
    """Where a value fits no alternative of a union, keep what the nearest alternative says."""
    unions: dict[object, dict[str, list[Complaint]]] = {}
    for complaint in complaints:
        for number, (depth, label) in enumerate(complaint.branches):
            union = (complaint.path[:depth], complaint.branches[:number])
            unions.setdefault(union, {}).setdefault(label, []).append(complaint)
    beaten = {id(each) for alternatives in unions.values() for each in _beaten(alternatives)}
    return [complaint for complaint in complaints if id(complaint) not in beaten]


def _beaten(alternatives: dict[str, list[Complaint]]) -> Iterable[Complaint]:
    """Complaints of a union's alternatives, without the one that was meant, if any seems to be."""
    shallowest = min(len(each.path) for group in alternatives.values() for each in group)
    meant = [
        group
        for group in alternatives.values()
        if not any(each.misfit and len(each.path) == shallowest for each in group)
    ]
    nearest = min(meant, key=len, default=None)
    if nearest is not None:
        for group in alternatives.values():
            yield from () if group is nearest else group


def _mistake(group: list[Complaint], adapter: TypeAdapter[Any], at: KeyPath) -> Mistake:
    first = group[0]
    if first.kind in MISSING_KEY:
        text = "is missing"
    elif first.kind in UNKNOWN_KEY:
        keys = allowed_keys(adapter, first.path[:-1], first.branches)
        text = unknown_key(str(first.path[-1]), keys)
    elif first.kind in ("value_error", "assertion_error"):
        text = str(first.error["ctx"]["error"])
        if "found " not in text:
            text += f", found {_found(first.value)}"
    else:
        wanted = " or ".join(dict.fromkeys(_wanted(each.error) for each in group))
        text = f"found {_found(first.value)}, wanted {wanted}{_hint(group)}"
    return Mistake(line=first.value.line, key=(*at, *first.path), text=text)


def unknown_key(key: str, allowed: list[str]) -> str:
    """Say what is allowed in place of a key, and what it may be a misspelling of."""
    near = get_close_matches(key, allowed, n=1)
    guess = f" (did you mean `{near[0]}`?)" if near else ""
    return f"unknown key{guess}, allowed: {', '.join(sorted(allowed)) or 'none'}"


def _wanted(error: ErrorDetails) -> str:
    if error["type"] in CHOICES:
        return str(error["ctx"]["expected"])
    if error["type"] == "union_tag_invalid":
        return str(error["ctx"]["expected_tags"])
    if error["type"] in TOO_SHORT:
        return f"at least {error['ctx']['min_length']} {TOO_SHORT[error['type']]}"
    limit = error["msg"].removeprefix("Input should be ")
    limit = f"a number {limit}" if limit.startswith(("greater", "less")) else limit
    return WANTED.get(error["type"], limit)


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


def _hint(group: list[Complaint]) -> str:
    kinds, value = {each.kind for each in group}, group[0].value
    if "bool_type" in kinds and value.written.lower() in TRUTH_IN_YAML_1_1:
        return "; in YAML 1.2 only `true` and `false` are truth values"
    if "string_type" in kinds and isinstance(value.plain, bool | int | float):
        return f'; text that looks like something else needs quotes: "{value.written}"'
    return ""
