"""Compares two sweeps, versions, GPUs or dates in the stored results."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TypeAlias

import pyarrow as pa

from cudnn_sweep.analysis.engine.database import Database
from cudnn_sweep.analysis.engine.queries import NamedQuery, literal, parse_query
from cudnn_sweep.analysis.errors import QueryError
from cudnn_sweep.analysis.store.schema import arrow_schema, columns_of
from cudnn_sweep.analysis.words import part_text, some

IN_BOTH = """
select count(*) as trials
from of_side($a_kind, $a_name)
semi join of_side($b_kind, $b_name) as other using (sweep_id, trial_id)
"""

EDITED = """
select distinct workload
from (
    select 'a' as side, * from of_side($a_kind, $a_name)
    union all
    select 'b' as side, * from of_side($b_kind, $b_name)
)
where workload_hash is not null
group by workload, cell_id
having
    list_sort(list(distinct workload_hash) filter (side = 'a'))
    <> list_sort(list(distinct workload_hash) filter (side = 'b'))
order by workload
"""

SUITE_OF = "select suite from records where cell_id = $cell_id order by started_at desc limit 1"

MARKED = """\
-- terminal: cell, config, ratio[ratio_low ratio_high], verdict, {versions}a_ms, b_ms, device_ratio,
--     device_verdict, by_choice
"""
KINDS = ("sweep", "torch", "cudnn", "driver", "ours", "software", "gpu", "uuid", "date")
SOFTWARE = columns_of("software")
PARTS = (*columns_of("hardware"), *SOFTWARE)
MOST_LISTED = 6  # most names of a kind in an error message
MOST_VALUES = 3  # most values of a part that are shown
NONE = "none"

Parts: TypeAlias = Mapping[str, tuple[str, ...]]  # values on one side, by part of the environment
Ask: TypeAlias = Callable[..., pa.Table]  # takes SQL and its values


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedSide:
    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}={self.name}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    a: NamedSide
    b: NamedSide
    rows: pa.Table
    """Rows of cells and configs. Those with the largest change in time come first."""
    a_parts: Parts
    b_parts: Parts
    edited: tuple[str, ...]
    """Names of user workloads whose code differs between the sides."""
    slowest: tuple[str, str, bool] | None
    """Suite and cell_id of the cell that slows down most, if any, and whether benchmark was on."""

    @property
    def differences(self) -> dict[str, str]:
        sides = {part: (self.a_parts[part], self.b_parts[part]) for part in PARTS}
        return {
            part: f"{part}: {some(a, MOST_VALUES)} → {some(b, MOST_VALUES)}"
            for part, (a, b) in sides.items()
            if a != b
        }

    def counts(self, column: str = "verdict") -> dict[str, int]:
        """Count the pairs of cell and config with each verdict in `column`."""
        verdicts = {(row["cell_id"], row["settings"], row[column]) for row in self.rows.to_pylist()}
        return dict(sorted(Counter(verdict for *_, verdict in verdicts if verdict).items()))

    @property
    def cells(self) -> int:
        """Number of pairs of cell and config in `rows`."""
        return len({(row["cell_id"], row["settings"]) for row in self.rows.to_pylist()})

    @property
    def mixed(self) -> dict[str, list[str]]:
        """Versions to choose for software that has several versions on a side. These are the last
        version that both sides have, or else the last version of each side."""
        sides = {part: (set(self.a_parts[part]), set(self.b_parts[part])) for part in SOFTWARE}
        return {
            part: sorted(a & b)[-1:] or [max(a), max(b)]
            for part, (a, b) in sides.items()
            if max(len(a), len(b)) > 1
        }

    @property
    def marked(self) -> NamedQuery:
        names = [f"{side}_{part}" for part in self.mixed for side in "ab"]
        versions = [f"{name}, " for name in names if name in self.rows.column_names]
        return parse_query("compare", MARKED.format(versions="".join(versions)))


def compare(
    database: Database, a: str, b: str, min_effect: float, where: Sequence[str] = ()
) -> Comparison:
    """Compare two named sides. `where` selects records by conditions COLUMN=VALUE. Raise QueryError
    if a name is unknown or ambiguous, or if the sides share trials."""
    ask = _asking(database, where)
    names = [NamedSide(**row) for row in ask("select * from side_names()").to_pylist()]
    first, second = find_side(a, names), find_side(b, names)
    if first == second:
        raise QueryError(f"{a} and {b} are the same side, {first}. Name two different sides.")
    values = {"a_kind": first.kind, "a_name": first.name}
    values |= {"b_kind": second.kind, "b_name": second.name}
    (in_both,) = ask(IN_BOTH, values)["trials"].to_pylist()
    if in_both:
        raise QueryError(
            f"{in_both} trials belong to both {first} and {second}. "
            "Name two sides that share no trials."
        )
    rows = ask(
        "select * from sides_compared($a_kind, $a_name, $b_kind, $b_name, $min_effect)",
        {**values, "min_effect": min_effect},
    )
    slowest = None
    if hurt := next((row for row in rows.to_pylist() if row["verdict"] == "hurts"), None):
        (suite,) = ask(SUITE_OF, {"cell_id": hurt["cell_id"]})["suite"].to_pylist()
        slowest = suite, hurt["cell_id"], "benchmark=true" in hurt["settings"]
    return Comparison(
        a=first,
        b=second,
        rows=rows,
        a_parts=_parts(ask, first),
        b_parts=_parts(ask, second),
        edited=tuple(ask(EDITED, values)["workload"].to_pylist()),
        slowest=slowest,
    )


def _asking(database: Database, where: Sequence[str]) -> Ask:
    wanted: dict[str, list[str]] = {}
    for condition in where:
        column, _, value = condition.partition("=")
        if column not in arrow_schema().names:
            raise QueryError(
                f"--where {condition}: there is no column {column!r}. Write COLUMN=VALUE."
            )
        text = f"coalesce({column}::text, '{NONE}')"
        stored = database.query(f"select distinct {text} as value from records order by all")
        there = {part_text(column, name): name for name in stored["value"].to_pylist()}
        if value not in there:
            known = some(list(there), MOST_VALUES)
            raise QueryError(f"--where {condition}: no record has this value. Found {known}.")
        wanted.setdefault(text, []).append(literal(there[value]))
    only = [f"{text} in ({', '.join(values)})" for text, values in wanted.items()]
    head = f"with records as not materialized (from main.records where {' and '.join(only)})"
    return lambda sql, values=None: database.query(f"{head * bool(only)}\n{sql}", values)


def find_side(text: str, names: list[NamedSide]) -> NamedSide:
    """Return the side with a name such as `2.11.0`, `H200` or `torch=2.11.0`. Raise QueryError if
    no side or more than one side matches."""
    kind, equals, value = text.partition("=")
    if equals and kind not in KINDS:
        raise QueryError(f"{text}: unknown kind {kind!r}. Allowed are {', '.join(KINDS)}.")
    wanted = (value if equals else text).lower()
    among = [side for side in names if not equals or side.kind == kind]
    sides = [side for side in among if side.name.lower() == wanted]
    sides = sides or [side for side in among if wanted and wanted in side.name.lower()]
    gpus = [side for side in sides if side.kind == "gpu"]
    sides = gpus if len(gpus) == 1 else sides
    if len(sides) > 1:
        raise QueryError(f"{text} may mean {_listed(sides)}. Name one of them as KIND=NAME.")
    if not sides:
        raise QueryError(f"{text}: no results match. There are {_listed(among or names)}.")
    return sides[0]


def _listed(sides: list[NamedSide]) -> str:
    by_kind = {kind: sorted(side.name for side in sides if side.kind == kind) for kind in KINDS}
    shown = [
        f"{kind}={name}"
        for kind, names in by_kind.items()
        for name in [*names[-MOST_LISTED:], *(["..."] if len(names) > MOST_LISTED else [])]
    ]
    return ", ".join(shown) or "no results at all"


def _parts(ask: Ask, side: NamedSide) -> Parts:
    columns = ", ".join(
        f"list_sort(list(distinct coalesce({part}::text, '{NONE}'))) as {part}" for part in PARTS
    )
    (row,) = ask(f"select {columns} from of_side($kind, $name)", asdict(side)).to_pylist()
    return {part: tuple(part_text(part, value) for value in row[part]) for part in PARTS}
