"""Which sweep a launch goes on with, and why; blocks that were split over GPUs or launches run again whole."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias
from unittest.mock import create_autospec

import pytest
from rich.console import Console

from cudnn_sweep.analysis.results.verdicts import Verdict
from cudnn_sweep.analysis.store.progress import MOST_REPEATS, blocks_of
from cudnn_sweep.analysis.store.store import Store
from cudnn_sweep.cluster.launch_file import LaunchFile
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.planning.options import LaunchOptions
from cudnn_sweep.orchestrator.planning.plan import Plan, Trial, narrow, read_shard
from cudnn_sweep.orchestrator.planning.request import Planned, request_of
from cudnn_sweep.orchestrator.planning.session import Session, session_of
from cudnn_sweep.orchestrator.planning.spec import SweepSpec
from cudnn_sweep.orchestrator.planning.sweep_selection import choose_sweep
from cudnn_sweep.orchestrator.process.protocol import Status
from cudnn_sweep.orchestrator.recording.recorder import Progress
from cudnn_sweep.orchestrator.running.run_sweep import OpenSweep, Place
from cudnn_sweep.orchestrator.terminal.summary import split_lines
from cudnn_sweep.workloads.hardware.environment import Environment, capture_environment
from cudnn_sweep.workloads.survey import Survey
from tests.makers import MakePlan, RecordOf

HERE = capture_environment()
Put = Callable[..., None]


@pytest.fixture
def put(record_of: RecordOf) -> Put:
    """Store the first `count` trials of a plan, or of a shard of it."""

    def put_first(
        store: Store,
        plan: Plan,
        count: int,
        *,
        sweep_id: str = "earlier",
        shard: str | None = None,
        **how: Any,
    ) -> None:
        options = LaunchOptions(shard=shard)
        session = replace(session_of(plan, sweep_id, Path("/nowhere")), shard=options.own_shard)
        for trial in options.part(plan).trials[:count]:
            store.write(record_of(session, trial, **how))

    return put_first


def choose(
    store: Store,
    plan: Plan,
    chosen: Plan | None = None,
    where: Environment = HERE,
    **selection: object,
) -> Session:
    machine = Survey(environment=where, gpus=[], gpu_uuids=[], workloads={})
    options = LaunchOptions(**selection)  # type: ignore[arg-type]
    request = request_of(LaunchFile(path=Path(), sweep=SweepSpec(), ray_part={}), options)
    planned = Planned(
        request=request, machine=machine, preload=(), whole=plan, chosen=chosen or plan
    )
    return choose_sweep(store, planned)


@pytest.mark.parametrize(
    ("stored", "new", "reason"),
    [
        (0, False, "no earlier sweep of this plan"),
        (3, True, "a new sweep"),
        (7, False, "earlier is complete"),
    ],
)
def test_a_sweep_is_opened_where_none_is_unfinished_or_a_new_one_is_asked_for(
    store: Store, plan: Plan, put: Put, stored: int, new: bool, reason: str
) -> None:
    put(store, plan, stored)
    choice = choose(store, plan, new=new)
    assert not choice.resumed and choice.plan == plan
    assert reason in choice.reason


def test_unfinished_sweep_goes_on_with_what_it_lacks(store: Store, plan: Plan, put: Put) -> None:
    put(store, plan, 3)
    choice = choose(store, plan)
    assert choice.resumed and choice.sweep_id == "earlier"
    assert choice.plan.trials == plan.trials[3:]
    assert choice.plan_trials == len(plan.trials)
    assert "3 of 7 trials are recorded" in choice.reason


@pytest.mark.parametrize(
    ("elsewhere", "reason"),
    [
        (replace(HERE, torch="1.0"), "that sweep ran with other software than this launch"),
        (replace(HERE, gpu_memory_bytes=1), "that sweep ran on other hardware than this launch"),
    ],
)
def test_sweep_of_another_environment_is_left_alone(
    store: Store, plan: Plan, put: Put, elsewhere: Environment, reason: str
) -> None:
    put(store, plan, 3, where=elsewhere)
    choice = choose(store, plan)
    assert not choice.resumed
    assert reason in choice.reason
    with pytest.raises(SpecError, match=reason):
        choose(store, plan, resume="earlier")


def test_failures_stay_until_they_are_to_be_retried(store: Store, plan: Plan, put: Put) -> None:
    put(store, plan, len(plan.trials), status="crash")
    assert not choose(store, plan).resumed
    choice = choose(store, plan, retry_failed=True)
    assert choice.resumed and choice.plan == plan
    assert set(choice.retries.values()) == {1}


def test_one_failed_trial_of_a_narrowed_sweep_can_be_retried(
    store: Store, plan: Plan, put: Put
) -> None:
    part = narrow(plan, [("benchmark", "true")])
    put(store, part, len(part.trials), status="timeout")
    trial = part.trials[1]
    one = narrow(plan, [("trial_id", trial.trial_id)])
    choice = choose(store, plan, one, resume="earlier", retry_failed=True)
    assert choice.plan.trials == (trial,)
    assert choice.plan_hash == part.plan_hash


def test_a_narrowed_sweep_has_as_many_cells_as_are_left(store: Store, plan_of: MakePlan) -> None:
    """Its verdicts are corrected for those, and no others are counted as open."""
    whole = plan_of("conv", problem="tutorials/rgb224", batch=1, regime=["fixed", "cycle"])
    part = narrow(whole, [("regime", "fixed")])
    assert len(whole.cell_ids()) == 2
    for chosen, cells in ((part, 1), (whole, 2)):
        assert choose(store, whole, chosen).of_cells == cells


def test_sweep_that_cannot_be_resumed_is_named(store: Store, plan: Plan, put: Put) -> None:
    put(store, narrow(plan, [("benchmark", "true")]), 1)
    with pytest.raises(SpecError, match="there is no such sweep. Newest sweeps: earlier"):
        choose(store, plan, resume="latest")
    with pytest.raises(SpecError, match="has a different plan than this launch"):
        choose(store, plan, resume="earlier")


def test_any_shard_opens_the_sweep_and_each_runs_its_own(
    store: Store, plan: Plan, put: Put
) -> None:
    third, first = (choose(store, plan, sweep_id="shared", shard=text) for text in ("3/3", "1/3"))
    assert not third.resumed and third.sweep_id == "shared"
    assert (third.plan_hash, third.plan_trials) == (plan.plan_hash, len(plan.trials))
    assert third.plan == third.own
    assert f"shard 3/3 runs {len(third.own.trials)} of the plan's 7" in third.reason

    put(store, plan, len(plan.trials), sweep_id="shared", shard="3/3")
    again = choose(store, plan, sweep_id="shared", shard="3/3")
    assert again.resumed and not again.plan.trials
    assert not again.lacks(store.stored_trials("shared").values())
    beside = choose(store, plan, sweep_id="shared", shard="1/3")
    assert beside.resumed and beside.plan == first.own
    assert beside.lacks(store.stored_trials("shared").values())
    put(store, plan, 1, sweep_id="shared", shard="1/3")
    resumed = choose(store, plan, sweep_id="shared", shard="1/3")
    assert resumed.plan.trials == first.own.trials[1:]
    assert third.lock_name != first.lock_name


def test_what_no_shard_has_run_is_run_without_one(store: Store, plan: Plan, put: Put) -> None:
    put(store, plan, len(plan.trials), sweep_id="shared", shard="1/2")
    assert not choose(store, plan).resumed
    assert "shared is unfinished, but it runs in shards; --sweep-id" in choose(store, plan).reason
    rest = choose(store, plan, sweep_id="shared")
    assert rest.plan.trials == read_shard("2/2").part(plan).trials
    assert choose(store, plan, resume="shared").plan == rest.plan


def test_shard_that_does_not_fit_its_sweep_is_refused(store: Store, plan: Plan, put: Put) -> None:
    put(store, plan, 1, sweep_id="shared", shard="1/2")
    with pytest.raises(SpecError, match="--shard 1/3: shared is split into 2 shards"):
        choose(store, plan, sweep_id="shared", shard="1/3")
    with pytest.raises(SpecError, match="--sweep-id shared: that sweep has a different plan"):
        part = narrow(plan, [("benchmark", "true")])
        choose(store, plan, part, sweep_id="shared", shard="1/2")
    with pytest.raises(
        SpecError, match="--sweep-id shared: that sweep ran on other hardware than this launch"
    ):
        elsewhere = replace(HERE, gpu_memory_bytes=1)
        choose(store, plan, where=elsewhere, sweep_id="shared")


Begin: TypeAlias = "Callable[..., Launch]"


@pytest.fixture
def launch(store: Store, plan: Plan, environment: Environment, record_of: RecordOf) -> Begin:
    def begin(chosen: Plan | None = None, **selection: Any) -> "Launch":
        session = choose(store, plan, chosen, environment, **selection)
        return Launch(store, plan, session, record_of)

    return begin


class Launch:
    """Trials are stored as if they had run, on the slot that is said."""

    def __init__(self, store: Store, whole: Plan, session: Session, record_of: RecordOf) -> None:
        self.session = session
        self.store = store
        place, quiet = create_autospec(Place), Console(quiet=True)
        self.sweep = OpenSweep(
            session=session, store=store, whole=whole, place=place, console=quiet
        )
        self._record_of = record_of

    def ran(self, trials: Iterable[Trial], slot: str = "GPU-0", status: Status = "ok") -> None:
        for trial in trials:
            self.store.write(self._record_of(self.session, trial, slot=slot, status=status))

    def repeats(self) -> Plan:
        return self.sweep.repeats()


def of_block(plan: Plan, block: int) -> tuple[Trial, ...]:
    return tuple(trial for trial in plan.trials if trial.block == block)


def split(launch: Launch, plan: Plan, block: int) -> None:
    """All of the plan has run; of one block a trial on another GPU."""
    first, *rest = of_block(plan, block)
    launch.ran([first], "GPU-1")
    launch.ran(rest)
    launch.ran(trial for trial in plan.trials if trial.block != block)


def test_repeat_is_the_block_again_under_ids_of_its_own(plan: Plan, launch: Begin) -> None:
    ours = launch()
    split(ours, plan, 0)
    repeats = ours.repeats().trials
    original = of_block(plan, 0)
    assert [(t.cell, t.config, t.twin) for t in repeats] == [
        (t.cell, t.config, t.twin) for t in original
    ]
    (block,) = {trial.block for trial in repeats}
    assert {trial.repeats_block for trial in repeats} == {0}
    assert block not in {trial.block for trial in plan.trials}
    assert not {t.trial_id for t in repeats} & {t.trial_id for t in plan.trials}
    assert not {t.position for t in repeats} & {t.position for t in plan.trials}
    begins_a_cache = [t.cache_generation == t.replicate for t in original]
    assert [t.cache_generation == t.replicate for t in repeats] == begins_a_cache == [True] * 3
    assert launch(resume=ours.session.sweep_id).repeats().trials == repeats, "whoever goes on"


@pytest.mark.slow
def test_repeated_block_pairs_once_and_nothing_is_lost(
    store: Store, plan: Plan, launch: Begin
) -> None:
    ours = launch()
    split(ours, plan, 1)
    assert list(split_lines(store.stored_trials(ours.session.sweep_id).values())) == [
        "Split over GPUs or launches: 1 of 3 blocks (33.3%); 0 of them were repeated as a whole."
    ]
    ours.ran(ours.repeats().trials)
    stored = store.stored_trials(ours.session.sweep_id)
    assert {trial.trial_id for trial in plan.trials} <= stored.keys()
    (verdict,) = Verdict.of(store)
    assert (verdict.blocks, verdict.split_blocks) == (3, 1)
    assert not ours.repeats().trials
    (state,) = store.sweeps()
    assert (state.recorded, state.finished) == (len(plan.trials), True)
    assert "1 of 3 blocks (33.3%); 1 of them were repeated" in next(split_lines(stored.values()))
    assert "is complete" in launch().session.reason


def test_launch_after_an_interrupt_goes_on_with_the_repeats(plan: Plan, launch: Begin) -> None:
    """A repeat that was cut short is split itself: the next one is whole, and there is a last one."""
    ours = launch()
    split(ours, plan, 2)
    seen = []
    for _ in range(MOST_REPEATS):
        later = launch()
        assert later.session.sweep_id == ours.session.sweep_id and not later.session.plan.trials
        repeats = later.repeats().trials
        seen.append({trial.block for trial in repeats})
        later.ran(repeats[:1])
    assert not seen[0] & seen[1]
    assert not later.repeats().trials
    assert not launch().session.resumed


def test_block_that_a_launch_finished_for_another_is_repeated(plan: Plan, launch: Begin) -> None:
    launch().ran(plan.trials[:4])
    resumed = launch()
    assert not resumed.repeats().trials, "a block that lacks a trial waits for it"
    resumed.ran(resumed.session.plan.trials)
    (block,) = {trial.repeats_block for trial in resumed.repeats().trials}
    assert block == plan.trials[4].block


def test_trials_that_failed_split_no_block(store: Store, plan: Plan, launch: Begin) -> None:
    ours = launch()
    first, second, *rest = plan.trials
    ours.ran([first], "GPU-1", status="crash")
    ours.ran([second, *rest])
    (twin,) = {trial.block for trial in plan.trials if trial.twin}
    assert blocks_of(store.stored_trials(ours.session.sweep_id).values()).split == ()
    assert twin == first.block, "two of its three trials are ok, on one GPU"


def test_part_of_a_block_is_never_repeated_alone(plan: Plan, launch: Begin) -> None:
    ours = launch()
    ours.ran(plan.trials[:-1])
    ours.ran(plan.trials[-1:], status="crash")
    one = narrow(plan, [("trial_id", plan.trials[-1].trial_id)])
    retry = launch(one, resume=ours.session.sweep_id, retry_failed=True)
    retry.ran(retry.session.plan.trials)
    assert not retry.repeats().trials
    whole = launch(resume=ours.session.sweep_id)
    assert {trial.repeats_block for trial in whole.repeats().trials} == {plan.trials[-1].block}


def test_shard_repeats_its_own_blocks(plan: Plan, launch: Begin) -> None:
    mine, other = (launch(sweep_id="shared", shard=text) for text in ("1/2", "2/2"))
    split(mine, plan, mine.session.own.trials[0].block)
    assert mine.repeats().trials
    assert not other.repeats().trials


def test_rounds_end_when_nothing_is_split_or_the_time_is_up(plan: Plan, launch: Begin) -> None:
    ours = launch()
    ran: list[Plan] = []

    def run(each: Session, left_s: float | None) -> Progress:
        ran.append(each.plan)
        if each.plan == plan:
            split(ours, plan, 0)
        else:
            ours.ran(each.plan.trials)
        return Progress(statuses={"ok": len(each.plan.trials)}, lost=1)

    progress = ours.sweep.run_rounds(run, None)
    assert [len(each.trials) for each in ran] == [7, 3]
    assert (progress.recorded, progress.lost) == (10, 2)
    assert ours.sweep.run_rounds(run, -1.0).recorded == 0

    def stop(each: Session, left_s: float | None) -> Progress:
        return Progress(stopped="the disk is full")

    stopped = ours.sweep.run_rounds(stop, 60.0)
    assert stopped.stopped == "the disk is full"
