"""Which blocks the searcher asks for, of made-up rows that the SQL of a launch judges."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from cudnn_sweep.analysis.results.verdicts import ContrastState
from cudnn_sweep.analysis.store.schema import RunRecord
from cudnn_sweep.analysis.store.store import open_store
from cudnn_sweep.orchestrator.planning.decided import contrasts_of, standings
from cudnn_sweep.orchestrator.planning.plan import Plan, with_alternate_caches
from cudnn_sweep.orchestrator.planning.session import Session, session_of
from cudnn_sweep.orchestrator.slots import tune_host
from cudnn_sweep.orchestrator.slots.next_block import TRIES, BlockQueue
from cudnn_sweep.orchestrator.slots.tune_host import BlockSearcher
from tests.makers import MakePlan, RecordOf

LOOKS = (3, 5, 8)
SHARE = 0.4  # of the error, at the first look
CELLS = 6
LEAST = np.log(1.03)
MIDNIGHT = datetime(2026, 1, 1, tzinfo=UTC)
LogRatio = Callable[[int, int], float]
"""Log ratio of a cell's block, by the cell's place among the cell_ids and the block's number."""


class Launch:
    """A launch of made-up blocks. Its session's `cell_by_cell` says in which order they are asked for."""

    def __init__(
        self,
        session: Session,
        folder: Path,
        record_of: RecordOf,
        log_ratio: LogRatio,
        earlier: Sequence[int] = (),
    ) -> None:
        """`earlier`: blocks that the sweep has from a launch before."""
        self.store = open_store(str(folder))
        self._record_of, self._log_ratio = record_of, log_ratio
        self._blocks = dict(session.plan.blocks())
        self._places = {id: place for place, id in enumerate(sorted(session.plan.cell_ids()))}
        self.session = session
        self.record(*earlier)
        recorded = [trial for block in earlier for trial in self._blocks[block]]
        begun: dict[str, int] = {}
        for trial in recorded:
            begun[trial.cell.cell_id] = max(begun.get(trial.cell.cell_id, 0), trial.replicate + 1)
        todo = session.plan.without({trial.trial_id for trial in recorded})
        self.session = replace(session, plan=todo, begun=begun)
        self.asking = BlockQueue(self.session, lambda: standings(self.store, self.session))

    def place(self, block: int) -> int:
        """Of its cell among the cell_ids."""
        return self._places[self._blocks[block][0].cell.cell_id]

    def number(self, block: int) -> int:
        """Of its block among the cell's."""
        return self._blocks[block][0].replicate

    def record(self, *blocks: int) -> None:
        self.store.write(*(record for block in blocks for record in self._records(block)))

    def _records(self, block: int) -> list[RunRecord]:
        place = self.place(block)
        began = MIDNIGHT + timedelta(minutes=block)
        return [
            replace(
                self._record_of(self.session, trial),
                device="cuda",
                loop_kind="closed",
                started_at=began,
                ended_at=began + timedelta(seconds=1 + place % 3),
                steady_wall_ms=np.exp(
                    self._log_ratio(place, trial.replicate) if trial.config.benchmark else 0.0
                ),
            )
            for trial in self._blocks[block]
        ]

    def done(self, *blocks: int) -> None:
        """These ran."""
        self.record(*blocks)
        for block in blocks:
            self.asking.done(block)

    def take_all(self) -> list[int]:
        """What may run side by side now."""
        taken = []
        while (block := self.asking.take()) is not None:
            taken.append(block)
        return taken

    def run(self, most: int | None = None) -> list[int]:
        """The blocks in the order in which they were asked for."""
        asked: list[int] = []
        while not self.asking.is_over() and len(asked) != most:
            block = self.asking.take()
            assert block is not None
            self.done(block)
            asked.append(block)
        return asked


@pytest.fixture(scope="module")
def session(plan_of: MakePlan, tmp_path_factory: pytest.TempPathFactory) -> Session:
    """Of cells that get up to 8 blocks."""
    fixed = plan_of("noop", replicates=LOOKS[-1], batch=list(range(1, CELLS + 1)))
    plan = replace(fixed, looks=LOOKS)
    assert len(plan.cell_ids()) == CELLS
    return replace(
        session_of(plan, "until", tmp_path_factory.mktemp("session")),
        contrasts=contrasts_of(plan.configs()),
        looks=LOOKS,
        of_cells=CELLS,
    )


def p_of(logs: Sequence[float]) -> float:
    """Of an effect no larger than the least, in the share of the error that one look has."""
    gaps = (abs(np.mean(logs)) + np.array([-LEAST, LEAST])) / stats.sem(logs)
    return float(stats.t.sf(gaps, len(logs) - 1).sum() / SHARE)


def logs_with(p: float) -> list[float]:
    """Of the blocks up to the first look, one of which lies at their mean."""
    mean, blocks = np.log(1.1), LOOKS[0]
    scatter = (mean - LEAST) / stats.t.isf(p * SHARE, blocks - 1) * np.sqrt(blocks)
    return [mean - scatter, mean, mean + scatter]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("p", "others", "goes_on"),
    [
        pytest.param(0.02, 0, True, marks=pytest.mark.long),
        (0.02, LOOKS[0] - 1, True),
        pytest.param(0.005, LOOKS[0] - 1, False, marks=pytest.mark.long),
        (0.02, LOOKS[0], False),
    ],
)
def test_a_cell_stops_where_its_verdict_holds_beside_all_cells_of_the_plan(
    session: Session, record_of: RecordOf, tmp_path: Path, p: float, others: int, goes_on: bool
) -> None:
    """A p value of 0.02 is too large beside five cells that may have no effect, and passes beside five that do.
    `others`: how many blocks of these are recorded.
    """
    tried, clear = logs_with(p), (0.3, 0.3001, 0.3002)
    measured = [p_of(tried), *(p_of(clear[:others]) for _ in range(1, CELLS) if others)]
    whole = [p_of(tried)] + [p_of(clear) if others == LOOKS[0] else 1.0] * (CELLS - 1)
    assert stats.false_discovery_control(measured)[0] < 0.05
    assert (stats.false_discovery_control(whole)[0] > 0.05) == goes_on
    launch = Launch(
        session,
        tmp_path,
        record_of,
        lambda place, number: (clear if place else [*tried, *clear])[min(number, 2)],
    )
    running = launch.take_all()
    launch.done(*(b for b in running if launch.place(b) == 0 or launch.number(b) < others))
    assert {launch.place(block) for block in launch.take_all()} == ({0} if goes_on else set())
    found = {row.cell_id: row.state for row in ContrastState.of(launch.store, of_cells=CELLS)}
    assert found[min(session.plan.cell_ids())] == ("open" if goes_on else "hurts")


def made_up(seed: int) -> LogRatio:
    """Cells of every kind, from one without an effect to one with 10%, some of which scatter."""
    dice = np.random.default_rng(seed)
    means, scatters = dice.choice([0.0, 0.03, 0.05, 0.1], CELLS), dice.uniform(0.001, 0.03, CELLS)
    logs = means[:, np.newaxis] + scatters[:, np.newaxis] * dice.normal(size=(CELLS, LOOKS[-1]))
    return lambda place, number: float(logs[place, number])


@pytest.mark.slow
def test_past_a_look_the_cell_that_is_decided_soonest_goes_on_first(session: Session) -> None:
    cells = sorted(session.plan.cell_ids())
    seconds = dict(zip(cells, (5.0, 1.0, 4.0, 2.0, 6.0, 3.0), strict=True))
    standings: dict[str, Any] = {
        cell: SimpleNamespace(
            is_open=True, recorded_blocks=LOOKS[0], seconds_to_decide=left, out=frozenset()
        )
        for cell, left in seconds.items()
    }
    asking = BlockQueue(session, lambda: standings)
    cell_of = {block: trials[0].cell.cell_id for block, trials in session.plan.blocks()}
    for _ in range(CELLS * LOOKS[0]):
        block = asking.take()
        assert block is not None
        asking.done(block)
    taken = [asking.take() for _ in range(CELLS * (LOOKS[1] - LOOKS[0]))]
    order = list(dict.fromkeys(cell_of[block] for block in taken if block is not None))
    assert order == sorted(cells, key=seconds.__getitem__)


@pytest.mark.long
def test_a_resumed_launch_asks_in_one_order_and_for_no_more_than_an_uninterrupted_one(
    session: Session, record_of: RecordOf, tmp_path: Path
) -> None:
    whole = Launch(session, tmp_path / "whole", record_of, made_up(2)).run()
    first = Launch(session, tmp_path / "first", record_of, made_up(2)).run(len(whole) // 2)
    assert first == whole[: len(first)], "the same results ask for the same blocks"
    assert len(whole) < CELLS * LOOKS[-1], "some cells are decided early"
    assert whole != sorted(whole), "nor is it the plan's order"
    rest, again = (
        Launch(session, tmp_path / name, record_of, made_up(2), earlier=first).run()
        for name in ("rest", "again")
    )
    assert rest == again
    assert not set(first) & set(rest)
    assert set(first + rest) <= set(whole)


def cells_of(launch: Launch, blocks: Sequence[int]) -> list[int]:
    return [launch.place(block) for block in blocks]


@pytest.mark.long
def test_with_a_limit_each_cell_comes_to_its_first_look_before_the_next_begins(
    session: Session, record_of: RecordOf, tmp_path: Path
) -> None:
    """Cut at whatever moment, only one cell has blocks for nothing; those that had some go on first."""
    limited, first = replace(session, cell_by_cell=True), LOOKS[0]
    rounds = Launch(session, tmp_path / "rounds", record_of, made_up(1)).run()
    assert len(set(cells_of(Launch(session, tmp_path, record_of, made_up(1)), rounds[:first]))) > 1
    launch = Launch(limited, tmp_path / "limited", record_of, made_up(1))
    asked = launch.run()
    cells = cells_of(launch, asked[: first * CELLS])
    assert cells == [cell for cell in dict.fromkeys(cells) for _ in range(first)]
    assert set(cells) == set(range(CELLS))
    assert set(asked) >= set(rounds) - set(asked), "past their first looks they go on as ever"

    begun = asked[: first + 1]
    resumed = Launch(limited, tmp_path / "resumed", record_of, made_up(1), earlier=begun)
    rest = resumed.run()
    assert cells_of(resumed, rest[: first - 1]) == [launch.place(begun[-1])] * (first - 1)
    assert not set(rest) & set(begun)
    side_by_side = Launch(limited, tmp_path / "slots", record_of, made_up(1)).take_all()
    assert side_by_side == asked[: first * CELLS], "with several slots in the same order"


def test_with_a_limit_a_fixed_number_of_blocks_comes_cell_by_cell_too(
    plan_of: MakePlan, tmp_path: Path
) -> None:
    plan = plan_of("noop", replicates=5, batch=[1, 2, 3])
    fixed = session_of(plan, "fixed", tmp_path)
    orders = []
    for by_cell in (False, True):
        asking, asked = BlockQueue(replace(fixed, cell_by_cell=by_cell), dict), []
        while (block := asking.take()) is not None:
            asked.append(block)
        orders.append(asked)
    (rounds, cell_by_cell), blocks = orders, dict(plan.blocks())
    assert rounds == list(blocks), "the plan's order, without a limit"
    assert sorted(cell_by_cell) == sorted(rounds)
    cells = [blocks[block][0].cell.cell_id for block in cell_by_cell]
    for at in (0, 2, 4):
        assert len(set(cells[at : at + 2])) == 1
    assert cell_by_cell[9:] == [block for block in rounds if blocks[block][0].replicate >= 3]


def test_on_gpus_a_block_with_a_warm_cache_waits_for_the_one_that_fills_it(
    plan_of: MakePlan, tmp_path: Path
) -> None:
    """Two cells of four blocks each; with a cache for every second block, and with one for all."""
    fixed = plan_of("noop", replicates=4, batch=[1, 2])
    blocks = {block: trials[0] for block, trials in fixed.blocks()}
    alternate, one_cache = with_alternate_caches(fixed), fixed

    def waves(plan: Plan, *, gpu: bool) -> list[list[int]]:
        """The replicates that may run side by side, until none is left."""
        asking, found = BlockQueue(session_of(plan, "waves", tmp_path), dict, gpu=gpu), []
        while not asking.is_over():
            wave, expected = [], asking.side_by_side()
            while (block := asking.take()) is not None:
                wave.append(block)
            assert expected in (0, len(wave)), "none was let go before the look"
            found.append(sorted(blocks[block].replicate for block in wave))
            for block in wave:
                asking.done(block)
        return found

    assert waves(alternate, gpu=True) == [[0, 0, 2, 2], [1, 1, 3, 3]]
    assert waves(one_cache, gpu=True) == [[0, 0], [1, 1, 2, 2, 3, 3]]
    assert waves(alternate, gpu=False) == [[0, 0, 1, 1, 2, 2, 3, 3]]
    resumed = one_cache.without({t.trial_id for t in one_cache.trials if t.replicate == 0})
    assert waves(resumed, gpu=True) == [[1, 1, 2, 2, 3, 3]], "a launch before has filled it"


@pytest.mark.parametrize(("limit_s", "blocks"), [(-5.0, 1), (25.0, 2), (30.0, 3), (None, 5)])
def test_no_block_begins_that_would_end_past_the_limit_but_for_the_first(
    plan_of: MakePlan,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    limit_s: float | None,
    blocks: int,
) -> None:
    """Each takes 10 s, as the one before it did."""
    gone_s, session = 0.0, session_of(plan_of("noop", replicates=5), "limited", tmp_path)
    monkeypatch.setattr(tune_host, "monotonic", lambda: gone_s)
    searcher = BlockSearcher(BlockQueue(session, dict), 1, limit_s)
    ran = 0
    while searcher.suggest(f"trial {ran}") != BlockSearcher.FINISHED:
        assert searcher.suggest("another") is None, "one slot"
        gone_s += 10.0
        searcher.on_trial_complete(f"trial {ran}", {"took_s": 10.0})
        ran += 1
    assert ran == blocks


def looking(
    plan_of: MakePlan, folder: Path, cells: Sequence[dict[str, Any]], **changes: Any
) -> tuple[BlockQueue, dict[int, tuple[int, int]], list[int]]:
    """Return a queue whose cells stand as given, in the order of their ids; each block's cell and number, by
    block; and the blocks that are let go before the first look, all done.
    """
    fixed = plan_of("noop", replicates=LOOKS[-1], batch=list(range(1, len(cells) + 1)))
    session = session_of(replace(fixed, looks=LOOKS), "looking", folder)
    session = replace(session, **changes)
    ids = sorted(session.plan.cell_ids())
    usual = {"is_open": True, "recorded_blocks": LOOKS[0], "seconds_to_decide": 1.0}
    present: dict[str, Any] = {
        cell_id: SimpleNamespace(**usual | {"out": frozenset()} | stands)
        for cell_id, stands in zip(ids, cells, strict=True)
        if stands is not LOST
    }
    queue = BlockQueue(session, lambda: present)
    blocks = {
        block: (ids.index(first.cell.cell_id), first.replicate)
        for block, (first, *_) in session.plan.blocks()
    }
    first = [block for block in blocks if blocks[block][1] < LOOKS[0]]
    assert [queue.take() for _ in first] == first
    for block in first:
        queue.done(block)
    return queue, blocks, first


LOST: dict[str, Any] = {}  # of a cell without any record


@pytest.mark.parametrize(
    ("stands", "goes_on"),
    [
        ({}, True),
        ({"recorded_blocks": LOOKS[0] + 1}, True),
        ({"recorded_blocks": LOOKS[0] - 1}, False),
        ({"is_open": False}, False),
        (LOST, False),
    ],
)
def test_a_cell_goes_on_to_its_next_look_if_it_is_open_and_all_of_its_blocks_are_recorded(
    plan_of: MakePlan, tmp_path: Path, stands: dict[str, Any], goes_on: bool
) -> None:
    queue, blocks, _ = looking(plan_of, tmp_path, [stands])
    taken = []
    while (block := queue.take()) is not None:
        taken.append(blocks[block][1])
    assert taken == (list(range(LOOKS[0], LOOKS[1])) if goes_on else [])
    assert queue.is_over() is not goes_on


def test_cells_with_fewer_looks_catch_up_and_the_soonest_decided_comes_first(
    plan_of: MakePlan, tmp_path: Path
) -> None:
    soon, late = {"seconds_to_decide": 1.0}, {"seconds_to_decide": 9.0}
    queue, blocks, _ = looking(plan_of, tmp_path, [late, soon])
    asked = [queue.take() for _ in range(2 * (LOOKS[1] - LOOKS[0]))]
    cells = [blocks[block][0] for block in asked if block is not None]
    assert cells == [1, 1, 0, 0]
    assert queue.take() is None, "no cell is judged while its blocks run"


def test_configs_that_lost_a_race_run_no_further_but_for_what_is_run_again(
    plan_of: MakePlan, tmp_path: Path
) -> None:
    race = {"out": frozenset({"benchmark=true"})}
    queue, _, first = looking(plan_of, tmp_path, [race])
    assert queue.raced_out(first[0]) == []
    block = queue.take()
    assert block is not None
    trials = dict(looking_plan(plan_of).blocks())[block]
    out = [trial.trial_id for trial in trials if trial.config.benchmark]
    assert queue.raced_out(block) == out
    again, _, _ = looking(plan_of, tmp_path, [race], retries=dict.fromkeys(out, 1))
    again.take()
    assert again.raced_out(block) == []


@pytest.mark.parametrize(
    ("is_race", "looks", "begun", "resumes"),
    [
        (True, LOOKS, 1, True),
        (True, LOOKS, 0, False),
        (True, (), 1, False),
        (False, LOOKS, 1, False),
    ],
)
def test_records_are_read_before_the_first_block_only_to_resume_a_race(
    plan_of: MakePlan,
    tmp_path: Path,
    is_race: bool,
    looks: tuple[int, ...],
    begun: int,
    resumes: bool,
) -> None:
    """The configs that lost are then left out of the first block, too."""
    plan = replace(looking_plan(plan_of), looks=looks, is_race=is_race)
    session = session_of(plan, "resumed", tmp_path)
    (cell_id,) = plan.cell_ids()
    asked: list[str] = []

    def ask() -> dict[str, Any]:
        asked.append(cell_id)
        return {cell_id: SimpleNamespace(out=frozenset({"benchmark=true"}))}

    queue = BlockQueue(replace(session, begun={cell_id: begun} if begun else {}), ask)
    assert asked == [cell_id] * resumes
    assert len(queue.raced_out(0)) == resumes


def looking_plan(plan_of: MakePlan) -> Plan:
    return plan_of("noop", replicates=LOOKS[-1], batch=[1])


@pytest.mark.parametrize("failures", [1, TRIES - 1, TRIES])
def test_results_that_are_being_written_are_read_again_a_few_times(
    plan_of: MakePlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    waits: list[float] = []
    of_time = SimpleNamespace(sleep=waits.append)  # other threads sleep, too
    monkeypatch.setattr("cudnn_sweep.orchestrator.slots.next_block.time", of_time)
    left = [OSError("torn")] * failures

    def ask() -> dict[str, Any]:
        if left:
            raise left.pop()
        return {}

    plan = replace(looking_plan(plan_of), looks=LOOKS)
    queue = BlockQueue(session_of(plan, "torn", tmp_path), ask)
    for _ in range(LOOKS[0]):
        block = queue.take()
        assert block is not None
        queue.done(block)
    if failures < TRIES:
        assert queue.take() is None
    else:
        with pytest.raises(OSError, match="torn"):
            queue.take()
    assert len(waits) == min(failures, TRIES - 1)
