"""What nodes say of themselves, on a Ray and a clock made up."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.remote import nodes
from cudnn_sweep.orchestrator.remote.nodes import NodeReport
from cudnn_sweep.workloads.hardware.environment import Environment
from cudnn_sweep.workloads.survey import Survey

NOW_S = 1_000_000.0


@dataclass
class Cluster:
    """Its nodes, and after how many seconds each answers; their clocks are so much ahead."""

    machine: Survey
    answers_s: dict[str, float]
    ahead_s: dict[str, float] = field(default_factory=dict)
    elapsed_s: float = 0.0

    def nodes(self) -> list[dict[str, Any]]:
        return [
            {
                "NodeID": name,
                "Alive": True,
                "Resources": {"GPU": 1.0},
                "NodeManagerHostname": name,
                "NodeManagerAddress": "10.0.0.1",
            }
            for name in self.answers_s
        ]

    def wait(self, asked: list[str], timeout: float) -> tuple[list[str], list[str]]:
        first = min(asked, key=lambda name: self.answers_s[name])
        waits_s = max(0.0, self.answers_s[first] - self.elapsed_s)
        self.elapsed_s += min(waits_s, timeout)
        came = [first] if waits_s <= timeout else []
        return came, [name for name in asked if name not in came]

    def get(self, name: str) -> NodeReport:
        clock_s = NOW_S + self.answers_s[name] + self.ahead_s.get(name, 0.0)
        return NodeReport(machine=self.machine, free_bytes=2**40, clock_s=clock_s)

    def clock_s(self) -> float:
        return NOW_S + self.elapsed_s


@pytest.fixture
def cluster(environment: Environment, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """What is asked of Ray is asked of this one."""
    machine = Survey(environment=environment, gpus=["H200"], gpu_uuids=["a"], workloads={})
    made = Cluster(machine=machine, answers_s={})
    monkeypatch.setattr(nodes, "ray", made)
    monkeypatch.setattr(nodes, "time", made.clock_s)
    monkeypatch.setattr(nodes, "_ask", lambda node_id, *_: node_id)
    return made


def test_a_node_that_answers_late_puts_no_other_ones_clock_behind(cluster: Cluster) -> None:
    cluster.answers_s = {"slow": 60.0, "quick": 1.0, "ahead": 2.0}
    cluster.ahead_s = {"ahead": 30.0}
    fit, unfit = nodes.look_at_nodes([], needs_cuda=False)
    assert [node.node_id for node in fit] == ["slow", "quick"]
    assert unfit == [("ahead (10.0.0.1)", "its clock is 30 s ahead")]


def test_nodes_that_do_not_answer_are_waited_for_together(cluster: Cluster) -> None:
    cluster.answers_s = {"dead": 1e9, "dead too": 1e9, "quick": 1.0}
    fit, unfit = nodes.look_at_nodes([], needs_cuda=False)
    assert [node.node_id for node in fit] == ["quick"]
    assert {reason for _, reason in unfit} == {"no answer within 180 s"}
    assert cluster.elapsed_s == nodes.ANSWER_S


def waits(
    monkeypatch: pytest.MonkeyPatch, workers: int, up: Callable[[float], int]
) -> tuple[float, list[str]]:
    """Return how long nodes are waited for, of which so many are up after so many seconds, and what is printed."""
    now_s, printed = [0.0], list[str]()
    every = [{"Alive": False}]

    def there() -> list[dict[str, bool]]:
        return every + [{"Alive": True}] * up(now_s[0])

    def pause(seconds: float) -> None:
        now_s[0] += seconds

    monkeypatch.setattr(nodes, "ray", SimpleNamespace(nodes=there))
    monkeypatch.setattr(nodes, "monotonic", lambda: now_s[0])
    monkeypatch.setattr(nodes, "sleep", pause)
    nodes.wait_for_nodes(workers, printed.append)
    return now_s[0], printed


def test_nodes_are_waited_for_until_all_are_up(monkeypatch: pytest.MonkeyPatch) -> None:
    waited_s, printed = waits(monkeypatch, 2, lambda now_s: 1 + (now_s >= 3) + (now_s >= 5))
    assert waited_s == 5
    assert printed == [f"waiting for nodes: {up} of 3 are up" for up in (1, 2)]


def test_nodes_that_do_not_come_up_are_not_waited_for_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waited_s, printed = waits(monkeypatch, 1, lambda _: 1)
    assert waited_s == nodes.NODES_S + 1
    minutes = f"{nodes.NODES_S / 60:.0f} minutes"
    assert printed[1:] == [f"1 of 2 nodes came up in {minutes}: continuing with these"]


def test_caches_of_old_sweeps_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    week_s = 7 * 86_400.0
    for name, age_s in {"old": week_s + 1, "week": week_s, "new": 60.0}.items():
        caches = tmp_path / name / "compute-cache"
        caches.mkdir(parents=True)
        os.utime(caches, (NOW_S - age_s, NOW_S - age_s))
    monkeypatch.setattr(nodes, "time", lambda: NOW_S)
    nodes.remove_old_caches(tmp_path)
    assert {folder.name for folder in tmp_path.iterdir()} == {"week", "new"}


@pytest.mark.parametrize(
    ("changes", "needs_cuda", "complaints"),
    [
        ({}, False, []),
        ({}, True, ["no CUDA, which the suite needs: torch 2.9.0 finds no CUDA"]),
        ({"no_cuda": "old driver"}, True, ["no CUDA, which the suite needs: old driver"]),
        ({"device": "cuda"}, True, []),
        ({"gpus": ["H200", "H200"]}, False, []),
        ({"gpus": ["H200", "A100"]}, False, ["GPUs of several models: A100, H200"]),
        ({"fault": "no such model"}, False, ["no such model"]),
        ({"free_bytes": 2**30}, False, []),
        (
            {"free_bytes": 2**29},
            False,
            ["512 MiB free for temporary files, 1 GiB is needed"],
        ),
        ({"clock_s": nodes.MOST_SKEW_S}, False, []),
        ({"clock_s": -nodes.MOST_SKEW_S - 1}, False, ["its clock is 6 s behind"]),
    ],
)
def test_a_node_is_unfit_for_what_it_lacks(
    changes: dict[str, Any], needs_cuda: bool, complaints: list[str]
) -> None:
    usual = {"gpus": ["H200"], "no_cuda": "", "device": "cpu", "fault": None}
    of = usual | {"free_bytes": 2**40, "clock_s": 0.0} | changes
    report: Any = SimpleNamespace(
        machine=SimpleNamespace(
            environment=SimpleNamespace(device=of["device"], torch="2.9.0"),
            no_cuda=of["no_cuda"],
            gpus=of["gpus"],
            workloads={"conv": SimpleNamespace(fault=of["fault"])},
        ),
        free_bytes=of["free_bytes"],
        clock_s=NOW_S + of["clock_s"],
    )
    assert list(nodes._complaints(report, NOW_S, needs_cuda)) == complaints


@pytest.mark.parametrize("same", [True, False])
def test_the_last_good_software_is_the_same_on_all_nodes(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, same: bool
) -> None:
    hashes = {"a": "one", "b": "one" if same else "two"}
    answers = {
        name: SimpleNamespace(environment=SimpleNamespace(software_hash=of))
        for name, of in hashes.items()
    }
    ray = SimpleNamespace(get=lambda answer, timeout: answers[answer])
    monkeypatch.setattr(nodes, "ray", ray)
    them: Any = [SimpleNamespace(node_id=name, address=name) for name in hashes]
    if same:
        found: Any = nodes.look_at_last_good(them, Path("python"))
        assert found is answers["a"].environment
        return
    with pytest.raises(SpecError, match="last_good: the software of python differs between nodes"):
        nodes.look_at_last_good(them, Path("python"))
