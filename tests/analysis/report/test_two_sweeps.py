"""`sweep report --against`: two sweeps on one page."""

import json

import pytest
from typer.testing import CliRunner

from cudnn_sweep.analysis.storing.store import Store
from cudnn_sweep.orchestrator.cli import app
from tests.analysis.conftest import make_pair


@pytest.fixture
def two(store: Store) -> str:
    """With benchmark on, tuesday takes 20% longer, with another torch."""
    for sweep_id, ms, torch in (("monday", 5.0, "2.10.0"), ("tuesday", 6.0, "2.11.0")):
        for block in range(3):
            changes = {"sweep_id": sweep_id, "torch": torch, "software_hash": torch}
            store.write(*make_pair(block, 10.0, ms, **changes))
    return store.location


def test_each_cell_and_config_of_two_sweeps_is_a_row_of_one_chart(two: str) -> None:
    options = ["--against", "monday", "--sweep-id", "tuesday", "--json", "--results", two]
    told = json.loads(CliRunner().invoke(app, ["report", *options]).stdout)
    (contrast,) = told["contrasts"]
    assert contrast["name"] == "sweep: monday → tuesday"
    assert told["common"][0] == "sweep: monday → tuesday (torch: 2.10.0 → 2.11.0)"
    assert (contrast["counts"]["hurts"], contrast["counts"]["equivalent"]) == (1, 1)
    columns = told["tables"]["verdicts"]["columns"]
    rows = [dict(zip(columns, row, strict=True)) for row in told["tables"]["verdicts"]["rows"]]
    assert {row["label"].split()[-1]: round(row["ratio"], 3) for row in rows} == {
        "benchmark=false": 1.0,
        "benchmark=true": 1.2,
    }
    assert told["charts"] == ["effect"]


def test_the_page_of_two_sweeps_has_that_chart_alone(two: str, tmp_path: object) -> None:
    page = f"{tmp_path}/two.html"
    asked = ["report", "--against", "monday", "--results", two, "--output", page]
    found = CliRunner().invoke(app, asked)
    assert "sweep: monday → tuesday: 2 of 2 cells decided (hurts in 1" in found.stdout
    with open(page) as file:
        text = file.read()
    assert '"name":"effect"' in text and '"name":"heat_map"' not in text


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--sweep-id", "friday"], "sweep=friday: nothing is stored of it; there are sweep=monday"),
        (["--sweep-id", "monday"], "both mean sweep=monday: nothing to compare"),
        (["--field", "benchmark"], "not with --field or --page"),
    ],
)
def test_what_does_not_go_with_against_is_told(two: str, options: list[str], told: str) -> None:
    found = CliRunner().invoke(app, ["report", "--against", "monday", "--results", two, *options])
    assert found.exit_code == 2
    assert told in found.stderr
