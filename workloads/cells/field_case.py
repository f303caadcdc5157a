"""FieldCase: a case that somebody reported, as a line of workloads/field/*.csv: its cell, its two sides, its claim."""

import csv
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from typing import Any

from pydantic import TypeAdapter, ValidationError

from cudnn_sweep.workloads.cells.config import CudnnConfig
from cudnn_sweep.workloads.cells.suite import CellAxes, ProblemSpec, SuiteSpec
from cudnn_sweep.workloads.errors import WorkloadError, unknown
from cudnn_sweep.workloads.layout import check_layout
from cudnn_sweep.workloads.precision import find_precision
from cudnn_sweep.workloads.problem import YES_OR_NO, ConvProblem, Shape, parse_sizes, sizes_text

FIELD = files("cudnn_sweep.workloads").joinpath("field")

OPERATIONS = {"conv1d", "conv2d", "conv3d"} | {f"conv_transpose{n}d" for n in (1, 2, 3)}
SIZES = ("input", "out_channels", "kernel", "stride", "padding", "dilation", "groups", "bias")
ALL_SIZES = (*SIZES, "output_padding")
SIZES_IN_SPACE = ("stride", "padding", "dilation", "output_padding")
KINDS = ("config", "precision", "layout", "sizes", "bound")
UNTESTED_KINDS = ("version", "execution", "other")
RATIOS = ("wall", "device", "memory", "cold")
VALUES = (
    "roofline",
    "device_ms",
    "cold_ms",
    "first_over_second",
    "failed",
    "unrepeatable",
    "outside_cudnn",
    "choices",
)
AXES = ("direction", "precision", "layout", "regime")
HOLDS = ("above", "below", "within")


@dataclass(frozen=True, kw_only=True, slots=True)
class Side:
    """One of the two that a case compares, or the only one."""

    workload: str
    """conv, or a model's import path."""
    problem: ConvProblem | None
    """None: a model's."""
    input_shape: Shape
    direction: str
    precision: str
    layout: str
    regime: str
    config: CudnnConfig


@dataclass(frozen=True, kw_only=True, slots=True)
class FieldCase:
    """One line. docs/field.md says what each column means."""

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

    def __post_init__(self) -> None:
        try:
            self._check()
        except (ValueError, WorkloadError) as error:
            raise WorkloadError(f"case {self.id}: {error}") from error

    def _check(self) -> None:
        if self.not_here:
            _one_of("kind", self.kind, UNTESTED_KINDS)
            return
        _one_of("kind", self.kind, KINDS)
        _one_of("measure", self.measure, VALUES if self.kind == "bound" else RATIOS)
        _one_of("holds", self.holds, HOLDS)
        if (self.kind == "bound") != (not self.candidate):
            raise WorkloadError("every kind but bound has a candidate")
        if self.kind not in ("bound", found := self._kind_of_candidate()):
            raise WorkloadError(f"kind {self.kind}, but the candidate differs in {found}")
        if not re.fullmatch(r"\d+(\.\d+)?", self.bound):
            raise WorkloadError(f"bound {self.bound!r} is no number")
        if self.holds == "within" and float(self.bound) <= 1:
            raise WorkloadError(f"bound {self.bound} with within; allowed: above 1")
        self.sides()

    @property
    def is_tested(self) -> bool:
        return not self.not_here

    @property
    def is_model(self) -> bool:
        return self.operation not in OPERATIONS

    def sides(self) -> tuple[Side, ...]:
        """The baseline and the candidate; of a bound the one that it is about."""
        name = f"field/{self.id}"
        baseline = self._side({}, name)
        if self.kind == "bound":
            return (baseline,)
        other = f"{name}-candidate" if self.kind == "sizes" else name
        return baseline, self._side(_pairs(self.candidate), other)

    def contrast(self) -> tuple[str, str]:
        """What the two sides are called: by what differs."""
        keys = tuple(_pairs(self.candidate))
        now = " ".join(f"{key}={self._usual(key)}" for key in keys)
        return now, self.candidate

    def _usual(self, key: str) -> str:
        if key in ALL_SIZES or key in ("precision", "layout"):
            return str(getattr(self, key))
        return str(getattr(self.sides()[0].config, key)).lower()

    def _side(self, changes: Mapping[str, str], problem: str) -> Side:
        sizes = {key: changes.get(key, getattr(self, key)) for key in ALL_SIZES}
        settings = _pairs(self.config) | {
            key: value for key, value in changes.items() if _kind(key) == "config"
        }
        shape = parse_sizes(sizes["input"])
        return Side(
            workload=self.operation if self.is_model else "conv",
            problem=None if self.is_model else self._problem(problem, sizes, shape),
            input_shape=shape,
            direction=self.direction,
            precision=find_precision(changes.get("precision", self.precision)).name,
            layout=check_layout(changes.get("layout", self.layout)),
            regime=self.regime,
            config=_config(settings),
        )

    def _problem(self, name: str, sizes: Mapping[str, str], shape: Shape) -> ConvProblem:
        if self.operation.removesuffix("d")[-1] != str(len(shape) - 2):
            raise WorkloadError(f"{self.operation} does not take an input of {sizes['input']}")
        return problem_spec(sizes, transposed="transpose" in self.operation).problem(name)

    def _kind_of_candidate(self) -> str:
        kinds = {_kind(key) for key in _pairs(self.candidate)}
        return " and ".join(sorted(kinds)) or "nothing"


def problem_spec(sizes: Mapping[str, str], *, transposed: bool) -> ProblemSpec:
    """Sizes as a suite's `problems` have them."""
    words: dict[str, Any] = {key: value for key, value in sizes.items() if value}
    for key in ("out_channels", "groups"):
        words[key] = int(words[key])
    words["bias"] = YES_OR_NO[words["bias"]]
    return ProblemSpec(**words, transposed=transposed)


@cache
def load_field_cases() -> dict[str, FieldCase]:
    """Every case of every file by its id. Raises WorkloadError, naming the case, for a mistake."""
    found: dict[str, FieldCase] = {}
    for table in sorted(FIELD.iterdir(), key=lambda file: file.name):
        for row in csv.DictReader(table.read_text(encoding="utf-8").splitlines()):
            case = read_field_case(row)
            if case.id in found:
                raise WorkloadError(f"case {case.id} stands in {table.name} once more")
            found[case.id] = case
    return found


def read_field_case(row: Mapping[str, str]) -> FieldCase:
    columns = {field.name for field in fields(FieldCase)}
    if set(row) != columns:
        odd = ", ".join(sorted(map(str, set(row) ^ columns)))
        raise WorkloadError(f"case {row.get('id')}: missing or unknown columns: {odd}")
    return FieldCase(**row)


def find_field_case(name: str) -> FieldCase:
    if name not in load_field_cases():
        raise unknown("case", name, list(load_field_cases()))
    return load_field_cases()[name]


def with_field_cases(suite: SuiteSpec) -> SuiteSpec:
    """The suite with the cells of all cases that can be tested, each with the configs that the cases name."""
    tested = [case for case in load_field_cases().values() if case.is_tested]
    problems: dict[str, ProblemSpec] = {}
    cells: dict[tuple[tuple[str, str], ...], list[CudnnConfig]] = {}
    for side in (side for case in tested for side in case.sides()):
        axes = {name: getattr(side, name) for name in AXES} | {"workload": side.workload}
        if side.problem is None:
            axes["input"] = sizes_text(side.input_shape)
        else:
            axes["problem"] = side.problem.name
            problems[side.problem.name] = _spec_of(side.problem)
        configs = cells.setdefault(tuple(axes.items()), [])
        if side.config not in configs:
            configs.append(side.config)
    found = [
        CellAxes.model_validate({**dict(axes), "configs": configs})
        for axes, configs in cells.items()
    ]
    return suite.model_copy(update={"problems": problems, "cells": found})


def _spec_of(problem: ConvProblem) -> ProblemSpec:
    sizes = {"input": problem.input_shape, "kernel": problem.kernel_size}
    sizes |= {name: getattr(problem, name) for name in SIZES_IN_SPACE}
    others = {
        name: getattr(problem, name) for name in ("out_channels", "groups", "bias", "transposed")
    }
    words = {name: sizes_text(each) for name, each in sizes.items()}
    return ProblemSpec.model_validate(words | others)


def _config(settings: Mapping[str, str]) -> CudnnConfig:
    values = {name: _value(text) for name, text in settings.items()}
    try:
        return TypeAdapter(CudnnConfig).validate_json(json.dumps(values))
    except ValidationError as error:
        raise WorkloadError(f"config {values}: {error.errors()[0]['msg']}") from None


def _value(text: str) -> bool | int:
    return {"true": True, "false": False}[text] if text in ("true", "false") else int(text)


def _kind(key: str) -> str:
    if key in ALL_SIZES:
        return "sizes"
    if key in ("precision", "layout"):
        return key
    if key in {field.name for field in fields(CudnnConfig)}:
        return "config"
    settings = [field.name for field in fields(CudnnConfig)]
    raise unknown("key of a candidate", key, [*ALL_SIZES, "precision", "layout", *settings])


def _pairs(text: str) -> dict[str, str]:
    """`groups=4 bias=no`."""
    found = {}
    for word in text.split():
        key, equals, value = word.partition("=")
        if not (equals and value):
            raise WorkloadError(f"expected KEY=VALUE, found {word!r}")
        _kind(key)
        found[key] = value
    return found


def _one_of(what: str, found: str, allowed: tuple[str, ...]) -> None:
    if found not in allowed:
        raise WorkloadError(f"{what} {found!r}; allowed: {', '.join(allowed)}")
