"""Which plans to ban, so that without a search each operation takes the fastest one that it can have.

Without a search PyTorch takes the first plan of cuDNN's list that runs. A ban holds for the whole process, so a plan
that one operation should not take may be the one that another needs: then what all operations take together
decides. Of all ways to bring one operation to a faster plan, by banning what stands in front of it and no longer
what it needs, the one that saves most is taken, until none saves anything that matters.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from statistics import median_high

from cudnn_sweep.workloads.cells.errata import Rule

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
        if plan in self.timed_ms:
            return self.calls * median_high(self.timed_ms[plan])
        return self.calls * (UNTIMED * max(map(median_high, self.timed_ms.values()), default=0.0))

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


def choose(
    operations: Sequence[Operation], version: int, first: Sequence[tuple[int, str]] = ()
) -> Choice:
    """`version`: of cuDNN. `first`: operations, by number, whose plan is decided before all others'."""
    search = _Search(operations, version)
    banned: set[str] = set()
    for number, plan in first:
        at = operations[number].plans.index(plan)
        if (reached := search.reaching(number, at, banned)) is not None:
            banned = reached
            search.decided[number] = at
    banned = search.pruned(search.improved(banned))
    taken = tuple(each.taken(search.rules(banned), version) for each in operations)
    lost = tuple(
        (math.inf if plan is None else each.ms(plan)) - each.ms(each.fastest)
        for each, plan in zip(operations, taken, strict=True)
    )
    return Choice(rules=search.rules(banned), taken=taken, ms=search.cost(banned), lost_ms=lost)


class _Search:
    """Over sets of banned plans, each by a rule of its own."""

    def __init__(self, operations: Sequence[Operation], version: int) -> None:
        self._plans = [each.plans for each in operations]
        self._ms = [[each.ms(plan) for plan in each.plans] for each in operations]
        self._rules = {
            plan: Rule.against(plan, version) for each in operations for plan in each.plans
        }
        self._hits: dict[str, dict[int, int]] = {}
        """By plan that is banned: of each operation that it concerns the plans that go, as bits."""
        for ban, rule in self._rules.items():
            hits = {
                number: sum(
                    1 << at for at, plan in enumerate(each.plans) if rule.bans(plan, version)
                )
                for number, each in enumerate(operations)
                if each.name == rule.operation
            }
            self._hits[ban] = {number: bits for number, bits in hits.items() if bits}
        self.decided: dict[int, int] = {}
        """Of operations that keep their plan: its place."""

    def rules(self, banned: set[str]) -> tuple[Rule, ...]:
        return tuple(sorted((self._rules[ban] for ban in banned), key=str))

    def cost(self, banned: set[str]) -> float:
        return sum(self._cost(number, banned) for number in range(len(self._plans)))

    def _cost(self, number: int, banned: set[str]) -> float:
        gone = self._gone(number, banned)
        first = (~gone & (gone + 1)).bit_length() - 1
        if first == len(self._ms[number]) or self.decided.get(number, first) != first:
            return math.inf
        return self._ms[number][first]

    def _gone(self, number: int, banned: set[str]) -> int:
        bits = 0
        for ban in banned:
            bits |= self._hits[ban].get(number, 0)
        return bits

    def reaching(self, number: int, at: int, banned: set[str]) -> set[str] | None:
        """These bans, changed so that an operation takes the plan at this place; None where none do."""
        kept = {ban for ban in banned if not self._hits[ban].get(number, 0) >> at & 1}
        gone = self._gone(number, kept)
        ahead = {
            plan for place, plan in enumerate(self._plans[number][:at]) if not gone >> place & 1
        }
        return None if self._gone(number, ahead) >> at & 1 else kept | ahead

    def improved(self, banned: set[str]) -> set[str]:
        """Step by step the change that saves most, until none saves anything that matters."""
        while True:
            present = self.cost(banned)
            steps = [
                reached
                for number, times in enumerate(self._ms)
                for at, ms in enumerate(times)
                if ms < self._cost(number, banned)
                and (reached := self.reaching(number, at, banned)) is not None
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
