"""`sweep launch` before anything starts: mistakes in cells are named, and a dry run shows the plan."""

import json
import re
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import TypeAlias

import pytest
import torch
from typer.testing import Result

from cudnn_sweep.orchestrator.process.client import ForkServer
from tests.orchestrator.typed import invoke, python

Typed: TypeAlias = Callable[..., Result]
"""What `sweep launch` with these words says."""


@pytest.fixture
def typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: ForkServer) -> Typed:
    """What a launch in this process says; planning asks this folder's fork server."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "cudnn_sweep.orchestrator.running.this_machine.ForkServer", lambda **_: nullcontext(server)
    )
    monkeypatch.setattr("cudnn_sweep.orchestrator.cli.failing.leave", lambda code: None)
    return lambda *words: invoke(["launch", *words])


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_suite_that_needs_cuda_is_planned_anywhere_and_refused_before_a_model_is_imported(
    typed: Typed, tmp_path: Path
) -> None:
    (tmp_path / "cluster.yaml").write_text("")
    (tmp_path / "nets.py").write_text("open('imported', 'w')\nraise RuntimeError\n")
    (tmp_path / "gpu.yaml").write_text("needs_cuda: true\ncells: [{workload: noop}]\n")
    planned = typed("--suite", "gpu.yaml", "--dry-run")
    assert planned.exit_code == 0
    assert "No GPU here" in planned.stdout and "noop" in planned.stdout
    (tmp_path / "own.yaml").write_text(
        "needs_cuda: true\ncells: [{workload: nets.py:Net, input: 1x1x8x8}]\n"
    )
    refused = typed("--suite", "own.yaml")
    assert refused.exit_code == 5 and "needs CUDA" in refused.stderr
    frozen = invoke(["freeze", "nets.py:Net", "--input", "1x1x8x8"])
    assert frozen.exit_code == 5 and "sweep freeze needs a GPU" in frozen.stderr
    banned = invoke(["bans", "nets.py:Net", "--input", "1x1x8x8", "--write", "bans.json"])
    assert banned.exit_code == 5 and "sweep bans needs a GPU" in banned.stderr
    assert json.loads((tmp_path / "bans.json").read_text())["exit_code"] == 5
    assert not (tmp_path / "imported").exists()


def test_gpus_that_are_not_there_are_named(typed: Typed, tmp_path: Path) -> None:
    noops = "cells: [{workload: noop}], gpus: {models: B200}"
    (tmp_path / "cluster.yaml").write_text(f"metadata: {{sweep: {{{noops}}}}}")
    told = typed("--dry-run")
    assert told.exit_code == 2
    assert "gpus.models: requested B200, found " in told.stderr


@pytest.mark.slow
def test_dry_run_prints_the_plan_and_starts_nothing_and_needs_no_torch_in_its_own_process(
    tmp_path: Path,
) -> None:
    """Only its survey, a process that is thrown away, spends the seconds that this import takes."""
    (tmp_path / "cluster.yaml").write_text("")
    code = (
        "import sys; sys.modules['torch'] = None  # an import fails\n"
        "from cudnn_sweep.orchestrator.cli import app; app(['launch', '--dry-run'])"
    )
    plan = python("-c", code, here=tmp_path)
    assert plan.returncode == 0, plan.stderr
    counts = r"\d+ trials: 9 cells × 2 configs in \d+ blocks, [13] of them with an A/A"
    assert re.search(counts, plan.stdout)
    assert "contrasts: benchmark: false → true" in plan.stdout
    assert re.search(r"about [\d.]+ minutes", plan.stdout)
    assert list(tmp_path.iterdir()) == [tmp_path / "cluster.yaml"]
