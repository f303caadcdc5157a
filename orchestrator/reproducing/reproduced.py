"""What a script reproduces: the sides of a reported case, or one stored trial."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from cudnn_sweep.analysis.asking.database import Database
from cudnn_sweep.analysis.asking.queries import literal
from cudnn_sweep.analysis.asking.settings import besides_usual, shortened, texts_of
from cudnn_sweep.analysis.storing.schema import axes
from cudnn_sweep.analysis.words import milliseconds
from cudnn_sweep.orchestrator.errors import ReproError
from cudnn_sweep.workloads.cells.config import CudnnConfig
from cudnn_sweep.workloads.cells.errata import rules_of
from cudnn_sweep.workloads.cells.field_case import FieldCase, Side, find_field_case
from cudnn_sweep.workloads.problem import ConvProblem, sizes_text

KNOWN = {"problem", *(each.name for each in fields(Side))}  # axes of a cell


@dataclass(frozen=True, kw_only=True, slots=True)
class Reproduced:
    """Convolutions that torch alone can time, by what a reader calls them."""

    title: str
    address: str | None
    """Where it was reported."""
    sides: Mapping[str, Side]
    claim: str | None = None
    stored: Mapping[str, str] = field(default_factory=dict)
    """What the store knows: versions, GPU, route, kernels."""


def reproduced(name: str, database: Database | None) -> Reproduced:
    """A case by its id, or a trial of these results by its. Raises ReproError where torch alone cannot
    do it.
    """
    from cudnn_sweep.workloads.cells.field_case import load_field_cases

    if name in load_field_cases():
        return of_case(find_field_case(name))
    if database is None:
        raise ReproError(f"found {name!r}, which is no reported case; for a trial give --results")
    rows = database.query(
        f"select * from records where trial_id = {literal(name)} limit 1"
    ).to_pylist()
    if not rows:
        raise ReproError(f"found {name!r}: neither a reported case nor a trial of these results")
    return of_trial(rows[0])


def of_case(case: FieldCase) -> Reproduced:
    if not case.is_tested:
        raise ReproError(f"case {case.id} cannot be reproduced here: {case.not_here}")
    sides = case.sides()
    names = case.contrast() if len(sides) == 2 else ("this cell",)
    if case.assumed:
        claim = f"{case.claim} (assumed: {case.assumed})"
    else:
        claim = case.claim
    return Reproduced(
        title=f"{case.id}: {case.claim}",
        address=case.address,
        claim=claim,
        sides=_checked(f"case {case.id}", dict(zip(names, sides, strict=True))),
    )


def of_trial(row: Mapping[str, Any]) -> Reproduced:
    trial = f"trial {row['trial_id']}"
    if row["out_channels"] is None:
        raise ReproError(f"{trial} is of {row['workload']}: torch alone has no such workload")
    for name, axis in axes().items():
        if name not in KNOWN and row[name] not in (None, axis.usual):
            raise ReproError(f"{trial} has {name} {row[name]}: a script knows none")
    shape = tuple(row["input_shape"])
    spatial = len(shape) - 2
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
        output_padding=tuple(row["output_padding"] or (0,) * spatial),
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
    kernels = [each["name"] for each in row["kernels"] or () if each["kind"] != "other"]
    stored = {
        "torch": row["torch"],
        "cuDNN": row["cudnn"],
        "driver": row["driver"],
        "GPU": row["gpu"],
        "route": ", ".join(row["routes"] or ()),
        "kernels": ", ".join(kernels),
        "device time": milliseconds(row["steady_device_ms"]),
        "wall time": milliseconds(row["steady_wall_ms"]),
    }
    return Reproduced(
        title=f"{trial}: {problem.name} {side.direction} {sizes_text(shape)} {side.precision}",
        address=None,
        sides=_checked(trial, {label: side}),
        stored={key: str(value) for key, value in stored.items() if value},
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
