"""The answer of a command, and its output formats. Each other module here declares one format."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Self, TypeAlias

from cudnn_sweep.analysis.engine.declared import declared

if TYPE_CHECKING:
    from cudnn_sweep.analysis.results.marked import MarkedColumn

State: TypeAlias = Literal[
    "fine",
    "excused",
    "worse",
    "mistyped",
    "cannot tell",
    "does not run",
    "needs a GPU",
    "unfinished",
]
CODES: dict[State, int] = {
    "fine": 0,
    "worse": 1,
    "mistyped": 2,
    "cannot tell": 3,
    "does not run": 4,
    "needs a GPU": 5,
    "unfinished": 6,
}
STATES: dict[int, State] = {code: state for state, code in CODES.items()}


class Verbatim(str):
    """A text that is shown as code, for example a command."""

    __slots__ = ()


@dataclass(frozen=True, kw_only=True)
class Section:
    """A part of an answer. Items are shown first, then notes, then a table."""

    title: str = ""
    role: str = ""
    """Name of the section's colour in the palette."""
    items: Sequence[Sequence[str]] = ()
    """Items. The first line of an item states a fact, and its other lines explain the fact."""
    notes: Sequence[Sequence[str]] = ()
    """Paragraphs. The texts of a paragraph are joined by spaces."""
    head: Sequence[str] = ()
    """Titles of the columns. If empty, each row is a label and a text."""
    rows: Sequence[Sequence[str]] = ()
    is_rest: bool = False
    """Whether the section has details that most readers can skip."""

    @classmethod
    def of(cls, columns: "Sequence[MarkedColumn]") -> Self:
        rows = zip(*(column.whole for column in columns), strict=True)
        return cls(head=[column.name for column in columns], rows=list(rows))

    @property
    def is_empty(self) -> bool:
        return not (self.items or self.notes or self.rows)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A test case for a CI server. `result` is `failure`, `error`, `skipped` or "" (passed)."""

    of: str
    name: str
    result: str = ""
    message: str = ""
    text: str = ""


@dataclass(frozen=True, kw_only=True)
class Family:
    """A metric for a monitoring system. Each sample has labels and a number."""

    name: str
    meaning: str
    samples: Sequence[tuple[Mapping[str, str], float]]


@dataclass(frozen=True, kw_only=True)
class Answer:
    kind: str
    """Name of the command, such as `gate`."""
    subject: str
    """Subject of the answer, for example a model's import path."""
    state: State
    headline: str
    paste: Sequence[str] = ()
    sections: Sequence[Section] = ()
    commands: Sequence[tuple[str, str]] = ()
    """Commands that the user may run next. Each pair is a purpose and a command."""
    values: Mapping[str, object] = field(default_factory=dict)
    """Additional keys and values for the JSON format."""
    cases: Sequence[Case] = ()
    """Test cases for a CI server. By default, the answer itself is the only case."""
    families: Sequence[Family] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of all metrics. The default is the label `model` with the subject as its value."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Additional files to write. Keys are paths, and values are texts."""
    ended: int | None = None
    """Exit code. If None, `state` determines the exit code."""

    @property
    def code(self) -> int:
        return CODES.get(self.state, 0) if self.ended is None else self.ended

    @property
    def facts(self) -> list[Sequence[str]]:
        return [row for section in self.sections if not section.head for row in section.rows]


@dataclass(frozen=True, kw_only=True)
class AnswerFormat:
    suffix: str
    render: Callable[[Answer], str]


def formats() -> dict[str, AnswerFormat]:
    from cudnn_sweep.analysis import answers as here

    return {form.suffix: form for form in declared(here, AnswerFormat)}
