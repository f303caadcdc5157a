"""Which rules are found, on made-up processes whose best choice is known."""

import itertools
import random

import pytest

from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.freezing.find import (
    BEST,
    Frozen,
    Operation,
    _slow,
    choose,
    find_rules,
    merged,
    see,
    settle,
)
from cudnn_sweep.workloads.cells.config import Config
from cudnn_sweep.workloads.cells.errata import Rule
from tests.orchestrator.freezing.fake_probe import VERSION, FakeProbe


def _found(probe: FakeProbe) -> Frozen:
    return find_rules(probe, VERSION, lambda text: None)


def _texts(frozen: Frozen) -> list[str]:
    return [str(rule).removesuffix(f"@{VERSION}") for rule in frozen.rules]


EQUAL = {"ConvFwd_eng1": 1.0, "ConvFwd_eng2": 1.0}
SLOW_FIRST = {"ConvFwd_eng1": 3.0, "ConvFwd_eng2_k2=1": 2.0, "ConvFwd_eng3": 1.0}
OTHERS = {"ConvBwdData_eng1": 1.0, "ConvBwdData_eng2": 2.0}
FAST_FIRST = {"ConvFwd_eng1": 1.0, "ConvFwd_eng2": 5.0, "ConvFwd_eng3": 4.0}
KNOBS_FIRST = {"ConvFwd_eng5_k2=16": 3.0, "ConvFwd_eng5_k2=1": 2.0, "ConvFwd_eng0": 1.0}
KNOBS = {"ConvFwd_eng5_k2=1": 2.0, "ConvFwd_eng5_k2=16": 1.0, "ConvFwd_eng0": 3.0}


@pytest.mark.parametrize(
    ("operations", "hidden", "rules", "plans"),
    [
        ([EQUAL] * 3, {}, [], ["ConvFwd_eng1"] * 3),
        (
            [SLOW_FIRST, OTHERS],
            {},
            ["ConvFwd:1", "ConvFwd:2:k2=1"],
            ["ConvFwd_eng3", "ConvBwdData_eng1"],
        ),
        # a process without a search takes another plan than a search lists first
        ([FAST_FIRST], {0: "ConvFwd_eng2"}, ["ConvFwd:2"], ["ConvFwd_eng1"]),
        # `k2=1` also bans `k2=16`, as the frontend looks for the text
        ([KNOBS], {}, [], ["ConvFwd_eng5_k2=1"]),
        # so a ban of `k2=16` beside it is needless
        ([KNOBS_FIRST], {}, ["ConvFwd:5:k2=1"], ["ConvFwd_eng0"]),
    ],
)
def test_what_stands_in_front_of_the_fastest_plan_is_banned(
    operations: list[dict[str, float]], hidden: dict[int, str], rules: list[str], plans: list[str]
) -> None:
    frozen = _found(FakeProbe(operations=operations, hidden=hidden))
    assert _texts(frozen) == rules
    assert list(frozen.plans) == plans
    assert frozen.cannot == (("ConvFwd 1",) if KNOBS in operations else ())
    assert all(rule.end == VERSION + 1 for rule in frozen.rules), "for this version alone"


@pytest.mark.parametrize(("gain", "kept"), [(5.0, "ConvFwd_eng2"), (0.1, "ConvFwd_eng1")])
def test_a_conflict_is_decided_by_what_all_operations_gain(gain: float, kept: str) -> None:
    """The second operation is fastest with what the first one must not take."""
    probe = FakeProbe(
        operations=[
            {"ConvFwd_eng1": 1.0 + gain, "ConvFwd_eng2": 1.0},
            {"ConvFwd_eng1": 1.0, "ConvFwd_eng2": 2.0},
        ]
    )
    frozen = _found(probe)
    assert frozen.plans == (kept, kept)
    assert frozen.cannot == (("ConvFwd 2",) if gain > 1 else ("ConvFwd 1",))


def test_whole_steps_decide_where_searches_do_not_know_how_often_a_layer_comes() -> None:
    """Each operation is in the log once, but a step may call it many times."""
    operations = [
        {"ConvFwd_eng1": 1.5, "ConvFwd_eng2": 1.0},
        {"ConvFwd_eng1": 1.0, "ConvFwd_eng2": 1.4},
    ]
    probe = FakeProbe(operations=operations, repeats=[1, 10])
    assert _found(probe).plans == ("ConvFwd_eng1", "ConvFwd_eng1")
    assert len(probe.timed) >= 6, "sets of rules take turns"
    again = FakeProbe(operations=operations, repeats=[10, 1])
    assert _found(again).plans == ("ConvFwd_eng2", "ConvFwd_eng2")


def test_the_best_plans_are_timed_again_alone() -> None:
    probe = FakeProbe(operations=[{"ConvFwd_eng1": 9.0, "ConvFwd_eng2": 1.0, "ConvFwd_eng3": 1.05}])
    _found(probe)
    searches = [config for config in probe.logged if config.benchmark]
    assert [config.errata for config in searches] == [None] * 3 + [f"ConvFwd:1@{VERSION}"] * 3


def test_processes_that_call_different_operations_are_an_error() -> None:
    one = FakeProbe(operations=[{"ConvFwd_eng1": 1.0}]).log(Config())
    two = FakeProbe(operations=[{"ConvBwdData_eng1": 1.0}]).log(Config())
    with pytest.raises(SpecError, match="same operations in the same order"):
        merged([one, two])


def test_greedy_is_near_the_best_of_all_sets_of_bans() -> None:
    draw = random.Random(7)
    shares = []
    for _ in range(20):
        operations = []
        for _ in range(4):
            plans = draw.sample([f"ConvFwd_eng{engine}" for engine in range(7)], 5)
            times = {plan: [draw.uniform(0.5, 2)] for plan in plans}
            operations.append(Operation(name="ConvFwd", plans=plans, timed_ms=times))
        start = choose_none(operations)
        best = min(
            cost(operations, bans)
            for count in range(8)
            for bans in itertools.combinations(range(7), count)
        )
        found = choose(operations, VERSION).ms
        shares.append((start - found) / (start - best) if start > best else 1.0)
    assert sum(shares) / len(shares) > 0.9
    assert max(shares) <= 1 + 1e-9


def cost(operations: list[Operation], engines: tuple[int, ...]) -> float:
    rules = [Rule(operation="ConvFwd", engine=engine) for engine in engines]
    taken = [each.taken(rules, VERSION) for each in operations]
    return sum(
        each.ms(plan) if plan else float("inf")
        for each, plan in zip(operations, taken, strict=True)
    )


def choose_none(operations: list[Operation]) -> float:
    return cost(operations, ())


def test_a_process_with_other_operations_is_refused() -> None:
    """Also one without a search, which shows what is taken under the rules."""
    operations = merged([FakeProbe(operations=[EQUAL, OTHERS]).log(Config(benchmark=True))])
    fewer = FakeProbe(operations=[EQUAL]).log(Config())
    with pytest.raises(SpecError, match="found 1 convolution operations in one process and 2 in"):
        see(operations, [], VERSION, fewer)


@pytest.mark.parametrize(
    ("timed", "plan", "ms"),
    [
        ({"a": [3.0, 1.0, 2.0]}, "a", 4.0),
        ({"a": [1.0, 3.0]}, "a", 6.0),
        ({"a": [1.0], "b": [2.0]}, "c", 40.0),
        ({}, "c", 0.0),
    ],
)
def test_a_plan_takes_its_median_time_and_an_untimed_one_ten_times_the_slowest(
    timed: dict[str, list[float]], plan: str, ms: float
) -> None:
    operation = Operation(name="ConvFwd", plans=["a", "b", "c"], calls=2, timed_ms=timed)
    assert operation.ms(plan) == ms


def test_a_plan_that_is_seen_comes_before_the_one_that_was_expected() -> None:
    def after(took: str, expected: str | None) -> list[str]:
        operation = Operation(name="ConvFwd", plans=["a", "b", "c"])
        operation.saw(took, expected)
        return operation.plans

    assert after("c", "a") == ["c", "a", "b"]
    assert after("d", "b") == ["a", "d", "b", "c"]
    assert after("d", None) == ["a", "b", "c", "d"]
    assert after("a", "c") == ["b", "a", "c"]


def test_steps_are_timed_only_if_sets_of_rules_compete() -> None:
    alone = FakeProbe(operations=[SLOW_FIRST])
    _found(alone)
    assert alone.timed == []


def test_a_plan_that_only_a_later_search_lists_comes_last_and_each_once() -> None:
    logs = [
        FakeProbe(operations=[plans]).log(Config(benchmark=True))
        for plans in (EQUAL, {"ConvFwd_eng9": 0.5, **EQUAL}, {"ConvFwd_eng9": 0.5})
    ]
    (operation,) = merged(logs)
    assert operation.plans == [*EQUAL, "ConvFwd_eng9"]
    assert {plan: len(times) for plan, times in operation.timed_ms.items()} == {
        "ConvFwd_eng1": 2,
        "ConvFwd_eng2": 2,
        "ConvFwd_eng9": 2,
    }


@pytest.mark.parametrize(
    ("times", "slow"),
    [
        ({"ConvFwd_eng1": 1.0, "ConvFwd_eng2": 2.0}, ["ConvFwd:2"]),
        ({"ConvFwd_eng1": 1.0, "ConvFwd_eng2": BEST}, []),
        ({"ConvFwd_eng1": 1.0, "ConvFwd_eng2": BEST + 0.01}, ["ConvFwd:2"]),
        (
            {"ConvFwd_eng2": 3.0, "ConvFwd_eng3": 2.0, "ConvFwd_eng1": 1.0},
            ["ConvFwd:2", "ConvFwd:3"],
        ),
        ({"ConvFwd_eng5_k2=1": 3.0, "ConvFwd_eng5_k2=16": 1.0}, []),
    ],
)
def test_plans_that_are_surely_slower_are_not_timed_again(
    times: dict[str, float], slow: list[str]
) -> None:
    """A rule that would hit a good plan, too, is none."""
    timed = {plan: [ms] for plan, ms in times.items()}
    operation = Operation(name="ConvFwd", plans=list(times), timed_ms=timed)
    texts = {str(rule).removesuffix(f"@{VERSION}") for rule in _slow([operation], VERSION)}
    assert texts == {*slow}


@pytest.mark.parametrize(("hidden", "processes"), [({}, 1), ({0: "ConvFwd_eng2"}, 2)])
def test_bans_are_chosen_until_a_process_takes_what_is_expected(
    hidden: dict[int, str], processes: int
) -> None:
    probe = FakeProbe(operations=[FAST_FIRST], hidden=hidden)
    operations = merged([probe.log(Config(benchmark=True))])
    probe.logged.clear()
    choice, plans = settle(probe, operations, VERSION)
    assert plans == ["ConvFwd_eng1"]
    assert len(probe.logged) == processes
    assert choice.ms == min(operations[0].timed_ms["ConvFwd_eng1"])
    assert choice.lost_ms == (0.0,)
