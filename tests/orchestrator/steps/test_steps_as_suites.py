"""A step that is typed as a suite, which stored cells are of it, and what keeps a lever out, of made-up facts."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from cudnn_sweep.orchestrator.errors import ModelError, SpecError
from cudnn_sweep.orchestrator.steps import levers, one_step
from cudnn_sweep.orchestrator.steps.levers import (
    BENCHMARK,
    OWN,
    fault_together,
    freeze_command,
    lines_of,
)
from cudnn_sweep.orchestrator.steps.one_step import (
    is_step,
    plan_cells,
    suite_asked,
    suite_of,
    suite_to_compare,
)
from cudnn_sweep.orchestrator.steps.step_options import AdviseOptions, BansOptions
from cudnn_sweep.orchestrator.steps.typed_inputs import one_input
from cudnn_sweep.workloads.cells.config import Config
from cudnn_sweep.workloads.cells.expand import WorkloadFacts, expand_cells
from cudnn_sweep.workloads.cells.measurement import MeasureSpec

NET: dict[str, Any] = {"workload": "nets.py:Net", "input": ("2x3x8x8",)}
ON, OFF = Config(benchmark=True), Config(benchmark=False)


def advised(**changes: Any) -> AdviseOptions:
    return AdviseOptions(**NET | changes)


@pytest.mark.parametrize(
    ("ranks", "errata", "float64", "configs", "found", "references"),
    [
        (None, None, False, (), [OFF, ON], 0),
        (2, None, True, (), [OFF, ON], 1),
        (None, "ConvFwd:5", False, (), [OFF, ON, Config(errata="ConvFwd:5")], 0),
        (None, None, False, (ON, Config(deterministic=True)), [ON, Config(deterministic=True)], 0),
    ],
)
def test_a_step_is_compared_with_benchmark_off_and_on_or_as_asked(
    ranks: int | None,
    errata: str | None,
    float64: bool,
    configs: tuple[Config, ...],
    found: list[Config],
    references: int,
) -> None:
    suite = suite_to_compare(advised(measure_ranks=ranks), errata, float64, configs=configs)
    assert suite.configs == found
    assert suite.measure.reference_replicates == references
    assert suite.cells[0].ranks == ("2_ranks" if ranks else "1_rank")
    without_gpu = suite.on("cpu")
    assert without_gpu.configs == (found if configs else [OFF])
    assert (without_gpu.replicates == 1) is not bool(configs)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"regime": "fresh", "shapes": "s.csv"}, "found --regime and --shapes; give only one"),
        ({"shapes": "s.txt"}, "^--shapes: "),
        ({"input": ("2x0x8",)}, "^--input: "),
    ],
)
def test_a_step_that_is_mistyped_names_its_option(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        suite_of(advised(**changes), 1)


def test_a_step_has_one_input_and_other_tensors_are_written_otherwise() -> None:
    assert one_input(()) is None and one_input(("2x3x8x8",)) == (2, 3, 8, 8)
    with pytest.raises(typer.BadParameter, match="found 2, allowed: one. For several tensors"):
        one_input(("2x3x8x8", "2x5"))


def test_a_regime_is_fixed_unless_it_or_a_file_of_shapes_is_typed(here: Path) -> None:
    (here / "s.csv").write_text("batch,height,width,count\n2,8,8,5\n")
    regimes = [
        suite_of(advised(**changes), 1).cells[0].regime
        for changes in ({}, {"regime": "fresh"}, {"shapes": "s.csv"})
    ]
    assert regimes[:2] == ["fixed", "fresh"]
    assert regimes[2].listed.file == "s.csv"  # type: ignore[union-attr]


def test_parameters_that_a_model_must_have_are_read_from_their_option() -> None:
    found = suite_of(advised(expect="parameters=9, convolutions=2"), 1).cells[0].model
    assert found.expect is not None
    assert (found.expect.parameters, found.expect.convolutions) == (9, 2)
    assert suite_of(advised(), 1).cells[0].model.expect is None


def stored(*, is_model: bool = True, **changes: Any) -> Any:
    """Return what a store has of the step of NET, or of one with these options."""
    options = advised(**changes)
    facts = WorkloadFacts(
        directions=("training", "inference"),
        varies=("batch", "space"),
        input_shape=None if is_model else (2, 3, 8, 8),
        is_model=is_model,
    )
    suite = suite_of(options, 1)
    (cell,) = expand_cells(suite, {options.workload: facts}, device="cuda", gpu="H200")
    return SimpleNamespace(
        cell_id=cell.cell_id,
        is_model=is_model,
        input_shape=list(cell.input_shape),
        direction=cell.direction,
        by_strides=facts.by_strides,
        device="cuda",
        gpu="H200",
    )


@pytest.mark.parametrize(
    ("typed", "kept", "is_it"),
    [
        ({}, {}, True),
        ({}, {"input": ("4x3x8x8",)}, False),
        ({"input": ()}, {"input": ("4x3x8x8",)}, True),
        ({"input": ()}, {}, True),
        ({"precision": "bf16"}, {}, False),
        ({"direction": "inference"}, {"direction": "inference"}, True),
        ({"direction": "inference"}, {}, False),
        ({"workload": "conv_bn", "input": ()}, {"workload": "conv_bn", "input": ()}, True),
        (
            {"workload": "conv_bn", "input": (), "precision": "bf16"},
            {"workload": "conv_bn", "input": ()},
            False,
        ),
    ],
)
def test_stored_cells_of_a_step_have_its_options_and_any_input_if_none_is_typed(
    typed: dict[str, Any], kept: dict[str, Any], is_it: bool
) -> None:
    cell = stored(is_model="workload" not in kept, **kept)
    assert is_step(advised(**typed), cell) is is_it
    if is_it and typed.get("workload") is None:
        cell.cell_id = "another"
        assert not is_step(advised(**typed), cell)
        cell.is_model, cell.input_shape = False, [2, 3]
        assert not is_step(advised(**typed), cell), "a cell that the options cannot have"


def test_bans_of_a_suite_have_its_cells_and_those_of_a_model_its_step() -> None:
    measure = MeasureSpec(calibrate=False)
    name, suite = suite_asked(BansOptions(workload="quick", benchmark=True), measure)
    assert name == "quick" and len(suite.cells) > 1
    assert (suite.configs, suite.replicates, suite.measure) == ([ON], 1, measure)
    assert {cell.configs for cell in suite.cells} == {None}
    assert suite.on("cpu") == suite.model_copy(update={"without_gpu": suite.on("cpu").without_gpu})
    name, step = suite_asked(BansOptions(**NET), measure)
    assert name == "nets.py:Net" and len(step.cells) == 1
    with pytest.raises(SpecError, match="found --input 2x3x8x8, which is for a model; quick is a"):
        suite_asked(BansOptions(workload="quick", input=("2x3x8x8",)), measure)


@pytest.mark.parametrize("named", [True, False])
def test_a_workload_that_is_typed_is_checked_and_a_suites_name_is_none(
    monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    fault = SimpleNamespace(fault="ImportError", fails=True, is_model=True)
    machine: Any = SimpleNamespace(workloads={"nets.py:Net" if named else "other": fault})
    monkeypatch.setattr(one_step, "planned_on", lambda *_: "planned")
    options = BansOptions(**NET)
    suite = suite_of(options, 1)
    if named:
        with pytest.raises(ModelError, match="ImportError"):
            plan_cells(options, "nets.py:Net", suite, machine)
    else:
        planned: Any = plan_cells(options, "nets.py:Net", suite, machine)
        assert planned == "planned"


LAST, GRAPH = (("layout", "channels_last"),), (("execution", "cuda_graph"),)


@pytest.mark.parametrize(
    ("changes", "dimensions", "fault"),
    [
        (LAST, 3, "an input of 3 dimensions has only one layout"),
        (LAST, 4, "other"),
        (LAST, 5, "other"),
        (LAST, 6, "an input of 6 dimensions has only one layout"),
        (BENCHMARK, 3, "other"),
        (OWN, 3, "other"),
    ],
)
def test_a_layout_needs_an_image_or_a_volume(
    monkeypatch: pytest.MonkeyPatch, changes: levers.Changes, dimensions: int, fault: str
) -> None:
    monkeypatch.setattr(levers, "execution_fault", lambda *_, **__: "other")
    cell: Any = SimpleNamespace(workload="net", input_shape=(2,) * dimensions)
    environment = SimpleNamespace(device="cuda")
    machine: Any = SimpleNamespace(workloads={"net": 0}, environment=environment, compiler=None)
    assert levers.fault_of(changes, cell, machine) == fault


@pytest.mark.parametrize(
    ("changes", "options", "fails"),
    [
        (GRAPH, {"precision": "amp_fp16", "direction": "training"}, True),
        (GRAPH, {"precision": "amp_fp16", "direction": "forward_backward"}, True),
        (GRAPH, {"precision": "amp_fp16", "direction": "inference"}, False),
        (GRAPH, {"precision": "tf32", "direction": "training"}, False),
        ((*GRAPH, ("precision", "amp_fp16")), {"precision": "tf32"}, True),
        ((*GRAPH, ("precision", "tf32")), {"precision": "amp_fp16"}, False),
        (BENCHMARK, {"precision": "amp_fp16", "direction": "training"}, False),
    ],
)
def test_a_graph_holds_no_training_that_scales_its_loss(
    changes: levers.Changes, options: dict[str, Any], fails: bool
) -> None:
    fault = fault_together(changes, advised(**options))
    assert (fault is not None) is fails


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (BENCHMARK, ""),
        (BENCHMARK + LAST, " --layout channels_last"),
        ((*BENCHMARK, ("execution", "compile"), ("precision", "bf16")), " --precision bf16"),
    ],
)
def test_the_command_that_keeps_a_choice_has_the_layout_and_the_precision(
    changes: levers.Changes, words: str
) -> None:
    typed = advised(levers="benchmark,layout", allow="bf16", same_bits=True)
    found = freeze_command(changes, typed)
    assert found.endswith(f"freeze nets.py:Net --input 2x3x8x8{words}")


@pytest.mark.parametrize(
    ("changes", "options", "first", "has_optimizer"),
    [
        (GRAPH, {}, "static, side", True),
        (GRAPH, {"direction": "inference"}, "static, side", False),
        (GRAPH, {"inputs": "[{shape: [2]}]"}, "# batch stands for each", True),
        ((("precision", "bf16"),), {"precision": "tf32"}, "model, batch = model.bfloat16()", False),
        ((("precision", "bf16"),), {"precision": "fp32"}, "model, batch = model.bfloat16()", False),
        (
            (("precision", "tf32"),),
            {"precision": "bf16"},
            "# remove the code that now sets bf16",
            False,
        ),
        (BENCHMARK, {"precision": "bf16"}, "torch.backends.cudnn.benchmark = True", False),
    ],
)
def test_lines_to_paste_begin_with_what_has_to_be_left_out(
    changes: levers.Changes, options: dict[str, Any], first: str, has_optimizer: bool
) -> None:
    lines = lines_of(changes, 4, advised(**options))
    assert lines[0].startswith(first)
    assert any(line.startswith("optimizer.") for line in lines) is has_optimizer
