"""Which CPUs a slot's processes run on: near its GPU, and no neighbour's."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from cudnn_sweep.orchestrator.gpus import cpu_pinning as pinning
from cudnn_sweep.orchestrator.gpus.cpu_pinning import (
    Core,
    cores_for,
    node_of_gpu,
    parse_cpus,
    pinning_of,
    read_cores,
    show_cpus,
)
from cudnn_sweep.workloads.hardware.listed_gpus import ListedGpu

SECOND_THREAD = 64  # the number of a core's second hardware thread, less that of its first


def sockets(*cores_each: int) -> tuple[Core, ...]:
    """Cores of two hardware threads, numbered as Linux does it, so many for each NUMA node."""
    nodes = [node for node, cores in enumerate(cores_each) for _ in range(cores)]
    return tuple(
        Core(cpus=(first, first + SECOND_THREAD), node=node) for first, node in enumerate(nodes)
    )


def gpus(*nodes: int | None) -> dict[str, int | None]:
    return {f"GPU-{index}": node for index, node in enumerate(nodes)}


def shares(slots: Mapping[str, int | None], cores: tuple[Core, ...]) -> list[str]:
    """What each slot is given, told by the first hardware thread of each core."""
    given = [cores_for(slot, slots, cores) for slot in slots]
    return [show_cpus([core.cpus[0] for core in share]) for share in given]


@pytest.mark.parametrize(
    ("slots", "cores", "given"),
    [
        pytest.param(gpus(0), sockets(16), ["1-15"], id="one GPU"),
        pytest.param(
            gpus(0, 0, 0, 0), sockets(32), ["4-10", "11-17", "18-24", "25-31"], id="one socket"
        ),
        pytest.param(
            gpus(0, 0, 0, 0, 1, 1, 1, 1),
            sockets(14, 14),
            ["2-4", "5-7", "8-10", "11-13", "16-18", "19-21", "22-24", "25-27"],
            id="two sockets",
        ),
        pytest.param(gpus(1, 0, 1), sockets(4, 8), ["6-8", "1-3", "9-11"], id="sockets by turns"),
        pytest.param(gpus(0, 0), sockets(4), ["0-1", "2-3"], id="too few to leave any"),
        pytest.param(gpus(None, 1, 0), sockets(4, 5), ["7-8", "5-6", "3-4"], id="one unknown"),
        pytest.param(gpus(0, 0, 1), sockets(1, 4), ["0", "0", "2-4"], id="fewer cores than slots"),
        pytest.param(gpus(0, 1), sockets(9), ["1-4", "5-8"], id="no core near one"),
    ],
)
def test_near_cores_are_shared_out(
    slots: Mapping[str, int | None], cores: tuple[Core, ...], given: list[str]
) -> None:
    assert shares(slots, cores) == given


@pytest.fixture
def system(tmp_path: Path) -> Path:
    """A /sys of two sockets with two cores of two threads each, and a GPU at the second."""
    for cpu in range(8):
        topology = tmp_path / f"devices/system/cpu/cpu{cpu}/topology"
        topology.mkdir(parents=True)
        (topology / "thread_siblings_list").write_text(f"{cpu % 4},{cpu % 4 + 4}\n")
    for node, cpus in enumerate(["0-1,4-5\n", "2-3,6-7\n", "\n"]):  # the last has memory alone
        folder = tmp_path / f"devices/system/node/node{node}"
        folder.mkdir(parents=True)
        (folder / "cpulist").write_text(cpus)
    for address, number in {"0000:1b:00.0": "1\n", "0000:2c:00.0": "-1\n"}.items():
        gpu = tmp_path / "bus/pci/devices" / address
        gpu.mkdir(parents=True)
        (gpu / "numa_node").write_text(number)
    return tmp_path


def test_threads_of_a_core_stay_together(system: Path) -> None:
    assert read_cores(range(8), system) == (
        Core(cpus=(0, 4), node=0),
        Core(cpus=(1, 5), node=0),
        Core(cpus=(2, 6), node=1),
        Core(cpus=(3, 7), node=1),
    )
    assert read_cores({1, 2, 6}, system) == (Core(cpus=(1,), node=0), Core(cpus=(2, 6), node=1))


def test_a_machine_that_tells_nothing_has_cores_all_the_same(tmp_path: Path) -> None:
    assert read_cores({3, 5}, tmp_path) == (Core(cpus=(3,), node=None), Core(cpus=(5,), node=None))
    assert shares(gpus(None, None), read_cores(range(8), tmp_path)) == ["2-4", "5-7"]


def test_node_of_a_gpu_is_found_by_its_address(system: Path) -> None:
    addresses = ("00000000:1B:00.0", "00000000:2C:00.0", "00000000:3D:00.0")
    assert [node_of_gpu(address, system) for address in addresses] == [1, None, None]


@pytest.mark.parametrize(
    ("cpus", "isolated", "launched_on", "given"),
    [
        pytest.param(range(32), "", ("GPU-0",), "8-10", id="the whole host is shared by all GPUs"),
        pytest.param(range(8), "", ("GPU-0",), "1-7", id="a job's cores are its own GPU's"),
        pytest.param(range(8), "", ("GPU-0", "GPU-1"), "2-4", id="or its own GPUs'"),
        pytest.param(range(8), "", (), "0", id="a job's GPUs are not known"),
        pytest.param(range(30), "30-31", ("GPU-0",), "6-8", id="isolated CPUs make no job"),
    ],
)
def test_cores_of_a_job_are_shared_out_among_its_own_gpus(
    cpus: range,
    isolated: str,
    launched_on: tuple[str, ...],
    given: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a host with 32 cores and 8 GPUs, all of which NVML lists."""
    listed = [
        ListedGpu(uuid=f"GPU-{n}", name="", card="", card_index=n, pci_address="00000000:FF:00.0")
        for n in range(8)
    ]
    monkeypatch.setattr(pinning, "listed_gpus", lambda: listed)
    monkeypatch.setattr(pinning, "isolated_cpus", lambda: parse_cpus(isolated))
    monkeypatch.setattr(
        pinning, "read_cores", lambda allowed: [Core(cpus=(n,), node=None) for n in allowed]
    )
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(cpus))
    monkeypatch.setattr(os, "cpu_count", lambda: 32)
    found = pinning_of("GPU-0", launched_on)
    assert found is not None
    assert str(found) == given


def test_a_gpu_that_nobody_lists_is_not_pinned() -> None:
    assert pinning_of("GPU-that-nobody-lists") is None
