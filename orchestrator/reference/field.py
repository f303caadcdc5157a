"""What is made from the reported cases of workloads/field: their suite, and the table that SQL reads."""

import json

from cudnn_sweep.workloads.cells.field_case import (
    FieldCase,
    Side,
    load_field_cases,
    unusual,
)
from cudnn_sweep.workloads.problem import sizes_text

SUITE_HEAD = """\
# Are the cases that people reported still as they were? Made from workloads/field/*.csv by `make docs`. The
# network among them needs torchvision.
needs_cuda: true
replicates: 5
preload: [torchvision.models]
configs:
  - {}
measure:
  warmup_s: 0.02
  warmup_limit_s: 0.2
  steady_budget_s: 0.15
  device_budget_s: 0.1
  open_steps: 30
  open_budget_s: 3.0
  reference_replicates: 0
  logged_replicates: 0
  timeout_s: 120
"""


def field_suite() -> str:
    """The YAML of the suite `field`: each case's cells, each with the configs that the case names."""
    sides = [
        side for case in load_field_cases().values() if case.is_tested for side in case.sides()
    ]
    lines = [SUITE_HEAD.rstrip(), "problems:"]
    problems = {side.problem.name: side for side in sides if side.problem is not None}
    lines += [line for name, side in problems.items() for line in _problem(name, side)]
    cells: dict[str, list[str]] = {}
    for side in sides:
        configs = cells.setdefault(_cell(side), [])
        config = _flow(unusual(side.config))
        if config not in configs:
            configs.append(config)
    lines.append("cells:")
    for cell, configs in cells.items():
        lines.append(cell)
        if configs != ["{}"]:
            lines.append(f"    configs: [{', '.join(configs)}]")
    return "\n".join(lines) + "\n"


def _problem(name: str, side: Side) -> list[str]:
    problem = side.problem
    assert problem is not None
    sizes: dict[str, object] = {
        "input": sizes_text(problem.input_shape),
        "out_channels": problem.out_channels,
        "kernel": sizes_text(problem.kernel_size),
    }
    usual = {"stride": "1", "padding": "0", "dilation": "1", "output_padding": "0"}
    for key, value in usual.items():
        found = getattr(problem, key)
        if set(found) != {int(value)}:
            sizes[key] = sizes_text(found)
    others = {"groups": 1, "bias": False, "transposed": False}
    sizes |= {k: getattr(problem, k) for k, v in others.items() if getattr(problem, k) != v}
    return [f"  {name}:", *(f"    {key}: {_word(value)}" for key, value in sizes.items())]


def _cell(side: Side) -> str:
    keys: dict[str, object] = {"workload": side.workload}
    if side.problem is None:
        keys["input"] = sizes_text(side.input_shape)
    else:
        keys["problem"] = side.problem.name
    keys |= {"direction": side.direction, "precision": side.precision}
    if side.layout != "contiguous":
        keys["layout"] = side.layout
    if side.regime != "fixed":
        keys["regime"] = side.regime
    first, *others = (f"{key}: {_word(value)}" for key, value in keys.items())
    return "\n".join([f"  - {first}", *(f"    {line}" for line in others)])


def _flow(settings: dict[str, object]) -> str:
    return "{" + ", ".join(f"{key}: {_word(value)}" for key, value in settings.items()) + "}"


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


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


def _side(name: str, side: Side | None) -> dict[str, str | float | None]:
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
        ", ".join(f"{key}={_word(value)}" for key, value in sorted(unusual(side.config).items())),
    )
    return {
        f"{name}_{column}": value
        for column, value in zip((*columns, "settings"), values, strict=True)
    }
