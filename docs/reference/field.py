"""The table of the reported cases that SQL reads, from the lines of workloads/field."""

import json
from dataclasses import asdict

from cudnn_sweep.workloads.cells.config import Config
from cudnn_sweep.workloads.cells.field_case import CaseSide, FieldCase, load_field_cases
from cudnn_sweep.workloads.problem import sizes_text


def field_table() -> str:
    """What the table macro `reported_cases` reads: JSON, a case on a line. Its two sides, what differs, the claim as a
    sentence and as a bound. Settings are those that are not PyTorch's own. Where `not_here` says why, no cell of it is
    run.
    """
    rows = [json.dumps(_row(case), ensure_ascii=False) for case in load_field_cases().values()]
    return "[\n" + ",\n".join(rows) + "\n]\n"


def _row(case: FieldCase) -> dict[str, str | float | None]:
    told: dict[str, str | float | None] = {
        "case_id": case.id,
        "address": case.address,
        "kind": case.kind,
        "claim": case.claim,
        "torch_then": case.torch,
        "cudnn_then": case.cudnn,
        "gpu_then": case.gpu,
        "assumed": case.assumed or None,
        "not_here": case.not_here or None,
        "contrast": None,
        "measure": None,
        "holds": None,
        "bound": None,
    }
    baseline = candidate = None
    if case.is_tested:
        baseline, *rest = case.sides()
        candidate = rest[0] if rest else None
        contrast = " → ".join(case.contrast()) if candidate else None
        told |= {"contrast": contrast, "measure": case.measure, "holds": case.holds}
        told["bound"] = float(case.bound)
    return told | _side("baseline", baseline) | _side("candidate", candidate)


def _side(name: str, side: CaseSide | None) -> dict[str, str | float | None]:
    columns = "workload", "problem", "direction", "input", "regime", "precision", "layout"
    if side is None:
        return {f"{name}_{column}": None for column in (*columns, "settings")}
    values = (
        side.workload,
        side.problem.name if side.problem else None,
        side.direction,
        sizes_text(side.input_shape),
        side.regime,
        side.precision,
        side.layout,
        ", ".join(
            f"{key}={str(value).lower()}"
            for key, value in sorted(asdict(side.config).items())
            if value != getattr(Config(), key)
        ),
    )
    return {
        f"{name}_{column}": value
        for column, value in zip((*columns, "settings"), values, strict=True)
    }
