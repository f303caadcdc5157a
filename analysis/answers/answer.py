"""Answer: what a command or a night found, as one value. Each other file of this folder declares a format of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from cudnn_sweep.analysis.engine.declared import declared

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
    """A user's name, or a command to type."""

    __slots__ = ()


@dataclass(frozen=True, kw_only=True)
class Section:
    """A section: in this order its items, notes, and the table `rows` below `head`."""

    title: str = ""
    role: str = ""
    """Of its colour in the palette."""
    items: Sequence[Sequence[str]] = ()
    """Each a line, and further lines about it."""
    notes: Sequence[Sequence[str]] = ()
    """Paragraphs, each in parts."""
    head: Sequence[str] = ()
    """Empty: each row is a label and a text; an empty label continues the last one."""
    rows: Sequence[Sequence[str]] = ()
    is_rest: bool = False
    """A section for readers who want more."""

    @property
    def is_empty(self) -> bool:
        return not (self.items or self.notes or self.rows)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A case for a CI server. `result`: failure, error or skipped; empty if it passed, with `text` as its output."""

    of: str
    name: str
    result: str = ""
    message: str = ""
    text: str = ""


@dataclass(frozen=True, kw_only=True)
class Family:
    """Numbers of one meaning: labels and value of each."""

    name: str
    meaning: str
    samples: Sequence[tuple[Mapping[str, str], float]]


@dataclass(frozen=True, kw_only=True)
class Answer:
    kind: str
    """The command, such as `gate`."""
    subject: str
    """What the answer is about, such as a model's import path."""
    state: State
    headline: str
    paste: Sequence[str] = ()
    """Lines to paste."""
    sections: Sequence[Section] = ()
    commands: Sequence[tuple[str, str]] = ()
    """What to type next, and what it is for."""
    values: Mapping[str, object] = field(default_factory=dict)
    """Further keys of the JSON."""
    cases: Sequence[Case] = ()
    """Cases for a CI server; empty: one, of the answer itself."""
    families: Sequence[Family] = ()
    """Numbers for a monitor, beside the exit code."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of all these numbers; empty: the subject, as `model`."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Texts of files to make, by their paths."""

    ended: int | None = None
    """The exit code, if it is not the state's."""

    @property
    def code(self) -> int:
        return CODES.get(self.state, 0) if self.ended is None else self.ended

    @property
    def facts(self) -> list[Sequence[str]]:
        return [row for section in self.sections if not section.head for row in section.rows]


@dataclass(frozen=True, kw_only=True)
class AnswerFormat:
    suffix: str
    """End of the names of its files."""
    render: Callable[[Answer], str]


def formats() -> dict[str, AnswerFormat]:
    """Return the formats by suffix."""
    from cudnn_sweep.analysis import answers as here

    return {each.suffix: each for each in declared(here, AnswerFormat)}
