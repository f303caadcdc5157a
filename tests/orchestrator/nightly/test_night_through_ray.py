"""One night as it is typed, on this machine and through Ray."""

from pathlib import Path

import pytest

from cudnn_sweep.analysis.nightly.outcome import NightOutcome
from cudnn_sweep.analysis.nightly.reports.as_json import from_json
from tests.orchestrator.typed import sweep

pytestmark = pytest.mark.measuring

SUITE = """
replicates: 2
measure: {warmup_s: 0, steady_budget_s: 0.02, calibrate: false, timeout_s: 100}
cells: [{workload: noop}]
"""


def test_a_night_through_ray_ends_as_a_fake_one_does(tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text("metadata: {sweep: {nightly: {suite: suite.yaml}}}")
    (tmp_path / "suite.yaml").write_text(SUITE)
    night = _night(tmp_path)  # another run of these tests on this machine is waited for
    assert night.recorded_trials == night.planned_trials == 5, night.reasons
    assert "1 of the 7 nights" in night.reasons[0]
    assert night == from_json((tmp_path / "reports" / "latest" / "night.json").read_text())


def _night(here: Path) -> NightOutcome:
    told = sweep("nightly", "--format", "json", "--reports", "reports", here=here)
    assert told.returncode == 0, told.stderr
    return from_json(told.stdout)
