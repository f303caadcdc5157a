"""Runs a session's trials on nodes of the Ray that this process has joined."""

import tempfile
from pathlib import Path

from cudnn_sweep.orchestrator.every_launch import refuges_of
from cudnn_sweep.orchestrator.gpus.choice import share_of
from cudnn_sweep.orchestrator.progress import Progress
from cudnn_sweep.orchestrator.remote.node import Node
from cudnn_sweep.orchestrator.remote.teller import Teller
from cudnn_sweep.orchestrator.repeats import told
from cudnn_sweep.orchestrator.session import Session
from cudnn_sweep.orchestrator.tune_host import Host, Slots, alive_nodes
from cudnn_sweep.workloads.suite import GpuChoice


def run_on_nodes(
    location: str,
    nodes: list[Node],
    choice: GpuChoice,
    teller: Teller,
    session: Session,
    budget_s: float | None,
) -> Progress:
    if repeats := told(session.plan):
        teller.started(session.plan, repeats)
    there = left_of(nodes, alive_nodes())
    slots = Slots(
        count=share_of(choice, sum(node.accelerators for node in there)),
        gpu=True,
        nodes={node.node_id: node.address for node in there},
    )
    host = Host(session, results=location, slots=slots, followed=True)
    with tempfile.TemporaryDirectory(prefix="sweep-tune-") as tune_folder:
        try:
            with teller.telling(host):
                host.run(Path(tune_folder), budget_s)
        finally:
            progress = host.finish(refuges_of(session))
            teller.tell(host)
    return progress


def left_of(nodes: list[Node], alive: set[str]) -> list[Node]:
    """A slot of a node that was lost in an earlier round would keep the others waiting until it is up."""
    return [node for node in nodes if node.node_id in alive] or nodes
