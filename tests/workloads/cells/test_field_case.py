"""Reported cases are read, their sides built and their claims checked when they are read."""

import pytest

from cudnn_sweep.workloads.cells.config import CudnnConfig
from cudnn_sweep.workloads.cells.field_case import (
    FieldCase,
    find_field_case,
    load_field_cases,
    read_field_case,
)
from cudnn_sweep.workloads.errors import WorkloadError

CASE = {
    **dict.fromkeys(("output_padding", "config", "assumed", "not_here"), ""),
    **dict.fromkeys(("stride", "padding", "dilation", "groups"), "1"),
    "id": "T1",
    "address": "https://example.org/1",
    "claim": "four groups are slower than one",
    "operation": "conv2d",
    "input": "2x4x8x8",
    "out_channels": "8",
    "kernel": "3",
    "bias": "yes",
    "direction": "forward",
    "precision": "fp32",
    "layout": "contiguous",
    "regime": "fixed",
    "kind": "sizes",
    "candidate": "groups=4 bias=no",
    "measure": "device",
    "holds": "above",
    "bound": "1.03",
    "torch": "2.0",
    "cudnn": "8.7",
    "gpu": "A100",
}


def case(**columns: str) -> FieldCase:
    return read_field_case(CASE | columns)


def test_most_bundled_cases_can_be_tested() -> None:
    cases = load_field_cases()
    assert sum(case.is_tested for case in cases.values()) >= 40
    assert len(cases) >= 50
    assert all(case.address.startswith("https://") and case.claim for case in cases.values())


def test_every_side_of_a_bundled_case_has_an_output() -> None:
    for each in load_field_cases().values():
        for side in each.sides() if each.is_tested else ():
            if side.problem is not None:
                assert min(side.problem.output_shape(side.input_shape)) > 0, each.id


def test_candidate_differs_from_the_baseline_in_what_it_names_alone() -> None:
    baseline, candidate = case().sides()
    assert baseline.problem is not None and candidate.problem is not None
    assert (baseline.problem.name, candidate.problem.name) == ("field/T1", "field/T1-candidate")
    assert (baseline.problem.groups, candidate.problem.groups) == (1, 4)
    assert (baseline.problem.bias, candidate.problem.bias) == (True, False)
    assert baseline.problem.padding == candidate.problem.padding == (1, 1)
    assert case().contrast() == ("groups=1 bias=yes", "groups=4 bias=no")


def test_settings_of_both_sides_and_of_the_candidate_are_read() -> None:
    found = case(kind="config", candidate="enabled=false", config="deterministic=true").sides()
    assert [side.config for side in found] == [
        CudnnConfig(deterministic=True),
        CudnnConfig(deterministic=True, enabled=False),
    ]


def test_transposed_and_one_dimensional_operations_are_read() -> None:
    (side,) = case(
        operation="conv_transpose1d", input="1x4x9", output_padding="1", stride="2",
        kind="bound", candidate="", measure="device_ms",
    ).sides()  # fmt: skip
    assert side.problem is not None
    assert side.problem.transposed
    assert side.problem.output_shape((1, 4, 9)) == (1, 8, 18)


# what a case has otherwise, and what is said of it
WRONG = {
    "measure=roofline": "measure 'roofline'; allowed: wall, device",
    "kind=bound candidate=": "measure 'device'; allowed: roofline",
    "bound=twice": "bound 'twice' is no number",
    "holds=more": "holds 'more'; allowed: above, below",
    "holds=within bound=0.9": "bound 0.9 with within",
    "kind=config": "the candidate differs in sizes",
    "candidate=groups": "expected KEY=VALUE",
    "candidate=group=4": "unknown key of a candidate 'group'",
    "kind=config candidate=benchmark=3": "case T1: config {'benchmark': 3}",
    "precision=fp8": "unknown precision 'fp8'",
    "input=2x4x8": "conv2d does not take an input of 2x4x8",
    "candidate=groups=3": "3 groups do not divide",
    "not_here=it-needs-two-GPUs": "kind 'sizes'; allowed: version",
}


@pytest.mark.parametrize(("columns", "message"), WRONG.items())
def test_mistake_in_a_case_is_named(columns: str, message: str) -> None:
    with pytest.raises(WorkloadError) as raised:
        case(**dict(each.split("=", 1) for each in columns.split()))
    assert str(raised.value).startswith("case T1: ")
    assert message in str(raised.value)


def test_missing_column_is_named() -> None:
    row = {key: value for key, value in CASE.items() if key != "claim"}
    with pytest.raises(WorkloadError, match="case T1: missing or unknown columns: claim"):
        read_field_case(row)


def test_unknown_case_is_named_with_those_like_it() -> None:
    with pytest.raises(WorkloadError, match="unknown case 'N0044'; allowed: .*N004"):
        find_field_case("N0044")
