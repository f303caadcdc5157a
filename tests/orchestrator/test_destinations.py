"""Where a launch goes, and what its dry run shows."""

from pathlib import Path

import pytest
from rich.console import Console

from cudnn_sweep.cluster.launch_file import LaunchFile, read_launch_file
from cudnn_sweep.orchestrator import destinations
from cudnn_sweep.orchestrator.destinations import Destination, destination_of
from cudnn_sweep.orchestrator.launch import launch
from cudnn_sweep.orchestrator.launch_here import Here
from cudnn_sweep.orchestrator.nightly.night_name import NightName
from cudnn_sweep.orchestrator.options import LaunchOptions
from cudnn_sweep.orchestrator.place import NightPlace
from cudnn_sweep.orchestrator.remote.inside import Inside
from cudnn_sweep.orchestrator.remote.launch_there import BroughtUpCluster, RunningCluster
from cudnn_sweep.orchestrator.request import SweepRequest
from cudnn_sweep.orchestrator.spec import SweepSpec

LAUNCHED = """
cluster_name: lab
provider: {type: local, head_ip: 10.0.0.1, worker_ips: [10.0.0.2]}
auth: {ssh_user: me}
"""
ADDRESS = "metadata: {sweep: {address: 'head:8265'}}\n"
NOOP = "cells: [{workload: noop}], replicates: 2"


def read(folder: Path, text: str) -> LaunchFile[SweepSpec]:
    file = folder / "cluster.yaml"
    file.write_text(text)
    return read_launch_file(file, SweepSpec)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", Here),
        ("metadata: {sweep: {address: null}}", Here),
        (ADDRESS, RunningCluster),
        (LAUNCHED + ADDRESS, RunningCluster),
        ("metadata: {sweep: {address: auto}}", Inside),
        (LAUNCHED, BroughtUpCluster),
    ],
)
def test_the_launch_file_says_where(tmp_path: Path, text: str, kind: type) -> None:
    assert type(destination_of(read(tmp_path, text))) is kind


def test_a_kind_of_its_own_is_a_class_and_a_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[SweepRequest] = []

    class Queue:
        where = "a queue"

        def launch(self, request: SweepRequest, console: Console) -> int:
            taken.append(request)
            return 0

        def show(self, request: SweepRequest, console: Console) -> int:
            raise NotImplementedError

        def for_night(
            self, request: SweepRequest, name: NightName, last_good: str | None, console: Console
        ) -> NightPlace:
            raise NotImplementedError

        def check_python(self, last_good: str) -> None:
            raise NotImplementedError

    def queue(file: LaunchFile[SweepSpec]) -> Destination:
        return Queue()

    row = (lambda file: file.sweep.address == "queue:0", queue)
    monkeypatch.setattr(destinations, "KINDS", [row, *destinations.KINDS])
    file = read(tmp_path, f"metadata: {{sweep: {{address: 'queue:0', {NOOP}}}}}")
    assert launch(LaunchOptions(file=file.path), Console(quiet=True)) == 0
    (request,) = taken
    assert [each.workload for each in request.suite.cells] == ["noop"]
    assert request.suite.replicates == 2


@pytest.mark.parametrize("kind", [ADDRESS, LAUNCHED + "metadata: {sweep: {}}\n"])
def test_dry_run_of_a_cluster_shows_a_plan_for_each_model_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    state = tmp_path / "state"
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    asked = f"gpus: {{models: [H100, L4]}}, {NOOP}"
    file = read(tmp_path, kind.replace("sweep: {", f"sweep: {{{asked}, ").replace(", }", "}"))
    console = Console(record=True, width=150, quiet=False)
    options = LaunchOptions(file=file.path, dry_run=True)
    with console.capture() as shown:
        assert launch(options, console) == 0
    text = shown.get()
    assert "On 1 × GPU H100, about" in text
    assert "On 1 × GPU L4, about" in text
    assert text.count("1 cells × 2 configs in 2 blocks") == 2
    assert ("RAY_AUTH_MODE=token" in text) == ("provider" in kind)
    assert [each.name for each in tmp_path.iterdir()] == ["cluster.yaml"]
