"""A real cluster of several hosts, in network namespaces of this machine: launched, cut, mended, lost.

    SWEEP_RAY_HEALTH=default pytest -rP tests/orchestrator/remote/test_hosts.py

tells the times of docs/validation.md with Ray's own health checks; without the variable, with shorter ones.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import pytest

from cudnn_sweep.analysis.store.store import open_store
from tests.makers import Need

pytestmark = [pytest.mark.waiting, pytest.mark.long, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[3]
HOSTS = ROOT / "tests" / "hosts" / "hosts"
VENV = Path(sys.prefix)

# Shorter than Ray's: a node without power is given up after 15 s, not after a minute. One that only starts slowly,
# as others keep the machine busy, is not.
SHORT = (
    "RAY_health_check_period_ms=1000 RAY_health_check_timeout_ms=3000 "
    "RAY_health_check_failure_threshold=4"
)
HEALTH = "" if os.environ.get("SWEEP_RAY_HEALTH") == "default" else SHORT
# A worker's Ray has 30 s to start and is not started again by its cluster: it gets three tries.
# A raylet that chose them itself waits 15 s for each, and crashes then: too few if others keep the machine busy.
PORTS = (
    "--dashboard-agent-grpc-port=52366 --metrics-export-port=52367 --runtime-env-agent-port=52368"
)
AUTH = "RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH=~/.cudnn-sweep-token"
LAUNCH_FILE = f"""
cluster_name: hosts
provider: {{type: local, head_ip: 10.77.0.10, worker_ips: [10.77.0.11, 10.77.0.12]}}
auth: {{ssh_user: root, ssh_private_key: ~/.ssh/id_ed25519}}
idle_timeout_minutes: 60
head_start_ray_commands:
  - {VENV}/bin/ray stop
  - {HEALTH} PATH={VENV}/bin:$PATH {VENV}/bin/ray start --head --port=6379 --num-cpus=0 --object-store-memory=200000000 {PORTS} --autoscaling-config=~/ray_bootstrap_config.yaml
worker_start_ray_commands:
  - {VENV}/bin/ray stop
  - for _ in 1 2 3; do PATH={VENV}/bin:$PATH {VENV}/bin/ray start --address=$RAY_HEAD_IP:6379 --num-cpus=2 --num-gpus=1 --object-store-memory=200000000 {PORTS} && break; {VENV}/bin/ray stop; done
metadata:
  sweep:
    configs: [{{benchmark: false}}, {{benchmark: true}}]
    replicates: 12
    measure: {{warmup_s: 0, steady_budget_s: 2, timeout_s: 100, calibrate: false, reference_replicates: 0}}
    cells: [{{workload: mine.py:Net, input: 2x3x16x16}}]
    nightly: {{suite: night.yaml}}
"""
NIGHT = "cells: [{workload: mine.py:Net, input: 2x3x16x16}]"
MODEL = "from torch import nn\n\n\ndef Net():\n    return nn.Conv2d(3, 4, 3)\n"
REPORT = "results/nightly/hosts/reports/2026-11-21/night.json"
PATIENCE_S = 360  # with a step; a busy machine takes its time
TRIALS = 25  # of one cell: two configs, twelve replicates, and an A/A pair's second
ADDRESSES = {"w1": "10.77.0.11", "w2": "10.77.0.12"}

# On the head: when Ray gave up a node of that address, once it has after that time.
GIVEN_UP = """
import sys, time
from ray.util.state import list_nodes

address, since_ms = sys.argv[1], float(sys.argv[2]) * 1e3
ended_ms = []
while not ended_ms:
    time.sleep(0.5)
    nodes = list_nodes("http://127.0.0.1:8265", detail=True)
    dead = [node for node in nodes if node.node_ip == address and node.state == "DEAD"]
    ended_ms = [node.end_time_ms for node in dead if node.end_time_ms >= since_ms]
print(ended_ms[0] / 1e3)
"""

# Elsewhere, by somebody without the token: what these ports answer to HTTP, as JSON.
STRANGER = """
import json, socket, sys

found = []
for host, port in json.loads(sys.argv[1]):
    for method, path in (
        ("POST", "/api/jobs/"), ("POST", "/"), ("GET", "/api/version"), ("GET", "/api/jobs/"), ("GET", "/logs"),
    ):
        body = b'{"entrypoint": "touch /tmp/open"}' if method == "POST" else b""
        head = f"{method} {path} HTTP/1.0\\r\\nHost: x\\r\\nContent-Length: {len(body)}\\r\\n\\r\\n"
        answer = b""
        try:
            with socket.create_connection((host, port), timeout=2) as door:
                door.sendall(head.encode() + body)
                while len(answer) < 2000 and (more := door.recv(2000)):
                    answer += more
        except OSError:
            pass
        if answer.startswith(b"HTTP"):
            top, _, rest = answer.decode(errors="replace").partition("\\r\\n\\r\\n")
            found.append([port, method, path, top.splitlines()[0], rest[:40]])
print(json.dumps(found))
"""
STRANGERS_TASK = """
import ray

ray.init("10.77.0.10:6379", log_to_driver=False)
print("joined", ray.get(ray.remote(num_cpus=0)(lambda: 1).remote(), timeout=20))
"""


class Hosts:
    """A laptop, a head and two workers; `base` holds their keys, and the laptop's working folder."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.user = base / "user"
        self.launches: list[subprocess.Popen[str]] = []

    def do(self, *words: str) -> str:
        command = [str(HOSTS), words[0], str(self.base), *words[1:]]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        assert done.returncode == 0, f"{' '.join(words)}: {done.stdout}{done.stderr}"
        return done.stdout

    def sweep(self, words: str) -> str:
        """On the laptop; its output."""
        return self.do("sh", "laptop", self._line(words))

    def refused(self, words: str) -> str:
        """What `sweep` says when it does not do it."""
        return self.do("sh", "laptop", f"cd {self.user} && ! {VENV}/bin/sweep {words} 2>&1")

    def begin(self, words: str) -> subprocess.Popen[str]:
        command = [str(HOSTS), "sh", str(self.base), "laptop", self._line(words)]
        launch = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.launches.append(launch)
        return launch

    def interrupt(self, launch: subprocess.Popen[str]) -> str:
        """As Ctrl-C on the laptop; its output."""
        self.do("sh", "laptop", "pkill -INT -f bin/sweep")
        return launch.communicate(timeout=PATIENCE_S)[0]

    def _line(self, words: str) -> str:
        return f"cd {self.user} && timeout {PATIENCE_S} {VENV}/bin/sweep {words}"

    def every_record(self) -> list[dict[str, Any]]:
        """What came home."""
        columns = ["sweep_id", "trial_id", "launch_id", "attempt", "host", "started_at"]
        columns += ["repeats_block", "attempt_id"]
        found: list[dict[str, Any]] = (
            open_store(str(self.user / "results")).snapshot().table(columns).to_pylist()
        )
        for record in found:
            record["host"] = record["host"].rpartition("-")[0]  # all were booted at once
        return found

    def records(self, besides: Collection[str] = ()) -> list[dict[str, Any]]:
        """Of the plans alone: blocks that were split come again. `besides`: of other sweeps than these.

        The last one of a launch counts once: it is stored again, with `ends_launch`.
        """
        if not (self.user / "results").exists():
            return []
        attempts = {record["attempt_id"]: record for record in self.every_record()}
        return [
            record
            for record in attempts.values()
            if record["repeats_block"] is None and record["sweep_id"] not in besides
        ]

    def sweeps(self) -> set[str]:
        return {record["sweep_id"] for record in self.records()}

    def wait_until(self, there: Callable[[], Any], launch: subprocess.Popen[str]) -> None:
        ends = time.monotonic() + PATIENCE_S
        while not there():
            if launch.poll() is not None:  # its last records may have come home meanwhile
                assert there(), launch.communicate()[0]
                return
            assert time.monotonic() < ends, self.interrupt(launch)
            time.sleep(0.3)

    def lose(self, host: str, *verbs: str) -> float:
        """In the middle of one of its trials, the newest process of its fork server; returns when."""
        newest = "pgrep -nf '[p]rocess.server'"
        self.do("sh", host, f"was=$({newest}); until [ $({newest}) -gt $was ]; do sleep 0.02; done")
        lost_at = time.time()
        for verb in verbs:
            self.do(verb, host)
        return lost_at

    def given_up_at(self, host: str, lost_at: float) -> float:
        """When Ray declared it dead; waits for that."""
        (self.base / "given_up.py").write_text(GIVEN_UP)
        words = f"{self.base}/given_up.py {ADDRESSES[host]} {lost_at}"
        return float(self.do("sh", "head", f"{AUTH} {VENV}/bin/python {words}"))


@pytest.fixture(scope="module")
def _bare_hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    hosts = Hosts(tmp_path_factory.mktemp("hosts"))
    hosts.user.mkdir(parents=True)
    (hosts.user / "cluster.yaml").write_text(LAUNCH_FILE)
    (hosts.user / "mine.py").write_text(MODEL)
    (hosts.user / "night.yaml").write_text(NIGHT)
    try:
        hosts.do("up", str(ROOT), str(VENV))
        yield hosts
    finally:
        for launch in hosts.launches:
            if launch.poll() is None:
                hosts.interrupt(launch)
        hosts.do("down")


@pytest.fixture
def hosts(need: Need, request: pytest.FixtureRequest) -> Hosts:
    need(os.geteuid() == 0, "root")
    for program in ("/usr/sbin/sshd", "rsync", "ip"):
        need(shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin") is not None, program)
    found: Hosts = request.getfixturevalue("_bare_hosts")
    return found


def tell(what: str, since: float, **times: float) -> None:
    print(f"{what}:", ", ".join(f"{name} after {at - since:.0f} s" for name, at in times.items()))


def ran_on(host: str, records: list[dict[str, Any]]) -> set[str]:
    """Trials of that host; without one it may still be starting."""
    return {record["trial_id"] for record in records if record["host"] == host}


def again_on(host: str, records: list[dict[str, Any]]) -> list[float]:
    """When those of its trials began that had begun elsewhere before."""
    return [
        record["started_at"].timestamp()
        for record in records
        if record["host"] == host and record["attempt"] > 1
    ]


def is_whole(records: list[dict[str, Any]]) -> bool:
    return len({record["trial_id"] for record in records}) == len(records) == TRIALS


def test_trials_of_a_cut_worker_run_elsewhere_and_none_is_doubled_when_it_is_mended(
    hosts: Hosts,
) -> None:
    launch = hosts.begin("launch --strict")
    hosts.wait_until(lambda: ran_on("w2", hosts.records()), launch)
    cut_at = hosts.lose("w2", "cut")
    given_up_at = hosts.given_up_at("w2", cut_at)
    hosts.wait_until(lambda: again_on("w1", hosts.records()), launch)
    mended_at = time.time()
    hosts.do("mend", "w2")
    output, _ = launch.communicate(timeout=PATIENCE_S)
    assert launch.returncode == 0, output
    assert f"{TRIALS} of {TRIALS} trials recorded ({TRIALS} ok)" in output
    records = hosts.records()
    assert is_whole(records)
    of_w2 = [record["started_at"].timestamp() for record in records if record["host"] == "w2"]
    assert max(of_w2) <= cut_at < given_up_at < mended_at
    tell(
        "w2's network cut",
        cut_at,
        dead=given_up_at,
        elsewhere=min(again_on("w1", records)),
        mended=mended_at,
        ended=time.time(),
    )


def test_a_night_goes_on_while_the_laptop_sleeps_and_its_report_is_fetched(hosts: Hosts) -> None:
    before = hosts.sweeps()
    night = "nightly --night 2026-11-21"
    first = hosts.begin(night)
    hosts.wait_until(lambda: hosts.records(before), first)
    assert "continues on the cluster. To follow it, repeat the command" in hosts.interrupt(first)
    came = len(hosts.records(before))
    ends = time.monotonic() + PATIENCE_S
    while "succeeded" not in hosts.sweep("status"):
        assert time.monotonic() < ends
        time.sleep(5)
    assert len(hosts.records(before)) == came < TRIALS, "nobody was told meanwhile"
    said = hosts.sweep(night)
    assert "Sweep night-2026-11-21-hosts has ended on the cluster. This is its outcome" in said
    records = hosts.records(before)
    assert is_whole(records)
    assert len({record["launch_id"] for record in records}) == 1
    report = json.loads((hosts.user / REPORT).read_text())
    assert (report["state"], report["recorded_trials"]) == ("learning", TRIALS)


def test_no_port_of_the_cluster_does_anything_for_a_stranger(hosts: Hosts) -> None:
    doors: list[tuple[str, int]] = []
    for host, address in {"head": "10.77.0.10", **ADDRESSES}.items():
        sockets = [line.split()[3] for line in hosts.do("sh", host, "ss -ltnH").splitlines()]
        ports = {int(each.rpartition(":")[2]) for each in sockets if "127.0.0." not in each}
        doors += [(address, port) for port in sorted(ports - {22})]
    assert len(doors) > 12, doors
    (hosts.base / "stranger.py").write_text(STRANGER)
    (hosts.base / "task.py").write_text(STRANGERS_TASK)
    asked = f"{VENV}/bin/python {hosts.base}/stranger.py '{json.dumps(doors)}'"
    answers = json.loads(hosts.do("sh", "laptop", asked))
    did = [each for each in answers if each[3].split()[1] < "400"]
    assert all(method == "GET" and rest[:7] in ("", "# HELP ") for _, method, _, _, rest in did), (
        did
    )
    joining = f"env -u RAY_AUTH_MODE {VENV}/bin/python {hosts.base}/task.py 2>&1 || true"
    said = hosts.do("sh", "laptop", joining)
    assert "joined" not in said and "AuthenticationError" in said
    figures = {port for port, *_ in did}
    print(
        f"{len(doors)} ports, {len({port for port, *_ in answers})} speak HTTP, {len(figures)} show figures"
    )


def test_sweep_outlives_its_head_by_launching_again_and_then_a_worker_without_power(
    hosts: Hosts,
) -> None:
    before = hosts.sweeps()
    launch = hosts.begin("launch --new")
    hosts.wait_until(lambda: len(hosts.records(before)) >= 2, launch)
    head_lost_at = time.time()
    hosts.do("cut", "head")
    hosts.do("kill", "head")
    assert "sweep cluster attach cluster.yaml" in hosts.interrupt(launch)
    there = {record["trial_id"] for record in hosts.records(before)}
    assert 0 < len(there) < TRIALS
    (lost,) = hosts.sweeps() - before

    hosts.do("start", "head")
    launched_at = time.time()
    launch = hosts.begin("launch")
    hosts.wait_until(lambda: ran_on("w1", hosts.records(before)) - there, launch)
    w1_lost_at = hosts.lose("w1", "cut", "kill")
    given_up_at = hosts.given_up_at("w1", w1_lost_at)
    output, _ = launch.communicate(timeout=PATIENCE_S)
    ended_at = time.time()
    assert launch.returncode == 0, output
    assert f"resuming {lost}: " in output
    assert f"{TRIALS} of {TRIALS} trials recorded ({TRIALS} ok)" in output
    assert re.search(r"(\d+) of \1 trials recorded", hosts.sweep("status"))

    records = hosts.records(before)
    assert is_whole(records)
    assert {record["sweep_id"] for record in records} == {lost}
    assert there < {record["trial_id"] for record in records}
    assert {record["host"] for record in records} == {"w1", "w2"}
    began = [record["started_at"].timestamp() for record in records]
    again_at = min(at for at in began if at > launched_at)
    tell("head's power", head_lost_at, launched=launched_at, measuring=again_at)
    elsewhere_at = min(again_on("w2", records))
    tell("w1's power", w1_lost_at, dead=given_up_at, elsewhere=elsewhere_at, ended=ended_at)


def test_cluster_is_not_taken_down_before_its_records_are_here(hosts: Hosts) -> None:
    """The last test here: afterwards the cluster is no longer known."""
    hosts.do("start", "w1")
    results, aside = hosts.user / "results", hosts.user / "aside"
    home = hosts.every_record()
    results.rename(aside)
    refused = hosts.refused("cluster down --yes")
    found = re.search(
        r"(\d+) records are only on the head: `sweep cluster pull cluster.yaml`", refused
    )
    assert found, refused
    assert f"{found[1]} new records are in results." in hosts.sweep("cluster pull")
    pulled = hosts.every_record()
    assert len(pulled) == int(found[1])
    (last,) = {
        record["launch_id"] for record in pulled
    }  # the head lost what came before with its power
    measured = {record["trial_id"] for record in home if record["launch_id"] == last}
    assert {record["trial_id"] for record in pulled} == measured
    assert "0 new records" in hosts.sweep("cluster pull")

    shutil.rmtree(results)
    assert "Shut down all nodes of hosts? [y/N]" in hosts.sweep("cluster down --discard <<<n")
    assert "trials recorded" in hosts.sweep("status")
    hosts.sweep("cluster down --discard --yes")
    hosts.do("sh", "head", "! pgrep -x gcs_server")
    assert "cluster hosts was not brought up from here" in hosts.refused("status")
