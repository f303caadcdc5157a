"""When a sweep whose nodes are gone ends, on a list of nodes and a clock made up."""

from unittest.mock import Mock

import pytest

from cudnn_sweep.orchestrator.remote.driver import left_of
from cudnn_sweep.orchestrator.remote.nodes import Node
from cudnn_sweep.orchestrator.slots import tune_host
from cudnn_sweep.orchestrator.slots.tune_host import GONE_S, LOOK_S, UntilLost
from cudnn_sweep.workloads.hardware.environment import Environment
from cudnn_sweep.workloads.survey import Survey

NODES = {"a1": "w1 (10.0.0.1)", "a2": "w2 (10.0.0.2)"}


class Cluster:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1000.0
        self.alive = set(NODES)
        monkeypatch.setattr(tune_host, "monotonic", lambda: self.now_s)
        monkeypatch.setattr(tune_host, "alive_nodes", lambda: self.alive)
        monkeypatch.setattr(UntilLost, "_recorder_gone", lambda _: None)
        self.until = UntilLost(NODES, GONE_S, recorder=Mock())

    def ends_within(self, seconds: float, alive: set[str]) -> str | None:
        self.alive, ends_s = alive, self.now_s + seconds
        while not self.until.stop_all() and self.now_s < ends_s:
            self.now_s += LOOK_S / 10
        return self.until.reason


def test_sweep_ends_once_all_of_its_nodes_are_gone_and_names_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever else is there. One that is there, or comes back in time, is enough."""
    cluster = Cluster(monkeypatch)
    assert not cluster.ends_within(3 * GONE_S, {"a2"})
    for _ in range(3):
        assert not cluster.ends_within(GONE_S - LOOK_S, set())
        assert not cluster.ends_within(2 * LOOK_S, {"a1"})
    assert not cluster.ends_within(GONE_S - LOOK_S, {"b1"})
    reason = cluster.ends_within(2 * LOOK_S, {"b1"})
    assert reason is not None
    assert all(name in reason for name in ("for 5 minutes", *NODES.values()))


def test_split_blocks_run_again_without_the_slots_of_a_node_that_is_gone(
    environment: Environment,
) -> None:
    machine = Survey(environment=environment, gpus=[], gpu_uuids=[], workloads={})
    nodes = [
        Node(node_id=node_id, address=address, accelerators=1, machine=machine)
        for node_id, address in NODES.items()
    ]
    assert left_of(nodes, {"a2", "b1"}) == nodes[1:]
    assert left_of(nodes, {"b1"}) == nodes, "the launch then ends for want of them"
