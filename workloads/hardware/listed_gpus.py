"""Lists the GPUs and MIG slices of this host with NVML, including those hidden from CUDA."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pynvml


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedGpu:
    uuid: str
    """UUID as NVML writes it: `GPU-...`, or `MIG-...` for a slice."""
    name: str
    """Name of the model. A slice also has a profile: `NVIDIA A100-SXM4-40GB MIG 1g.5gb`."""
    card: str
    """UUID of the whole GPU, also for a slice."""
    card_index: int
    pci_address: str
    """PCI address of the whole GPU, as NVML writes it."""

    @property
    def is_slice(self) -> bool:
        return self.uuid.startswith("MIG-")

    def is_called(self, entry: str) -> bool:
        """Return whether an entry of CUDA_VISIBLE_DEVICES selects this GPU or slice."""
        if entry.isdigit():
            return self.card_index == int(entry)
        is_uuid = entry.startswith(("GPU-", "MIG-"))
        return is_uuid and (self.card.startswith(entry) or self.uuid.startswith(entry))


def listed_gpus() -> list[ListedGpu]:
    """Return the slices, and the GPUs without slices. The list is empty without NVML."""
    try:
        pynvml.nvmlInit()
        count = pynvml.nvmlDeviceGetCount()
        return [gpu for index in range(count) for gpu in _on_card(index)]
    except pynvml.NVMLError:
        return []


def chosen_slices(visible: str | None, listed: Sequence[ListedGpu]) -> list[ListedGpu]:
    """Return the slices that `visible` selects, or all slices if it is None.

    `visible` is a value of CUDA_VISIBLE_DEVICES. Entries after an invalid one are ignored.
    """
    slices = [gpu for gpu in listed if gpu.is_slice]
    if visible is None:
        return slices
    chosen: dict[str, ListedGpu] = {}
    for entry in visible.split(","):
        of_entry = {gpu.uuid: gpu for gpu in slices if gpu.is_called(entry.strip())}
        if not of_entry:
            break
        chosen |= of_entry
    return list(chosen.values())


def may_be_seen(visible: str | None, listed: Sequence[ListedGpu]) -> list[ListedGpu]:
    """Return the GPUs that CUDA may use if `visible` is the value of CUDA_VISIBLE_DEVICES."""
    # CUDA and NVML may number GPUs differently if their models differ.
    entries = [] if visible is None else [entry.strip() for entry in visible.split(",")]
    counted = any(entry.isdigit() for entry in entries) and len({gpu.name for gpu in listed}) > 1
    if visible is None or counted:
        return list(listed)
    return [gpu for gpu in listed if any(gpu.is_called(entry) for entry in entries)]


def uuid_of_slice(cuda_uuid: str, visible: str | None, listed: Iterable[ListedGpu]) -> str | None:
    """Return NVML's UUID of the slice that CUDA uses, or None if there is no such slice.

    `cuda_uuid` is the UUID of the slice or of its GPU, without a prefix.
    """
    slices = [gpu for gpu in listed if gpu.is_slice]
    own = [gpu for gpu in slices if gpu.uuid == f"MIG-{cuda_uuid}"]
    of_card = [gpu for gpu in slices if gpu.card == f"GPU-{cuda_uuid}"]
    return next((gpu.uuid for gpu in own or chosen_slices(visible, of_card)), None)


def _on_card(index: int) -> Iterator[ListedGpu]:
    whole = pynvml.nvmlDeviceGetHandleByIndex(index)
    uuid = pynvml.nvmlDeviceGetUUID(whole)
    for handle in _slices(whole) if is_sliced(whole) else [whole]:
        yield ListedGpu(
            uuid=pynvml.nvmlDeviceGetUUID(handle),
            name=pynvml.nvmlDeviceGetName(handle),
            card=uuid,
            card_index=index,
            pci_address=pynvml.nvmlDeviceGetPciInfo(whole).busId,
        )


def is_sliced(whole: Any) -> bool:
    try:
        present, _pending = pynvml.nvmlDeviceGetMigMode(whole)
    except pynvml.NVMLError:  # most GPUs cannot be sliced
        return False
    return bool(present == pynvml.NVML_DEVICE_MIG_ENABLE)


def _slices(whole: Any) -> Iterator[Any]:
    for index in range(pynvml.nvmlDeviceGetMaxMigDeviceCount(whole)):
        try:
            yield pynvml.nvmlDeviceGetMigDeviceHandleByIndex(whole, index)
        except pynvml.NVMLError:  # no slice has this number, or it may not be used
            continue
