"""Finds the rules: searches in several processes, times the best plans once more, bans what stands in front of
them, and sees what a process without a search then takes.
"""

import itertools
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from statistics import median_high

from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.freezing.probe import Probe
from cudnn_sweep.workloads.cells.config import CudnnConfig
from cudnn_sweep.workloads.cells.errata import Rule, text_of
from cudnn_sweep.workloads.cells.measurement import LoggedChoice, LogPass, TimedPlan

SEARCHES = 3  # processes that time all plans of a search
AGAIN = 3  # that time the best of them once more
BEST = 1.1  # times the fastest: plans that are timed once more
ROUNDS = 10  # processes without a search, until they take what is expected
MATTERS = 0.005  # of the time of all operations
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

    def rules(self, banned: set[str]) -> tuple[Rule, ...]:
        return tuple(sorted((self._rules[ban] for ban in banned), key=str))

    def cost(self, banned: set[str]) -> float:
        gone = self._gone(banned)
        return sum(self._cost(times, gone) for times in self._ms)

    def _cost(self, times: dict[str, float], gone: set[str]) -> float:
        return next((ms for plan, ms in times.items() if plan not in gone), math.inf)

    def _gone(self, banned: set[str]) -> set[str]:
        return set().union(*(self._hits[ban] for ban in banned))

    def _reaching(self, times: dict[str, float], plan: str, banned: set[str]) -> set[str] | None:
        """These bans, changed so that an operation takes this plan; None where none do."""
        kept = {ban for ban in banned if plan not in self._hits[ban]}
        before = set(itertools.takewhile(lambda each: each != plan, times))
        ahead = before - self._gone(kept)
        return None if plan in self._gone(ahead) else kept | ahead

    def improved(self, banned: set[str]) -> set[str]:
        """Step by step the change that saves most, until none saves anything that matters."""
        while True:
            present, gone = self.cost(banned), self._gone(banned)
            steps = [
                reached
                for times in self._ms
                for plan, ms in times.items()
                if ms < self._cost(times, gone)
                and (reached := self._reaching(times, plan, banned)) is not None
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
    searched_ms: dict[str, float]
    """Of all operations by the searches' times: off, frozen, and each with its fastest plan."""
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
    off_ms = sum(each.ms(each.taken((), version) or each.fastest) for each in operations)
    rules, plans = settle(probe, operations, version)
    taken_ms = [each.ms(each.taken(rules, version) or each.fastest) for each in operations]
    fastest_ms = [each.ms(each.fastest) for each in operations]
    lost_ms = [taken - fastest for taken, fastest in zip(taken_ms, fastest_ms, strict=True)]
    frozen_ms = sum(taken_ms)
    return Frozen(
        searched_ms={"off": off_ms, "frozen": frozen_ms, "fastest": sum(fastest_ms)},
        rules=rules,
        plans=plans,
        cannot=tuple(
            f"{operations[each].name} {each + 1}"
            for each in sorted(range(len(operations)), key=lambda each: -lost_ms[each])
            if lost_ms[each] > MATTERS * frozen_ms
        ),
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
        names = [choice.operation for choice, _ in _each(log)]
        if names != [each.name for each in operations]:
            raise SpecError(
                f"found {len(names)} convolution operations in one process and {len(operations)} in another: "
                "the choice can be kept only where each process calls the same ones in the same order"
            )
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
    probe: Probe, operations: list[Operation], version: int
) -> tuple[tuple[Rule, ...], tuple[str, ...]]:
    """Rules, and the plans that a process takes under them."""
    for _ in range(ROUNDS):
        rules = choose(operations, version)
        log = probe.log(CudnnConfig(errata=text_of(rules)))
        if not see(operations, rules, version, log):
            break
    return rules, tuple(each.engine for each in log.logged_choices or [])


def see(operations: list[Operation], rules: Sequence[Rule], version: int, log: LogPass) -> bool:
    """Whether a process without a search took other plans than the operations' lists say; they then do."""
    is_other = False
    for operation, choice in zip(operations, log.logged_choices or [], strict=True):
        expected = operation.taken(rules, version)
        if choice.engine != expected:
            operation.saw(choice.engine, expected)
            is_other = True
    return is_other


def choose(operations: Sequence[Operation], version: int) -> tuple[Rule, ...]:
    """Which plans of this version of cuDNN to ban, so that without a search each operation takes the fastest one
    that it can have.

    Without a search PyTorch takes the first plan of cuDNN's list that runs. A ban holds for the whole process, so a
    plan that one operation should not take may be the one that another needs: then what all operations take together
    decides. Of all ways to bring one operation to a faster plan, by banning what stands in front of it and no longer
    what it needs, the one that saves most is taken, until none saves anything that matters.
    """
    search = _Search(operations, version)
    return search.rules(search.pruned(search.improved(set())))
