"""Which plans to ban, so that without a search each operation takes the fastest one that it can have.

Without a search PyTorch takes the first plan of cuDNN's list that runs. A ban holds for the whole process, so a plan
that one operation should not take may be the one that another needs: then what all operations take together
decides. Greedy: of all ways to bring one operation to a faster plan, by banning what stands in front of it, the one
that saves most is taken, until none saves anything that matters.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

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
        medians = self._medians()
        return self.calls * medians.get(plan, UNTIMED * max(medians.values(), default=0.0))

    def _medians(self) -> dict[str, float]:
        return {plan: sorted(times)[len(times) // 2] for plan, times in self.timed_ms.items()}

    @property
    def fastest(self) -> str:
        return min(self.plans, key=self.ms)

    def taken(self, rules: Iterable[Rule], version: int) -> str | None:
        return next((plan for plan in self.plans if not _banned(plan, rules, version)), None)

    def saw(self, took: str, expected: str | None) -> None:
        """A process without a search took another plan than this list says: it is tried earlier."""
        if took in self.plans:
            self.plans.remove(took)
        at = self.plans.index(expected) if expected in self.plans else len(self.plans)
        self.plans.insert(at, took)


def _banned(plan: str, rules: Iterable[Rule], version: int) -> bool:
    return any(rule.bans(plan, version) for rule in rules)


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
    for number, plan in first:
        bans = search.bans_for(number, plan)
        if bans is not None:
            search.banned |= bans
            search.kept[number] = operations[number].plans.index(plan)
    while better := search.best_step():
        search.banned |= better
    search.prune()
    rules = tuple(sorted((Rule.against(plan, version) for plan in search.banned), key=str))
    taken = tuple(each.taken(rules, version) for each in operations)
    lost = tuple(
        (math.inf if plan is None else each.ms(plan)) - each.ms(each.fastest)
        for each, plan in zip(operations, taken, strict=True)
    )
    return Choice(rules=rules, taken=taken, ms=search.cost(search.banned), lost_ms=lost)


class _Search:
    """Sets of banned plans, each by a rule of its own."""

    def __init__(self, operations: Sequence[Operation], version: int) -> None:
        self._plans = [each.plans for each in operations]
        self._ms = [[each.ms(plan) for plan in each.plans] for each in operations]
        self._hits: dict[str, dict[int, int]] = {}
        """By plan that is banned: of each operation that it concerns the plans that go, as bits."""
        for ban in {plan for plans in self._plans for plan in plans}:
            rule = Rule.against(ban, version)
            hits = {
                number: sum(
                    1 << at for at, plan in enumerate(each.plans) if rule.bans(plan, version)
                )
                for number, each in enumerate(operations)
                if each.name == rule.operation
            }
            self._hits[ban] = {number: bits for number, bits in hits.items() if bits}
        self.banned: set[str] = set()
        self.kept: dict[int, int] = {}
        """Of operations that are decided: the place of their plan."""

    def cost(self, banned: set[str]) -> float:
        return sum(self._costs(banned, range(len(self._plans))).values())

    def _costs(self, banned: set[str], numbers: Iterable[int]) -> dict[int, float]:
        return {number: self._cost(number, self._gone(number, banned)) for number in numbers}

    def _gone(self, number: int, banned: set[str]) -> int:
        bits = 0
        for ban in banned:
            bits |= self._hits[ban].get(number, 0)
        return bits

    def _cost(self, number: int, gone: int) -> float:
        first = (~gone & (gone + 1)).bit_length() - 1
        if self.kept.get(number, first) != first:
            return math.inf
        times = self._ms[number]
        return times[first] if first < len(times) else math.inf

    def bans_for(self, number: int, plan: str) -> set[str] | None:
        """What bans all that stands in front of a plan; None where that, or a ban there is, bans it too."""
        plans, gone = self._plans[number], self._gone(number, self.banned)
        at = plans.index(plan)
        needed = {ahead for place, ahead in enumerate(plans[:at]) if not gone >> place & 1}
        return None if (gone | self._gone(number, needed)) >> at & 1 else needed

    def best_step(self) -> set[str] | None:
        """The further bans that save most, where they save anything that matters."""
        now = self._costs(self.banned, range(len(self._plans)))
        gone = [self._gone(number, self.banned) for number in now]
        best, most = None, LEAST_GAIN * sum(now.values())
        seen: set[frozenset[str]] = set()
        for number, times in enumerate(self._ms):
            for plan, ms in zip(self._plans[number], times, strict=True):
                bans = self.bans_for(number, plan) if ms < now[number] else None
                if not bans or frozenset(bans) in seen:
                    continue
                seen.add(frozenset(bans))
                concerned = {each for ban in bans for each in self._hits[ban]}
                saved = sum(
                    now[each] - self._cost(each, gone[each] | self._gone(each, bans))
                    for each in concerned
                )
                if saved > most:
                    best, most = bans, saved
        return best

    def prune(self) -> None:
        """Drop each ban without which nothing is slower."""
        for ban in sorted(self.banned):
            if self.cost(self.banned - {ban}) <= self.cost(self.banned):
                self.banned = self.banned - {ban}
