"""What a script reproduces: the sides of a reported case, or one stored trial."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from cudnn_sweep.analysis.asking.database import Database
from cudnn_sweep.analysis.asking.queries import literal
from cudnn_sweep.analysis.asking.settings import besides_usual, shortened, texts_of
from cudnn_sweep.analysis.storing.schema import axes
from cudnn_sweep.orchestrator.errors import ReproError
from cudnn_sweep.workloads.cells.config import CudnnConfig
from cudnn_sweep.workloads.cells.errata import rules_of
from cudnn_sweep.workloads.cells.field_case import FieldCase, Side
from cudnn_sweep.workloads.problem import ConvProblem, sizes_text

KNOWN = {"problem", *(each.name for each in fields(Side))}  # axes of a cell


@dataclass(frozen=True, kw_only=True, slots=True)
class Reproduced:
    """Convolutions that torch alone can time, by what a reader calls them."""

    title: str
    address: str | None
    """Where it was reported."""
    sides: Mapping[str, Side]


def of_case(case: FieldCase) -> Reproduced:
    """Raises ReproError where torch alone cannot do it."""
    if not case.is_tested:
        raise ReproError(f"case {case.id} cannot be reproduced here: {case.not_here}")
    sides = case.sides()
    names = case.contrast() if len(sides) == 2 else ("this cell",)
    return Reproduced(
        title=f"{case.id}: {case.claim}",
        address=case.address,
        sides=_checked(f"case {case.id}", dict(zip(names, sides, strict=True))),
    )


def stored_trial(trial_id: str, database: Database) -> Reproduced:
    """Raises ReproError where there is no such trial, or torch alone cannot do it."""
    select = f"select * from records where trial_id = {literal(trial_id)} limit 1"
    rows = database.query(select).to_pylist()
    if not rows:
        raise ReproError(
            f"found {trial_id!r}: neither a reported case nor a trial of these results"
        )
    return of_trial(rows[0])


def of_trial(row: Mapping[str, Any]) -> Reproduced:
    trial = f"trial {row['trial_id']}"
    if row["out_channels"] is None:
        raise ReproError(f"{trial} is of {row['workload']}: torch alone has no such workload")
    for name, axis in axes().items():
        if name not in KNOWN and row[name] not in (None, axis.usual):
            raise ReproError(f"{trial} has {name} {row[name]}: a script knows none")
    shape = tuple(row["input_shape"])
    problem = ConvProblem(
        name=row["problem"] or "problem",
        input_shape=shape,
        out_channels=row["out_channels"],
        kernel_size=tuple(row["kernel_size"]),
        stride=tuple(row["stride"]),
        padding=tuple(row["padding"]),
        dilation=tuple(row["dilation"]),
        groups=row["groups"],
        bias=row["bias"],
        transposed=bool(row["transposed"]),
        output_padding=tuple(row["output_padding"] or ()),
    )
    side = Side(
        workload=row["workload"],
        problem=problem,
        input_shape=shape,
        direction=row["direction"],
        precision=row["precision"],
        layout=row["layout"],
        regime=row["regime"],
        config=_config(trial, row),
    )
    texts = besides_usual(texts_of(asdict(side.config)))
    settings = shortened(" ".join(f"{name}={text}" for name, text in texts.items()))
    label = settings or "PyTorch's own settings"
    return Reproduced(
        title=f"{trial}: {problem.name} {side.direction} {sizes_text(shape)} {side.precision}",
        address=None,
        sides=_checked(trial, {label: side}),
    )


def _config(trial: str, row: Mapping[str, Any]) -> CudnnConfig:
    values = {each.name: row[each.name] for each in fields(CudnnConfig)}
    config = CudnnConfig(**values | {"environment": dict(row["environment"] or {})})
    try:
        rules_of(config.errata)
    except ValueError as error:
        raise ReproError(f"{trial} has errata that are no rules: {error}") from None
    return config


def _checked(what: str, sides: dict[str, Side]) -> dict[str, Side]:
    for side in sides.values():
        if side.problem is None:
            raise ReproError(f"{what} is about {side.workload}: torch alone has no such network")
        if side.regime != "fixed":
            raise ReproError(f"{what} has inputs of other sizes ({side.regime}): a script has one")
    return sides
