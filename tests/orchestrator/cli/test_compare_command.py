"""`sweep compare` on what it says to people and to programs."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cudnn_sweep.analysis.storing.store import open_store
from cudnn_sweep.orchestrator.cli import app
from tests.analysis.conftest import make_record


@pytest.fixture(scope="module")
def drivers(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Both versions of torch, each with the same two drivers: the newer takes 20% longer."""
    store = open_store(str(tmp_path_factory.mktemp("drivers")))
    for torch, ms in (("2.10.0", 10.0), ("2.11.0", 12.0)):
        for driver in ("570.1", "580.1"):
            for block in range(3):
                name = f"{torch}-{driver}-{block}"
                ids = {"trial_id": name, "attempt_id": name, "software_hash": torch + driver}
                changes = {"torch": torch, "driver": driver, "steady_wall_ms": ms, "block": block}
                store.write(make_record(sweep_id=torch, **ids, **changes))
    return store.location


def test_a_change_counts_once_whatever_the_versions_of_a_side(drivers: str) -> None:
    said = _compare("torch=2.10.0", "torch=2.11.0", drivers).stdout
    told, counted, _ = said.splitlines()[-3:]
    assert told.startswith("A side has several versions of driver, each with rows of its own.")
    assert told.endswith("add --where driver=580.1")
    assert counted == "1 cell and config, in 4 rows: hurts 1."
    assert said.splitlines()[3].split()[3:6] == ["verdict", "a_driver", "b_driver"]


def test_a_row_is_a_line_of_the_columns_that_people_read(drivers: str) -> None:
    found = _compare("torch=2.10.0", "torch=2.11.0", drivers, "--where", "driver=580.1")
    head, row = found.stdout.splitlines()[3:5]
    assert head.split()[:5] == ["cell", "config", "ratio", "verdict", "a_ms"]
    assert "benchmark=false" in row and "1.20 (1.20–1.20)" in row and len(row) < 150
    whole = _compare("torch=2.10.0", "torch=2.11.0", drivers, "--where", "driver=580.1", "--json")
    (row_,) = json.loads(whole.stdout)
    assert (row_["verdict"], row_["ratio"]) == ("hurts", pytest.approx(1.2))
    assert "- torch: 2.10.0 → 2.11.0" in whole.stderr
    assert (row_["a_driver"], row_["b_torch"]) == ("580.1", "2.11.0")
    assert "heuristic_mode_b=false" in row_["settings"]


def test_nothing_compared_is_no_success(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    for name in ("monday", "tuesday"):
        ids = {"trial_id": name, "attempt_id": name, "cell_id": name}
        store.write(make_record(sweep_id=name, **(ids | {"problem": name})))
    assert _compare("monday", "tuesday", str(tmp_path)).exit_code == 0
    assert _compare("monday", "tuesday", str(tmp_path), "--fail-on", "hurts").exit_code == 3


def _compare(a: str, b: str, results: str, *options: str) -> Result:
    return CliRunner().invoke(app, ["compare", a, b, "--results", results, *options])
