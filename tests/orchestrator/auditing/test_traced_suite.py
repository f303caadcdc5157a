"""A trace as a suite that times each convolution, and as a table."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from cudnn_sweep.orchestrator.auditing.traced_suite import (
    operations_table,
    suite_text,
    trace_table,
)
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.planning.spec import load_suite
from cudnn_sweep.workloads.cells.expand import WorkloadFacts, expand_cells
from cudnn_sweep.workloads.measuring.tracing import (
    Trace,
    TracedConvolution,
    TracedOperation,
    TraceRequest,
)
from tests.workloads.made_up_cells import MODEL

FACTS = {
    "conv": WorkloadFacts(
        directions=("forward_backward", "forward"), varies=("batch",), input_shape=None
    )
}

CONVOLUTION = TracedConvolution(
    input_shape=(8, 16, 28, 28),
    weight_shape=(32, 16, 3, 3),
    bias=False,
    stride=(1, 1),
    padding=(1, 1),
    dilation=(1, 1),
    groups=1,
    transposed=False,
    output_padding=(0, 0),
    dtype="float32",
    precision="tf32",
    layout="contiguous",
    route="Cudnn",
    flops=1_000_000,
)
POINT = replace(
    CONVOLUTION, weight_shape=(32, 16, 1, 1), padding=(0, 0), layout="channels_last", times=4
)
DEPTHWISE = replace(
    CONVOLUTION,
    input_shape=(128, 1024, 14, 14),
    weight_shape=(1024, 1, 1, 7),
    padding=(0, 3),
    groups=1024,
    bias=True,
    route="CudaDepthwise2d",
)
UP = replace(
    CONVOLUTION,
    input_shape=(1, 6, 5, 6, 7),
    weight_shape=(6, 4, 2, 2, 2),
    stride=(2, 2, 2),
    padding=(0, 0, 0),
    dilation=(1, 2, 1),
    output_padding=(1, 1, 1),
    groups=2,
    transposed=True,
    dtype="bfloat16",
    precision="bf16",
)
EXACT = replace(CONVOLUTION, dtype="float64", precision=None)


def trace_of(*convolutions: TracedConvolution) -> Trace:
    request = TraceRequest(
        model="nets:small",
        input=(8, 3, 28, 28),
        inputs=None,
        arguments={"name": "two words"},
        precision="tf32",
        layout="contiguous",
        direction="inference",
    )
    return Trace(
        request=request,
        torch="2.11.0",
        device="GPU",
        convolutions=[*convolutions],
        operations=[],
        on_gpu=True,
    )


def test_suite_file_holds_what_was_traced(tmp_path: Path) -> None:
    file = tmp_path / "traced.yaml"
    traced = [CONVOLUTION, POINT, DEPTHWISE, UP]
    file.write_text(suite_text(trace_of(*traced), "sweep trace net"))
    suite = load_suite(str(file))
    cells = expand_cells(suite, FACTS, device="cpu", gpu="CPU")
    assert {cell.direction for cell in cells} == {"forward"}
    found = {cell.problem.name: (cell, cell.problem) for cell in cells if cell.problem is not None}
    named = trace_of(*traced).named()
    assert sorted(found) == sorted(named)
    for name, wanted in named.items():
        cell, problem = found[name]
        assert problem.input_shape == wanted.input_shape
        assert problem.weight_shape == wanted.weight_shape
        for field in ("stride", "padding", "dilation", "groups", "bias", "output_padding"):
            assert getattr(problem, field) == getattr(wanted, field)
        assert (problem.transposed, problem.occurrences) == (wanted.transposed, wanted.times)
        assert (cell.precision, cell.layout) == (wanted.precision, wanted.layout)


def test_cells_of_a_suite_file_are_laid_out_as_people_write_them() -> None:
    *_, below = suite_text(trace_of(CONVOLUTION), "sweep trace net").partition("\ncells:\n")
    first, second, *_ = below.splitlines()
    assert (first, second) == ("  - workload: conv", "    problem: [conv1_3x3_32]")


def test_what_no_suite_can_hold_is_left_out_and_named() -> None:
    text = suite_text(trace_of(EXACT, CONVOLUTION), "sweep trace net")
    assert "# left out: conv1_3x3_32, because a suite has no precision for float64" in text
    assert "problem: [conv2_3x3_32]" in text
    with pytest.raises(SpecError, match="all convolutions are in float64; allowed in a suite"):
        suite_text(trace_of(EXACT), "sweep trace net")


@pytest.mark.parametrize("width", [100, 160])
def test_table_keeps_a_row_on_a_line(width: int) -> None:
    console = Console(width=width)
    found = trace_of(CONVOLUTION, replace(POINT, layout="contiguous"), DEPTHWISE)
    with console.capture() as drawn:
        console.print(trace_table(found, console))
    head, *rows, same, counts = drawn.get().splitlines()
    assert len(rows) == 3
    assert all(len(line) <= width for line in (head, *rows))
    assert rows[1].split()[-3:] == ["4", "66.7%", "Cudnn"]
    assert same == "All of them: stride 1, dilation 1, layout contiguous, precision tf32"
    assert counts == "6 convolutions, 3 distinct, 6 MFLOP in a forward pass; torch 2.11.0, GPU"


def drawn(trace: Trace, *, width: int = 100, of_operations: bool = False) -> list[str]:
    console = Console(width=width)
    with console.capture() as capture:
        console.print(operations_table(trace) if of_operations else trace_table(trace, console))
    return [line.rstrip() for line in capture.get().splitlines()]


def test_head_of_a_suite_says_what_was_seen_and_what_writes_it() -> None:
    big = replace(UP, flops=2_500_000_000_000, times=2)
    head = suite_text(trace_of(CONVOLUTION, big, EXACT), "sweep trace net\\\n  --more")
    lines = [line for line in head.splitlines() if line.startswith("#")]
    assert lines.pop().startswith('#     cells: [{"workload": "nets:small", "input": "8x3x28x28", ')
    assert lines == [
        "# The convolutions of nets:small at input 8x3x28x28, each timed alone: 4 convolutions, 3 distinct, 5",
        "# TFLOP in a forward pass. Seen by torch 2.11.0 on GPU, and written by",
        "#     sweep trace net\\",
        "#       --more",
        "# left out: conv3_3x3_32, because a suite has no precision for float64",
        "# To compare the model as is, compiled and as a CUDA graph, use only these two keys:",
        "#     configs: [{}, {execution: compile}, {execution: cuda_graph}]",
    ]


def test_lines_of_a_suites_head_compare_executions_of_the_model(tmp_path: Path) -> None:
    head = suite_text(trace_of(CONVOLUTION), "sweep trace net").splitlines()
    file = tmp_path / "whole.yaml"
    file.write_text(
        "\n".join(line.removeprefix("#     ") for line in head if line.startswith("#     c"))
    )
    suite = load_suite(str(file))
    assert [config.execution for config in suite.configs] == [None, "compile", "cuda_graph"]
    (cell,) = expand_cells(suite, {"nets:small": MODEL}, device="cuda", gpu="GPU")
    assert (cell.workload, cell.input_shape) == ("nets:small", (8, 3, 28, 28))
    assert cell.model is not None and dict(cell.model.arguments) == {"name": "two words"}


@pytest.mark.parametrize(
    ("flops", "text"),
    [(999, "999 FLOP"), (1000, "1 kFLOP"), (10**9, "1 GFLOP"), (1_250_000_000, "1.25 GFLOP")],
)
def test_work_is_told_in_the_largest_unit(flops: int, text: str) -> None:
    *_, counts = drawn(trace_of(replace(CONVOLUTION, flops=flops)))
    assert f"1 convolutions, 1 distinct, {text} in a forward pass" in counts


@pytest.mark.parametrize(("width", "has_kernel"), [(119, False), (120, True)])
def test_a_narrow_table_has_no_kernels(width: int, has_kernel: bool) -> None:
    head, *_ = drawn(trace_of(CONVOLUTION, POINT, DEPTHWISE), width=width)
    assert ("kernel" in head.split()) == has_kernel


def operation(name: str, layer: str, **found: object) -> TracedOperation:
    usual: dict[str, object] = {
        "takes": ["channels_last"],
        "returns": ["channels_last"],
        "lost_by": None,
        "loses": False,
        "pays": False,
        "converts": False,
        "conversion_ms": 0.0,
    }
    return TracedOperation(name=name, layer=layer, **{**usual, **found})  # type: ignore[arg-type]


LOST: Sequence[TracedOperation] = [
    operation("convolution", "conv1"),
    operation("clone", "norm", returns=["contiguous"], loses=True, conversion_ms=0.5),
    operation("convolution", "conv2", lost_by=1, pays=True, conversion_ms=0.25),
    operation("convolution", "conv3", lost_by=1, pays=True, conversion_ms=0.25),
    operation("add", "", takes=[], returns=[]),
    operation("convolution", "conv4", pays=True, conversion_ms=1.0),
]


def test_who_loses_the_layout_and_who_pays_is_told_of_a_pass_that_has_it() -> None:
    plain = trace_of(CONVOLUTION)
    lost = replace(
        plain, request=replace(plain.request, layout="channels_last"), operations=[*LOST]
    )
    assert not any("Layout" in line for line in drawn(replace(plain, operations=[*LOST])))
    _, _, head, *rows, last = drawn(lost)[-6:]
    assert head.split() == ["loses", "channels_last", "operation", "pays", "conversions_ms"]
    assert [row.split() for row in rows] == [
        ["norm", "clone", "conv2", "and", "1", "more", "1"],
        ["no", "layer", "conv4", "1"],
    ]
    assert last == (
        "Layout channels_last: lost by 1 layer, restored by 3 convolutions; conversions take 2 ms."
    )
    *_, on_a_cpu, other = drawn(replace(lost, on_gpu=False))
    assert on_a_cpu.endswith("lost by 1 layer, restored by 3 convolutions.")
    assert other.startswith("A CPU's kernels keep other layouts than a GPU's")
    unnamed = replace(lost, operations=[*LOST[-1:]])
    assert drawn(unnamed)[-1].startswith("Layout channels_last: lost by 0 layers, restored by 1 ")
    kept = replace(lost, operations=[*LOST[:1]])
    assert drawn(kept)[-1].startswith("Layout channels_last: lost by 0 layers, restored by 0")


def test_operations_are_numbered_and_those_without_a_layout_left_out() -> None:
    head, *rows = drawn(replace(trace_of(CONVOLUTION), operations=[*LOST]), of_operations=True)
    assert head.split() == ["number", "layer", "operation", "takes", "returns", "conversions_ms"]
    assert [row.split() for row in rows] == [
        ["0", "conv1", "convolution", "channels_last", "channels_last", "0"],
        ["1", "norm", "clone", "channels_last", "contiguous", "loses", "0.5"],
        ["2", "conv2", "convolution", "channels_last", "channels_last", "pays", "0.25"],
        ["3", "conv3", "convolution", "channels_last", "channels_last", "pays", "0.25"],
        ["5", "conv4", "convolution", "channels_last", "channels_last", "pays", "1"],
    ]
