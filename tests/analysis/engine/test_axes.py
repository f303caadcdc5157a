"""Which cells are one task, if one axis does not count."""

from typing import Any

from cudnn_sweep.analysis.engine.axes import NAMED
from cudnn_sweep.analysis.store.schema import axes
from tests.analysis.one_macro import ask, fill_records, macros


def test_cells_that_differ_in_one_axis_alone_are_one_task_of_it() -> None:
    usual: dict[str, Any] = {name: axis.usual for name, axis in axes().items()} | {
        "input_shape": [8, 3]
    }
    cells: dict[str, dict[str, Any]] = {
        "usual": {},
        "precise": {"precision": "fp32"},
        "cycle": {"regime": "cycle", "regime_parameters": {"sizes": 4.0}},
        "cycles": {"regime": "cycle", "regime_parameters": {"sizes": 8.0}},
        "other loss": {"loss": "mine"},
        "larger": {"input_shape": [16, 3]},
        "placed": {"state": "placed"},
    }
    with macros() as connection:
        fill_records(
            connection,
            [
                usual | columns | {"cell_id": name, "trial_id": name}
                for name, columns in cells.items()
            ],
        )

        def tasks(axis: str) -> dict[str, Any]:
            rows = ask(connection, f"from cell_tasks({axis})")
            return {row["cell_id"]: row for row in rows}

        def alike(axis: str) -> set[str]:
            found = tasks(axis)
            return {name for name in cells if found[name]["task"] == found["usual"]["task"]}

        assert alike("null") == {"usual"}
        assert alike("'precision'") == {"usual", "precise"}
        assert alike("'regime'") == {"usual", "cycle", "cycles"}
        assert alike("'input_shape'") == {"usual", "larger"}
        found = tasks("'regime'")
        assert [found[name]["axis_value"] for name in ("cycle", "precise")] == ["cycle", None]
        assert tasks("'input_shape'")["larger"]["axis_value"] == "16x3"
        assert {row["is_usual"] for row in tasks("null").values()} == {False}
        of_state = tasks("'state'")
        assert [name for name in cells if not of_state[name]["is_usual"]] == ["placed"]


def test_a_cells_name_is_made_of_its_axes_their_parameters_and_its_model() -> None:
    assert {*axes(), "loss", "optimiser", "model_arguments", "regime_parameters"} <= {*NAMED}
    assert not {"kernel_size", "bias", "listed_shapes", "placement"} & {*NAMED}
    assert NAMED[-1] == "gpu"
