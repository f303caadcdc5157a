"""Page: the answers to questions as a document of its own, in paragraphs. Each page is a file of this folder."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from shlex import quote
from typing import Any, TypeAlias

from cudnn_sweep.analysis.asking.database import Database, open_database
from cudnn_sweep.analysis.asking.declared import declared
from cudnn_sweep.analysis.errors import ReportError
from cudnn_sweep.analysis.storing.location import REFERENCE
from cudnn_sweep.analysis.storing.stored import Stored
from cudnn_sweep.analysis.words import counted, cudnn_version

Row: TypeAlias = Mapping[str, Any]
Rows: TypeAlias = list[dict[str, Any]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """Figures below a paragraph, in words; numbers are aligned at the right."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: frozenset[int] = frozenset()
    """The columns, from 0, that hold numbers."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    name: str
    address: str | None
    said: str
    group: str
    facts: Mapping[str, str]
    """By what they are called; without those that are not known."""
    command: str | None = None
    """What to type to see it oneself."""
    asks_results: bool = False
    """Whether that reads the results that the page was made from."""
    table: Table | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """What `sweep report --page NAME` shows."""

    name: str
    title: str
    about: str
    questions: tuple[str, ...]
    """The questions of analysis/sql that it asks; only SQL decides."""
    noun: str
    """What its paragraphs are about."""
    groups: tuple[tuple[str, str], ...]
    """Headings in their order, each with the role of its colour in the palette."""
    entries: Callable[[Sequence[Row]], list[Entry]]
    gather: Callable[[Database, Rows], Rows] = lambda _, rows: rows
    """Makes of the questions' rows those that `entries` takes, with what else it asks."""
    nothing: str = "No trial is stored here."
    """Said where there is no paragraph."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Shown:
    page: Page
    location: str
    measured: Sequence[str]
    """GPUs and versions behind the answer."""
    entries: Sequence[Entry]
    rows: Sequence[Row]
    torn_files: tuple[str, ...]

    def counts(self) -> dict[str, int]:
        """Entries by group, in the page's order."""
        return {group: len(self.of(group)) for group, _ in self.page.groups}

    def of(self, group: str) -> list[Entry]:
        return [entry for entry in self.entries if entry.group == group]

    def headline(self) -> str:
        told = ", ".join(f"{count} {group}" for group, count in self.counts().items() if count)
        total = counted(len(self.entries), self.page.noun)
        return f"{total}: {told}." if told else self.page.nothing


def pages() -> dict[str, Page]:
    from cudnn_sweep.analysis.report import pages as folder

    return {page.name: page for page in declared(folder, Page)}


def find_page(name: str) -> Page:
    by_name = pages()
    if name not in by_name:
        raise ReportError(f"there is no page {name!r}; the pages: {', '.join(sorted(by_name))}")
    return by_name[name]


def show(page: Page, store: Stored, locations: Sequence[str], sweep_id: str | None) -> Shown:
    rows: Rows = []
    with open_database(store) as database:
        for question in page.questions:
            rows += database.ask(question, sweep_id=sweep_id).to_pylist()
        rows = page.gather(database, rows)
        torn = database.torn_files
    measured = {
        f"{row['gpu']}, torch {row['torch']}, cuDNN {cudnn_version(row['cudnn'])}, driver {row['driver']}"
        for row in rows
        if row["gpu"] is not None and row["driver"] is not None
    }
    return Shown(
        page=page,
        location=", ".join(locations),
        measured=sorted(measured),
        entries=[_asking(entry, locations, sweep_id) for entry in page.entries(rows)],
        rows=rows,
        torn_files=torn,
    )


def _asking(entry: Entry, locations: Sequence[str], sweep_id: str | None) -> Entry:
    """With the options that name the results, where its command reads them."""
    if not entry.asks_results:
        return entry
    options = [
        "--reference" if location == str(REFERENCE) else f"--results {quote(location)}"
        for location in locations
    ]
    if sweep_id is not None:
        options += ["--sweep-id", quote(sweep_id)]
    return replace(entry, command=f"{entry.command} {' '.join(options)}")
