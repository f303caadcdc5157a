"""Reads cases of slow or odd runs that others reported. They are in workloads/field/*.csv."""

import csv
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files

from cudnn_sweep.workloads.cells.config import Config
from cudnn_sweep.workloads.cells.suite import CellAxes, ProblemSpec, SuiteSpec
from cudnn_sweep.workloads.errors import unknown
from cudnn_sweep.workloads.layout import check_layout
from cudnn_sweep.workloads.precision import find_precision
from cudnn_sweep.workloads.problem import ConvProblem, Shape, parse_sizes, problem_of, sizes_text

FIELD = files("cudnn_sweep.workloads").joinpath("field")

OPERATIONS = {"conv1d", "conv2d", "conv3d"} | {f"conv_transpose{n}d" for n in (1, 2, 3)}
ALL_SIZES = set(ProblemSpec.model_fields) - {"transposed", "occurrences"}
AXES = ("direction", "precision", "layout", "regime")
SETTINGS = {field.name for field in fields(Config)} - set(AXES)


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseSide:
    workload: str
    """`conv`, or the import path of a model."""
    problem: ConvProblem | None
    """The convolution, or None if the side measures a model."""
    input_shape: Shape
    direction: str
    precision: str
    layout: str
    regime: str
    config: Config


@dataclass(frozen=True, kw_only=True, slots=True)
class FieldCase:
    """A reported case. The fields are the columns of a CSV file (see docs/field.md)."""

    id: str
    address: str
    operation: str
    input: str
    out_channels: str
    kernel: str
    stride: str
    padding: str
    output_padding: str
    dilation: str
    groups: str
    bias: str
    direction: str
    precision: str
    layout: str
    regime: str
    config: str
    kind: str
    candidate: str
    measure: str
    holds: str
    bound: str
    claim: str
    torch: str
    cudnn: str
    gpu: str
    assumed: str
    not_here: str

    @property
    def is_tested(self) -> bool:
        return not self.not_here

    @property
    def is_model(self) -> bool:
        return self.operation not in OPERATIONS

    def sides(self) -> tuple[CaseSide, ...]:
        name = f"field/{self.id}"
        baseline = self._side({}, name)
        if self.kind == "bound":
            return (baseline,)
        candidate = f"{name}-candidate" if self.kind == "sizes" else name
        return baseline, self._side(_pairs(self.candidate), candidate)

    def contrast(self) -> tuple[str, str]:
        """Return how the two sides differ, in texts like `benchmark=false` and `benchmark=true`."""
        baseline = " ".join(f"{key}={self._usual(key)}" for key in _pairs(self.candidate))
        return baseline, self.candidate

    def _usual(self, key: str) -> str:
        if key in SETTINGS:
            return str(getattr(self.sides()[0].config, key)).lower()
        return str(getattr(self, key))

    def _side(self, changes: Mapping[str, str], problem: str) -> CaseSide:
        cell = {name: changes.get(name, getattr(self, name)) for name in (*ALL_SIZES, *AXES)}
        settings = _pairs(self.config) | {key: changes[key] for key in SETTINGS & set(changes)}
        cell["transposed"] = "yes" if "transpose" in self.operation else "no"
        return CaseSide(
            workload=self.operation if self.is_model else "conv",
            problem=None if self.is_model else problem_of(problem, cell),
            input_shape=parse_sizes(cell["input"]),
            direction=cell["direction"],
            precision=find_precision(cell["precision"]).name,
            layout=check_layout(cell["layout"]),
            regime=cell["regime"],
            config=Config(**{name: json.loads(text) for name, text in settings.items()}),
        )


@cache
def load_field_cases() -> dict[str, FieldCase]:
    tables = sorted(FIELD.iterdir(), key=lambda file: file.name)
    lines = (csv.DictReader(table.read_text(encoding="utf-8").splitlines()) for table in tables)
    cases = [FieldCase(**row) for rows in lines for row in rows]
    return {case.id: case for case in cases}


def find_field_case(name: str) -> FieldCase:
    cases = load_field_cases()
    if name not in cases:
        raise unknown("case", name, list(cases))
    return cases[name]


def with_field_cases(suite: SuiteSpec) -> SuiteSpec:
    tested = [case for case in load_field_cases().values() if case.is_tested]
    problems: dict[str, ProblemSpec] = {}
    cells: dict[tuple[tuple[str, str], ...], dict[Config, None]] = {}
    for side in (side for case in tested for side in case.sides()):
        axes = {name: getattr(side, name) for name in AXES} | {"workload": side.workload}
        if side.problem is None:
            axes["input"] = sizes_text(side.input_shape)
        else:
            axes["problem"] = side.problem.name
            problems[side.problem.name] = _spec_of(side.problem)
        cells.setdefault(tuple(axes.items()), {})[side.config] = None
    entries = [
        CellAxes.model_validate({**dict(axes), "configs": list(configs)})
        for axes, configs in cells.items()
    ]
    return suite.model_copy(update={"problems": problems, "cells": entries})


def _spec_of(problem: ConvProblem) -> ProblemSpec:
    alike = {name: getattr(problem, name, None) for name in ProblemSpec.model_fields}
    words = alike | {"input": problem.input_shape, "kernel": problem.kernel_size}
    texts = {name: sizes_text(size) for name, size in words.items() if isinstance(size, tuple)}
    return ProblemSpec.model_validate(words | texts)


def _pairs(text: str) -> dict[str, str]:
    return dict(word.split("=") for word in text.split())
