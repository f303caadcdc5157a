"""`sweep status` beside a launch on this machine: what is stored, and who runs."""

import os
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cudnn_sweep.analysis.store.store import open_store
from cudnn_sweep.orchestrator.locks.sweep_lock import holder_of, sweep_lock
from cudnn_sweep.orchestrator.planning.session import session_of
from tests.makers import MakePlan, RecordOf
from tests.orchestrator.typed import invoke

ENDED = datetime(2026, 11, 24, 8, 7, 15, tzinfo=UTC)


def status(*words: str) -> str:
    told = invoke(["status", *words])
    assert told.exit_code == 0, told.output
    return told.output


def test_status_of_a_launch_here_reads_its_results(
    tmp_path: Path, plan_of: MakePlan, record_of: RecordOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "this machine: not running. No trial is recorded in results" in status()
    assert not list(tmp_path.iterdir()), "it writes nothing"

    plan = plan_of("noop", replicates=3, batch=[1, 2])
    session = session_of(plan, "june", tmp_path)
    store = open_store("results")
    for second, trial in enumerate(plan.trials[:3]):
        store.write(replace(record_of(session, trial), ended_at=ENDED.replace(second=second)))
    last = f"noop forward {plan.trials[2].cell.input_shape[0]}x1 fixed tf32"
    with sweep_lock("results", plan.plan_hash):
        told = status()
        assert f"this machine: running. By process {os.getpid()} on " in told
    assert f"Last trial: {last}, ended 2026-11-24 08:07:02 UTC" in told
    assert f"sweep june: 3 of {len(plan.trials)} trials recorded" in told
    assert "not running" in status()

    (tmp_path / "own.yaml").write_text("metadata: {sweep: {suite: quick, results: elsewhere}}")
    assert "No trial is recorded in elsewhere" in status("own.yaml")
    assert "sweep june" in status("own.yaml", "--results", "results")
    assert '"trials_recorded": 3' in status("--json")

    Path("results/sweep=june").rename("results/sweep=renamed")
    assert "sweep june: 3 of" in status()


def test_a_launch_that_was_killed_does_not_count_as_running(tmp_path: Path) -> None:
    """It had no time to remove what it wrote."""
    with sweep_lock(str(tmp_path), "plan"):
        (holder,) = tmp_path.glob(".*.holder")
        text = holder.read_text()
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    holder.write_text(text.replace(f'"pid": {os.getpid()}', f'"pid": {ended.pid}'))
    assert holder_of(str(tmp_path)) is None
    holder.write_text(text)
    assert holder_of(str(tmp_path)) is not None
