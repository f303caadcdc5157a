"""Answer, the result of a command or a night. Each other file here declares an output format."""

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
    """A text to be shown as code: a name that a user chose, or a command to type."""

    __slots__ = ()


@dataclass(frozen=True, kw_only=True)
class Section:
    """A part of an answer. It shows the items first, then the notes, then `rows` below `head`."""

    title: str = ""
    role: str = ""
    """Name of the section's colour in the palette."""
    items: Sequence[Sequence[str]] = ()
    """Items. The first line of an item states a fact, further lines explain it."""
    notes: Sequence[Sequence[str]] = ()
    """Paragraphs, each a list of texts to be joined by spaces."""
    head: Sequence[str] = ()
    """Column titles. If empty, a row is a label and a text; an empty label continues the row above."""
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
    """A test case for a CI server. `result` is failure, error, skipped, or empty after success."""

    of: str
    name: str
    result: str = ""
    message: str = ""
    text: str = ""


@dataclass(frozen=True, kw_only=True)
class Family:
    """A metric for a monitor. Its samples are numbers with one meaning; each sample has labels."""

    name: str
    meaning: str
    samples: Sequence[tuple[Mapping[str, str], float]]


@dataclass(frozen=True, kw_only=True)
class Answer:
    kind: str
    """Name of the command that answers, such as `gate`."""
    subject: str
    """What the answer is about, such as a model's import path."""
    state: State
    headline: str
    paste: Sequence[str] = ()
    sections: Sequence[Section] = ()
    commands: Sequence[tuple[str, str]] = ()
    """Next commands for the user, as pairs of a purpose and a command."""
    values: Mapping[str, object] = field(default_factory=dict)
    """Further keys and values for the JSON format."""
    cases: Sequence[Case] = ()
    """Test cases for a CI server. If there are none, the answer itself is the only case."""
    families: Sequence[Family] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of every metric. If there are none, the only label is `model`, set to the subject."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Further files to write. The key is the path, the value is the text."""
    ended: int | None = None
    """Exit code. If it is None, `state` sets the exit code."""

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
