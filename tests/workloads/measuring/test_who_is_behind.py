"""For which ranks the others wait, and which variables and clock ranks share, in one process."""

import os
from collections.abc import Sequence
from mmap import mmap
from typing import Any

import pytest
import torch
from torch import distributed

from cudnn_sweep.workloads.measuring import ranks
from cudnn_sweep.workloads.measuring.ranks import (
    STORED,
    VISIBLE,
    WORD,
    agreed,
    behind,
    is_together,
    make_ranks,
    meet,
    variables_of_ranks,
)
from cudnn_sweep.workloads.measuring.turns import Said, Turn


@pytest.mark.parametrize(
    ("reached", "waited_for"),
    [
        ([3, 3, 3], []),
        ([3, 2, 3], [1]),
        ([1, 2, 1], [0, 2]),
        ([300, 255, 300], [1]),
        ([5], []),
    ],
)
def test_ranks_wait_for_those_that_are_least_far(
    reached: Sequence[int], waited_for: list[int]
) -> None:
    counts = mmap(-1, len(reached) * WORD)
    for rank, count in enumerate(reached):
        counts[rank * WORD : (rank + 1) * WORD] = count.to_bytes(WORD)
    assert behind(counts) == waited_for


def test_rank_0_has_a_link_to_each_other_rank() -> None:
    made = make_ranks(3)
    assert [rank.rank for rank in made] == [0, 1, 2]
    assert [len(rank.links) for rank in made] == [2, 1, 1]
    for rank in made:
        for link in rank.links:
            link.close()


def test_only_variables_of_nccl_are_kept() -> None:
    kept = f"{STORED[0]}DEBUG"
    assert variables_of_ranks({"PATH": "/", kept: "1"}) == {kept: "1"}


@pytest.mark.parametrize(("rank", "reads"), [(0, 1), (1, 0)])
def test_only_rank_0_reads_what_all_agree_on(
    monkeypatch: pytest.MonkeyPatch, rank: int, reads: int
) -> None:
    done: list[str] = []

    class Together:
        def __init__(self) -> None:
            self.rank = rank

        def share(self, value: float | None) -> float:
            return 7.0 if value is None else value

        def gather(self, _: None) -> None:
            done.append("met")

    def read() -> float:
        done.append("read")
        return 5.0

    assert not is_together()
    assert agreed(read) == 5.0
    meet()
    assert done == ["read"]
    monkeypatch.setattr(ranks, "_together", Together())
    assert is_together()
    assert agreed(read) == (7.0 if rank else 5.0)
    meet()
    assert done == ["read"] * (1 + reads) + ["met"]


def test_ranks_share_and_gather_and_count_each_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one process, in an order in which none has to wait."""
    first, second, third = made = make_ranks(3)
    assert [first.share(value) for value in (5, "x")] == [5, "x"]
    assert behind(first.counts) == [1, 2]
    assert [second.share(None) for _ in range(2)] == [5, "x"]
    assert [third.share(None) for _ in range(2)] == [5, "x"]
    assert behind(first.counts) == [] and [rank.of for rank in made] == [3, 3, 3]
    assert (third.gather("c"), second.gather("b"), first.gather("a")) == ([], [], ["a", "b", "c"])
    for _ in range(255):
        second.count()
    assert behind(first.counts) == [0, 2], "counts of more than a byte"
    monkeypatch.setattr(ranks, "_together", first)
    first.leave()
    assert not is_together()
    second.close()
    os.fstat(first.store)
    first.close()
    third.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(first.store)


@pytest.mark.parametrize(
    ("visible", "rank", "own"),
    [(None, 0, "0"), (None, 2, "2"), ("3,5,7", 0, "3"), ("3,5,7", 1, "5"), ("3,5", 2, "")],
)
def test_a_rank_sees_the_gpu_of_its_number_alone(
    monkeypatch: pytest.MonkeyPatch, visible: str | None, rank: int, own: str
) -> None:
    monkeypatch.setenv(VISIBLE, visible or "")
    if visible is None:
        monkeypatch.delenv(VISIBLE)
    made = make_ranks(3)
    made[rank].see_own_gpu()
    assert os.environ[VISIBLE] == own
    for each in made:
        each.close()


def test_ranks_take_turns_by_the_baton_of_rank_0() -> None:
    first, second = make_ranks(2)
    heard: list[Said] = []

    class Alone:
        waited_s = 3.0

        def pass_on(self, said: Said, /) -> Turn:
            heard.append(said)
            return Turn(stage="wall", round=7)

    leading, following = first.taking_turns(Alone()), second.taking_turns(None)
    assert (leading.waited_s, following.waited_s) == (3.0, 0.0)
    # Rank 1's part of an exchange stands in its pipe before rank 0 reads it.
    second.gather(None)
    said = Said(ms=1.0)
    assert leading.pass_on(said) == Turn(stage="wall", round=7) and heard == [said]
    assert second.share(None) == Turn(stage="wall", round=7)
    for each in (first, second):
        each.close()


@pytest.mark.parametrize(("device", "backend"), [("cuda", "nccl"), ("cpu", "gloo")])
def test_ranks_join_by_the_network_of_their_device_and_then_share_a_clock(
    monkeypatch: pytest.MonkeyPatch, device: str, backend: str
) -> None:
    done: list[Any] = []
    monkeypatch.setattr(ranks, "_together", None)
    monkeypatch.setattr(distributed, "FileStore", lambda path, of: f"{of} at {path}")
    monkeypatch.setattr(
        distributed, "init_process_group", lambda kind, **how: done.append((kind, how))
    )
    monkeypatch.setattr(torch, "ones", lambda *sizes, device: (sizes, device.type))
    monkeypatch.setattr(distributed, "all_reduce", done.append)
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "eth7")
    monkeypatch.delenv("NCCL_SOCKET_IFNAME", raising=False)
    made = make_ranks(2)
    made[1].join(torch.device(device))
    store = f"2 at /proc/self/fd/{made[1].store}"
    assert done == [
        (backend, {"store": store, "rank": 1, "world_size": 2}),
        ((1,), device),
    ]
    assert is_together()
    assert (os.environ["GLOO_SOCKET_IFNAME"], os.environ.pop("NCCL_SOCKET_IFNAME")) == (
        "eth7",
        "lo",
    )
    for each in made:
        each.close()
