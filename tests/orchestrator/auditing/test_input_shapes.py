"""What is written from a model's inputs."""

from dataclasses import replace
from pathlib import Path

import pytest

from cudnn_sweep.orchestrator.auditing.audit import (
    Inputs,
    check_may_write,
    model_inputs,
    shapes_text,
    suite_text,
)
from cudnn_sweep.workloads.auditing.findings import Findings, InputShape, Model, Sizes
from cudnn_sweep.workloads.cells.listed_shapes import read_rows
from tests.orchestrator.blank import blank

NET = blank(Model, name="Net", module="nets", calls=9, convolutions=9)
FINDINGS = blank(Findings, schema_version=1, python="3.12", torch="2.13", wall_s=1.0, calls=9)


def inputs_of(shapes: dict[Sizes, tuple[int, int]]) -> Inputs:
    """`shapes`: calls in training and in inference."""
    seen = tuple(
        InputShape(shape=shape, training=training, inference=inference)
        for shape, (training, inference) in shapes.items()
    )
    found = model_inputs(replace(FINDINGS, models=(replace(NET, shapes=seen),)), None)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("shapes", "header", "rows"),
    [
        ([(8, 3, 64, 32), (4, 3, 64, 32)], "batch,height,width,count", [(8, 64, 32), (4, 64, 32)]),
        ([(2, 1, 9, 8, 7)], "batch,depth,height,width,count", [(2, 9, 8, 7)]),
        ([(16, 80, 500)], "batch,length,count", [(16, 500)]),
        ([(16, 128)], "batch,length,count", [(16, 128)]),
    ],
)
def test_our_own_loader_takes_the_file(
    tmp_path: Path, shapes: list[Sizes], header: str, rows: list[Sizes]
) -> None:
    inputs = inputs_of({shape: (5 - number, 0) for number, shape in enumerate(shapes)})
    (tmp_path / "shapes.csv").write_text(shapes_text(inputs, "train.py"))
    assert (tmp_path / "shapes.csv").read_text().splitlines()[1] == header
    read = read_rows(tmp_path, "shapes.csv")
    names = header.split(",")
    assert [tuple(row[name] for name in names) for row in read] == [
        (*row, 5 - number) for number, row in enumerate(rows)
    ]


def test_training_steps_count_where_there_are_any() -> None:
    mixed = inputs_of({(8, 3, 4, 4): (5, 0), (1, 3, 9, 9): (0, 50)})
    assert (mixed.direction, mixed.counts) == ("training", (((8, 3, 4, 4), 5),))
    inference = inputs_of({(1, 3, 9, 9): (0, 50)})
    assert (inference.direction, inference.counts) == ("inference", (((1, 3, 9, 9), 50),))


def test_what_does_not_fit_in_the_file_is_counted() -> None:
    shapes: dict[Sizes, tuple[int, int]] = {
        (8, 3, 4, 4): (5, 0),
        (8, 1, 4, 4): (2, 0),
        (8, 3, 4): (3, 0),
        (0, 3, 4, 4): (1, 0),
    }
    found = inputs_of(shapes)
    assert found.counts == (((8, 3, 4, 4), 5),)
    assert found.left_out == 6


def test_suite_names_what_the_user_has_to_add(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    inputs = inputs_of({(8, 3, 4, 4): (5, 0)})
    file = Path("shapes.csv")
    assert "workload: nets:Net" in str(suite_text(inputs, FINDINGS, file))
    here = replace(inputs.model, file=str(tmp_path / "lib" / "nets.py"))
    in_file = suite_text(replace(inputs, model=here), FINDINGS, file)
    assert "workload: lib/nets.py:Net" in str(in_file)
    local = replace(inputs, model=replace(inputs.model, name="make.<locals>.Net"))
    assert suite_text(local, FINDINGS, file) is None


def test_only_a_file_of_an_audit_is_written_anew(tmp_path: Path) -> None:
    file = tmp_path / "shapes.csv"
    check_may_write(file)
    file.write_text(shapes_text(inputs_of({(8, 3, 4, 4): (5, 0)}), "train.py"))
    check_may_write(file)


@pytest.mark.parametrize(
    ("training", "inference", "calls"), [(5, 0, "training steps"), (0, 5, "calls")]
)
def test_a_file_of_shapes_says_what_was_counted(training: int, inference: int, calls: str) -> None:
    head = shapes_text(inputs_of({(8, 3, 64, 32): (training, inference)}), "train.py")
    assert f"inputs of Net in {calls} of train.py" in head.splitlines()[0]
