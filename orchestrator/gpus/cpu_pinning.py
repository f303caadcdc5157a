"""Pins each GPU's trials to CPU cores that the trials of other GPUs do not use."""

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cudnn_sweep.workloads.hardware.cpus import text_of
from cudnn_sweep.workloads.hardware.listed_gpus import listed_gpus

FEW = 2  # A slot with more cores than this may leave one to Ray.
SYSTEM = Path("/sys")


@dataclass(frozen=True, kw_only=True, slots=True)
class Core:
    """Physical core and its usable hardware threads."""

    cpus: tuple[int, ...]
    node: int | None
    """The core's NUMA node, or None if it is unknown."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pinning:
    cpus: frozenset[int]
    node: int | None
    """The GPU's NUMA node, or None if it is unknown."""

    def __str__(self) -> str:
        return show_cpus(self.cpus)


def pinning_of(gpu_uuid: str, launched_on: Collection[str] = ()) -> Pinning | None:
    """Return the CPUs for a GPU of this host, or None if NVML does not list the GPU.

    All CPUs are divided among all GPUs. If this process may use only some CPUs, these are divided
    among the GPUs in `launched_on`.
    """
    slots = {gpu.uuid: node_of_gpu(gpu.pci_address) for gpu in listed_gpus()}
    if gpu_uuid not in slots:
        return None
    allowed = os.sched_getaffinity(0)
    if gpu_uuid in launched_on and len(allowed) < (os.cpu_count() or 0) - len(isolated_cpus()):
        slots = {uuid: node for uuid, node in slots.items() if uuid in launched_on}
    cores = cores_for(gpu_uuid, slots, read_cores(allowed))
    cpus = frozenset(cpu for core in cores for cpu in core.cpus)
    return Pinning(cpus=cpus, node=slots[gpu_uuid])


def cores_for(
    slot: str, slots: Mapping[str, int | None], cores: Sequence[Core]
) -> tuple[Core, ...]:
    """Return an equal part of the cores of the slot's NUMA node.

    `slots` maps each slot of the host to its NUMA node. All cores are divided among all slots if a
    node is unknown or has no cores.
    """
    near = {node: [core for core in cores if core.node == node] for node in set(slots.values())}
    if all(near.values()):
        group, pool = [name for name in slots if slots[name] == slots[slot]], near[slots[slot]]
    else:
        group = sorted(slots, key=lambda name: _unknown_last(slots[name]))
        pool = sorted(cores, key=lambda core: _unknown_last(core.node))
    share, left = divmod(len(pool), len(group))
    if share == 0:
        return tuple(pool)
    if left == 0 and share > FEW:
        share -= 1
    # Leave the first cores unused, because CPU 0 handles most interrupts.
    end = len(pool) - share * (len(group) - 1 - group.index(slot))
    return tuple(pool[end - share : end])


def _unknown_last(node: int | None) -> tuple[bool, int]:
    return node is None, node or 0


def read_cores(allowed: Collection[int], system: Path = SYSTEM) -> tuple[Core, ...]:
    """Return the physical cores of the `allowed` CPUs, ordered by each core's lowest CPU."""
    nodes = _nodes(system)
    cores = dict.fromkeys(_siblings(cpu, allowed, system) for cpu in sorted(allowed))
    return tuple(Core(cpus=cpus, node=nodes.get(cpus[0])) for cpus in cores)


def isolated_cpus(system: Path = SYSTEM) -> list[int]:
    """Return the CPUs that the kernel option isolcpus reserves."""
    return parse_cpus(text_of(system / "devices/system/cpu/isolated"))


def node_of_gpu(pci_address: str, system: Path = SYSTEM) -> int | None:
    """Return a GPU's NUMA node. `pci_address` has a domain of eight digits, as NVML writes it."""
    domain, _, rest = pci_address.lower().partition(":")
    address = f"{int(domain, 16):04x}:{rest}"
    node = text_of(system / "bus/pci/devices" / address / "numa_node")
    return int(node) if node and int(node) >= 0 else None


def parse_cpus(text: str) -> list[int]:
    """Parse a list of CPUs as Linux writes it, such as `0-3,8`."""
    cpus: list[int] = []
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        cpus += range(int(first), int(last or first) + 1)
    return cpus


def show_cpus(cpus: Collection[int]) -> str:
    ranges: list[list[int]] = []
    for cpu in sorted(cpus):
        if ranges and cpu == ranges[-1][-1] + 1:
            ranges[-1] = [ranges[-1][0], cpu]
        else:
            ranges.append([cpu])
    return ",".join("-".join(map(str, ends)) for ends in ranges)


def _nodes(system: Path) -> dict[int, int]:
    return {
        cpu: int(folder.name.removeprefix("node"))
        for folder in (system / "devices/system/node").glob("node[0-9]*")
        for cpu in parse_cpus(text_of(folder / "cpulist"))
    }


def _siblings(cpu: int, allowed: Collection[int], system: Path) -> tuple[int, ...]:
    topology = system / f"devices/system/cpu/cpu{cpu}/topology"
    siblings = parse_cpus(text_of(topology / "thread_siblings_list"))
    return tuple(sorted(set(siblings) & set(allowed) | {cpu}))
