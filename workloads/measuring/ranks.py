"""Ranks of a trial: processes that train one model together, each on its own GPU.

All ranks use the clock of rank 0, so that their loops end after the same number of steps.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from mmap import mmap
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from time import perf_counter
from typing import TYPE_CHECKING, TypeVar

from cudnn_sweep.workloads.measuring.turns import Baton, Said, Turn

if TYPE_CHECKING:
    import torch

T = TypeVar("T")

WORD = 8  # size of a count in bytes
STORED = ("NCCL_", "TORCH_SYMM_MEM_", "NVSHMEM_")  # prefixes of stored variables
VISIBLE = "CUDA_VISIBLE_DEVICES"
LOOPBACK = "lo"  # network interface for ranks of one host


@dataclass(kw_only=True, slots=True)
class Ranks:
    """A rank of a trial, and its connections to the other ranks."""

    rank: int
    links: list[Connection]
    """Connections of rank 0 to ranks 1, 2, ..., or the connection of another rank to rank 0."""
    store: int
    """File descriptor of the store with which torch connects the ranks."""
    counts: mmap
    """Number of exchanges and forward passes of each rank, which shows its progress."""
    of: int
    _count: int = field(default=0, init=False)

    def share(self, value: T) -> T:
        """Return the `value` of rank 0 on every rank. The other ranks wait for rank 0."""
        self.count()
        if self.rank:
            return self.links[0].recv()  # type: ignore[no-any-return]
        for link in self.links:
            link.send(value)
        return value

    def gather(self, value: T) -> list[T]:
        """Return the values of all ranks on rank 0, and an empty list on the other ranks."""
        self.count()
        if not self.rank:
            return [value, *(link.recv() for link in self.links)]
        self.links[0].send(value)
        return []

    def close(self) -> None:
        for link in self.links:
            link.close()
        if not self.rank:
            os.close(self.store)

    def count(self) -> None:
        self._count += 1
        at = self.rank * WORD
        self.counts[at : at + WORD] = self._count.to_bytes(WORD)

    def see_own_gpu(self) -> None:
        """Hide the GPUs of the other ranks. Call this before the first CUDA call."""
        visible = os.environ.get(VISIBLE)
        own = [str(self.rank)] if visible is None else visible.split(",")[self.rank :][:1]
        os.environ[VISIBLE] = "".join(own)

    def join(self, device: "torch.device") -> None:
        """Connect the ranks with NCCL or gloo. Afterwards they all use the clock of rank 0."""
        import torch
        from torch import distributed

        for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
            os.environ.setdefault(name, LOOPBACK)
        store = distributed.FileStore(  # type: ignore[attr-defined]
            f"/proc/self/fd/{self.store}", self.of
        )
        backend = "nccl" if device.type == "cuda" else "gloo"
        distributed.init_process_group(backend, store=store, rank=self.rank, world_size=self.of)
        global _together
        _together = self
        distributed.all_reduce(torch.ones(1, device=device))  # creates NCCL's communicator

    def distribute(self, net: "torch.nn.Module") -> "torch.nn.Module":
        """Wrap `net`, so that its backward pass averages the gradients of all ranks."""
        from torch.nn.parallel import DistributedDataParallel

        model = DistributedDataParallel(net)
        model.register_forward_hook(lambda *_: self.count())
        return model

    def leave(self) -> None:
        """Use this process's own clock again, without waiting for other ranks."""
        global _together
        _together = None  # the process group is kept, because destroying it can hang

    def taking_turns(self, baton: Baton | None) -> Baton:
        """Return a baton for this rank. `baton` is passed on after all ranks passed on theirs."""
        return _CommonBaton(self, baton)


class _CommonBaton:
    def __init__(self, ranks: Ranks, baton: Baton | None) -> None:
        self._ranks = ranks
        self._baton = baton

    def pass_on(self, said: Said) -> Turn:
        self._ranks.gather(None)  # rank 0 waits for the other ranks
        turn = self._baton.pass_on(said) if self._baton else Turn(stage="rest")
        return self._ranks.share(turn)

    @property
    def waited_s(self) -> float:
        return self._baton.waited_s if self._baton else 0.0


def make_ranks(count: int) -> list[Ranks]:
    """Make the ranks of a trial. Call this before their processes are forked."""
    pipes = [Pipe() for _ in range(1, count)]
    counts = mmap(-1, count * WORD)
    store = os.memfd_create("ranks")
    links = [[first for first, _ in pipes], *([second] for _, second in pipes)]
    return [
        Ranks(rank=rank, of=count, links=own, store=store, counts=counts)
        for rank, own in enumerate(links)
    ]


def behind(counts: mmap) -> list[int]:
    """Return the ranks that the other ranks wait for, or an empty list if no rank waits."""
    reached = [int.from_bytes(counts[at : at + WORD]) for at in range(0, len(counts), WORD)]
    least = min(reached)
    return [] if least == max(reached) else [r for r, n in enumerate(reached) if n == least]


def variables_of_ranks(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    return {name: text for name, text in sorted(environment.items()) if name.startswith(STORED)}


_together: Ranks | None = None
"""Rank of this process, or None if the process uses its own clock."""


def agreed(read: Callable[[], T]) -> T:
    """Return the result of `read`. If there are several ranks, all get the result of rank 0."""
    if _together is None:
        return read()
    return _together.share(read() if not _together.rank else None)  # type: ignore[return-value]


def is_together() -> bool:
    return _together is not None


def now() -> float:
    """Return the time in seconds. All ranks of a trial get the time of rank 0."""
    return agreed(perf_counter)


def meet() -> None:
    """Make rank 0 wait until all ranks have called `meet`. The other ranks do not wait."""
    if _together is not None:
        _together.gather(None)
