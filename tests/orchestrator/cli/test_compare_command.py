"""`sweep compare` on what it says to people and to programs."""

import json
from pathlib import Path
from runpy import run_path

import pytest
from typer.testing import CliRunner, Result

from cudnn_sweep.analysis.storing.store import open_store
from cudnn_sweep.orchestrator.cli import app

MADE_UP = run_path(str(Path(__file__).parents[2] / "analysis" / "conftest.py"))


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Torch 2.10.0 on one day, and on another 2.11.0, which takes 20% longer."""
    store = open_store(str(tmp_path_factory.mktemp("results")))
    sides: dict[str, dict[str, object]] = {
        "monday": {"steady_wall_ms": 10.0, "torch": "2.10.0", "software_hash": "old"},
        "tuesday": {"steady_wall_ms": 12.0},
    }
    for name, changes in sides.items():
        for block in range(3):
            ids = {"trial_id": f"{name}-{block}", "attempt_id": f"{name}-{block}"}
            store.write(MADE_UP["_record"](sweep_id=name, block=block, **ids, **changes))
    return store.location


def test_people_are_told_what_changed_and_what_to_try_next(results: str) -> None:
    said = _compare("monday", "tuesday", results, "--candidates", "2.10.1").stdout
    assert "A is sweep=monday, B is sweep=tuesday." in said
    assert "- torch: 2.10.0 → 2.11.0" in said
    assert "1 cell and config: hurts 1." in said
    assert "try torch 2.10.1 next (not measured yet)" in said


def test_programs_are_given_rows_alone(results: str) -> None:
    found = _compare("2.10.0", "2.11.0", results, "--format", "json")
    (row,) = json.loads(found.stdout)
    assert (row["verdict"], row["ratio"]) == ("hurts", pytest.approx(1.2))
    assert "- torch: 2.10.0 → 2.11.0" in found.stderr


def test_an_unknown_side_is_a_mistake_that_is_explained(results: str) -> None:
    found = _compare("monday", "friday", results)
    assert found.exit_code == 2
    assert "friday: nothing is stored of it; there are sweep=monday" in found.stderr


def _compare(a: str, b: str, results: str, *options: str) -> Result:
    return CliRunner().invoke(app, ["compare", a, b, "--results", results, *options])
