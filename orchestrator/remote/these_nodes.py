"""Nodes of the Ray that this process has joined, of one GPU model, as a place where trials run."""

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from cudnn_sweep.analysis.storing.store import Store
from cudnn_sweep.orchestrator.gpus.choice import share_of
from cudnn_sweep.orchestrator.planning.preload import modules_to_preload
from cudnn_sweep.orchestrator.planning.session import Session
from cudnn_sweep.orchestrator.recording.progress import Progress
from cudnn_sweep.orchestrator.remote.events import Event, Progressed, Recorded, Started, to_line
from cudnn_sweep.orchestrator.remote.node import Node
from cudnn_sweep.orchestrator.running.place import RunSession
from cudnn_sweep.orchestrator.showing.display import now_and_then
from cudnn_sweep.orchestrator.slots.tune_host import Host, Slots, alive_nodes
from cudnn_sweep.workloads.cells.suite import GpuChoice, SuiteSpec
from cudnn_sweep.workloads.survey import Survey

EVERY_S = 1.0


def emit(event: Event) -> None:
    print(to_line(event), flush=True)


class TheseNodes:
    """A Place. It says how its sessions go to whoever follows the job, whether anybody does or not."""

    def __init__(self, nodes: list[Node], choice: GpuChoice, sweeps: int) -> None:
        """`sweeps`: how many the job runs, this one among them."""
        self._nodes = nodes
        self._choice = choice
        self._sweeps = sweeps
        self._planned = self._recorded = 0

    def look(self, suite: SuiteSpec) -> Survey:
        """The survey of one node: they are alike."""
        return self._nodes[0].machine

    def modules(self, suite: SuiteSpec, own: Iterable[str]) -> tuple[str, ...]:
        return modules_to_preload(suite, own)

    def announce(self, session: Session, reason: str, console: Console) -> None:
        self._planned += len(session.plan.trials)
        emit(
            Started(
                sweep_id=session.sweep_id,
                reason=reason,
                plan=session.plan,
                contrasts=session.contrasts,
            )
        )

    @contextmanager
    def opened(self, store: Store, machine: Survey, console: Console) -> Iterator[RunSession]:
        def run(session: Session, budget_s: float | None, /) -> Progress:
            there = left_of(self._nodes, alive_nodes())
            slots = Slots(
                count=share_of(self._choice, sum(node.accelerators for node in there)),
                gpu=True,
                nodes={node.node_id: node.address for node in there},
            )
            # each node has a copy of the user's files, where its workers are started
            session = replace(session, folder=Path())
            host = Host(session, results=store.location, slots=slots, followed=True)
            with tempfile.TemporaryDirectory(prefix="sweep-tune-") as tune_folder:
                try:
                    with now_and_then(lambda: self._tell(session, host), every_s=EVERY_S):
                        host.run(Path(tune_folder), budget_s)
                finally:
                    progress = host.finish(session.fallback_folders())
                    self._tell(session, host)
            return progress

        yield run

    def _tell(self, session: Session, host: Host) -> None:
        for record in host.take():
            emit(Recorded(record=record))
            self._recorded += 1
        emit(
            Progressed(
                sweep_id=session.sweep_id,
                launch_id=session.launch_id,
                progress=host.progress(),
                planned=self._planned,
                recorded=self._recorded,
                sweeps=self._sweeps,
            )
        )


def left_of(nodes: list[Node], alive: set[str]) -> list[Node]:
    """A slot of a node that was lost in an earlier round would keep the others waiting until it is up."""
    return [node for node in nodes if node.node_id in alive] or nodes
