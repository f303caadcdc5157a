"""Compares two sides of the results: sweeps, versions, GPUs or dates, named as a user names them."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TypeAlias

import pyarrow as pa

from cudnn_sweep.analysis.asking.database import Database
from cudnn_sweep.analysis.asking.queries import NamedQuery, literal, parse_query
from cudnn_sweep.analysis.errors import QueryError
from cudnn_sweep.analysis.storing.schema import arrow_schema, columns_of
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
MOST_LISTED = 6  # names of a kind in an error
MOST_VALUES = 3  # of a part on a side
NONE = "none"

Parts: TypeAlias = Mapping[str, tuple[str, ...]]  # of the environment: all values on a side
Ask: TypeAlias = Callable[..., pa.Table]  # SQL, and values for it


@dataclass(frozen=True, kw_only=True, slots=True)
class Side:
    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}={self.name}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    a: Side
    b: Side
    rows: pa.Table
    """A cell and config each, the largest ratio first."""
    a_parts: Parts
    b_parts: Parts
    edited: tuple[str, ...]
    """Workloads of a user's own whose code is not the same on both sides, in a cell of both."""
    slowest: tuple[str, str, bool] | None
    """The suite and id of the cell that B slowed down most, and whether with benchmark on; None where there is none."""

    @property
    def differences(self) -> dict[str, str]:
        """The parts of the environment that are not the same on both sides, with the values of each."""
        sides = {part: (self.a_parts[part], self.b_parts[part]) for part in PARTS}
        return {
            part: f"{part}: {some(a, MOST_VALUES)} → {some(b, MOST_VALUES)}"
            for part, (a, b) in sides.items()
            if a != b
        }

    def counts(self, column: str = "verdict") -> dict[str, int]:
        """How many cells and configs have each verdict on wall time, or in `device_verdict`, in a row or more."""
        verdicts = {(row["cell_id"], row["settings"], row[column]) for row in self.rows.to_pylist()}
        return dict(sorted(Counter(verdict for *_, verdict in verdicts if verdict).items()))

    @property
    def cells(self) -> int:
        """Cells and configs: with several versions on a side each has several rows."""
        return len({(row["cell_id"], row["settings"]) for row in self.rows.to_pylist()})

    @property
    def mixed(self) -> dict[str, list[str]]:
        """The parts of the software of which a side has several versions, and which to compare."""
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
    """Raises QueryError for a name that is unknown, means several things, or means the same as the other.

    `where`: COLUMN=VALUE each, of the records that count; of two values of one column either counts.
    """
    ask = _asking(database, where)
    names = [Side(**row) for row in ask("select * from side_names()").to_pylist()]
    first, second = find_side(a, names), find_side(b, names)
    if first == second:
        raise QueryError(f"{a} and {b} both mean {first}: nothing to compare")
    asked = {
        f"{at}_{key}": value
        for at, side in (("a", first), ("b", second))
        for key, value in asdict(side).items()
    }
    ((in_both,),) = (row.values() for row in ask(IN_BOTH, asked).to_pylist())
    if in_both:
        raise QueryError(
            f"{in_both} trials belong both to {first} and to {second}: name two sides that share none"
        )
    rows = ask(
        "select * from sides_compared($a_kind, $a_name, $b_kind, $b_name, $min_effect)",
        {**asked, "min_effect": min_effect},
    )
    slowest = None
    for row in rows.to_pylist():
        if slowest is None and row["verdict"] == "hurts":
            (suite,) = ask(SUITE_OF, {"cell_id": row["cell_id"]})["suite"].to_pylist()
            slowest = suite, row["cell_id"], "benchmark=true" in row["settings"]
    return Comparison(
        a=first,
        b=second,
        rows=rows,
        a_parts=_parts(ask, first),
        b_parts=_parts(ask, second),
        edited=tuple(ask(EDITED, asked)["workload"].to_pylist()),
        slowest=slowest,
    )


def _asking(database: Database, where: Sequence[str]) -> Ask:
    wanted: dict[str, list[str]] = {}
    for each in where:
        column, _, value = each.partition("=")
        if column not in arrow_schema().names:
            raise QueryError(f"--where {each}: found no column {column!r}, allowed is COLUMN=VALUE")
        text = f"coalesce({column}::text, '{NONE}')"
        stored = database.query(f"select distinct {text} as value from records order by all")
        there = {part_text(column, found): found for found in stored["value"].to_pylist()}
        if value not in there:
            raise QueryError(f"--where {each}: there are {some(list(there), MOST_VALUES)}")
        wanted.setdefault(text, []).append(literal(there[value]))
    only = [f"{text} in ({', '.join(values)})" for text, values in wanted.items()]
    head = f"with records as not materialized (from main.records where {' and '.join(only)})"
    return lambda sql, values=None: database.query(f"{head * bool(only)}\n{sql}", values)


def find_side(asked: str, names: list[Side]) -> Side:
    """What `2.11.0`, `H200`, `2026-11-21` or `torch=2.11.0` means: a whole name, else a part of one, and rather of a
    GPU's than of sweeps that are named after it.
    """
    kind, equals, value = asked.partition("=")
    if equals and kind not in KINDS:
        raise QueryError(f"{asked}: found kind {kind!r}, allowed are {', '.join(KINDS)}")
    wanted = value if equals else asked
    among = [side for side in names if not equals or side.kind == kind]
    found = [side for side in among if side.name.lower() == wanted.lower()]
    found = found or [side for side in among if wanted and wanted.lower() in side.name.lower()]
    gpus = [side for side in found if side.kind == "gpu"]
    found = gpus if len(gpus) == 1 else found
    if len(found) > 1:
        raise QueryError(f"{asked} may mean {_listed(found)}; name one as KIND=NAME")
    if not found:
        raise QueryError(f"{asked}: nothing is stored of it; there are {_listed(among or names)}")
    return found[0]


def _listed(sides: list[Side]) -> str:
    by_kind = {kind: sorted(side.name for side in sides if side.kind == kind) for kind in KINDS}
    shown = [
        f"{kind}={name}"
        for kind, found in by_kind.items()
        for name in [*found[-MOST_LISTED:], *(["..."] if len(found) > MOST_LISTED else [])]
    ]
    return ", ".join(shown) or "no results at all"


def _parts(ask: Ask, side: Side) -> Parts:
    columns = ", ".join(
        f"list_sort(list(distinct coalesce({part}::text, '{NONE}'))) as {part}" for part in PARTS
    )
    (row,) = ask(f"select {columns} from of_side($kind, $name)", asdict(side)).to_pylist()
    return {part: tuple(part_text(part, value) for value in row[part]) for part in PARTS}
