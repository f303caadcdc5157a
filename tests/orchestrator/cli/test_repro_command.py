"""`sweep repro` and `sweep report --page` as a user types them."""

import ast
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cudnn_sweep.analysis.storing.store import open_store
from cudnn_sweep.orchestrator.cli import app
from cudnn_sweep.orchestrator.planning.session import session_of
from cudnn_sweep.workloads.cells.field_case import load_field_cases
from tests.makers import MakePlan, RecordOf


@pytest.fixture
def trial(plan_of: MakePlan, record_of: RecordOf, tmp_path: Path) -> str:
    """Its id; it is stored in the folder `results`."""
    plan = plan_of("conv", problem="tutorials/rgb224")
    record = record_of(session_of(plan, "june", tmp_path), plan.trials[0])
    open_store(str(tmp_path / "results")).write(replace(record, routes=["Cudnn"]))
    return record.trial_id


def test_trial_is_found_in_the_results(trial: str, tmp_path: Path) -> None:
    results = ["--results", str(tmp_path / "results")]
    found = CliRunner().invoke(app, ["repro", trial, *results])
    assert found.exit_code == 0
    ast.parse(found.stdout)
    assert (
        "| route | Cudnn |" in CliRunner().invoke(app, ["repro", trial, *results, "--issue"]).stdout
    )
    lost = CliRunner().invoke(app, ["repro", "0123", *results])
    assert lost.exit_code == 2
    assert "'0123': neither a reported case nor a trial of these results" in lost.stderr


def test_page_is_written_or_printed(trial: str, tmp_path: Path) -> None:
    asked = ["report", "--page", "field_cases", "--results", str(tmp_path / "results")]
    file = tmp_path / "page.html"
    found = CliRunner().invoke(app, [*asked, "--output", str(file)])
    assert found.stdout.startswith(f"{file}: {len(load_field_cases())} cases: ")
    assert file.read_text().startswith("<!doctype html>")
    printed = CliRunner().invoke(app, [*asked, "--format", "markdown"])
    assert printed.stdout.startswith("# What became of reported cases")
