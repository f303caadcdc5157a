"""Slices (MIG) and CUDA_VISIBLE_DEVICES: what CUDA shows is what NVML is asked about."""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from cudnn_sweep.workloads.hardware.environment import Environment, capture_environment
from cudnn_sweep.workloads.hardware.gpu import gpu_uuid, read_gpu, seen_gpus
from cudnn_sweep.workloads.hardware.listed_gpus import (
    ListedGpu,
    chosen_slices,
    listed_gpus,
    may_be_seen,
    uuid_of_slice,
)
from cudnn_sweep.workloads.hardware.monitor import GpuReading
from cudnn_sweep.workloads.hardware.nvml import NvmlGpu, NvmlMonitor
from tests.workloads.hardware.conftest import A100, CLOCKS_MHZ, OURS, SLICE

Show = Callable[..., None]


@pytest.fixture
def show(monkeypatch: pytest.MonkeyPatch) -> Show:
    """Have CUDA show devices with these UUIDs, CUDA_VISIBLE_DEVICES being so."""

    def set_up(*uuids: str, name: str = SLICE, visible: str | None = None) -> None:
        devices = [SimpleNamespace(name=name, uuid=uuid, total_memory=2**34) for uuid in uuids]
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: len(devices))
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: devices[index])
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: devices[index].name)
        if visible is None:
            monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        else:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)

    return set_up


def test_slices_are_listed_instead_of_their_gpu() -> None:
    listed = [(gpu.uuid, gpu.name, gpu.pci_address) for gpu in listed_gpus()]
    assert listed == [
        ("MIG-a1", SLICE, "00000000:AA:00.0"),
        ("MIG-a2", SLICE, "00000000:AA:00.0"),
        ("MIG-b1", SLICE, "00000000:BB:00.0"),
        ("GPU-cc", A100, "00000000:CC:00.0"),
    ]


@pytest.mark.parametrize(
    ("visible", "chosen"),
    [
        (None, ["MIG-a1", "MIG-a2", "MIG-b1"]),
        ("", []),
        ("MIG-b1, MIG-a1", ["MIG-b1", "MIG-a1"]),
        ("MIG-a", ["MIG-a1", "MIG-a2"]),
        ("1", ["MIG-b1"]),
        ("GPU-a", ["MIG-a1", "MIG-a2"]),
        ("MIG-a2,none,MIG-b1", ["MIG-a2"]),
        ("2", []),
    ],
)
def test_slices_are_chosen_as_the_variable_names_them(
    visible: str | None, chosen: list[str]
) -> None:
    assert [gpu.uuid for gpu in chosen_slices(visible, listed_gpus())] == chosen


@pytest.mark.parametrize("cuda_uuid", ["a2", "aa"], ids=["its own", "its GPU's"])
def test_a_slice_is_known_whichever_uuid_cuda_gives(show: Show, cuda_uuid: str) -> None:
    show(cuda_uuid, visible="MIG-a2")
    assert gpu_uuid(0) == "MIG-a2"
    assert uuid_of_slice("aa", None, listed_gpus()) == "MIG-a1", "CUDA takes the first"
    assert uuid_of_slice("unknown", None, listed_gpus()) is None


def test_every_visible_slice_is_a_place_for_trials(show: Show) -> None:
    """CUDA shows the first alone."""
    show("aa", visible="MIG-a2,MIG-b1")
    assert seen_gpus() == [(SLICE, uuid) for uuid in ("MIG-a2", "MIG-b1")]


def test_nvml_is_asked_about_the_gpu_that_cuda_shows(show: Show) -> None:
    show("cc", name=A100, visible="2")
    assert seen_gpus() == [(A100, "GPU-cc")]
    assert NvmlMonitor(NvmlGpu(gpu_uuid(0))).read().sm_clock_mhz == CLOCKS_MHZ["GPU-cc"]
    gpu = SimpleNamespace(**read_gpu())
    assert (gpu.mig_profile, gpu.max_sm_clock_mhz, gpu.power_limit_w) == (None, 1410, 400)


def test_what_a_slice_shares_with_its_neighbours_is_unknown_of_it(show: Show) -> None:
    show("a2", visible="MIG-a2")
    gpu = SimpleNamespace(**read_gpu())
    assert (gpu.gpu, gpu.gpu_uuid, gpu.mig_profile) == (SLICE, "MIG-a2", "3g.20gb")
    assert (gpu.max_sm_clock_mhz, gpu.power_limit_w, gpu.driver) == (None, None, "580.1")
    monitor = NvmlMonitor(NvmlGpu("MIG-a2"), [OURS])
    assert monitor.read() == GpuReading(other_processes=1)
    assert (monitor.max_sm_clock_mhz, monitor.energy_mj()) == (None, None)


def test_profile_is_part_of_the_hardware(show: Show) -> None:
    show("a2", visible="MIG-a2")
    environment: Environment = capture_environment()
    assert (environment.mig_profile, environment.gpu_uuid) == ("3g.20gb", "MIG-a2")
    assert replace(environment, mig_profile="1g.5gb").env_hash != environment.env_hash


def test_without_nvml_the_name_tells_a_slice(show: Show, nvml: dict[str, Any]) -> None:
    nvml["Init"] = None
    show("a2", visible="MIG-a2")
    assert seen_gpus() == [(SLICE, "MIG-a2")]
    assert read_gpu()["mig_profile"] == "3g.20gb"
    show("cc", name=A100)
    assert gpu_uuid(0) == "GPU-cc"


def test_a_slices_own_uuid_is_found_without_its_prefix() -> None:
    gpu = ListedGpu(uuid="MIG-aa", name="MIG", card="GPU-bb", card_index=0, pci_address="0")
    assert uuid_of_slice("aa", "MIG-cc", [gpu]) == "MIG-aa"
    assert uuid_of_slice("dd", None, [gpu]) is None


@pytest.mark.parametrize(
    ("visible", "names", "seen"),
    [
        (None, "AB", ["GPU-0", "GPU-1"]),
        ("1", "AA", ["GPU-1"]),
        ("1", "AB", ["GPU-0", "GPU-1"]),
        ("GPU-1", "AB", ["GPU-1"]),
        ("", "AB", []),
    ],
)
def test_numbers_name_gpus_only_where_all_are_of_one_model(
    visible: str | None, names: str, seen: list[str]
) -> None:
    """CUDA may number GPUs of several models in another order than NVML."""
    listed = [
        ListedGpu(
            uuid=f"GPU-{number}",
            name=name,
            card=f"GPU-{number}",
            card_index=number,
            pci_address="",
        )
        for number, name in enumerate(names)
    ]
    assert [gpu.uuid for gpu in may_be_seen(visible, listed)] == seen


@pytest.mark.parametrize(
    ("visible", "seen"),
    [
        (None, ["MIG-a1", "MIG-a2", "MIG-b1", "GPU-cc"]),
        ("GPU-aa,GPU-cc", ["MIG-a1", "MIG-a2", "GPU-cc"]),
        ("GPU-cc, MIG-b1", ["MIG-b1", "GPU-cc"]),
        ("GPU-c", ["GPU-cc"]),
        ("2", ["MIG-a1", "MIG-a2", "MIG-b1", "GPU-cc"]),
        ("none", []),
        ("", []),
    ],
)
def test_what_a_process_may_see_is_named_by_one_of_its_entries(
    visible: str | None, seen: list[str]
) -> None:
    assert [gpu.uuid for gpu in may_be_seen(visible, listed_gpus())] == seen
