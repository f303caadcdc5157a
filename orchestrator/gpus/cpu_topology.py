"""The cores that this process may use, and the NUMA node that they and a GPU are at, as Linux tells it."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

SYSTEM = Path("/sys")


@dataclass(frozen=True, kw_only=True, slots=True)
class Core:
    """A physical core: those of its hardware threads that we may use."""

    cpus: tuple[int, ...]
    node: int | None
    """Its NUMA node; None where Linux does not say."""


def read_cores(allowed: Collection[int], system: Path = SYSTEM) -> tuple[Core, ...]:
    """The physical cores of the CPUs `allowed`, in the order of their numbers."""
    nodes = _nodes(system)
    by_cpus = {
        cpus: cpus[0] for cpu in sorted(allowed) if (cpus := _siblings(cpu, allowed, system))
    }
    return tuple(Core(cpus=cpus, node=nodes.get(first)) for cpus, first in by_cpus.items())


def isolated_cpus(system: Path = SYSTEM) -> list[int]:
    """Those that the kernel gives nobody who does not ask (isolcpus)."""
    return parse_cpus(_read(system / "devices/system/cpu/isolated") or "")


def node_of_gpu(pci_address: str, system: Path = SYSTEM) -> int | None:
    """`pci_address` as NVML writes it, with eight digits of domain where Linux has four."""
    domain, _, rest = pci_address.lower().partition(":")
    address = f"{int(domain, 16):04x}:{rest}"
    node = _read(system / "bus/pci/devices" / address / "numa_node")
    return int(node) if node and int(node) >= 0 else None


def parse_cpus(text: str) -> list[int]:
    """The CPUs of a list as Linux writes it, `0-3,8`."""
    found: list[int] = []
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def show_cpus(cpus: Collection[int]) -> str:
    """CPUs as Linux writes them, `0-3,8`."""
    ranges: list[list[int]] = []
    for cpu in sorted(cpus):
        if ranges and cpu == ranges[-1][-1] + 1:
            ranges[-1] = [ranges[-1][0], cpu]
        else:
            ranges.append([cpu])
    return ",".join("-".join(map(str, ends)) for ends in ranges)


def _nodes(system: Path) -> dict[int, int]:
    """The NUMA node of each CPU."""
    return {
        cpu: int(folder.name.removeprefix("node"))
        for folder in (system / "devices/system/node").glob("node[0-9]*")
        for cpu in parse_cpus(_read(folder / "cpulist") or "")
    }


def _siblings(cpu: int, allowed: Collection[int], system: Path) -> tuple[int, ...]:
    """The hardware threads of this one's core that we may use, itself among them."""
    topology = system / f"devices/system/cpu/cpu{cpu}/topology"
    listed = _read(topology / "thread_siblings_list")
    siblings = parse_cpus(listed) if listed else [cpu]
    return tuple(sorted(set(siblings) & set(allowed) | {cpu}))


def _read(file: Path) -> str | None:
    try:
        return file.read_text()
    except OSError:
        return None
