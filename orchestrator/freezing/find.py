"""Finds the rules: searches in several processes, times the best plans once more, bans what stands in front of
them, and sees what a process without a search then takes.
"""

import itertools
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from statistics import median, median_high

from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.freezing.probe import Probe
from cudnn_sweep.workloads.cells.config import CudnnConfig
from cudnn_sweep.workloads.cells.errata import Rule, text_of
from cudnn_sweep.workloads.cells.measurement import LogPass, TimedPlan
from cudnn_sweep.workloads.records.measured import LoggedChoice

SEARCHES = 3  # processes that time all plans of a search
AGAIN = 3  # that time the best of them once more
BEST = 1.1  # times the fastest: plans that are timed once more
ROUNDS = 10  # processes without a search, until they take what is expected
CONFLICTS = 2  # operations that come first once, to see what that costs the others
MATTERS = 0.005  # of the time of all operations
TURNS = 3  # of whole steps, one process each

LEAST_GAIN = 0.001  # of the time of all operations, of one more ban
UNTIMED = 10.0  # times the slowest plan known: what a plan is taken to need that no search timed


@dataclass(kw_only=True, slots=True)
class Operation:
    """One operation at one shape: its plans in the order in which PyTorch tries them."""

    name: str
    plans: list[str]
    calls: int = 1
    """In a step."""
    timed_ms: dict[str, list[float]] = field(default_factory=dict)

    def ms(self, plan: str) -> float:
        """Of all its calls: by the median of what searches saw."""
        medians = {each: median_high(times) for each, times in self.timed_ms.items()}
        return self.calls * medians.get(plan, UNTIMED * max(medians.values(), default=0.0))

    @property
    def fastest(self) -> str:
        return min(self.plans, key=self.ms)

    def taken(self, rules: Collection[Rule], version: int) -> str | None:
        return next(
            (plan for plan in self.plans if not any(rule.bans(plan, version) for rule in rules)),
            None,
        )

    def saw(self, took: str, expected: str | None) -> None:
        """A process without a search took another plan than this list says: it is tried earlier."""
        if took in self.plans:
            self.plans.remove(took)
        at = self.plans.index(expected) if expected in self.plans else len(self.plans)
        self.plans.insert(at, took)


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    rules: tuple[Rule, ...]
    taken: tuple[str | None, ...]
    """The plan of each operation."""
    ms: float
    """Of all operations, by the searches' times."""
    lost_ms: tuple[float, ...]
    """Of each operation: to its fastest plan."""


class _Search:
    """Over sets of banned plans, each by a rule of its own."""

    def __init__(self, operations: Sequence[Operation], version: int) -> None:
        self._ms = [{plan: each.ms(plan) for plan in each.plans} for each in operations]
        plans = {plan for times in self._ms for plan in times}
        self._rules = {plan: Rule.against(plan, version) for plan in plans}
        self._hits = {
            ban: {plan for plan in plans if rule.bans(plan, version)}
            for ban, rule in self._rules.items()
        }
        self.decided: dict[int, str] = {}
        """The plans of operations that keep theirs."""

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
        """These bans, changed so that an operation takes this plan; None where none do."""
        kept = {ban for ban in banned if plan not in self._hits[ban]}
        before = set(itertools.takewhile(lambda each: each != plan, self._ms[number]))
        ahead = before - self._gone(kept)
        return None if plan in self._gone(ahead) else kept | ahead

    def improved(self, banned: set[str]) -> set[str]:
        """Step by step the change that saves most, until none saves anything that matters."""
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
        """Without each ban without which nothing is slower."""
        for ban in sorted(banned):
            if self.cost(banned - {ban}) <= self.cost(banned):
                banned = banned - {ban}
        return banned


@dataclass(frozen=True, kw_only=True, slots=True)
class Frozen:
    """What was found: nothing to ban where `rules` is empty."""

    rules: tuple[Rule, ...]
    plans: tuple[str, ...]
    """Of each operation, as a process without a search took them under the rules."""
    cannot: tuple[str, ...]
    """Operations whose fastest plan another one must not take, or the reverse."""

    @property
    def text(self) -> str:
        return text_of(self.rules)


def find_rules(probe: Probe, version: int, say: Callable[[str], None]) -> Frozen:
    """`version`: of cuDNN, such as 91900. Raises SpecError where a process fails."""
    on, off = CudnnConfig(benchmark=True), CudnnConfig(benchmark=False)
    say(f"Searching in {SEARCHES} processes.")
    operations = merged([probe.log(on) for _ in range(SEARCHES)])
    slow = _slow(operations, version)
    say(f"Timing the best plans of {len(operations)} operations again, in {AGAIN} processes.")
    chosen_again = CudnnConfig(benchmark=True, errata=text_of(slow))
    add(operations, [probe.log(chosen_again) for _ in range(AGAIN)])
    see(operations, (), version, probe.log(off))
    choice, plans = settle(probe, operations, version)
    total = choice.ms
    conflicts = sorted(range(len(operations)), key=lambda each: -choice.lost_ms[each])
    hard = [each for each in conflicts if choice.lost_ms[each] > MATTERS * total]
    found = {choice.rules: (choice, plans)}
    for number in hard[:CONFLICTS]:
        first = [(number, operations[number].fastest)]
        other, others_plans = settle(probe, operations, version, first)
        found.setdefault(other.rules, (other, others_plans))
    if len(found) > 1:
        say(f"Timing whole steps under {len(found)} sets of rules, in turns.")
        times: dict[tuple[Rule, ...], list[float]] = {rules: [] for rules in found}
        for _ in range(TURNS):
            for rules, ms in times.items():
                ms.append(probe.step_ms(CudnnConfig(errata=text_of(rules))))
        choice, plans = found[min(times, key=lambda rules: median(times[rules]))]
    cannot = [
        f"{operations[each].name} {each + 1}"
        for each in conflicts
        if choice.lost_ms[each] > MATTERS * total
    ]
    return Frozen(
        rules=choice.rules,
        plans=tuple(plans),
        cannot=tuple(cannot),
    )


def merged(logs: Sequence[LogPass]) -> list[Operation]:
    calls = logs[0].calls or itertools.repeat(1)
    operations = [
        Operation(name=choice.operation, plans=[plan.engine for plan in plans], calls=count)
        for (choice, plans), count in zip(_each(logs[0]), calls, strict=False)
    ]
    add(operations, logs)
    return operations


def add(operations: list[Operation], logs: Sequence[LogPass]) -> None:
    """What further processes timed. Raises SpecError where they ran other operations."""
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
    """Bans of what is far from the best of its operation, and concerns no plan that is not."""
    best = {
        plan
        for each in operations
        for plan in each.timed_ms
        if each.ms(plan) <= BEST * each.ms(each.fastest)
    }
    others = {plan for each in operations for plan in each.plans} - best
    rules = {Rule.against(plan, version) for plan in others}
    return {rule for rule in rules if not any(rule.bans(plan, version) for plan in best)}


def settle(
    probe: Probe,
    operations: list[Operation],
    version: int,
    first: Sequence[tuple[int, str]] = (),
) -> tuple[Choice, list[str]]:
    """Rules, and the plans that a process takes under them."""
    for _ in range(ROUNDS):
        choice = choose(operations, version, first)
        log = probe.log(CudnnConfig(errata=text_of(choice.rules)))
        if not see(operations, choice.rules, version, log):
            break
    return choice, [each.engine for each in log.logged_choices or []]


def _check_same(operations: Sequence[Operation], log: LogPass) -> None:
    names = [choice.operation for choice in log.logged_choices or []]
    if names != [operation.name for operation in operations]:
        raise SpecError(
            f"found {len(names)} convolution operations in one process and {len(operations)} in another: "
            "the choice can be kept only if each process calls the same ones in the same order"
        )


def see(operations: list[Operation], rules: Sequence[Rule], version: int, log: LogPass) -> bool:
    """Return whether a process without a search took other plans than the operations' lists say, and correct the lists.

    Raises SpecError if it ran other operations.
    """
    _check_same(operations, log)
    is_other = False
    for operation, choice in zip(operations, log.logged_choices or [], strict=True):
        expected = operation.taken(rules, version)
        if choice.engine != expected:
            operation.saw(choice.engine, expected)
            is_other = True
    return is_other


def choose(
    operations: Sequence[Operation], version: int, first: Sequence[tuple[int, str]] = ()
) -> Choice:
    """Which plans to ban, so that without a search each operation takes the fastest one that it can have.

    Without a search PyTorch takes the first plan of cuDNN's list that runs. A ban holds for the whole process, so a
    plan that one operation should not take may be the one that another needs: then what all operations take together
    decides. Of all ways to bring one operation to a faster plan, by banning what stands in front of it and no longer
    what it needs, the one that saves most is taken, until none saves anything that matters.

    `version`: of cuDNN. `first`: operations, by number, whose plan is decided before all others'.
    """
    search = _Search(operations, version)
    banned: set[str] = set()
    for number, plan in first:
        if (reached := search.reaching(number, plan, banned)) is not None:
            banned = reached
            search.decided[number] = plan
    banned = search.pruned(search.improved(banned))
    taken = tuple(each.taken(search.rules(banned), version) for each in operations)
    lost = tuple(
        (math.inf if plan is None else each.ms(plan)) - each.ms(each.fastest)
        for each, plan in zip(operations, taken, strict=True)
    )
    return Choice(rules=search.rules(banned), taken=taken, ms=search.cost(banned), lost_ms=lost)
