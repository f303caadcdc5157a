"""The suite `claims` on the fake machine: the page over it judges what has been planted there."""

from datetime import date
from pathlib import Path

import pytest
from rich.console import Console

from cudnn_sweep.analysis.report.pages.page import find_page, show
from cudnn_sweep.analysis.storing.stored import open_stored
from cudnn_sweep.cluster.launch_file import read_launch_file
from cudnn_sweep.orchestrator.nightly.fake.machine import FakeMachine
from cudnn_sweep.orchestrator.nightly.fake.script import FakeEffect, FakeNoise, FakeScript
from cudnn_sweep.orchestrator.planning.options import LaunchOptions
from cudnn_sweep.orchestrator.planning.request import request_of
from cudnn_sweep.orchestrator.planning.spec import SweepSpec
from cudnn_sweep.orchestrator.running.run_sweep import plan_sweep, run_sweep

LAUNCH = Path(__file__).parents[3] / "docs/claims/launch.yaml"
ON = {"benchmark": "true"}
SLOWER = [
    FakeEffect(where={"deterministic": "true"}, time=1.5),
    FakeEffect(where={"workload": "batch_norm", "enabled": "false"}, time=3.0),
    FakeEffect(where={"workload": "relu", "enabled": "false"}, time=1.0),
    FakeEffect(where={"problem": "tutorials/rgb256"} | ON, time=0.2),
    FakeEffect(where=ON, cold=20.0, memory=4.0),
]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = str(tmp_path_factory.mktemp("claims") / "results")
    noise = FakeNoise(night=0.0, process=0.001)
    machine = FakeMachine(script=FakeScript(noise=noise, effects=SLOWER), night=date(2026, 1, 1))
    options = LaunchOptions(file=LAUNCH, results=folder, minutes=60)
    request = request_of(read_launch_file(LAUNCH, SweepSpec), options)
    plan = plan_sweep(request, machine)
    assert request.suite_name == "claims"
    assert run_sweep(plan, machine, Console(quiet=True)).exit_code == 0
    return folder


def test_every_claim_that_times_alone_can_tell_is_judged(results: str) -> None:
    shown = show(find_page("claims"), open_stored([results]), [results], None)
    groups = {int(entry.name.split()[1]): entry.group for entry in shown.entries}
    assert sorted(groups) == list(range(1, 13))
    assert groups[1] == "hold" and groups[5] == "hold"
    assert groups[10] == "hold in part"
    entries = {int(entry.name.split()[1]): entry for entry in shown.entries}
    assert entries[10].facts["verdict"] == "holds only when: batch_norm"
    assert entries[7].facts["costs speed, benchmark off"].startswith("holds in 6 of 6")
    assert entries[8].facts["measured on"].startswith("NVIDIA H200, torch 2.11.0")
    # the fake machine has no clock of a script, no bits of results, and no networks
    assert {number for number, group in groups.items() if "not measured" in group} == {2, 3, 6}
