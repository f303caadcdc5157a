"""A cell has one name wherever it is shown, and two cells never have the same."""

from dataclasses import asdict, replace
from typing import Any

import pytest

from cudnn_sweep.analysis.results.cell_names import (
    _gpus_apart,
    cell_name,
    name_of_some,
    stored_names,
    whole_names,
)
from cudnn_sweep.analysis.store.store import Store
from cudnn_sweep.orchestrator.terminal.plan_text import as_row, cell_labels
from cudnn_sweep.workloads.cells.cell import Cell
from cudnn_sweep.workloads.problem import ConvProblem
from cudnn_sweep.workloads.records.row import ListedShape
from cudnn_sweep.workloads.training.choice import ModelChoice
from tests.analysis.conftest import make_record

PROBLEM = ConvProblem(
    name="vgg/conv3_2",
    input_shape=(64, 256, 56, 56),
    out_channels=256,
    kernel_size=(3, 3),
    stride=(1, 1),
    padding=(1, 1),
    dilation=(1, 1),
    groups=1,
    bias=False,
)
CELL = Cell(
    workload="conv",
    problem=PROBLEM,
    model=None,
    direction="forward",
    input_shape=(64, 256, 56, 56),
    regime="cycle",
    regime_parameters={"sizes": 4.0, "step": 16.0},
    state="plain",
    state_parameters={},
    precision="tf32",
    layout="contiguous",
    gpu="NVIDIA H200",
)
MODEL = replace(
    CELL, problem=None, workload="net.py:Net", model=ModelChoice(), direction="training"
)
CHANGES: dict[str, dict[str, Any]] = {
    "workload": {"workload": "net.py:Net", "problem": None},
    "problem": {"problem": replace(PROBLEM, name="vgg/conv3_3")},
    "sizes of a problem": {"problem": replace(PROBLEM, out_channels=512)},
    "model": {"model": ModelChoice(arguments={"width": 2}), "problem": None},
    "direction": {"direction": "backward_data"},
    "input_shape": {"input_shape": (32, 256, 56, 56)},
    "regime": {"regime": "fixed", "regime_parameters": {}},
    "regime_parameters": {"regime_parameters": {"sizes": 8.0, "step": 16.0}},
    "listed_shapes": {
        "listed_shapes": (ListedShape(shape=[32, 256, 56, 56], count=3),),
        "regime_parameters": {"draws": 100.0, "seed": 0.0},
    },
    "state": {"state": "little_memory"},
    "state_parameters": {"state_parameters": {"bytes": 1.0}},
    "precision": {"precision": "bf16"},
    "layout": {"layout": "channels_last"},
    "placement": {"placement": "strides"},
    "ranks": {"ranks": "2_ranks"},
    "gpu": {"gpu": "NVIDIA B200"},
}
TRAININGS = [
    ModelChoice(arguments={"width": 2}),
    ModelChoice(loss="cross_entropy"),
    ModelChoice(optimiser="adam"),
    ModelChoice(optimiser_parameters={"lr": 0.5}),
]


def test_every_field_of_a_cell_is_tried_here() -> None:
    assert CHANGES.keys() - {"sizes of a problem"} == asdict(CELL).keys()


@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
def test_two_cells_that_differ_in_one_thing_have_two_names(changes: dict[str, Any]) -> None:
    one, other = cell_labels([CELL, replace(CELL, **changes)]).values()
    assert one != other


@pytest.mark.parametrize("choice", TRAININGS, ids=str)
def test_two_trainings_of_a_model_have_two_names(choice: ModelChoice) -> None:
    one, other = cell_labels([MODEL, replace(MODEL, model=choice)]).values()
    assert one != other


def test_a_name_says_numbers_only_where_they_tell_two_cells_apart() -> None:
    others = [
        replace(CELL, regime_parameters={"sizes": 8.0, "step": 16.0}, input_shape=(1, 256, 56, 56)),
        replace(CELL, input_shape=(2, 256, 56, 56)),
        replace(CELL, input_shape=(2, 256, 56, 56), regime_parameters={"sizes": 2.0}),
    ]
    assert list(cell_labels([CELL, *others]).values()) == [
        "vgg/conv3_2 forward 64x256x56x56 cycle tf32",
        "vgg/conv3_2 forward 1x256x56x56 cycle tf32",
        "vgg/conv3_2 forward 2x256x56x56 cycle(sizes=4,step=16) tf32",
        "vgg/conv3_2 forward 2x256x56x56 cycle(sizes=2) tf32",
    ]
    assert cell_name(as_row(CELL)) == "vgg/conv3_2 forward 64x256x56x56 cycle(sizes=4,step=16) tf32"


def test_a_row_about_several_cells_is_named_by_what_it_knows() -> None:
    shared = {**as_row(CELL), "cell_id": None, "precision": None}
    assert name_of_some(shared) == "vgg/conv3_2 forward 64x256x56x56 cycle(sizes=4,step=16)"
    few = {"workload": "nets.unet:UNet", "direction": "training", "cell_id": None}
    assert name_of_some(few) == "nets.unet:UNet training"
    assert name_of_some({"cell_id": None, "workload": None}) == ""


def test_cells_that_no_word_tells_apart_show_their_gpu_or_their_id() -> None:
    elsewhere, resized = (replace(CELL, **CHANGES[name]) for name in ("gpu", "sizes of a problem"))
    name = "vgg/conv3_2 forward 64x256x56x56 cycle tf32"
    on_two = cell_labels([CELL, elsewhere])
    assert set(on_two.values()) == {f"{name} H200", f"{name} B200"}
    gpus = {
        "H200": "NVIDIA H200",
        "H100 80GB": "NVIDIA H100 80GB HBM3",
        "H100 PCIe": "NVIDIA H100 PCIe",
    }
    cells = [replace(CELL, gpu=gpu) for gpu in gpus.values()]
    assert set(cell_labels(cells).values()) == {f"{name} {word}" for word in gpus}
    with_ids = {cell.cell_id: f"{name} {cell.cell_id[:6]}" for cell in (CELL, resized)}
    assert cell_labels([CELL, resized]) == with_ids


def test_a_whole_name_depends_on_no_other_cell_but_one_of_the_same_name_and_gpu() -> None:
    elsewhere, resized = (replace(CELL, **CHANGES[name]) for name in ("gpu", "sizes of a problem"))
    other = replace(CELL, input_shape=(1, 256, 56, 56))
    whole = cell_name(as_row(CELL))
    names = whole_names(map(as_row, [CELL, elsewhere, other]))
    assert (names[CELL.cell_id], names[elsewhere.cell_id]) == (whole, whole)
    names = whole_names(map(as_row, [CELL, resized]))
    assert names[CELL.cell_id] == f"{whole} {CELL.cell_id[:6]}" != names[resized.cell_id]


def test_a_stored_cell_is_called_as_the_planned_one(store: Store) -> None:
    from cudnn_sweep.orchestrator.recording.record import cell_columns

    cells = [CELL, MODEL, replace(CELL, regime_parameters={"sizes": 2.0, "step": 0.5})]
    for number, cell in enumerate(cells):
        columns = {**cell_columns(cell), "gpu": cell.gpu, "trial_id": str(number)}
        store.write(make_record(attempt_id=str(number), **columns))
    assert stored_names(store, None) == cell_labels(cells)


@pytest.mark.parametrize(
    ("gpus", "apart"),
    [
        (["NVIDIA H100", "NVIDIA H200"], ["H100", "H200"]),
        (["NVIDIA H100", "NVIDIA H100"], ["", ""]),
        (["NVIDIA A100 40GB", "NVIDIA A100 80GB"], ["A100 40GB", "A100 80GB"]),
        (["NVIDIA H100", "AMD MI300"], ["NVIDIA", "AMD"]),
        (["NVIDIA H100", None], ["NVIDIA", ""]),
        (["NVIDIA H100", "NVIDIA H100 NVL"], ["H100", "H100 NVL"]),
    ],
)
def test_a_gpu_is_shortened_to_what_tells_it_apart(
    gpus: list[str | None], apart: list[str]
) -> None:
    rows: Any = [{"gpu": gpu} for gpu in gpus]
    assert _gpus_apart(rows) == apart
