"""Reads the named questions, which are files in the folder sql. Such a file begins like this:

-- the question in plain words?
-- $name TYPE = default: meaning of a parameter
-- terminal: columns that a terminal shows
-- none: message that is printed if the query returns no rows
--
-- notes about rows and verdicts
--
-- column, column: meaning of these columns

A line of SQL can also explain its own column: `as column, -- meaning`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import takewhile
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from cudnn_sweep.analysis.errors import QueryError, did_you_mean

if TYPE_CHECKING:
    from cudnn_sweep.workloads.records.row import SettingValue

Value: TypeAlias = str | float | int | bool | None

ANALYSIS = files("cudnn_sweep.analysis")
OWN_FOLDERS = (Path(), Path("queries"))  # searched for a user's .sql files
PARAMETER = re.compile(
    r"-- \$(?P<name>\w+) (?P<type>\w+) = (?P<default>'[^']*'|[^:]+): (?P<meaning>.+)"
)
SHARED = """\
-- $field TEXT = 'benchmark': setting in which baseline and candidate differ
-- $baseline TEXT = 'false': value of the setting in the baseline ('null' if it was not set)
-- $candidate TEXT = 'true': value of the setting in the candidate
-- $min_effect DOUBLE = 0.03: smallest relative difference that counts as an effect
-- $launch TEXT = NULL: name of a launch, to read only its nights; all sweeps if null
-- $until TEXT = NULL: date of the last night to read, such as 2026-11-21; all nights if null
-- $sweep_id TEXT = NULL: id of a sweep, or a pattern such as night-*; all sweeps if null
"""  # parameters that a question can use without declaring them
USED = re.compile(r"\$([a-z_]\w*)")
TERMINAL = re.compile(r"^-- terminal: (?P<columns>.+(?:\n--     .+)*)\n", re.MULTILINE)
NONE = re.compile(r"^-- none: (?P<why>.+)\n", re.MULTILINE)
NAMES = r"[a-z]\w*(?:, [a-z]\w*)*"
COLUMN = re.compile(rf"-- (?P<names>{NAMES}): (?P<meaning>.+)")
DEFINED = re.compile(
    r"^ +(?:(?:(?!--).)*(?:\bas |\.))?(?P<name>[a-z]\w*),? -- (?!noqa)(?P<meaning>.+)", re.MULTILINE
)
CONTINUED = re.compile(rf"^(-- {NAMES}: .+)\n--     (?=\S)", re.MULTILINE)
READERS: dict[str, Callable[[str], Value]] = {
    "TEXT": str,
    "DOUBLE": float,
    "BIGINT": int,
    "BOOLEAN": lambda text: {"true": True, "false": False}[text.lower()],
}


def literal(value: SettingValue) -> str:
    """Return a value as an SQL literal. The keys of a mapping are sorted."""
    if value is None:
        return "null"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, Mapping):
        pairs = (f"{literal(key)}: {literal(value[key])}" for key in sorted(value))
        return f"map {{{', '.join(pairs)}}}"
    is_odd = isinstance(value, float) and not isfinite(value)
    return f"'{value}'" if is_odd else str(value).lower()


@dataclass(frozen=True, kw_only=True, slots=True)
class QueryParameter:
    name: str
    type: str
    default: Value
    meaning: str

    def parse(self, text: str) -> Value:
        """Convert a text to the type of the parameter. Raise QueryError if that fails."""
        with suppress(ValueError, KeyError):
            return READERS[self.type](text)
        raise QueryError(f"parameter {self.name}: found {text!r}, but its type is {self.type}")


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedQuery:
    name: str
    question: str
    sql: str
    parameters: tuple[QueryParameter, ...]
    notes: str
    columns: Mapping[str, str]
    terminal: tuple[str, ...] = ()
    """Columns that a terminal shows. If empty, all columns are shown."""
    none: str | None = None

    def values(self, given: Mapping[str, Value]) -> dict[str, Value]:
        """Add the defaults to the given values. Raise QueryError if a name is unknown."""
        allowed = {parameter.name: parameter.default for parameter in self.parameters}
        for name in _used(self.sql):
            if name not in allowed:
                line = f"add the line `-- ${name} TEXT = NULL: meaning`"
                raise QueryError(f"{self.name} uses the unknown parameter ${name}; {line}")
        for name in given:
            if name not in allowed:
                told = f"{self.name} has no parameter {name!r}{did_you_mean(name, [*allowed])}"
                raise QueryError(f"{told}; its parameters: {', '.join(allowed) or 'none'}")
        return allowed | dict(given)

    def parse_values(self, given: Mapping[str, str]) -> dict[str, Value]:
        """Convert the given texts to values, and add the defaults."""
        self.values(given)
        known = {parameter.name: parameter for parameter in self.parameters}
        return self.values({name: known[name].parse(text) for name, text in given.items()})

    def prepared(self, given: Mapping[str, Value]) -> str:
        """Return SQL that asks the question in plain DuckDB, after `prelude_sql` has run."""
        values = [f"{name} := {literal(value)}" for name, value in self.values(given).items()]
        execute = f"EXECUTE q({', '.join(values)});" if values else "EXECUTE q;"
        return f"PREPARE q AS\n{self.sql.rstrip().rstrip(';')};\n{execute}\n"


def query_names() -> list[str]:
    folder = ANALYSIS / "sql"
    return sorted(each.name.removesuffix(".sql") for each in folder.iterdir() if each.is_file())


def part_names() -> list[str]:
    """Return the names of questions in subfolders, for example claims/01_fixed_shape."""
    return sorted(_part_texts())


@cache
def _part_texts() -> Mapping[str, str]:
    """Return the SQL of the questions in subfolders, by name. A .toml file has a template in `text`
    and a table of values for each question, whose name begins with its number."""
    found: dict[str, str] = {}
    for part in filter(lambda each: each.is_dir(), (ANALYSIS / "sql").iterdir()):
        for each in part.iterdir():
            if each.name.endswith(".toml"):
                tables = tomllib.loads(each.read_text())
                text = tables.pop("text")
                for name, said in tables.items():
                    said["notes"] = said["notes"].replace("\n", "\n-- ")
                    found[f"{part.name}/{name}"] = text.format(
                        number=int(name.partition("_")[0]), **said
                    )
            else:
                found[f"{part.name}/{each.name.removesuffix('.sql')}"] = each.read_text()
    return found


def load_query(name: str, own: Mapping[str, Path] | None = None) -> NamedQuery:
    """Read a question by its name. Raise QueryError if it is not bundled and not in `own`."""
    names = query_names()
    if name in names:
        return parse_query(name, (ANALYSIS / "sql" / f"{name}.sql").read_text())
    if name in part_names():
        return parse_query(name, _part_texts()[name])
    if own and name in own:
        return read_query(name, own[name])
    if name == "records":
        raise QueryError("`records` is a view; to read it: sweep query 'from records limit 5'")
    valid = [*names, *(own or ()), *(part_names() if "/" in name else ())]
    told = f"there is no question {name!r}{did_you_mean(name, valid)}"
    raise QueryError(f"{told}; the questions: {', '.join(valid)}")


def own_queries(folders: Sequence[Path] = OWN_FOLDERS) -> dict[str, Path]:
    """Find a user's `.sql` files. Files with the name of a bundled question are left out."""
    found: dict[str, Path] = {}
    for folder in folders:
        for file in sorted(folder.glob("*.sql")):
            if file.stem not in query_names() and file.is_file():
                found.setdefault(file.stem, file)
    return found


def read_query(name: str, file: Path) -> NamedQuery:
    """Read a question from a user's file. Raise QueryError if that fails."""
    try:
        return parse_query(name, file.read_text())
    except (OSError, UnicodeDecodeError, QueryError) as error:
        raise QueryError(f"cannot read {file}: {error}") from error


def readable_queries(own: Mapping[str, Path]) -> tuple[dict[str, NamedQuery], list[str]]:
    """Read a user's files. Return the questions by name, and an error message for each bad file."""
    found: dict[str, NamedQuery] = {}
    faults = []
    for name, file in own.items():
        try:
            found[name] = read_query(name, file)
        except QueryError as error:
            faults.append(str(error))
    return found, faults


def parse_query(name: str, text: str) -> NamedQuery:
    """Parse the text of a question. Parameters in SHARED need no declaration."""
    terminal, none = TERMINAL.search(text), NONE.search(text)
    head_text = CONTINUED.sub(r"\1 ", NONE.sub("", TERMINAL.sub("", text)))
    comments = [line for line in head_text.splitlines() if line.startswith("--")]
    own = _parameters(comments)
    lacking = {*_used(text)} - {parameter.name for parameter in own}
    shared = [
        parameter for parameter in _parameters(SHARED.splitlines()) if parameter.name in lacking
    ]
    head = list(takewhile(lambda line: line.startswith("--"), head_text.splitlines()))
    explained = {match["name"]: match["meaning"] for match in DEFINED.finditer(text)}
    for match in filter(None, map(COLUMN.fullmatch, head)):
        explained |= dict.fromkeys(match["names"].split(", "), match["meaning"])
    notes = [
        line.removeprefix("--").removeprefix(" ")
        for line in head[1:]
        if not (PARAMETER.fullmatch(line) or COLUMN.fullmatch(line))
    ]
    return NamedQuery(
        name=name,
        question=comments[0].removeprefix("--").strip() if comments else name,
        sql=text,
        parameters=(*own, *shared),
        notes="\n".join(notes).strip("\n"),
        columns=explained,
        terminal=tuple(re.split(r",\s+", terminal["columns"].replace("\n--", "")))
        if terminal
        else (),
        none=none["why"] if none else None,
    )


def _used(sql: str) -> list[str]:
    return USED.findall(re.sub(r"'[^']*'|--.*", "", sql))


def _parameters(lines: Sequence[str]) -> list[QueryParameter]:
    return [_parameter(match) for match in map(PARAMETER.fullmatch, lines) if match]


def _parameter(match: re.Match[str]) -> QueryParameter:
    name, type_, default, meaning = match.group("name", "type", "default", "meaning")
    if type_ not in READERS:
        raise QueryError(f"parameter {name}: found type {type_}, allowed are {', '.join(READERS)}")
    bare = QueryParameter(name=name, type=type_, default=None, meaning=meaning)
    value = None if default == "NULL" else bare.parse(default.removeprefix("'").removesuffix("'"))
    return QueryParameter(name=name, type=type_, default=value, meaning=meaning)
