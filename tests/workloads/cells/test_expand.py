"""A suite's axes become cells, and a mistake in them is named."""

from dataclasses import replace
from typing import Any

import pytest

from cudnn_sweep.workloads.cells.cell import Cell
from cudnn_sweep.workloads.cells.config import Config
from cudnn_sweep.workloads.cells.expand import WorkloadFacts, configs_of_cells, expand_cells
from cudnn_sweep.workloads.cells.suite import CellAxes, ProblemSpec, SuiteSpec, UntilDecided
from cudnn_sweep.workloads.errors import CellsError, UserCodeError, WorkloadError
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
        ({"problem": "stem", "model": {"loss": "own"}}, "workload conv is not a model"),
        ({"problem": "stem", "direction": "training"}, "unknown direction of workload conv"),
        ({"workload": "mnist", "state": "checkpoint"}, "workload mnist cannot repeat it"),
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


def test_a_cells_id_is_of_its_fields_but_for_usual_ones_and_for_what_is_expected() -> None:
    (cell,) = cells({"workload": "conv", "problem": "tutorials/rgb224"})
    assert cell.cell_id == "e90ae8aba07a7fd1", "stored rows have it"
    net = {"workload": "my.nets:Net", "input": "2x3x8x8"}
    (plain,) = cells(net)
    (expecting,) = cells(net | {"model": {"expect": {"parameters": 9}}})
    (given,) = cells(net | {"model": {"inputs": [{"shape": ["batch", 3, 8, 8]}]}})
    assert expecting.cell_id == plain.cell_id != given.cell_id
    assert expecting.model is not None and expecting.model.expect is not None
    (ranks,) = cells(net | {"ranks": 12})
    assert (plain.rank_count, ranks.rank_count) == (1, 12)
    assert "ranks" not in plain.as_json() and '"ranks": "12_ranks"' in ranks.as_json()


def test_a_config_s_layout_and_precision_stand_in_for_the_cells() -> None:
    (cell,) = cells({"workload": "mnist"})
    assert cell.under(Config(benchmark=True)) == cell
    assert cell.under(Config(layout="weights")) == replace(cell, layout="weights")
    both = cell.under(Config(layout="weights", precision="bf16", execution="compile"))
    assert both == replace(cell, layout="weights", precision="bf16")


def test_the_same_cell_of_two_entries_is_one_and_a_file_is_all_of_its_problems() -> None:
    of_file = {"workload": "conv", "problem": "tutorials"}
    one = {"workload": "conv", "problem": ["tutorials/rgb256", "stem"]}
    found = cells(of_file, one, one, problems=OWN)
    assert [cell.problem.name for cell in found if cell.problem] == [
        *(f"tutorials/{name}" for name in ("rgb256", "rgb224", "vgg16_conv3_2", "r3d18_stem")),
        "stem",
    ]
    suite = SuiteSpec(cells=[CellAxes.model_validate(of_file)])
    assert configs_of_cells(suite, FACTS, device="cpu", gpu="any") == {}, "those of the suite"


@pytest.mark.parametrize(
    ("problem", "problems", "allowed"),
    [
        ("nowhere", OWN, "convnet_benchmarks, .*, stem, tutorials, .*"),
        ("nowhere", None, "convnet_benchmarks, .*, resnet50, tutorials, .*"),
        ("tutorials/none", None, "tutorials/r3d18_stem, tutorials/rgb224, tutorials/rgb256, .*"),
        ("tutorials/none", OWN, "convnet_benchmarks, .*, stem, tutorials, .*"),
    ],
)
def test_an_unknown_problem_is_answered_with_files_or_with_its_files_problems(
    problem: str, problems: dict[str, Any] | None, allowed: str
) -> None:
    known = {"workload": "mnist"}
    with pytest.raises(
        CellsError, match=f"^unknown problem '{problem}'.*; allowed: {allowed}"
    ) as e:
        cells(known, known, {"workload": "conv", "problem": problem}, problems=problems)
    assert e.value.number == 2


def usual(**changes: Any) -> WorkloadFacts:
    return WorkloadFacts(**{"directions": ("run", "both"), "input_shape": (4, 1, 9, 9)} | changes)


@pytest.mark.parametrize(
    ("facts", "axes", "kind", "fault"),
    [
        (usual(fault="no such name"), {}, WorkloadError, "^no such name$"),
        (usual(fault="it raised", fails=True), {}, UserCodeError, "^it raised$"),
        (usual(regime_parameters={}), {}, WorkloadError, "is a regime: write it under `regime`"),
        (
            usual(),
            {"regime": "my.py:It"},
            WorkloadError,
            "is a workload: write it under `workload`",
        ),
        (usual(), {"regime": "cycle"}, WorkloadError, "cycle varies space; .*: nothing$"),
        (
            usual(varies=("batch",)),
            {"regime": "cycle"},
            WorkloadError,
            "varies space; allowed for workload my.py:It: batch$",
        ),
        (
            usual(varies=("space",)),
            {"regime": "train_and_eval"},
            WorkloadError,
            "train_and_eval varies batch; allowed for workload my.py:It: space$",
        ),
        (usual(varies=("space",)), {"regime": "listed"}, WorkloadError, "listed needs a file"),
        (usual(), {"direction": "run"}, None, "run"),
        (usual(), {"direction": "both"}, None, "both"),
        (usual(), {}, None, "run"),
    ],
)
def test_a_workload_is_usable_as_its_facts_say(
    facts: WorkloadFacts, axes: dict[str, Any], kind: type[WorkloadError] | None, fault: str
) -> None:
    suite = SuiteSpec.model_validate({"cells": [{"workload": "my.py:It", **axes}]})
    if kind is None:
        (cell,) = expand_cells(suite, {"my.py:It": facts}, device="cpu", gpu="any")
        assert (cell.direction, cell.input_shape) == (fault, (4, 1, 9, 9))
        return
    with pytest.raises(CellsError, match=fault) as found:
        expand_cells(suite, {"my.py:It": facts}, device="cpu", gpu="any")
    assert type(found.value.__cause__) is kind


def test_a_regime_of_the_users_own_has_its_defaults_and_numbers_of_their_kind() -> None:
    rule = WorkloadFacts(varies=("batch",), regime_parameters={"steps": 3, "by": 2.0})
    facts = {"my.py:It": usual(varies=("batch", "space")), "own.py:Rule": rule}

    def found(regime: Any) -> Cell:
        axes = CellAxes.model_validate({"workload": "my.py:It", "regime": regime})
        (cell,) = expand_cells(SuiteSpec(cells=[axes]), facts, device="cpu", gpu="any")
        return cell

    assert found("own.py:Rule").regime_parameters == {"steps": 3.0, "by": 2.0}
    given = found({"own.py:Rule": {"by": 0.5, "steps": 4}})
    assert given.regime_parameters == {"steps": 4.0, "by": 0.5}
    assert given.own_regime == "own.py:Rule" and given.may_end()
    with pytest.raises(WorkloadError, match="own.py:Rule: steps must be a whole number, found 1.5"):
        found({"own.py:Rule": {"steps": 1.5}})


@pytest.mark.parametrize(("step", "fits"), [(2, True), (3, False)])
def test_each_shape_of_a_regime_leaves_the_problem_an_output(step: int, fits: bool) -> None:
    """A kernel of 5 on 7 pixels, and on fewer."""
    problems = {"own": {"input": "4x3x7x7", "out_channels": 8, "kernel": 5}}
    axes = {"workload": "conv", "problem": "own", "regime": {"cycle": {"sizes": 2, "step": step}}}
    if fits:
        (cell,) = cells(axes, problems=problems)
        assert cell.may_end() and cell.own_regime is None
        return
    with pytest.raises(WorkloadError, match="cycle makes an input of 4x3x4x4, which is too small"):
        cells(axes, problems=problems)


@pytest.mark.parametrize(
    ("axes", "runs"),
    [
        ({"direction": "forward_backward", "state": "checkpoint"}, True),
        ({"direction": "forward", "state": "checkpoint"}, False),
        ({"direction": "forward", "state": "misaligned"}, True),
        ({"workload": "my.nets:Net", "input": "2x3x8x8", "state": "checkpoint"}, True),
    ],
)
def test_a_state_that_recomputes_needs_a_backward_pass(axes: dict[str, Any], runs: bool) -> None:
    known = {"workload": "conv", "problem": "stem"}
    full = axes if "workload" in axes else known | axes
    if runs:
        assert [cell.state for cell in cells(full, problems=OWN)] == [axes["state"]]
        return
    with pytest.raises(WorkloadError, match="direction forward has none"):
        cells(full, problems=OWN)
