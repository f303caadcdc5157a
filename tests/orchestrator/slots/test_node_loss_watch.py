"""When a sweep whose nodes are gone ends, on a list of nodes and a clock made up."""

from cudnn_sweep.orchestrator.remote.driver import left_of
from cudnn_sweep.orchestrator.remote.job import Node
from cudnn_sweep.orchestrator.slots.lost import GONE_S, LOOKS, NodeLossWatch
from cudnn_sweep.workloads.hardware.environment import Environment
from cudnn_sweep.workloads.survey import Survey

NODES = {"a1": "w1 (10.0.0.1)", "a2": "w2 (10.0.0.2)"}
LOOK_S = GONE_S / LOOKS


class Cluster:
    def __init__(self) -> None:
        self.now_s = 1000.0
        self.alive = set(NODES)
        self.gone = NodeLossWatch(NODES, lambda: self.alive, now=lambda: self.now_s)

    def ends_within(self, seconds: float) -> bool:
        ends_s = self.now_s + seconds
        while self.now_s < ends_s:
            self.now_s += LOOK_S / 10
            if self.gone.look():
                return True
        return False


def test_sweep_goes_on_while_one_of_its_nodes_is_there() -> None:
    cluster = Cluster()
    cluster.alive = {"a2"}
    assert not cluster.ends_within(3 * GONE_S)
    assert cluster.gone.reason is None


def test_node_that_comes_back_in_time_is_waited_for_anew() -> None:
    cluster = Cluster()
    for _ in range(3):
        cluster.alive = set()
        assert not cluster.ends_within(GONE_S - LOOK_S)
        cluster.alive = {"a1"}
        assert not cluster.ends_within(2 * LOOK_S)


def test_sweep_without_its_nodes_ends_and_names_them_whatever_else_is_there() -> None:
    cluster = Cluster()
    assert not cluster.ends_within(GONE_S)
    cluster.alive = {"b1"}
    assert not cluster.ends_within(GONE_S - LOOK_S)
    assert cluster.ends_within(2 * LOOK_S)
    assert cluster.gone.reason is not None
    assert "for 5 minutes" in cluster.gone.reason
    assert all(name in cluster.gone.reason for name in NODES.values())


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
