"""For which ranks the others wait, and which variables and clock ranks share, in one process."""

from collections.abc import Sequence
from mmap import mmap

import pytest

from cudnn_sweep.workloads.measuring import ranks
from cudnn_sweep.workloads.measuring.ranks import (
    STORED,
    WORD,
    agreed,
    behind,
    is_together,
    make_ranks,
    meet,
    variables_of_ranks,
)


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
