"""Reported cases are read, their sides built and their claims checked when they are read."""

from pathlib import Path

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


def read(file: Path) -> FieldCase:
    """What it has otherwise is this file; without a column where that is `-`."""
    row = CASE | dict(each.split("=", 1) for each in file.read_text().split())
    return read_field_case({key: value for key, value in row.items() if value != "-"})


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


def test_unknown_case_is_named_with_those_like_it() -> None:
    with pytest.raises(WorkloadError, match="unknown case 'N0044'; allowed: .*N004"):
        find_field_case("N0044")
