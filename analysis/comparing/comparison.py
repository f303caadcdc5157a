"""Compares two sides of the results: sweeps, versions, GPUs or dates, named as a user names them."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from cudnn_sweep.analysis.asking.database import Database
from cudnn_sweep.analysis.comparing.bisection import next_to_try
from cudnn_sweep.analysis.errors import QueryError
from cudnn_sweep.analysis.printable import part_text
from cudnn_sweep.analysis.storing.schema import columns_of

IN_BOTH = """
select count(*) as trials
from of_side($a_kind, $a_name)
semi join of_side($b_kind, $b_name) as other using (sweep_id, trial_id)
"""

CODE = """
select workload, cell_id, list_sort(list(distinct workload_hash)) as hashes
from of_side($kind, $name)
where workload_hash is not null
group by workload, cell_id
"""

KINDS = ("sweep", "torch", "cudnn", "driver", "ours", "software", "gpu", "uuid", "date")
SOFTWARE = columns_of("software")
PARTS = (*columns_of("hardware"), *SOFTWARE)
MOST_LISTED = 6  # names of a kind in an error
NONE = "none"

Parts: TypeAlias = Mapping[str, tuple[str, ...]]  # of the environment: all values on a side
Code: TypeAlias = Mapping[tuple[str, str], list[str]]  # by workload and cell_id: its hashes


@dataclass(frozen=True, kw_only=True, slots=True)
class Side:
    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}={self.name}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """A part of the environment that is not the same on both sides: the values of each."""

    part: str
    a: tuple[str, ...]
    b: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.part}: {', '.join(self.a)} → {', '.join(self.b)}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    a: Side
    b: Side
    rows: pa.Table
    """A cell and config each, the largest ratio first."""
    a_parts: Parts
    b_parts: Parts
    softwares: tuple[dict[str, str], ...]
    """Every software among all results, each as its version by part."""
    edited: tuple[str, ...]
    """Workloads of a user's own whose code is not the same on both sides, in a cell of both."""

    @property
    def differences(self) -> tuple[Difference, ...]:
        return tuple(
            Difference(part=part, a=self.a_parts[part], b=self.b_parts[part])
            for part in PARTS
            if self.a_parts[part] != self.b_parts[part]
        )

    @property
    def counts(self) -> dict[str, int]:
        """How many rows have each verdict on wall time."""
        return self._counts("verdict")

    @property
    def device_counts(self) -> dict[str, int]:
        """How many rows have each verdict on device time, of the rows that have one."""
        return self._counts("device_verdict")

    def _counts(self, column: str) -> dict[str, int]:
        verdicts = [verdict for verdict in self.rows[column].to_pylist() if verdict is not None]
        return dict(sorted(Counter(verdicts).items()))


def compare(database: Database, a: str, b: str, min_effect: float) -> Comparison:
    """Raises QueryError for a name that is unknown, means several things, or means the same as the other."""
    names = [Side(**row) for row in database.query("select * from side_names()").to_pylist()]
    first, second = find_side(a, names), find_side(b, names)
    if first == second:
        raise QueryError(f"{a} and {b} both mean {first}: nothing to compare")
    asked = {
        "a_kind": first.kind,
        "a_name": first.name,
        "b_kind": second.kind,
        "b_name": second.name,
    }
    ((in_both,),) = (row.values() for row in database.query(IN_BOTH, asked).to_pylist())
    if in_both:
        raise QueryError(
            f"{in_both} trials belong both to {first} and to {second}: name two sides that share none"
        )
    rows = database.query(
        "select * from sides_compared($a_kind, $a_name, $b_kind, $b_name, $min_effect)",
        {**asked, "min_effect": min_effect},
    )
    return Comparison(
        a=first,
        b=second,
        rows=rows,
        a_parts=_parts(database, first),
        b_parts=_parts(database, second),
        softwares=_softwares(database),
        edited=_edited(_code(database, first), _code(database, second)),
    )


def find_side(asked: str, names: list[Side]) -> Side:
    """What `2.11.0`, `H200`, `2026-11-21` or `torch=2.11.0` means: a whole name, else a part of one."""
    kind, equals, value = asked.partition("=")
    if equals and kind not in KINDS:
        raise QueryError(f"{asked}: found kind {kind!r}, allowed are {', '.join(KINDS)}")
    wanted = value if equals else asked
    among = [side for side in names if not equals or side.kind == kind]
    found = [side for side in among if side.name.lower() == wanted.lower()]
    found = found or [side for side in among if wanted and wanted.lower() in side.name.lower()]
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


def _parts(database: Database, side: Side) -> Parts:
    columns = ", ".join(
        f"list_sort(list(distinct coalesce({part}::text, '{NONE}'))) as {part}" for part in PARTS
    )
    (row,) = database.query(
        f"select {columns} from of_side($kind, $name)",  # columns of our own
        {"kind": side.kind, "name": side.name},
    ).to_pylist()
    return {part: tuple(part_text(part, value) for value in row[part]) for part in PARTS}


def _code(database: Database, side: Side) -> Code:
    rows = database.query(CODE, {"kind": side.kind, "name": side.name}).to_pylist()
    return {(row["workload"], row["cell_id"]): row["hashes"] for row in rows}


def _edited(a: Code, b: Code) -> tuple[str, ...]:
    return tuple(sorted({cell[0] for cell in a.keys() & b.keys() if a[cell] != b[cell]}))


def _softwares(database: Database) -> tuple[dict[str, str], ...]:
    columns = ", ".join(f"{part}::text as {part}" for part in SOFTWARE)
    rows = database.query(f"select distinct {columns} from records").to_pylist()
    return tuple({part: part_text(part, row[part] or NONE) for part in SOFTWARE} for row in rows)


def suggestion(found: Comparison, candidates: list[str]) -> str | None:
    """Which version to try next; None where nothing got slower, or no software differs."""
    is_slower = found.counts.get("hurts") or found.device_counts.get("hurts")
    if not is_slower or not any(d.part in SOFTWARE for d in found.differences):
        return None
    sides = (found.a_parts, found.b_parts)
    mixed = [part for part in SOFTWARE if any(len(side[part]) > 1 for side in sides)]
    if mixed:
        return f"A side has several versions of {', '.join(mixed)}: compare two of those."
    good, bad = ({part: side[part][0] for part in SOFTWARE} for side in sides)
    return next_to_try(good, bad, found.softwares, candidates)
