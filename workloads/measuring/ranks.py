"""The ranks of a trial: processes that train one model together, each with a GPU of its own.

All ranks run the same code. Rank 0's clock decides what depends on time, such as how long a loop runs.
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
    import torch  # elsewhere imported when a trial runs: a block's clock needs no torch

T = TypeVar("T")

WORD = 8  # bytes of a count
STORED = ("NCCL_", "TORCH_SYMM_MEM_", "NVSHMEM_")  # prefixes of the stored variables
VISIBLE = "CUDA_VISIBLE_DEVICES"
LOOPBACK = "lo"  # ranks of one host need no other network


@dataclass(kw_only=True, slots=True)
class Ranks:
    """One rank's view of its trial: its number, and its links to the other ranks."""

    rank: int
    links: list[Connection]
    """At rank 0: connections to ranks 1, 2, ... in this order. At any other rank: one connection, to rank 0."""
    store: int
    """Descriptor of the file in memory through which ranks find each other."""
    counts: mmap
    """Each rank's count of exchanges and forward passes; the others wait for the rank with the smallest count."""
    of: int
    _count: int = field(default=0, init=False)

    def share(self, value: T) -> T:
        """Return rank 0's `value` at every rank. The other ranks wait for rank 0."""
        self.count()
        if self.rank:
            return self.links[0].recv()  # type: ignore[no-any-return]
        for link in self.links:
            link.send(value)
        return value

    def gather(self, value: T) -> list[T]:
        """At rank 0, wait for all ranks and return their values. At other ranks, return []."""
        self.count()
        if not self.rank:
            return [value, *(link.recv() for link in self.links)]
        self.links[0].send(value)
        return []

    def close(self) -> None:
        """Close the forking process's copy of the links and, at rank 0, of the shared file."""
        for link in self.links:
            link.close()
        if not self.rank:
            os.close(self.store)

    def count(self) -> None:
        self._count += 1
        at = self.rank * WORD
        self.counts[at : at + WORD] = self._count.to_bytes(WORD)

    def see_own_gpu(self) -> None:
        """Hide all GPUs but this rank's; call this before the first CUDA call."""
        visible = os.environ.get(VISIBLE)
        own = [str(self.rank)] if visible is None else visible.split(",")[self.rank :][:1]
        os.environ[VISIBLE] = "".join(own)

    def join(self, device: "torch.device") -> None:
        """Connect the ranks, through NCCL on GPUs and gloo on CPUs. Afterwards all ranks use rank 0's clock."""
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
        distributed.all_reduce(torch.ones(1, device=device))  # makes NCCL's communicator

    def distribute(self, net: "torch.nn.Module") -> "torch.nn.Module":
        """Return `net` as a model whose backward pass averages the gradients of all ranks."""
        from torch.nn.parallel import DistributedDataParallel

        model = DistributedDataParallel(net)
        model.register_forward_hook(lambda *_: self.count())
        return model

    def leave(self) -> None:
        """Use this process's own clock again, without waiting for other ranks. The process group ends with
        the process. A call that ended gloo's group hung in 2 of 36 pairs of ranks (torch 2.13).
        """
        global _together
        _together = None

    def taking_turns(self, baton: Baton | None) -> Baton:
        """Return this rank's baton. Rank 0 has the block's `baton` and passes it on for all."""
        return _CommonBaton(self, baton)


class _CommonBaton:
    def __init__(self, ranks: Ranks, baton: Baton | None) -> None:
        self._ranks = ranks
        self._baton = baton

    def pass_on(self, said: Said) -> Turn:
        self._ranks.gather(None)  # no rank works in the turn of another process of the block
        turn = self._baton.pass_on(said) if self._baton else Turn(stage="rest")
        return self._ranks.share(turn)

    @property
    def waited_s(self) -> float:
        return self._baton.waited_s if self._baton else 0.0


def make_ranks(count: int) -> list[Ranks]:
    """Make a trial's ranks, before their processes are forked. Each process closes the other ranks' links."""
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
"""The ranks that share rank 0's clock, or None if this process uses its own clock."""


def agreed(read: Callable[[], T]) -> T:
    """Return the result of `read`. With several ranks, return rank 0's result at every rank."""
    if _together is None:
        return read()
    return _together.share(read() if not _together.rank else None)  # type: ignore[return-value]


def is_together() -> bool:
    return _together is not None


def now() -> float:
    """Return a clock's seconds. All ranks of a trial get rank 0's time, so that loops end alike."""
    return agreed(perf_counter)


def meet() -> None:
    """Wait, at rank 0, until all ranks call `meet`. Other ranks go on until they next read rank 0's clock."""
    if _together is not None:
        _together.gather(None)
