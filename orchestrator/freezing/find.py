"""Finds rules that ban the plans before the fastest plan in cuDNN's list."""

import itertools
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from statistics import median, median_high
from typing import TypeAlias

from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.freezing.probe import Probe
from cudnn_sweep.workloads.cells.config import Config
from cudnn_sweep.workloads.cells.errata import Rule, text_of
from cudnn_sweep.workloads.cells.measurement import LogPass, TimedPlan
from cudnn_sweep.workloads.records.measured import LoggedChoice

SEARCHES = 3  # processes that time all plans
AGAIN = 3  # processes that time the best plans again
BEST = 1.1  # plans are timed again up to this multiple of the fastest time
ROUNDS = 10  # maximum number of attempts to reach the expected plans
CONFLICTS = 2  # operations that get priority over the others, one at a time
MATTERS = 0.005  # smaller losses are ignored, as a share of the total time
TURNS = 3  # processes that time a whole step with each set of rules
LEAST_GAIN = 0.001  # share of the total time that a change of bans must save
First: TypeAlias = Sequence[tuple[int, str]]
"""Operations with priority, as pairs of the operation's number and its required plan."""
UNTIMED = 10.0  # assumed time of an untimed plan, as a multiple of the slowest timed plan


@dataclass(kw_only=True, slots=True)
class Operation:
    """An operation at one shape. PyTorch tries its `plans` in this order."""

    name: str
    plans: list[str]
    calls: int = 1  # per step
    timed_ms: dict[str, list[float]] = field(default_factory=dict)

    def ms(self, plan: str) -> float:
        """Return the time per step with `plan`, or a high guess if the plan was not timed."""
        medians = {name: median_high(times) for name, times in self.timed_ms.items()}
        return self.calls * medians.get(plan, UNTIMED * max(medians.values(), default=0.0))

    @property
    def fastest(self) -> str:
        return min(self.plans, key=self.ms)

    def taken(self, rules: Collection[Rule], version: int) -> str | None:
        allowed = (p for p in self.plans if not any(rule.bans(p, version) for rule in rules))
        return next(allowed, None)

    def saw(self, took: str, expected: str | None) -> None:
        """Move `took`, the plan that ran, before `expected` in `plans`."""
        if took in self.plans:
            self.plans.remove(took)
        at = self.plans.index(expected) if expected in self.plans else len(self.plans)
        self.plans.insert(at, took)


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanChoice:
    rules: tuple[Rule, ...]
    ms: float
    """Time of all operations in a step."""
    lost_ms: tuple[float, ...]
    """Time that each operation loses compared with its fastest plan."""


class _Search:
    """Searches for the best set of bans. The rule against a plan may also ban other plans."""

    def __init__(self, operations: Sequence[Operation], version: int) -> None:
        self._ms = [{plan: op.ms(plan) for plan in op.plans} for op in operations]
        plans = {plan for times in self._ms for plan in times}
        self._rules = {plan: Rule.against(plan, version) for plan in plans}
        self._hits = {
            ban: {plan for plan in plans if rule.bans(plan, version)}
            for ban, rule in self._rules.items()
        }
        self.decided: dict[int, str] = {}
        """Required plans, by the number of the operation."""

    def rules(self, banned: set[str]) -> tuple[Rule, ...]:
        return tuple(sorted((self._rules[ban] for ban in banned), key=str))

    def cost(self, banned: set[str]) -> float:
        gone = self._gone(banned)
        return sum(self._cost(number, gone) for number in range(len(self._ms)))

    def _cost(self, number: int, gone: set[str]) -> float:
        first = next((plan for plan in self._ms[number] if plan not in gone), None)
        if first is None or self.decided.get(number, first) != first:
            return math.inf
        return self._ms[number][first]

    def _gone(self, banned: set[str]) -> set[str]:
        return set().union(*(self._hits[ban] for ban in banned))

    def reaching(self, number: int, plan: str, banned: set[str]) -> set[str] | None:
        """Return `banned`, changed so that operation `number` uses `plan`. None if impossible."""
        kept = {ban for ban in banned if plan not in self._hits[ban]}
        before = set(itertools.takewhile(lambda earlier: earlier != plan, self._ms[number]))
        ahead = before - self._gone(kept)
        return None if plan in self._gone(ahead) else kept | ahead

    def improved(self, banned: set[str]) -> set[str]:
        """Return a better set of bans. Each step makes the change that saves most time."""
        while True:
            present, gone = self.cost(banned), self._gone(banned)
            steps = [
                reached
                for number, times in enumerate(self._ms)
                for plan, ms in times.items()
                if ms < self._cost(number, gone)
                and (reached := self.reaching(number, plan, banned)) is not None
            ]
            best = min(steps, key=self.cost, default=banned)
            if self.cost(best) > (1 - LEAST_GAIN) * present:
                return banned
            banned = best

    def pruned(self, banned: set[str]) -> set[str]:
        """Return `banned` without the bans that save no time."""
        for ban in sorted(banned):
            if self.cost(banned - {ban}) <= self.cost(banned):
                banned = banned - {ban}
        return banned


@dataclass(frozen=True, kw_only=True, slots=True)
class Frozen:
    rules: tuple[Rule, ...]
    plans: tuple[str, ...]
    """Plan that each operation uses with `rules` and without a search."""
    cannot: tuple[str, ...]
    """Operations that do not get their fastest plan."""

    @property
    def text(self) -> str:
        return text_of(self.rules)


def find_rules(probe: Probe, version: int, say: Callable[[str], None]) -> Frozen:
    """Find rules that make cuDNN use the fastest plans without a search. Raises SpecError if a
    process fails or if processes call different operations."""
    # 1. Search, and time the best plans again.
    on, off = Config(benchmark=True), Config(benchmark=False)
    say(f"Searching for the fastest plans in {SEARCHES} processes.")
    operations = merged([probe.log(on) for _ in range(SEARCHES)])
    slow = _slow(operations, version)
    say(f"Timing the best plans of {len(operations)} operations again, in {AGAIN} processes.")
    chosen_again = Config(benchmark=True, errata=text_of(slow))
    add(operations, [probe.log(chosen_again) for _ in range(AGAIN)])
    see(operations, (), version, probe.log(off))

    # 2. Ban plans before the fastest. In a conflict, operations that lose most get priority.
    choice, plans = settle(probe, operations, version)
    total = choice.ms
    conflicts = sorted(range(len(operations)), key=lambda number: -choice.lost_ms[number])
    hard = [number for number in conflicts if choice.lost_ms[number] > MATTERS * total]
    choices = {choice.rules: (choice, plans)}
    for number in hard[:CONFLICTS]:
        settled = settle(probe, operations, version, [(number, operations[number].fastest)])
        choices.setdefault(settled[0].rules, settled)

    # 3. Time whole steps with each set of rules, and use the fastest set.
    if len(choices) > 1:
        say(f"Timing whole steps with each of {len(choices)} sets of bans.")
        times: dict[tuple[Rule, ...], list[float]] = {rules: [] for rules in choices}
        for _ in range(TURNS):
            for rules, ms in times.items():
                ms.append(probe.step_ms(Config(errata=text_of(rules))))
        choice, plans = choices[min(times, key=lambda rules: median(times[rules]))]
    lose = (number for number in conflicts if choice.lost_ms[number] > MATTERS * total)
    cannot = tuple(f"{operations[number].name} {number + 1}" for number in lose)
    return Frozen(rules=choice.rules, plans=tuple(plans), cannot=cannot)


def merged(logs: Sequence[LogPass]) -> list[Operation]:
    calls = logs[0].calls or itertools.repeat(1)
    operations = [
        Operation(name=choice.operation, plans=[plan.engine for plan in plans], calls=count)
        for (choice, plans), count in zip(_each(logs[0]), calls, strict=False)
    ]
    add(operations, logs)
    return operations


def add(operations: list[Operation], logs: Sequence[LogPass]) -> None:
    """Add plans and times from `logs`. Raises SpecError if a log has other operations."""
    for log in logs:
        _check_same(operations, log)
        for operation, (_, plans) in zip(operations, _each(log), strict=True):
            for plan in plans:
                if plan.ms is not None:
                    operation.timed_ms.setdefault(plan.engine, []).append(plan.ms)
                if plan.engine not in operation.plans:
                    operation.plans.append(plan.engine)


def _each(log: LogPass) -> list[tuple[LoggedChoice, list[TimedPlan]]]:
    return list(zip(log.logged_choices or [], log.plans, strict=True))


def _slow(operations: Sequence[Operation], version: int) -> set[Rule]:
    """Return rules against slow plans. None of them bans a plan that is fast in an operation."""
    best = {
        plan
        for operation in operations
        for plan in operation.timed_ms
        if operation.ms(plan) <= BEST * operation.ms(operation.fastest)
    }
    rest = {plan for operation in operations for plan in operation.plans} - best
    rules = {Rule.against(plan, version) for plan in rest}
    return {rule for rule in rules if not any(rule.bans(plan, version) for plan in best)}


def settle(
    probe: Probe, operations: list[Operation], version: int, first: First = ()
) -> tuple[PlanChoice, list[str]]:
    """Correct the bans until a process uses the expected plans. Return the bans and plans."""
    for _ in range(ROUNDS):
        choice = choose(operations, version, first)
        log = probe.log(Config(errata=text_of(choice.rules)))
        if not see(operations, choice.rules, version, log):
            break
    return choice, [taken.engine for taken in log.logged_choices or []]


def _check_same(operations: Sequence[Operation], log: LogPass) -> None:
    names = [choice.operation for choice in log.logged_choices or []]
    if names != [operation.name for operation in operations]:
        raise SpecError(
            f"found {len(names)} convolution operations in one process and {len(operations)} in another: "
            "plans can be saved only if each process calls the same operations in the same order"
        )


def see(operations: list[Operation], rules: Sequence[Rule], version: int, log: LogPass) -> bool:
    """Reorder plans to match `log`. Return whether any plan was unexpected. Raises SpecError."""
    _check_same(operations, log)
    is_other = False
    for operation, choice in zip(operations, log.logged_choices or [], strict=True):
        expected = operation.taken(rules, version)
        if choice.engine != expected:
            operation.saw(choice.engine, expected)
            is_other = True
    return is_other


def choose(operations: Sequence[Operation], version: int, first: First = ()) -> PlanChoice:
    """Choose the plans to ban, so that all operations together take the least time. A ban applies
    to the whole process, so it can make one operation faster and another one slower."""
    search = _Search(operations, version)
    banned: set[str] = set()
    for number, plan in first:
        if (reached := search.reaching(number, plan, banned)) is not None:
            banned = reached
            search.decided[number] = plan
    banned = search.pruned(search.improved(banned))
    rules = search.rules(banned)
    lost = tuple(
        (math.inf if plan is None else operation.ms(plan)) - operation.ms(operation.fastest)
        for operation in operations
        for plan in [operation.taken(rules, version)]
    )
    return PlanChoice(rules=rules, ms=search.cost(banned), lost_ms=lost)
