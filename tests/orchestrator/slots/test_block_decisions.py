"""Which processes of a block take turns, run alone or run again, of processes that only answer."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import count
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from cudnn_sweep.orchestrator.process.protocol import Outcome, Reply
from cudnn_sweep.orchestrator.slots import block as blocks
from cudnn_sweep.orchestrator.slots.block import (
    LOSSES,
    LOST,
    MEMORY,
    NO_OTHER,
    ONE_CPU,
    Block,
    Rounds,
    Running,
    _lacked_memory,
)
from cudnn_sweep.workloads.cells.measurement import Measurement, MeasureSpec
from cudnn_sweep.workloads.measuring.sampling import LEAST_S, MIN_SAMPLES
from cudnn_sweep.workloads.measuring.turns import Said, Turn

NOW = datetime.now(UTC)
OK = Outcome(started_at=NOW, ended_at=NOW, process_s=1.0)
CRASH = Outcome(started_at=NOW, ended_at=NOW, process_s=1.0, status="crash")
NO_MEMORY = Outcome(started_at=NOW, ended_at=NOW, process_s=1.0, status="out_of_memory")
Answers = Mapping[str, Any]


class Slot:
    """A slot whose processes answer as the test says: by trial, at `ready`, `meet`, `turns`, and the end."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        answers: Mapping[str, Answers],
        *,
        together: bool = True,
        in_turns: bool = True,
        logs: bool = False,
        last: int | None = None,
    ) -> None:
        """`last`: number of trials that may begin."""
        self.measuring: Any = SimpleNamespace(in_turns=in_turns, start_together=together)
        self.did: list[str] = []
        self.records: list[tuple[str, str, bool, str | None]] = []
        self.overlapped: dict[str, float] = {}
        self.cpus: dict[str, tuple[int, ...]] = {}
        self._answers, self._logs, self._last = answers, logs, last
        self._number, self._asked = count(), dict.fromkeys(answers, "ready")
        self._tries: dict[str, int] = {}
        monkeypatch.setattr(blocks, "Rounds", self._rounds)

    def begin(self, trial: Any) -> int | None:
        if self._last is not None and len(self._tries) >= self._last:
            return None
        return int(self._answers[trial.trial_id].get("attempt", 1))

    def start(self, trial: Any, attempt: int, *, takes_turns: bool, beside: bool) -> Running:
        name = trial.trial_id
        self._tries[name] = self._tries.get(name, 0) + 1
        self._asked[name] = "ready" if takes_turns else "end"
        self.did.append(f"{name}{'&' if beside else ''}{'' if takes_turns else ' alone'}")
        server: Any = SimpleNamespace(
            hear=lambda _: self._hear(name),
            pass_on=lambda _, turn: self._pass_on(name, turn),
            end=lambda _: self.did.append(f"end {name}"),
        )
        return Running(
            trial=trial,
            attempt=attempt,
            server=server,
            number=next(self._number),
            follows=False,
            new_cache=False,
        )

    def _pass_on(self, name: str, turn: Turn) -> None:
        self._asked[name] = turn.stage if turn.stage == "meet" else "end"
        if turn.stage != "meet":
            self.did.append(f"{turn.stage} {name} beside {len(turn.beside)}")

    def _hear(self, name: str) -> Any:
        asked = self._asked[name]
        usual = OK if asked == "end" else Said(pid=1)
        is_again = self._tries[name] > 1
        return usual if is_again else self._answers[name].get(asked, usual)

    def _rounds(self, members: Sequence[Running], *_: Any, cpus: Any, **__: Any) -> Any:
        self.did.append("turns " + "".join(member.trial.trial_id for member in members))

        def run() -> None:
            for member in members:
                member.outcome = self._answers[member.trial.trial_id].get("turns")

        return SimpleNamespace(run=run)

    def turn_cpus(self) -> tuple[int, ...]:
        return (4, 5)

    def logs(self, trial: Any) -> bool:
        return self._logs

    def forget(self, running: Running) -> None:
        self.did.append(f"forget {running.trial.trial_id}")

    def record(
        self, running: Running, *, in_turns: bool = False, alone_reason: str | None = None
    ) -> Any:
        name = running.trial.trial_id
        assert running.outcome is not None
        self.records.append((name, running.outcome.status, in_turns, alone_reason))
        self.overlapped[name], self.cpus[name] = running.overlapped_s, running.cpus
        sizes = self._answers[name].get("sizes", (None, None))
        return SimpleNamespace(
            cold_free_bytes=sizes[0], logged_largest_workspace_bytes=sizes[1], name=name
        )

    def run(self, *, ranks: int = 1, state: str = "plain", ends: bool = True) -> list[str]:
        """Return the names of the recorded trials."""
        cell = SimpleNamespace(rank_count=ranks, state=state, may_end=lambda: ends)
        trials: Any = [SimpleNamespace(trial_id=name, cell=cell, seed=1) for name in self._answers]
        slot: Any = self
        return [record.name for record in Block(slot, trials, self.begin).measure()]  # type: ignore[attr-defined]


def turns(*names: str) -> list[tuple[str, str, bool, str | None]]:
    return [(name, "ok", True, None) for name in names]


def alone(reason: str | None, *names: str) -> list[tuple[str, str, bool, str | None]]:
    return [(name, "ok", False, reason) for name in names]


FREE, CROWDED = Said(free_bytes=60, total_bytes=100), Said(free_bytes=40, total_bytes=100)


@pytest.mark.parametrize(
    ("answers", "records", "did"),
    [
        (
            {"a": {}, "b": {}},
            turns("a", "b"),
            ["a", "b&", "turns ab", "rest a beside 1", "rest b beside 0"],
        ),
        ({"a": {}}, alone(NO_OTHER, "a"), ["a alone"]),
        (
            {"a": {"ready": CRASH}, "b": {}},
            [("a", "crash", False, None), *alone(NO_OTHER, "b")],
            ["a", "b&", "alone b beside 0"],
        ),
        (
            {"a": {"meet": CRASH}, "b": {}, "c": {}},
            [("a", "crash", False, None), *turns("b", "c")],
            ["a", "b&", "c&", "turns bc", "rest b beside 1", "rest c beside 0"],
        ),
        (
            {"a": {"meet": Said(alone="a thread")}, "b": {}},
            alone("a thread", "a", "b"),
            ["a", "b&", "end b", "forget b", "alone a beside 0", "b alone"],
        ),
        (
            {"a": {}, "b": {"meet": Said(alone="a thread")}},
            alone("a thread", "a", "b"),
            ["a", "b&", "alone a beside 1", "alone b beside 0"],
        ),
        (
            {"a": {"meet": FREE}, "b": {"meet": CROWDED}, "c": {}},
            alone(MEMORY, "a", "b", "c"),
            ["a", "b&", "c&", "end c", "forget c"]
            + ["alone a beside 1", "alone b beside 0", "c alone"],
        ),
        (
            {"a": {}, "b": {"meet": NO_MEMORY}},
            alone(MEMORY, "a", "b"),
            ["a", "b&", "forget b", "alone a beside 0", "b alone"],
        ),
        (
            {"a": {"meet": NO_MEMORY}, "b": {}},
            alone(MEMORY, "a", "b"),
            ["a", "b&", "forget a", "end b", "forget b", "a alone", "b alone"],
        ),
        (
            {"a": {}, "b": {"turns": CRASH}},
            [("b", "crash", True, None), *turns("a")],
            ["a", "b&", "turns ab", "rest a beside 0"],
        ),
        (
            {"a": {}, "b": {"turns": NO_MEMORY}},
            alone(MEMORY, "a", "b"),
            ["a", "b&", "turns ab", "end a", "forget a", "forget b", "a alone", "b alone"],
        ),
        (
            {"a": {"end": NO_MEMORY}, "b": {}},
            alone(MEMORY, "a", "b"),
            ["a", "b&", "turns ab", "rest a beside 1"]
            + ["forget a", "end b", "forget b", "a alone", "b alone"],
        ),
        (
            {"a": {}, "b": {"end": NO_MEMORY}},
            [*turns("a"), ("b", "out_of_memory", True, None)],
            ["a", "b&", "turns ab", "rest a beside 1", "rest b beside 0"],
        ),
        (
            {"a": {"attempt": LOSSES}, "b": {}},
            turns("a", "b"),
            ["a", "b&", "turns ab", "rest a beside 1", "rest b beside 0"],
        ),
        (
            {"a": {"attempt": LOSSES + 1}, "b": {}},
            alone(LOST, "a", "b"),
            ["a", "alone a beside 0", "b alone"],
        ),
        (
            {"a": {}, "b": {"attempt": LOSSES + 1}},
            alone(LOST, "a", "b"),
            ["a", "b&", "alone a beside 1", "alone b beside 0"],
        ),
    ],
)
def test_processes_take_turns_unless_one_must_run_alone(
    monkeypatch: pytest.MonkeyPatch,
    answers: Mapping[str, Answers],
    records: list[tuple[str, str, bool, str | None]],
    did: list[str],
) -> None:
    slot = Slot(monkeypatch, answers)
    names = slot.run()
    assert slot.records == records
    assert names == [name for name, *_ in records]
    assert slot.did == did


@pytest.mark.parametrize(
    ("together", "cell", "is_beside"),
    [
        (True, {}, True),
        (False, {}, False),
        (True, {"state": "checkpoint"}, False),
        (True, {"ends": False}, False),
    ],
)
def test_processes_get_ready_together_only_if_asked_and_if_none_may_need_to_run_alone(
    monkeypatch: pytest.MonkeyPatch, together: bool, cell: dict[str, Any], is_beside: bool
) -> None:
    """Two that overlap share the shorter of their one-time costs."""
    costs = {"a": 3.0, "b": 5.0, "c": 4.0}
    answers = {name: {"ready": Said(one_time_s=each)} for name, each in costs.items()}
    slot = Slot(monkeypatch, answers, together=together)
    assert slot.run(**cell) == ["a", "b", "c"]
    assert slot.overlapped == {"a": 0.0, "b": 3.0 * is_beside, "c": 4.0 * is_beside}
    assert slot.did[:4] == ["a", "b&", "c&", "turns abc"]


@pytest.mark.parametrize(
    ("busy", "ranks", "cpus"),
    [
        ((0.9, ONE_CPU), 1, (4, 5)),
        ((0.9, ONE_CPU + 0.01), 1, ()),
        ((ONE_CPU + 0.01, 0.9), 1, ()),
        ((0.9, 0.9), 2, ()),
    ],
)
def test_loops_that_keep_one_cpu_busy_take_their_turns_on_the_slots_cpus(
    monkeypatch: pytest.MonkeyPatch, busy: tuple[float, float], ranks: int, cpus: tuple[int, ...]
) -> None:
    answers = {name: {"meet": Said(busy_cpus=each)} for name, each in zip("ab", busy, strict=True)}
    slot = Slot(monkeypatch, answers)
    slot.run(ranks=ranks)
    assert slot.cpus == {"a": cpus, "b": cpus}


@pytest.mark.parametrize(
    ("sizes", "is_again"),
    [(((10, 0), (20, 15)), True), (((10, 0), (20, 10)), False), (((10, 0), (20, 21)), False)],
)
def test_a_block_whose_search_may_have_dropped_a_plan_runs_again_alone(
    monkeypatch: pytest.MonkeyPatch, sizes: tuple[tuple[int, int], ...], is_again: bool
) -> None:
    answers = {name: {"sizes": each} for name, each in zip("ab", sizes, strict=True)}
    slot = Slot(monkeypatch, answers, logs=True)
    assert slot.run() == ["a", "b"]
    assert slot.records == turns("a", "b") + (alone(MEMORY, "a", "b") if is_again else [])
    later = Slot(monkeypatch, {"a": {}, "b": {}, "c": {"end": NO_MEMORY}, "d": {}}, logs=True)
    assert later.run() == ["a", "b", "c", "d"]
    assert later.records == alone(MEMORY, "a", "b", "c", "d")


@pytest.mark.parametrize("in_turns", [True, False])
@pytest.mark.parametrize("last", [0, 1, 2])
def test_no_trial_starts_once_the_sweep_has_stopped(
    monkeypatch: pytest.MonkeyPatch, in_turns: bool, last: int
) -> None:
    slot = Slot(monkeypatch, {"a": {}, "b": {}, "c": {}}, in_turns=in_turns, last=last)
    assert slot.run() == ["a", "b"][:last]
    reason = ("as asked" if not in_turns else NO_OTHER) if last < 2 or not in_turns else None
    assert slot.records == [(name, "ok", reason is None, reason) for name in ["a", "b"][:last]]


@pytest.mark.parametrize(
    ("outcome", "lacked"),
    [
        (None, False),
        (OK, False),
        (CRASH, False),
        (NO_MEMORY, True),
        (Outcome(started_at=NOW, ended_at=NOW, process_s=1.0, reply=Reply()), False),
        *(
            (
                Outcome(
                    started_at=NOW,
                    ended_at=NOW,
                    process_s=1.0,
                    reply=Reply(measured=Measurement(checks_error=error)),
                ),
                lacked,
            )
            for error, lacked in [
                (None, False),
                ("ValueError: odd", False),
                ("OutOfMemoryError: CUDA", True),
            ]
        ),
    ],
)
def test_checks_that_find_no_memory_count_as_a_lack_of_it(
    outcome: Outcome | None, lacked: bool
) -> None:
    running: Any = SimpleNamespace(outcome=outcome)
    assert _lacked_memory(running) is lacked


class Clock:
    """Members whose turns take a second each, and what each was last asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s, self.took = 0.0, list[Turn]()
        monkeypatch.setattr(blocks, "monotonic", lambda: self.now_s)

    def member(self, *, settles: int = 0, captured: bool = False, ends: int | None = None) -> Any:
        """`settles`: after so many turns; `ends`: with this turn."""
        taken = count()

        def take(turn: Turn) -> Said | None:
            number = next(taken)
            self.now_s += 1.0
            self.took.append(turn)
            if number == ends:
                return None
            return Said(settled=number >= settles, captured=captured, ms=1.0 + number % 2)

        return Mock(pid=1, take=take)

    def counts(self) -> dict[str, int]:
        stages = [turn.stage for turn in self.took]
        return {stage: stages.count(stage) for stage in dict.fromkeys(stages)}


@pytest.mark.parametrize(
    ("warmup_s", "limit_s", "settles", "turns"),
    [
        (0.0, 0.0, 9, 1),
        (1.0, 9.0, 0, 1),
        (2.0, 9.0, 0, 2),
        (3.0, 9.0, 5, 6),
        (3.0, 4.0, 50, 4),
        (3.0, 3.0, 50, 3),
        (4.0, 2.0, 50, 4),
    ],
)
def test_a_warm_up_lasts_until_it_has_settled_or_its_limit(
    monkeypatch: pytest.MonkeyPatch, warmup_s: float, limit_s: float, settles: int, turns: int
) -> None:
    clock = Clock(monkeypatch)
    spec = MeasureSpec.model_construct(warmup_s=warmup_s, warmup_limit_s=limit_s)
    member = clock.member(settles=settles)
    Rounds([member], spec, seed=1)._warm_up("warm_up", [member])
    assert clock.counts() == {"warm_up": turns}


@pytest.mark.parametrize(
    ("members", "budget_s", "spared_s", "error", "rounds", "stopped"),
    [
        (2, 50.0, 0.0, 0.0, 50, "budget"),
        (2, 50.0, 4.0, 0.0, 52, "budget"),
        (1, 50.0, 0.0, 0.0, 50, "budget"),
        (2, 2000.0, 0.0, 1.0, max(MIN_SAMPLES, int(LEAST_S)), "precision"),
        (2, 0.0, 0.0, 1.0, 1, "budget"),
    ],
)
def test_timing_ends_by_its_budget_or_its_precision(
    monkeypatch: pytest.MonkeyPatch,
    members: int,
    budget_s: float,
    spared_s: float,
    error: float,
    rounds: int,
    stopped: str,
) -> None:
    clock = Clock(monkeypatch)
    monkeypatch.setattr(blocks, "paired_error", lambda _: error and 0.5)
    spec = MeasureSpec.model_construct(steady_error=error or -1.0)
    of = [clock.member() for _ in range(members)]
    assert Rounds(of, spec, seed=1)._time("wall", of, budget_s, spared_s) == stopped
    assert clock.counts() == {"wall": members * rounds}
    assert [turn.round for turn in clock.took][::members] == list(range(rounds))


def test_members_that_end_are_left_out_and_without_any_nothing_is_timed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock(monkeypatch)
    spec = MeasureSpec.model_construct(steady_error=-1.0)
    of = [clock.member(ends=2), clock.member(ends=4)]
    rounds = Rounds(of, spec, seed=1, cpus=(7,))
    assert rounds._time("wall", of, 1000.0) is None
    assert clock.counts() == {"wall": 3 + 5}
    assert {turn.cpus for turn in clock.took} == {(7,)}
    assert [len(turn.beside) for turn in clock.took][-1] == 0
