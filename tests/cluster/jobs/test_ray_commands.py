"""Commands of Ray's launcher, by programs that stand for it: which are run, how they fail, when they are waited for."""

import sys
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import Any

import pytest

from cudnn_sweep.cluster.errors import ClusterError
from cudnn_sweep.cluster.jobs import launcher
from cudnn_sweep.cluster.jobs.launcher import (
    LINES_SHOWN,
    _ray,
    _wait_for,
    hosts_at_first,
    running,
    take_down,
)

FILE = """\
head_start_ray_commands:
  - ray stop
  - ray stop && ray start --head
  - echo ready
"""


def test_before_a_cluster_goes_down_its_own_stop_command_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that starts a Ray is left out; a head that is gone has nothing to stop."""
    called: list[tuple[str, ...]] = []

    def fails(*words: str, log: Path) -> None:
        called.append(words)
        if words[0] == "exec":
            raise ClusterError("gone")

    monkeypatch.setattr(launcher, "_ray", fails)
    file = tmp_path / "cluster.yaml"
    file.write_text(FILE)
    take_down(file)
    assert called == [("exec", str(file), "ray stop"), ("down", "-y", str(file))]
    file.write_text("provider: {type: local}\n")
    take_down(file)
    assert called[2:] == [("down", "-y", str(file))]


def test_a_command_that_fails_shows_how_its_log_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = f"for line in range({2 * LINES_SHOWN}): print(line)"
    log = tmp_path / "up.log"
    for code in (0, 3):
        program = (sys.executable, "-c", f"import sys\n{lines}\nsys.exit({code})")
        monkeypatch.setattr(launcher, "RAY", program)
        if not code:
            _ray("up", log=log)
            continue
        with pytest.raises(ClusterError) as failed:
            _ray("up", log=log)
        head, *end = str(failed.value).splitlines()
        assert head == f"`ray up` failed with exit code 3. {log} ends with:"
        assert end == [str(line) for line in range(LINES_SHOWN, 2 * LINES_SHOWN)]


@pytest.mark.parametrize(
    ("printed", "told"),
    [("for line in 'abcd': print(line)", "b c d"), ("pass", "7")],
)
def test_a_tunnel_that_ends_says_why(printed: str, told: str) -> None:
    command = [sys.executable, "-c", f"{printed}\nraise SystemExit(7)"]
    with running(command, end_s=5, variables={}) as process:
        process.wait(20)
        with pytest.raises(ClusterError) as failed:
            _wait_for(1, process, 20.0)
    assert str(failed.value) == f"no tunnel to the head: {told}"


def test_a_tunnel_is_waited_for_until_its_port_answers() -> None:
    sleeping = [sys.executable, "-c", "import time; time.sleep(60)"]
    with running(sleeping, end_s=5, variables={}) as process:
        with pytest.raises(ClusterError, match="no tunnel to the head after 0 s"):
            _wait_for(1, process, 0.01)
        with ThreadingTCPServer(("127.0.0.1", 0), BaseRequestHandler) as server:
            _wait_for(server.server_address[1], process, 5.0)
        assert process.poll() is None
    assert process.returncode == -15


def test_hosts_at_first_are_the_head_and_the_fewest_workers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def count(types: dict[str, Any]) -> tuple[int, int | None]:
        filled = {"available_node_types": types, "head_node_type": "head"}
        monkeypatch.setattr(launcher, "with_defaults", lambda _: filled)
        return hosts_at_first({})

    gpus = {"resources": {"GPU": 4}}
    assert count({"head": {}}) == (1, None)
    assert count({"head": {}, "worker": {"min_workers": 2, **gpus}}) == (3, 8)
    assert count({"head": gpus, "worker": {"min_workers": 0, **gpus}}) == (1, 4)
    assert count({"head": {"min_workers": 1}, "worker": {"min_workers": 1}}) == (3, None)
