"""Who has the baton, and when enough was measured: on members that only report times, by a clock of their turns."""

import os
from collections.abc import Callable
from typing import Any

import pytest

from cudnn_sweep.orchestrator.slots import block
from cudnn_sweep.orchestrator.slots.block import Rounds
from cudnn_sweep.workloads.cells.measurement import MeasureSpec
from cudnn_sweep.workloads.measuring.turns import Said, Turn

SPEC = MeasureSpec(warmup_s=0.0, steady_budget_s=0.2, device_budget_s=0.1, steady_error=0.0)
TURN_S = 1 / 1024


class FakeMember:
    def __init__(
        self,
        took: list[tuple["FakeMember", Turn]],
        ms: Callable[[int], float] = lambda number: 1.0 + number % 3,
        *,
        captures: bool = True,
    ) -> None:
        self.pid = id(self)
        self._took, self._ms, self._captures = took, ms, captures

    def take(self, turn: Turn, /) -> Said | None:
        self._took.append((self, turn))
        return Said(pid=os.getpid(), captured=self._captures, ms=self._ms(turn.round))


@pytest.fixture
def took(monkeypatch: pytest.MonkeyPatch) -> list[tuple[FakeMember, Turn]]:
    turns: list[tuple[FakeMember, Turn]] = []
    monkeypatch.setattr(block, "monotonic", lambda: TURN_S * len(turns))
    return turns


def stages(took: list[tuple[FakeMember, Turn]], member: FakeMember) -> list[str]:
    return list(dict.fromkeys(turn.stage for each, turn in took if each is member))


def run(*members: FakeMember, **changes: Any) -> None:
    Rounds(members, SPEC.model_copy(update=changes), seed=1).run()


def test_every_member_has_a_turn_in_every_round_in_an_order_drawn_anew(
    took: list[tuple[FakeMember, Turn]],
) -> None:
    members = [FakeMember(took) for _ in range(3)]
    run(*members)
    wall = [(each, turn.round) for each, turn in took if turn.stage == "wall"]
    rounds = [wall[first : first + 3] for first in range(0, len(wall), 3)]
    assert all({each for each, _ in one} == set(members) for one in rounds)
    assert [one[0][1] for one in rounds] == list(range(len(rounds)))
    assert len({tuple(each.pid for each, _ in one) for one in rounds}) > 3
    others = {turn.beside for each, turn in took if each is members[0]}
    assert others == {(members[1].pid, members[2].pid)}


def test_timing_stops_when_the_ratio_is_precise_though_times_are_not(
    took: list[tuple[FakeMember, Turn]],
) -> None:
    """Both become slower and slower: their ratio does not."""
    one, other = FakeMember(took, lambda n: 1.0 + n), FakeMember(took, lambda n: 1.1 * (1.0 + n))
    run(one, other, steady_budget_s=20.0, device_budget_s=20.0, steady_error=0.002)
    stopped = {turn.stage: turn.stopped for _, turn in took}
    assert stopped["capture"] == stopped["report"] == "precision"
    assert 5 <= sum(turn.stage == "wall" for _, turn in took) / 2 < 1000


@pytest.mark.parametrize(
    ("members", "warmup_s", "wall_s"), [(2, 0.0, 2 * 0.2), (2, 0.5, 0.9), (3, 0.5, 3 * 0.2 + 1.0)]
)
def test_timing_stops_when_the_time_of_all_is_spent(
    took: list[tuple[FakeMember, Turn]], members: int, warmup_s: float, wall_s: float
) -> None:
    """One warm-up serves all: each further member's is added to the time of all."""
    all_ms = [lambda n: 1.0 + n % 2, lambda n: 1.0 + n % 3, lambda n: 1.0 + n % 5]
    run(*(FakeMember(took, ms) for ms in all_ms[:members]), warmup_s=warmup_s)
    assert {turn.stopped for _, turn in took if turn.stage == "report"} == {"budget"}
    spent_s = {
        stage: TURN_S * sum(turn.stage == stage for _, turn in took) for stage in ("wall", "device")
    }
    assert spent_s == pytest.approx({"wall": wall_s, "device": members * 0.1}, abs=3 * TURN_S)


def test_who_has_no_graph_has_no_turn_on_the_device(took: list[tuple[FakeMember, Turn]]) -> None:
    with_graph, without = FakeMember(took), FakeMember(took, captures=False)
    run(with_graph, without)
    assert "device" in stages(took, with_graph)
    assert stages(took, without) == ["warm_up", "wall", "capture", "report"]


def test_warm_up_goes_on_until_all_have_settled(took: list[tuple[FakeMember, Turn]]) -> None:
    class Settling(FakeMember):
        def take(self, turn: Turn, /) -> Said | None:
            heard = super().take(turn)
            warmed = sum(each is self for each, _ in self._took)
            return heard and Said(pid=heard.pid, settled=warmed > 7, ms=1.0)

    run(FakeMember(took), Settling(took), warmup_s=0.001, warmup_limit_s=10.0)
    assert sum(turn.stage == "warm_up" for _, turn in took) == 2 * 8
