"""A real cluster of several hosts, in network namespaces of this machine: launched, cut, mended, lost."""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cudnn_sweep.analysis.store import open_store

pytestmark = pytest.mark.timeout(200)

ROOT = Path(__file__).parents[2]
HOSTS = ROOT / "tests" / "hosts" / "hosts"
VENV = Path(sys.prefix)

# Shorter than Ray's: a node without power is given up after 5 s, not after a minute.
HEALTH = (
    "RAY_health_check_period_ms=1000 RAY_health_check_timeout_ms=1000 "
    "RAY_health_check_failure_threshold=3"
)
CUT_S = 12.0  # longer than Ray's patience so shortened
LAUNCH_FILE = f"""
cluster_name: hosts
provider: {{type: local, head_ip: 10.77.0.10, worker_ips: [10.77.0.11, 10.77.0.12]}}
auth: {{ssh_user: root, ssh_private_key: ~/.ssh/id_ed25519}}
idle_timeout_minutes: 60
head_start_ray_commands:
  - {VENV}/bin/ray stop
  - {HEALTH} PATH={VENV}/bin:$PATH {VENV}/bin/ray start --head --port=6379 --num-cpus=0 --object-store-memory=200000000 --autoscaling-config=~/ray_bootstrap_config.yaml
worker_start_ray_commands:
  - {VENV}/bin/ray stop
  - PATH={VENV}/bin:$PATH {VENV}/bin/ray start --address=$RAY_HEAD_IP:6379 --num-cpus=2 --num-gpus=1 --object-store-memory=200000000
metadata:
  sweep:
    configs: [{{benchmark: false}}, {{benchmark: true}}]
    replicates: 10
    measure: {{warmup_s: 0, steady_budget_s: 0.5, timeout_s: 60, calibrate: false, reference_replicates: 0}}
    cells: [{{workload: mine.py:Net, input: 2x3x16x16}}]
"""
MODEL = "from torch import nn\n\n\ndef Net():\n    return nn.Conv2d(3, 4, 3)\n"


class Hosts:
    """A laptop, a head and two workers; `base` holds their keys, and the laptop's working folder."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.user = base / "user"
        self.launches: list[subprocess.Popen[str]] = []

    def do(self, *words: str) -> str:
        command = [str(HOSTS), words[0], str(self.base), *words[1:]]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, f"{' '.join(words)}: {done.stdout}{done.stderr}"
        return done.stdout

    def sweep(self, words: str, timeout_s: int = 150) -> str:
        """On the laptop; its output."""
        return self.do("sh", "laptop", self._line(words, timeout_s))

    def refused(self, words: str) -> str:
        """What `sweep` says when it does not do it."""
        return self.do("sh", "laptop", f"cd {self.user} && ! {VENV}/bin/sweep {words} 2>&1")

    def begin(self, words: str, timeout_s: int = 150) -> subprocess.Popen[str]:
        command = [str(HOSTS), "sh", str(self.base), "laptop", self._line(words, timeout_s)]
        launch = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.launches.append(launch)
        return launch

    def interrupt(self, launch: subprocess.Popen[str]) -> str:
        """As Ctrl-C on the laptop; its output."""
        self.do("sh", "laptop", "pkill -INT -f bin/sweep")
        return launch.communicate(timeout=30)[0]

    def _line(self, words: str, timeout_s: int) -> str:
        return f"cd {self.user} && timeout {timeout_s} {VENV}/bin/sweep {words}"

    def every_record(self) -> list[dict[str, Any]]:
        """What came home."""
        columns = ["sweep_id", "trial_id", "host", "repeats_block"]
        found: list[dict[str, Any]] = (
            open_store(str(self.user / "results")).snapshot().table(columns).to_pylist()
        )
        return found

    def records(self) -> list[dict[str, Any]]:
        """Of the plans alone: blocks that were split come again."""
        if not (self.user / "results").exists():
            return []
        return [row for row in self.every_record() if row["repeats_block"] is None]

    def wait_for_records(
        self, count: int, launch: subprocess.Popen[str], timeout_s: float = 150
    ) -> None:
        ends = time.monotonic() + timeout_s
        while len(self.records()) < count:
            assert launch.poll() is None, launch.communicate()[0]
            assert time.monotonic() < ends, self.interrupt(launch)
            time.sleep(0.3)


@pytest.fixture(scope="module")
def _bare_hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    hosts = Hosts(tmp_path_factory.mktemp("hosts"))
    hosts.user.mkdir(parents=True)
    (hosts.user / "cluster.yaml").write_text(LAUNCH_FILE)
    (hosts.user / "mine.py").write_text(MODEL)
    try:
        hosts.do("up", str(ROOT), str(VENV))
        yield hosts
    finally:
        for launch in hosts.launches:
            if launch.poll() is None:
                hosts.interrupt(launch)
        hosts.do("down")


@pytest.fixture
def hosts(need: Callable[[bool, str], None], request: pytest.FixtureRequest) -> Hosts:
    need(os.geteuid() == 0, "root")
    for program in ("/usr/sbin/sshd", "rsync", "ip"):
        need(shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin") is not None, program)
    found: Hosts = request.getfixturevalue("_bare_hosts")
    return found


def test_sweep_goes_on_when_a_worker_comes_back_from_a_cut(hosts: Hosts) -> None:
    before = len(hosts.records())
    launch = hosts.begin("launch --strict")
    hosts.wait_for_records(before + 2, launch)
    hosts.do("cut", "w2")
    time.sleep(CUT_S)
    hosts.do("mend", "w2")
    output, _ = launch.communicate(timeout=140)
    assert launch.returncode == 0, output
    assert "21 of 21 trials recorded (21 ok)" in output
    ids = [(record["sweep_id"], record["trial_id"]) for record in hosts.records()]
    assert len(set(ids)) == len(ids) == before + 21


def test_lost_head_is_resumed_by_launching_again(hosts: Hosts) -> None:
    before = {record["sweep_id"] for record in hosts.records()}
    launch = hosts.begin("launch --new")
    hosts.wait_for_records(21 * len(before) + 4, launch)
    hosts.do("kill", "head")
    assert "sweep attach cluster.yaml" in hosts.interrupt(launch)
    there = [record for record in hosts.records() if record["sweep_id"] not in before]
    assert 0 < len(there) < 21
    hosts.do("start", "head")
    output = hosts.sweep("launch")
    assert f"resuming {there[0]['sweep_id']}: " in output
    after = [record for record in hosts.records() if record["sweep_id"] not in before]
    assert {record["sweep_id"] for record in after} == {there[0]["sweep_id"]}
    ids = {record["trial_id"] for record in after}
    assert len(ids) == len(after) == 21
    assert {record["trial_id"] for record in there} <= ids


def test_sweep_survives_a_worker_without_power(hosts: Hosts) -> None:
    before = hosts.records()
    launch = hosts.begin("launch --new")
    hosts.wait_for_records(len(before) + 4, launch)
    hosts.do("cut", "w1")
    hosts.do("kill", "w1")
    output, _ = launch.communicate(timeout=140)
    assert launch.returncode == 0, output
    assert "21 of 21 trials recorded (21 ok)" in output
    sweeps = {record["sweep_id"] for record in before}
    records = [record for record in hosts.records() if record["sweep_id"] not in sweeps]
    assert len({record["trial_id"] for record in records}) == len(records) == 21
    assert {record["host"] for record in records} == {"w1", "w2"}
    assert re.search(r"(\d+) of \1 trials recorded", hosts.sweep("status"))


def test_cluster_is_not_taken_down_before_its_records_are_here(hosts: Hosts) -> None:
    """The last test here: afterwards the cluster is no longer known."""
    hosts.do("start", "w1")
    results, aside = hosts.user / "results", hosts.user / "aside"
    results.rename(aside)
    refused = hosts.refused("down --yes")
    found = re.search(r"(\d+) records lie on the head alone: `sweep pull cluster.yaml`", refused)
    assert found, refused
    assert f"{found[1]} new records are in results." in hosts.sweep("pull")
    assert len(hosts.every_record()) == int(found[1]) >= 21
    assert "0 new records" in hosts.sweep("pull")

    shutil.rmtree(results)
    assert "End all nodes of hosts? [y/N]" in hosts.sweep("down --discard <<<n")
    assert "trials recorded" in hosts.sweep("status")
    hosts.sweep("down --discard --yes")
    hosts.do("sh", "head", "! pgrep -x gcs_server")
    assert "no sweep was sent to cluster hosts" in hosts.refused("status")
