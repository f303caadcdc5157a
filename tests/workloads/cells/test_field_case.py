"""Reported cases: each bundled line says what can be tested, and its sides are built."""

from dataclasses import replace

import pytest

from cudnn_sweep.workloads.cells.config import Config
from cudnn_sweep.workloads.cells.field_case import (
    ALL_SIZES,
    FIELD,
    SETTINGS,
    FieldCase,
    find_field_case,
    load_field_cases,
    with_field_cases,
)
from cudnn_sweep.workloads.cells.suite import CellAxes, SuiteSpec
from cudnn_sweep.workloads.errors import WorkloadError


def case(**columns: str) -> FieldCase:
    """N002, a Conv3d of one group with a bias, but for these columns."""
    return replace(find_field_case("N002"), **columns)


RATIOS = {"wall", "device", "memory", "cold"}
VALUES = {
    "roofline",
    "device_ms",
    "cold_ms",
    "first_over_second",
    "failed",
    "unrepeatable",
    "outside_cudnn",
}
KINDS = {"config", "precision", "layout", "sizes"}


def test_bundled_cases_are_complete_and_most_can_be_tested() -> None:
    cases = load_field_cases()
    assert sum(case.is_tested for case in cases.values()) >= 40
    rows = FIELD.joinpath("cases.csv").read_text(encoding="utf-8").splitlines()
    assert len(cases) == len(rows) - 1, "no id comes twice"
    assert all(case.address.startswith("https://") and case.claim for case in cases.values())


@pytest.mark.parametrize("each", load_field_cases().values(), ids=lambda each: each.id)
def test_line_of_a_bundled_case_says_what_docs_allow(each: FieldCase) -> None:
    if not each.is_tested:
        assert each.kind in {"version", "execution", "other"}
        return
    changed = {word.partition("=")[0] for word in each.candidate.split()}
    kinds = {key if key in KINDS else "sizes" if key in ALL_SIZES else "config" for key in changed}
    assert kinds == (set() if each.kind == "bound" else {each.kind})
    assert each.measure in (VALUES | {"choices"} if each.kind == "bound" else RATIOS)
    assert each.holds in {"above", "below", "within"}
    assert float(each.bound) > 1 or each.holds != "within"
    for side in each.sides():
        assert {type(getattr(side.config, name)) for name in changed & SETTINGS} <= {bool, int}
        if side.problem is not None:
            assert each.operation.endswith(f"{len(side.input_shape) - 2}d")
            assert min(side.problem.output_shape(side.input_shape)) > 0


def test_candidate_differs_from_the_baseline_in_what_it_names_alone() -> None:
    found = case(kind="sizes", candidate="groups=4 bias=no")
    baseline, candidate = found.sides()
    assert baseline.problem is not None and candidate.problem is not None
    assert (baseline.problem.name, candidate.problem.name) == ("field/N002", "field/N002-candidate")
    assert (baseline.problem.groups, candidate.problem.groups) == (1, 4)
    assert (baseline.problem.bias, candidate.problem.bias) == (True, False)
    assert baseline.problem.padding == candidate.problem.padding == (1, 1, 1)
    assert found.contrast() == ("groups=1 bias=yes", "groups=4 bias=no")


def test_settings_of_both_sides_and_of_the_candidate_are_read() -> None:
    found = case(kind="config", candidate="enabled=false", config="deterministic=true").sides()
    assert [side.config for side in found] == [
        Config(deterministic=True),
        Config(deterministic=True, enabled=False),
    ]


def test_transposed_and_one_dimensional_operations_are_read() -> None:
    (side,) = case(
        operation="conv_transpose1d", input="1x4x9", out_channels="8", output_padding="1", stride="2",
        kind="bound", candidate="", measure="device_ms",
    ).sides()  # fmt: skip
    assert side.problem is not None
    assert side.problem.transposed
    assert side.problem.output_shape((1, 4, 9)) == (1, 8, 18)


def test_unknown_case_is_named_with_those_like_it() -> None:
    with pytest.raises(
        WorkloadError, match=r"unknown case 'N0044' \(did you mean N004\?\); allowed: .*N004"
    ):
        find_field_case("N0044")


def test_a_suite_of_the_field_has_each_testable_side_once() -> None:
    suite = with_field_cases(SuiteSpec(cells=[CellAxes(workload="noop")]))
    found = {
        (axes.problem or axes.workload, axes.direction, axes.precision, axes.layout, axes.regime): (
            axes.configs
        )
        for axes in suite.cells
    }
    assert len(found) == len(suite.cells)
    sides = [
        side for case in load_field_cases().values() if case.is_tested for side in case.sides()
    ]
    for side in sides:
        name = side.problem.name if side.problem else side.workload
        configs = found[name, side.direction, side.precision, side.layout, side.regime]
        assert configs is not None and configs.count(side.config) == 1
        if side.problem is not None:
            assert suite.problems[name].problem(name) == side.problem
    assert {axes.workload == "conv" for axes in suite.cells if axes.problem} == {True}
    assert suite.problems.keys() == {side.problem.name for side in sides if side.problem}


def test_a_case_without_a_candidate_has_one_side_and_one_with_no_torch_name_is_a_model() -> None:
    assert len(case(kind="bound").sides()) == 1 and len(case(kind="config").sides()) == 2
    (model,) = case(operation="my.nets:Net", kind="bound").sides()
    assert (model.workload, model.problem) == ("my.nets:Net", None)
    assert case(operation="my.nets:Net").is_model and not case().is_model
    (conv,) = case(kind="bound").sides()
    assert conv.workload == "conv" and conv.problem and not conv.problem.transposed
    assert case(kind="config", candidate="benchmark=true").contrast() == (
        *("benchmark=false", "benchmark=true"),
    )
