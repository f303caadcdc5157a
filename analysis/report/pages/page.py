"""Defines Page, which shows the rows of questions as paragraphs."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import Any, TypeAlias

from cudnn_sweep.analysis.engine.database import Database
from cudnn_sweep.analysis.engine.declared import declared
from cudnn_sweep.analysis.errors import ReportError
from cudnn_sweep.analysis.results.cell_names import CELLS, name_of_some
from cudnn_sweep.analysis.store.location import REFERENCE
from cudnn_sweep.analysis.words import counted, cudnn_version

Row: TypeAlias = Mapping[str, Any]
APART = "differ between GPUs or versions"


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    name: str
    address: str | None = None
    said: str
    group: str
    facts: Mapping[str, str | None]
    """Texts by label. Empty texts are not shown."""
    unfolded: int | None = None
    """Number of facts that are shown before the fold. If None, all facts are shown."""
    command: str | None = None
    figures: Sequence[Row] = ()
    """Rows of the table below the paragraph."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Page:
    """A page of `sweep report --page NAME`."""

    name: str
    title: str
    about: str
    questions: tuple[str, ...]
    noun: str
    """Word for a paragraph in the headline, for example `claim`."""
    groups: Mapping[str, str]
    """Headings in order, each with the name of its colour."""
    entries: Callable[[Sequence[Row], str], list[Entry]]
    """Function that makes paragraphs from rows and from the options of their commands."""
    nothing: str = "No trial is stored here."
    """Headline of a page without paragraphs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Shown:
    page: Page
    location: str
    measured: Sequence[str]
    """GPUs that were measured, each with the versions of torch, cuDNN and driver."""
    entries: Sequence[Entry]
    rows: Sequence[Row]

    def counts(self) -> dict[str, int]:
        return {group: len(self.of(group)) for group in self.page.groups}

    def of(self, group: str) -> list[Entry]:
        return [entry for entry in self.entries if entry.group == group]

    def headline(self) -> str:
        """Return the number of different names in each group, as a sentence."""
        groups: dict[str, str] = {}
        for entry in self.entries:
            is_alike = groups.setdefault(entry.name, entry.group) == entry.group
            groups[entry.name] = entry.group if is_alike else APART
        of = Counter(groups.values())
        shown_groups = dict.fromkeys((*self.page.groups, APART))
        counts = ", ".join(f"{of[group]} {group}" for group in shown_groups if of[group])
        total = counted(len(groups), self.page.noun)
        return f"{total}: {counts}." if counts else self.page.nothing


def find_page(name: str) -> Page:
    from cudnn_sweep.analysis.report import pages as folder

    by_name = {page.name: page for page in declared(folder, Page)}
    if name not in by_name:
        raise ReportError(f"there is no page {name!r}; the pages: {', '.join(sorted(by_name))}")
    return by_name[name]


def show(page: Page, database: Database, locations: Sequence[str], sweep_id: str | None) -> Shown:
    answers = [database.ask(question, sweep_id=sweep_id) for question in page.questions]
    rows = _named(database, [row for answer in answers for row in answer.to_pylist()])
    measured = {
        f"{row['gpu']}, torch {row['torch']}, cuDNN {cudnn_version(row['cudnn'])}, driver {row['driver']}"
        for row in rows
        if row.get("gpu") is not None and row["driver"] is not None
    }
    of_sweep = "" if sweep_id is None else f" --sweep-id {quote(sweep_id)}"
    return Shown(
        page=page,
        location=", ".join(locations),
        measured=sorted(measured),
        entries=page.entries(rows, options_of(locations) + of_sweep),
        rows=rows,
    )


def options_of(locations: Sequence[str]) -> str:
    """Return the options that make a command read these results."""
    return " ".join(
        "--reference" if location == str(REFERENCE) else f"--results {quote(location)}"
        for location in locations
    )


def _named(database: Database, rows: Sequence[Row]) -> list[Row]:
    """Add the name of the cell to each row."""
    cells = {row["cell_id"]: row for row in database.query(CELLS).to_pylist()}

    def name(row: Row) -> str:
        values = {key: value for key, value in row.items() if value is not None}
        return name_of_some({**cells.get(row["cell_id"], {}), **values})

    return [{**row, "cell": name(row)} if "cell_id" in row else row for row in rows]
