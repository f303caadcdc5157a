"""Processes that are made up: operations with cuDNN's list of plans, each plan with its time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cudnn_sweep.orchestrator.planning.plan import Trial
from cudnn_sweep.workloads.cells.config import Config
from cudnn_sweep.workloads.cells.errata import rules_of
from cudnn_sweep.workloads.cells.measurement import LogPass, TimedPlan
from cudnn_sweep.workloads.records.measured import LoggedChoice

VERSION = 91900


@dataclass(kw_only=True)
class FakeProbe:
    operations: Sequence[Mapping[str, float]]
    """Of each its plans in cuDNN's order, with their times in ms."""
    hidden: Mapping[int, str] = field(default_factory=dict)
    """Of an operation the plan that runs without a search before all others, though no search lists it first."""
    scatter: Sequence[float] = (1.0, 1.02, 0.98, 1.01)
    repeats: Sequence[int] = ()
    """How often a step calls each operation; once where not given."""
    logged: list[Config] = field(default_factory=list)
    timed: list[Config] = field(default_factory=list)

    def of(self, trial: Trial) -> "FakeProbe":
        return self

    def log(self, config: Config) -> LogPass:
        self.logged.append(config)
        noise = self.scatter[len(self.logged) % len(self.scatter)]
        taken = self.taken(config)
        plans = [
            [
                TimedPlan(
                    engine=plan,
                    ms=ms * noise if config.benchmark and not self._banned(config, plan) else None,
                )
                for plan, ms in each.items()
            ]
            for each in self.operations
        ]
        choices = [
            LoggedChoice(
                operation=engine.partition("_")[0],
                engine=engine,
                numeric_notes=[],
                behavior_notes=[],
                workspace_bytes=0,
            )
            for engine in taken
        ]
        return LogPass(logged_choices=choices, plans=plans)

    def step_ms(self, config: Config) -> float:
        self.timed.append(config)
        counts = self.repeats or [1] * len(self.operations)
        taken = self.taken(config)
        return sum(
            count * each[plan]
            for count, each, plan in zip(counts, self.operations, taken, strict=True)
        )

    def taken(self, config: Config) -> list[str]:
        found = []
        for number, each in enumerate(self.operations):
            allowed = [plan for plan in each if not self._banned(config, plan)]
            first = [plan for plan in allowed if plan == self.hidden.get(number)]
            best = [min(allowed, key=lambda plan: each[plan])] if config.benchmark else []
            found.append([*best, *first, *allowed][0])
        return found

    @staticmethod
    def _banned(config: Config, plan: str) -> bool:
        return any(rule.bans(plan, VERSION) for rule in rules_of(config.errata))
