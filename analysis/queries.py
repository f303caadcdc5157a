"""The named questions, one file each below sql/, and the parameters that each one's head declares.

-- the question in plain words?
-- $name TYPE = default: meaning
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import TypeAlias

from cudnn_sweep.analysis.errors import QueryError

Value: TypeAlias = str | float | int | bool | None

PARAMETER = re.compile(
    r"-- \$(?P<name>\w+) (?P<type>\w+) = (?P<default>'[^']*'|[^:]+): (?P<meaning>.+)"
)
TRUTH = {"true": True, "false": False}
READERS: dict[str, Callable[[str], Value]] = {
    "TEXT": str,
    "DOUBLE": float,
    "BIGINT": int,
    "BOOLEAN": lambda text: TRUTH[text.lower()],
}


@dataclass(frozen=True, kw_only=True, slots=True)
class QueryParameter:
    """One `$name` of a question."""

    name: str
    type: str
    """As SQL has it: TEXT, DOUBLE, BIGINT or BOOLEAN."""
    default: Value
    meaning: str

    def parse(self, text: str) -> Value:
        """The value that a user wrote; QueryError where it is not of the parameter's type."""
        try:
            return READERS[self.type](text)
        except (ValueError, KeyError):
            raise QueryError(
                f"parameter {self.name}: found {text!r}, allowed is {self.type}"
            ) from None


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedQuery:
    """One question: its SQL, and what it may be asked with."""

    name: str
    question: str
    sql: str
    parameters: tuple[QueryParameter, ...]

    def values(self, given: Mapping[str, Value]) -> dict[str, Value]:
        """A value for every parameter, the defaults where none was given."""
        allowed = {parameter.name: parameter.default for parameter in self.parameters}
        for name in given:
            if name not in allowed:
                choice = ", ".join(allowed) or "none"
                raise QueryError(f"{self.name} has no parameter {name!r}; its parameters: {choice}")
        return allowed | dict(given)

    def parse_values(self, given: Mapping[str, str]) -> dict[str, Value]:
        """As `values`, from text."""
        self.values(given)
        known = {parameter.name: parameter for parameter in self.parameters}
        return self.values({name: known[name].parse(text) for name, text in given.items()})

    def prepared(self, given: Mapping[str, Value]) -> str:
        """The question as two statements for plain DuckDB, after the prelude."""
        values = [f"{name} := {_literal(value)}" for name, value in self.values(given).items()]
        execute = f"EXECUTE q({', '.join(values)});" if values else "EXECUTE q;"
        return f"PREPARE q AS\n{self.sql.rstrip().rstrip(';')};\n{execute}\n"


def query_names() -> list[str]:
    """Every question's name: its file's, without the suffix."""
    folder = files("cudnn_sweep.analysis").joinpath("sql")
    return sorted(each.name.removesuffix(".sql") for each in folder.iterdir() if each.is_file())


def load_query(name: str) -> NamedQuery:
    """QueryError, listing the valid names, where there is no such question."""
    names = query_names()
    if name not in names:
        raise QueryError(f"there is no question {name!r}; the questions: {', '.join(names)}")
    text = files("cudnn_sweep.analysis").joinpath("sql", f"{name}.sql").read_text()
    return parse_query(name, text)


def parse_query(name: str, text: str) -> NamedQuery:
    """Read a question's head; SQL without such a head is a question without parameters."""
    head = [line for line in text.splitlines() if line.startswith("--")]
    question = head[0].removeprefix("--").strip() if head else name
    found = [match for line in head if (match := PARAMETER.fullmatch(line))]
    return NamedQuery(
        name=name, question=question, sql=text, parameters=tuple(_parameter(each) for each in found)
    )


def _parameter(match: re.Match[str]) -> QueryParameter:
    name, type_, default, meaning = match.group("name", "type", "default", "meaning")
    if type_ not in READERS:
        raise QueryError(f"parameter {name}: found type {type_}, allowed are {', '.join(READERS)}")
    bare = QueryParameter(name=name, type=type_, default=None, meaning=meaning)
    value = None if default == "NULL" else bare.parse(default.removeprefix("'").removesuffix("'"))
    return QueryParameter(name=name, type=type_, default=value, meaning=meaning)


def _literal(value: Value) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return "NULL" if value is None else str(value).lower()
