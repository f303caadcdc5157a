"""A suite's axes become cells, and a mistake in them is named."""

from dataclasses import replace
from typing import Any

import pytest

from cudnn_sweep.workloads.cells.cell import Cell
from cudnn_sweep.workloads.cells.config import Config
from cudnn_sweep.workloads.cells.expand import configs_of_cells, expand_cells
from cudnn_sweep.workloads.cells.suite import CellAxes, ProblemSpec, SuiteSpec, UntilDecided
from cudnn_sweep.workloads.errors import WorkloadError
from cudnn_sweep.workloads.find_regime import regime_types
from cudnn_sweep.workloads.survey import workload_facts
from tests.workloads.made_up_cells import MODEL

FACTS = workload_facts(["conv", "mnist"]) | {"my.nets:Net": MODEL}
OWN = {"stem": {"input": "4x3x32x32", "out_channels": 8, "kernel": 3, "padding": 1}}


def cells(*axes: dict[str, Any], problems: dict[str, Any] | None = None) -> list[Cell]:
    suite = SuiteSpec(
        cells=[CellAxes.model_validate(each) for each in axes],
        problems={n: ProblemSpec.model_validate(spec) for n, spec in (problems or {}).items()},
    )
    return expand_cells(suite, FACTS, device="cpu", gpu="any")


def test_suite_may_have_problems_of_its_own() -> None:
    (cell,) = cells({"workload": "conv", "problem": "stem", "batch": 2}, problems=OWN)
    assert cell.problem is not None
    assert cell.problem.name == "stem"
    assert cell.problem.output_shape(cell.input_shape) == (2, 8, 32, 32)
    assert (cell.problem.padding, cell.problem.stride) == ((1, 1), (1, 1))


def test_model_has_its_input_and_its_choice() -> None:
    model = {
        "arguments": {"depth": 3},
        "loss": "cross_entropy",
        "optimiser": {"adamw": {"lr": 0.1}},
    }
    found = cells(
        {"workload": "my.nets:Net", "input": ["8x3x32x32", "8x3x64x64"], "batch": 2, "model": model}
    )
    assert [cell.input_shape for cell in found] == [(2, 3, 32, 32), (2, 3, 64, 64)]
    choice = found[0].model
    assert choice is not None
    assert choice.arguments == {"depth": 3}
    assert (choice.optimiser, choice.optimiser_parameters) == ("adamw", {"lr": 0.1})


def test_all_regimes_are_those_that_suit_but_for_what_is_named_beside() -> None:
    batches = cells({"workload": "mnist", "regime": "all"})
    assert {"fixed", "last_partial_batch"} <= {cell.regime for cell in batches}
    assert {regime_types()[cell.regime].varies for cell in batches} == {"nothing", "batch"}
    own = {"cycle": {"sizes": 2}}
    found = cells({"workload": "conv", "problem": "stem", "regime": ["all", own]}, problems=OWN)
    assert [cell.regime_parameters["sizes"] for cell in found if cell.regime == "cycle"] == [2]
    assert "multi_scale" not in {cell.regime for cell in found}, "32 pixels are too few for it"


def test_cells_may_have_configs_of_their_own() -> None:
    off, on = Config(), Config(benchmark=True)
    exact = Config(deterministic=True)
    axes = [
        {"workload": "conv", "problem": "tutorials/rgb224", "configs": [exact]},
        {"workload": "conv", "problem": ["tutorials/rgb224", "tutorials/rgb256"]},
    ]
    suite = SuiteSpec(cells=[CellAxes.model_validate(each) for each in axes])
    found = expand_cells(suite, FACTS, device="cpu", gpu="any")
    configs = configs_of_cells(suite, FACTS, device="cpu", gpu="any")
    assert [configs[cell.cell_id] for cell in found] == [(exact, off, on), (off, on)]
    assert suite.every_config == [off, on, exact]


@pytest.mark.parametrize(
    ("axes", "placement"),
    [
        ({"workload": "conv", "problem": "unet/conv1_3x3_64"}, "strides"),
        ({"workload": "conv", "problem": "unet/conv2_3x3_64"}, ""),
        ({"workload": "conv", "problem": "dcgan/conv1_4x4_1024"}, ""),
        ({"workload": "mnist"}, "strides"),
        ({"workload": "nets:One", "input": "2x1x8x8"}, "strides"),
        ({"workload": "nets:One", "input": "2x3x8x8"}, ""),
        ({"workload": "nets:Attention", "input": "2x3x8x8"}, "strides"),
    ],
)
def test_a_cell_whose_layouts_were_others_before_has_an_id_of_its_own(
    axes: dict[str, object], placement: str
) -> None:
    """In channels_last; all other cells keep their ids."""
    facts = FACTS | {"nets:One": MODEL, "nets:Attention": replace(MODEL, by_strides=True)}
    suite = SuiteSpec.model_validate(
        {"cells": [axes | {"layout": ["contiguous", "channels_last"]}]}
    )
    plain, cell = expand_cells(suite, facts, device="cuda", gpu="any")
    assert (plain.placement, cell.placement) == ("", placement)
    assert (replace(cell, placement="").cell_id == cell.cell_id) == (not placement)


@pytest.mark.parametrize(
    ("sizes", "regime", "fault"),
    [
        ([4, 3, "height", "width"], "fixed", "found no shape with batch; write sizes"),
        (
            ["batch", 3, 32, 32],
            "cycle",
            "no shape with height or width, which regime cycle varies",
        ),
        (["batch", 3, 32, 32], "fixed", None),
        (["batch", 3, "height", 32], "cycle", None),
    ],
)
def test_model_inputs_name_the_batch_and_what_the_regime_varies(
    sizes: list[int | str], regime: str, fault: str | None
) -> None:
    model = {"inputs": [{"shape": sizes}]}
    axes = {"workload": "my.nets:Net", "input": "4x3x96x96", "regime": regime, "model": model}
    if fault is None:
        assert [cell.regime for cell in cells(axes)] == [regime]
    else:
        with pytest.raises(WorkloadError, match=fault):
            cells(axes)


@pytest.mark.parametrize(
    ("axes", "fault"),
    [
        ({"problem": "stem", "input": "4x3x32x32"}, r"takes no input.*found '4x3x32x32'"),
        ({"workload": "mnist", "problem": "stem"}, "workload mnist takes no problem, found 'stem'"),
        ({"workload": "my.nets:Net", "problem": "stem"}, "my.nets:Net takes no problem"),
        ({"workload": "my.nets:Net"}, "model my.nets:Net needs an input"),
        ({}, "workload conv needs a problem"),
        ({"problem": "stem", "model": {"loss": "own"}}, "workload conv is no model"),
        ({"problem": "stem", "direction": "training"}, "unknown direction of workload conv"),
        ({"workload": "mnist", "state": "checkpoint"}, "workload mnist cannot do that"),
        (
            {"problem": "stem", "direction": "backward_data", "state": "checkpoint"},
            "direction backward_data has none",
        ),
    ],
)
def test_a_key_that_does_not_apply_to_the_workload_is_refused(
    axes: dict[str, Any], fault: str
) -> None:
    with pytest.raises(WorkloadError, match=fault):
        cells({"workload": "conv", **axes}, problems=OWN)


@pytest.mark.parametrize(
    ("at_most", "last"), [(3, (2, 3)), (20, (12, 20)), (21, (20, 21)), (51, (50, 51))]
)
def test_the_last_look_is_at_the_most_blocks_and_no_look_comes_twice(
    at_most: int, last: tuple[int, int]
) -> None:
    looks = UntilDecided(until="decided", at_most=at_most).looks
    assert looks[-2:] == last
    assert list(looks) == sorted(set(looks))
