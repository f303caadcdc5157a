"""What nodes say of themselves, on a Ray and a clock made up."""

from dataclasses import dataclass, field
from typing import Any

import pytest

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
