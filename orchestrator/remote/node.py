"""A node of a cluster, as a sweep sees it."""

from dataclasses import dataclass

from cudnn_sweep.workloads.survey import Survey


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeReport:
    machine: Survey
    free_bytes: int
    """Free space on the disk of its temporary files, where compute caches lie."""
    clock_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    node_id: str
    address: str
    accelerators: int
    machine: Survey

    @property
    def model(self) -> str:
        return self.machine.environment.gpu


@dataclass(frozen=True, kw_only=True, slots=True)
class Unfit:
    address: str
    reason: str
