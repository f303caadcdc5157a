"""Two sliced cards and a whole one, as NVML tells of them."""

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

A100, SLICE = "NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-40GB MIG 3g.20gb"
CARDS = {"GPU-aa": ["MIG-a1", "MIG-a2"], "GPU-bb": ["MIG-b1"], "GPU-cc": []}
CLOCKS_MHZ = {"GPU-aa": 1100, "GPU-bb": 1200, "GPU-cc": 1300}
OURS, THEIRS = 11, 99


def not_found(*_: object) -> Any:
    raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)


def of_uuid(uuid: str) -> str:
    known = {*CARDS, *(each for slices in CARDS.values() for each in slices)}
    return uuid if uuid in known else not_found()


def mig_mode(handle: str) -> list[int]:
    return [int(bool(CARDS[handle]))] * 2 if handle in CARDS else not_found()


def slice_at(card: str, index: int) -> str:
    there = index % 2 and index // 2 < len(CARDS[card])  # numbers have gaps
    return CARDS[card][index // 2] if there else not_found()


# A handle is a UUID. Of a slice it tells its card's clocks and power, as a driver might.
NVML: dict[str, Callable[..., Any]] = {
    "Init": lambda: None,
    "SystemGetDriverVersion": lambda: "580.1",
    "DeviceGetCount": lambda: len(CARDS),
    "DeviceGetHandleByIndex": lambda index: list(CARDS)[index],
    "DeviceGetHandleByUUID": of_uuid,
    "DeviceGetUUID": lambda handle: handle,
    "DeviceGetName": lambda handle: A100 if handle in CARDS else SLICE,
    "DeviceGetPciInfo": lambda card: SimpleNamespace(busId=f"00000000:{card[-2:].upper()}:00.0"),
    "DeviceGetMigMode": mig_mode,
    "DeviceGetMaxMigDeviceCount": lambda card: 7,
    "DeviceGetMigDeviceHandleByIndex": slice_at,
    "DeviceGetClockInfo": lambda handle, kind: CLOCKS_MHZ.get(handle, 1000),
    "DeviceGetMaxClockInfo": lambda handle, kind: 1410,
    "DeviceGetEnforcedPowerLimit": lambda handle: 400_000,
    "DeviceGetTemperature": lambda handle, kind: 40,
    "DeviceGetCurrentClocksEventReasons": lambda handle: 0x4,
    "DeviceGetCurrentClocksThrottleReasons": lambda handle: 0x2,
    "DeviceGetTotalEnergyConsumption": lambda handle: 7,
    "DeviceGetComputeRunningProcesses": lambda _: [SimpleNamespace(pid=n) for n in (OURS, THEIRS)],
}


@pytest.fixture(autouse=True)
def nvml(monkeypatch: pytest.MonkeyPatch) -> dict[str, Callable[..., Any] | None]:
    """An NVML that answers by this table, and fails where the table has None."""
    answers: dict[str, Callable[..., Any] | None] = dict(NVML)

    def answer(name: str, *asked: Any) -> Any:
        found = answers[name]
        if found is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return found(*asked)

    for name in answers:
        monkeypatch.setattr(pynvml, f"nvml{name}", partial(answer, name))
    return answers
