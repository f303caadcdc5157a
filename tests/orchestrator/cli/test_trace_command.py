"""`sweep trace`: its list, the suite that it writes, and that a launch takes it."""

import json
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]
from rich.console import Console

from cudnn_sweep.orchestrator.auditing.traced_suite import suite_text, trace_table
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.planning.spec import load_suite
from cudnn_sweep.workloads.cells.expand import WorkloadFacts, expand_cells
from cudnn_sweep.workloads.measuring.tracing import Trace, TracedConvolution, TraceRequest
from tests.orchestrator.typed import invoke, sweep

FACTS = {
    "conv": WorkloadFacts(
        directions=("forward_backward", "forward"), varies=("batch",), input_shape=None
    )
}

NETS = """
from torch import nn

def small(width: int = 4, name: str = "") -> nn.Module:
    print("a user's module prints what it likes", name)
    first = nn.Conv2d(3, width, 3, padding=1, bias=False)
    again = [nn.Conv2d(width, width, (1, 7), padding=(0, 3)) for _ in range(2)]
    return nn.Sequential(first, *again, nn.ConvTranspose2d(width, 2, 2, stride=2))

class Texts(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.layer = nn.Embedding(10, 4), nn.Conv1d(4, 6, 3)
    def forward(self, ids, scale):
        return self.layer(self.words(ids).transpose(1, 2)) * scale
"""

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


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "nets.py").write_text(NETS)
    (tmp_path / "cluster.yaml").write_text("")
    return tmp_path


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


def test_what_no_suite_can_hold_is_left_out_and_named() -> None:
    text = suite_text(trace_of(EXACT, CONVOLUTION), "sweep trace net")
    assert "# left out: conv1_3x3_32, as a suite has no precision for float64" in text
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


@pytest.mark.slow
def test_json_is_all_that_standard_output_has_and_the_suite_is_launched_as_it_is(
    here: Path,
) -> None:
    words = ["trace", "nets.py:small", "--input", "2x3x8x8", "--json", "--output", "other.yaml"]
    words += ["--direction", "inference", "--argument", "width=4", "--argument", "name=two words"]
    told = sweep(*words, here=here)
    found = json.loads(told.stdout)
    assert found["request"]["arguments"] == {"width": 4, "name": "two words"}
    first, again, up = found["convolutions"]
    assert (first["name"], first["input_shape"], first["times"]) == ("conv1_3x3_4", [2, 3, 8, 8], 1)
    assert first["flops"] == 2 * (2 * 4 * 64) * 27
    assert (again["times"], again["padding"], again["bias"]) == (2, [0, 3], True)
    assert (up["transposed"], up["out_channels"]) == (True, 2)
    assert found["count"] == 4
    assert "Wrote other.yaml" in told.stderr
    assert "'0x3'" in (here / "other.yaml").read_text()
    plan = sweep("launch", "cluster.yaml", "--suite", "other.yaml", "--dry-run", here=here)
    assert plan.returncode == 0, plan.stderr
    assert "conv2_1x7_4 forward " in plan.stdout
    assert "3 cells × 2 configs" in plan.stdout


@pytest.mark.slow
def test_inputs_are_described_as_in_a_suite(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(here)
    inputs = "{ids: {shape: [batch, length], dtype: int64, below: 10}, scale: {shape: []}}"
    told = invoke(["trace", "nets.py:Texts", "--input", "2x9", "--inputs", inputs])
    assert told.exit_code == 0, told.stderr
    assert "2x4x9 → 6" in told.stdout
    (again,) = [x for x in (here / "Texts.yaml").read_text().splitlines() if "sweep trace" in x]
    words = shlex.split(again.removeprefix("#"))
    assert words[2:6] == ["nets.py:Texts", "--input", "2x9", "--inputs"]
    assert yaml.safe_load(words[6]) == yaml.safe_load(inputs)
