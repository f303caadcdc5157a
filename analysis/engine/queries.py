"""The named questions: .sql files, and tables of .toml files, below sql/. A question's head has:

-- the question in plain words?
-- $name TYPE = default: meaning, for each parameter that SHARED does not declare
-- terminal: the columns that a terminal shows, as marked.py reads them
-- none: why an answer may have no rows
--
-- what a row is, what a verdict means, and which page of the docs explains more
--
-- column: meaning, for a column of this question only; five spaces begin a meaning's second line
-- column, column: meaning of each

A column at the end of an SQL line may be explained there instead:  as column, -- meaning"""

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
OWN_FOLDERS = (Path(), Path("queries"))  # where a user's own .sql is found by its name
PARAMETER = re.compile(
    r"-- \$(?P<name>\w+) (?P<type>\w+) = (?P<default>'[^']*'|[^:]+): (?P<meaning>.+)"
)
SHARED = """\
-- $field TEXT = 'benchmark': the setting that differs; all other settings of a pair are equal
-- $baseline TEXT = 'false': the setting's value in the baseline ('null' if it was not set)
-- $candidate TEXT = 'true': the setting's value in the candidate
-- $min_effect DOUBLE = 0.03: the smallest relative difference that counts
-- $launch TEXT = NULL: name with which the sweep_ids of a launch's nights end; all sweeps if null
-- $until TEXT = NULL: date of the last night to read, such as 2026-11-21; all nights if null
-- $sweep_id TEXT = NULL: one sweep, or several by a pattern (night-*); all sweeps if null
"""  # added to each question whose SQL uses the name and whose head does not declare it
USED = re.compile(r"\$([a-z_]\w*)")
TERMINAL = re.compile(r"^-- terminal: (?P<columns>.+(?:\n--     .+)*)\n", re.MULTILINE)
NONE = re.compile(r"^-- none: (?P<why>.+)\n", re.MULTILINE)
NAMES = r"[a-z]\w*(?:, [a-z]\w*)*"
COLUMN = re.compile(rf"-- (?P<names>{NAMES}): (?P<meaning>.+)")
DEFINED = re.compile(
    r"^ +(?:(?:(?!--).)*(?:\bas |\.))?(?P<name>[a-z]\w*),? -- (?!noqa)(?P<meaning>.+)", re.MULTILINE
)
CONTINUED = re.compile(rf"^(-- {NAMES}: .+)\n--     (?=\S)", re.MULTILINE)
TRUTH = {"true": True, "false": False}
READERS: dict[str, Callable[[str], Value]] = {
    "TEXT": str,
    "DOUBLE": float,
    "BIGINT": int,
    "BOOLEAN": lambda text: TRUTH[text.lower()],
}


def literal(value: SettingValue) -> str:
    """Return a value as an SQL literal; a mapping's keys are sorted."""
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
    """One `$name` of a question."""

    name: str
    type: str
    default: Value
    meaning: str

    def parse(self, text: str) -> Value:
        """Return the value that a user wrote. Raises QueryError if it is not of the parameter's type."""
        with suppress(ValueError, KeyError):
            return READERS[self.type](text)
        raise QueryError(f"parameter {self.name}: found {text!r}, allowed is {self.type}")


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedQuery:
    name: str
    question: str
    sql: str
    parameters: tuple[QueryParameter, ...]
    notes: str
    """The head's free text: what a row is, what a verdict means."""
    columns: Mapping[str, str]
    """The meaning of each column that the SQL's comments explain."""
    terminal: tuple[str, ...] = ()
    """Columns that a terminal shows, with marks for marked.py. If empty, it shows all columns."""
    none: str | None = None
    """Reason for which the answer may have no rows."""

    def values(self, given: Mapping[str, Value]) -> dict[str, Value]:
        """Return each parameter's given or default value. Raises QueryError for an unknown name."""
        allowed = {parameter.name: parameter.default for parameter in self.parameters}
        for name in _used(self.sql):
            if name not in allowed:
                line = f"a line of its own, `-- ${name} TEXT = NULL: what it is`"
                raise QueryError(f"{self.name} uses ${name}: declare it in {line}")
        for name in given:
            if name not in allowed:
                told = f"{self.name} has no parameter {name!r}{did_you_mean(name, [*allowed])}"
                raise QueryError(f"{told}; its parameters: {', '.join(allowed) or 'none'}")
        return allowed | dict(given)

    def parse_values(self, given: Mapping[str, str]) -> dict[str, Value]:
        """Return each parameter's value: parsed from `given`, or the default."""
        self.values(given)
        known = {parameter.name: parameter for parameter in self.parameters}
        return self.values({name: known[name].parse(text) for name, text in given.items()})

    def prepared(self, given: Mapping[str, Value]) -> str:
        """Return PREPARE and EXECUTE statements for plain DuckDB, which has run `prelude_sql`."""
        values = [f"{name} := {literal(value)}" for name, value in self.values(given).items()]
        execute = f"EXECUTE q({', '.join(values)});" if values else "EXECUTE q;"
        return f"PREPARE q AS\n{self.sql.rstrip().rstrip(';')};\n{execute}\n"


def query_names() -> list[str]:
    folder = ANALYSIS / "sql"
    return sorted(each.name.removesuffix(".sql") for each in folder.iterdir() if each.is_file())


def part_names() -> list[str]:
    """Return the names of questions that only pages ask: claims/01_fixed_shape, ..."""
    return sorted(_part_texts())


@cache
def _part_texts() -> Mapping[str, str]:
    """Return the SQL of each question in sql/'s subfolders, with the question's name as the key.
    Each table of a .toml file has one question's values for the file's template, `text`."""
    found: dict[str, str] = {}
    for part in filter(lambda each: each.is_dir(), (ANALYSIS / "sql").iterdir()):
        for each in part.iterdir():
            if each.name.endswith(".toml"):
                tables = tomllib.loads(each.read_text())
                text = tables.pop("text")
                for name, said in tables.items():
                    said["notes"] = said["notes"].replace("\n", "\n-- ")
                    found[f"{part.name}/{name}"] = text.format(**said)
            else:
                found[f"{part.name}/{each.name.removesuffix('.sql')}"] = each.read_text()
    return found


def load_query(name: str, own: Mapping[str, Path] | None = None) -> NamedQuery:
    """Return the question `name`, bundled or in `own`. If it is unknown, raise QueryError."""
    names = query_names()
    if name in names:
        return parse_query(name, (ANALYSIS / "sql" / f"{name}.sql").read_text())
    if name in part_names():
        return parse_query(name, _part_texts()[name])
    if own and name in own:
        return read_query(name, own[name])
    if name == "records":
        raise QueryError("`records` is the view of all trials: sweep query 'from records limit 5'")
    valid = [*names, *(own or ()), *(part_names() if "/" in name else ())]
    told = f"there is no question {name!r}{did_you_mean(name, valid)}"
    raise QueryError(f"{told}; the questions: {', '.join(valid)}")


def own_queries(folders: Sequence[Path] = OWN_FOLDERS) -> dict[str, Path]:
    """Return a user's `.sql` files by question name. If a name occurs twice, the first file wins.

    A file with the name of a bundled question is left out. Users can still run it by its path.
    """
    found: dict[str, Path] = {}
    for folder in folders:
        for file in sorted(folder.glob("*.sql")):
            if file.stem not in query_names() and file.is_file():
                found.setdefault(file.stem, file)
    return found


def read_query(name: str, file: Path) -> NamedQuery:
    """Return the question in a user's file. Raises QueryError if it cannot be read."""
    try:
        return parse_query(name, file.read_text())
    except (OSError, UnicodeDecodeError, QueryError) as error:
        raise QueryError(f"cannot read {file}: {error}") from error


def readable_queries(own: Mapping[str, Path]) -> tuple[dict[str, NamedQuery], list[str]]:
    """Return the user's questions by name, and an error text for each file that cannot be read."""
    found: dict[str, NamedQuery] = {}
    faults = []
    for name, file in own.items():
        try:
            found[name] = read_query(name, file)
        except QueryError as error:
            faults.append(str(error))
    return found, faults


def parse_query(name: str, text: str) -> NamedQuery:
    """Return a question from its text; parameters in SHARED need no declaration."""
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
