"""The GPUs and hosts of nights: which they were, and whether tonight they were as quick as usual."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any, TypeAlias

from cudnn_sweep.analysis.nightly.outcome import Change, Machine, NightPoint

Row: TypeAlias = dict[str, Any]
"""A row of the question night_machines: one night, machine and precision."""

MACHINE = ("gpu_uuid", "host", "cpu_model")
PHYSICAL = ("gpu_uuid", "cpu_model")  # a host's name alone may be that of a new container
WHICH = ("gpu", *MACHINE)
MATMUL, COPY = "calibration_matmul_tflops", "calibration_copy_gbps"


def machines_of(rows: Sequence[Row], tonight: str) -> tuple[Machine, ...]:
    """Those of `tonight`, each beside what was usual before on the same kind of hardware."""
    found: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        if row["night"] == tonight:
            found.setdefault(tuple(row[name] for name in WHICH), []).append(row)
    earlier = [row for row in rows if row["night"] < tonight]
    return tuple(
        Machine(
            **dict(zip(WHICH, which, strict=True)),
            trials=sum(row["trials"] for row in mine),
            matmul=_share(mine, earlier, MATMUL),
            copy=_share(mine, earlier, COPY),
        )
        for which, mine in found.items()
    )


def parts_of(rows: Iterable[Row], night: str) -> dict[str, str]:
    """The parts of MACHINE on one night; several in one text, an unknown one as empty text."""
    mine = [row for row in rows if row["night"] == night]
    return {name: ", ".join(sorted({str(row[name] or "") for row in mine})) for name in MACHINE}


def moved_machine(points: Sequence[NightPoint], at: int) -> tuple[Change, ...]:
    """In what a night's machine differs from that of the last night before it that was measured.

    What one of them does not know is no difference.
    """
    before = [point for point in points[:at] if point.value is not None]
    if not before:
        return ()
    old, new = (
        {name: getattr(point, name) or "" for name in MACHINE} for point in (before[-1], points[at])
    )
    return differences(old, new, MACHINE)


def differences(
    before: Mapping[str, object], now: Mapping[str, object], names: Sequence[str]
) -> tuple[Change, ...]:
    """Which of the parts `names` differ; a part of MACHINE that older rows do not have is no difference."""
    return tuple(
        Change(part=name, before=str(before[name]), now=str(now[name]))
        for name in names
        if before[name] != now[name] and not (name in MACHINE and "" in (before[name], now[name]))
    )


def _share(mine: Sequence[Row], earlier: Sequence[Row], column: str) -> float | None:
    """The median over precisions, each of which has a calibration of its own."""
    shares = []
    for row in mine:
        usual = [
            other[column]
            for other in earlier
            if other[column] is not None
            and (other["env_hash"], other["precision"]) == (row["env_hash"], row["precision"])
        ]
        if usual and row[column] is not None:
            shares.append(row[column] / median(usual))
    return median(shares) if shares else None
