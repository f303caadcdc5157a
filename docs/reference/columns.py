"""docs/questions.md: what every column of each question's answer, and of the results, means."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from tempfile import TemporaryDirectory

import pyarrow as pa

from cudnn_sweep.analysis.engine.database import Database, open_database
from cudnn_sweep.analysis.engine.dictionary import meaning
from cudnn_sweep.analysis.engine.queries import NamedQuery, load_query, query_names
from cudnn_sweep.analysis.store.schema import arrow_schema, settings
from cudnn_sweep.analysis.store.store import open_store


def _records() -> list[str]:
    return [
        "",
        "## Columns of `records`",
        "",
        "One row a trial. A column with `?` may be null. `sweep query 'describe from records'` shows all types.",
        "",
        *(line for field in arrow_schema() for line in _column(field)),
        "",
        "In SQL a row also has `config`, a struct of its settings; `settings`, these as the text that answers show,",
        "PyTorch's own values but `benchmark` left out; and `config_hash`, a hash of that text. Rows of an older schema",
        "have the usual value of a setting or an axis that came later.",
    ]


def _column(field: pa.Field, within: str = "") -> Iterator[str]:
    """A line for a column, and one for each field of the structs that it lists."""
    lists_structs = pa.types.is_list(field.type) and pa.types.is_struct(field.type.value_type)
    shown = "list<struct>" if lists_structs else str(field.type).replace("item: ", "")
    null = "?" if field.nullable else ""
    kind = f" ({shown})" if pa.types.is_nested(field.type) else ""
    yield f"- `{within}{field.name}`{null}{kind}: {_meaning(field)}"
    if lists_structs:
        for inner in field.type.value_type:
            yield from _column(inner, f"{within}{field.name}[].")


SHARED_BY = 2  # questions that have a parameter or a column with one meaning: it is explained once
CELL = (
    *("workload", "problem", "direction", "input_shape", "regime", "state"),
    *("precision", "layout", "gpu"),
)
VERSIONS = ("cell_id", "env_hash", "software_hash", "workload_hash")
ENDS = {"_low": "lower end", "_high": "upper end"}


@dataclass(frozen=True, kw_only=True)
class Explained:
    """A parameter or a column of a question, with what stands beside its name."""

    name: str
    cells: tuple[str, ...]
    is_bold: bool = False
    more: tuple[str, ...] = ()
    """Names of columns that the same words explain, or what these add to its name."""

    @property
    def shown(self) -> str:
        names = ", ".join(f"`{each}`" for each in (self.name, *self.more))
        return f"**{names}**" if self.is_bold else names

    @property
    def line(self) -> str:
        *kind, said = self.cells
        return f"- {', '.join([self.shown, *filter(None, kind)])}: {said}"


def _meaning(field: pa.Field) -> str:
    assert field.metadata is not None
    return str(field.metadata[b"meaning"].decode())


def questions_page() -> str:
    with TemporaryDirectory() as empty, open_database(open_store(empty)) as database:
        questions = [load_query(name) for name in query_names()]
        parameters = {each.name: list(_parameters(each)) for each in questions}
        columns = {each.name: list(_columns(database, each)) for each in questions}
    lines = [
        "# Questions and columns",
        "",
        "`sweep query NAME` asks one of these questions; its parameters are further options. All read the",
        "view `records`, one row per trial: [its columns](#columns-of-records). In SQL each is a table macro of its name:",
        "`select problem, ratio from helps_or_hurts(min_effect := 0.05) where ratio < 1`. There, a parameter with",
        "the name of a column has the prefix `of_` (`of_sweep_id`), and `describe from NAME()` shows types. A terminal",
        "shows the columns in bold; `--all-columns` and every other format show all. What a row is and what a verdict",
        "means stands in the head of each question's SQL, and in `sweep query NAME --help`. Made by `make docs`.",
        "",
        ", ".join(f"[{each.name}](#{each.name})" for each in questions),
        "",
        "## Shared",
        "",
        f"A *cell's* columns are {_listed(CELL)};",
        f"its *versions* are {_listed(VERSIONS)}. A *config's* columns are",
        f"{_listed(settings())}.",
        "They, and others named *of a record*, mean what they mean in [`records`](#columns-of-records). `_low` and `_high` after",
        "a name are two further columns: the ends of its 95% interval. The others that at least two questions have:",
        *_lines(_shared(parameters)),
        *_lines(_together(_shared(columns))),
    ]
    for question in questions:
        how = f" [How](../analysis/sql/{question.name}.sql)." if question.notes else ""
        lines += ["", f"## {question.name}", "", f"{question.question}{how}"]
        lines += _explained("Parameters", parameters, question)
        lines += _explained("Columns", columns, question)
    return "\n".join([*lines, *_records()]) + "\n"


OfQuestions = dict[str, list[Explained]]


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{each}`" for each in names)


def _parameters(question: NamedQuery) -> Iterator[Explained]:
    for each in question.parameters:
        default = "" if each.default is None else f"`{each.default}`"
        yield Explained(name=f"${each.name}", cells=(default or each.type, each.meaning))


def _columns(database: Database, question: NamedQuery) -> Iterator[Explained]:
    bold = set(re.findall(r"\w+", " ".join(question.terminal)))
    for field in database.ask(question).schema:
        said = meaning(question, field.name) or ""
        yield Explained(name=field.name, cells=(said,), is_bold=field.name in bold)


def _shared(every: OfQuestions) -> list[Explained]:
    count = Counter(replace(each, is_bold=False) for of in every.values() for each in of)
    shared = [
        each
        for each, questions in count.items()
        if questions >= SHARED_BY and not _is_recorded(each)
    ]
    return sorted(shared, key=lambda each: each.name)


def _explained(what: str, every: OfQuestions, question: NamedQuery) -> Iterator[str]:
    """By name those of a record and those that are shared, the others in a table."""
    shared, of = _shared(every), every[question.name]
    recorded = [each for each in of if _is_recorded(each)]
    named = [each for each in of if replace(each, is_bold=False) in shared]
    of_record, of_shared = _grouped(recorded), _shown(_together(named))
    parts = [f"of a record {of_record}"] * bool(recorded) + [
        f"[shared](#shared) {of_shared}"
    ] * bool(named)
    if parts:
        yield from ["", f"{what}: {'; '.join(parts)}."]
    yield from _lines(_together([each for each in of if each not in [*recorded, *named]]))


def _shown(those: list[Explained]) -> str:
    return ", ".join(each.shown for each in those)


def _grouped(recorded: list[Explained]) -> str:
    """Names of columns, whole groups by the group's."""
    groups = {"a cell's": CELL, "a config's": settings(), "versions": VERSIONS}
    names = {each.name for each in recorded}
    whole = {name: set(group) for name, group in groups.items() if names >= set(group)}
    inside = set().union(*whole.values())
    parts = [f"*{name}*" for name in whole]
    parts += [each.shown for each in recorded if each.name not in inside]
    return ", ".join(parts)


def _together(columns: list[Explained]) -> list[Explained]:
    """One line for a value and the ends of its interval, for the two sides of a contrast, and for neighbours that
    one text explains.
    """
    left = {each.name: each for each in columns}
    for name in list(left):
        other = name.replace("baseline_", "candidate_", 1)
        if name in left and other != name and _is_the_same(left[name], left.get(other)):
            _merge(left, name, other, said=_of_each_side(left[name].cells[-1]))
        ends = [f"{name}{end}" for end in ENDS]
        if all(each in left and _is_end(left[each]) for each in ends) and name in left:
            for each in ends:
                _merge(left, name, each, shown=each.removeprefix(name))
    for name, after in pairwise(reversed(list(left))):
        if left[name].cells == left[after].cells:
            _merge(left, after, name)
    return list(left.values())


def _merge(
    left: dict[str, Explained], name: str, other: str, *, shown: str = "", said: str = ""
) -> None:
    gone, kept = left.pop(other), left[name]
    left[name] = replace(
        kept,
        more=(*kept.more, shown or other, *gone.more),
        is_bold=kept.is_bold or gone.is_bold,
        cells=(*kept.cells[:-1], said or kept.cells[-1]),
    )


def _is_end(column: Explained) -> bool:
    end = ENDS["_low" if column.name.endswith("_low") else "_high"]
    return column.cells[-1] in (f"{end} of its 95% interval", end)


def _is_the_same(baseline: Explained, candidate: Explained | None) -> bool:
    """Whether the candidate's words say no more than the baseline's."""
    if candidate is None or candidate.cells[-1].count(":") > baseline.cells[-1].count(":"):
        return False
    return "baseline" in baseline.cells[-1] or "those" in candidate.cells[-1]


def _of_each_side(said: str) -> str:
    return re.sub(r"\b(the|a) baseline\b", "each side", said)


def _is_recorded(each: Explained) -> bool:
    return _recorded().get(each.name) == each.cells[-1]


@cache
def _recorded() -> dict[str, str]:
    """What each column of a record means."""
    return {field.name: _meaning(field) for field in arrow_schema()}


def _lines(those: list[Explained]) -> Iterator[str]:
    if those:
        yield from ["", *(each.line for each in those)]
