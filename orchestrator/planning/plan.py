"""Plan: the ordered trials of a suite on one GPU model."""

import json
import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby
from typing import TypeVar

from cudnn_sweep.analysis.errors import did_you_mean
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.workloads.cells.cell import Cell
from cudnn_sweep.workloads.cells.config import Config
from cudnn_sweep.workloads.cells.measurement import MeasureSpec, TrialRequest
from cudnn_sweep.workloads.cells.suite import LOOKS, SuiteSpec, most_replicates, too_many_trials
from cudnn_sweep.workloads.hashes import content_hash
from cudnn_sweep.workloads.records.row import BUNDLED

T = TypeVar("T")

OWN_SOFTWARE = ""  # the launch's own software, if a sweep interleaves two
LAST_GOOD = "last_good"  # the other software
WRITTEN = re.compile(r"(\d+)/(\d+)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """One cell, config and replicate. `twin` is 1 for the second process of an A/A pair, else 0."""

    cell: Cell
    config: Config
    replicate: int
    twin: int
    block: int
    position: int
    cache_generation: int
    """Index of the trial's compute cache. A cache is empty when its first trial starts."""
    repeats_block: int | None = None
    """Number of the split block that this trial repeats. None if the trial is in the plan."""
    software: str = OWN_SOFTWARE
    """Key of the trial's Python in `Session.pythons`. Empty for the launch's own Python."""

    @property
    def trial_id(self) -> str:
        config = _text(self.config)
        return content_hash((self.cell.cell_id, config, self.replicate, self.twin, self.software))

    @property
    def seed(self) -> int:
        """Random seed, the same for all configs of a block, so that they get equal data."""
        return int(content_hash((self.cell.cell_id, self.replicate)), 16) % 2**31

    def fields(self) -> dict[str, str]:
        """Return the values that `--only` compares, by field."""
        cell = {
            name: value
            for name, value in vars(self.cell).items()
            if isinstance(value, str) and name not in ("gpu", "cell_id")
        }
        numbers = {"replicate": self.replicate, "twin": self.twin, "block": self.block}
        return {
            "trial_id": self.trial_id,
            "cell_id": self.cell.cell_id,
            "problem": self.cell.problem.name if self.cell.problem else "",
            "software": self.software,
            **cell,
            **{name: str(value).lower() for name, value in self.config.columns().items()},
            **{name: str(value) for name, value in numbers.items()},
        }

    def has(self, field: str, value: str) -> bool:
        """Return whether a field is `value`, ignoring case. `value` may lack the prefix BUNDLED."""
        own = self.fields()[field].lower()
        return value.lower() in (own, own.removeprefix(BUNDLED))


@cache
def _text(config: Config) -> str:
    """Return the config as JSON. It is cached because a million trials share a few configs."""
    return json.dumps(config.identity(), sort_keys=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    suite: str
    measure: MeasureSpec
    trials: tuple[Trial, ...]
    looks: tuple[int, ...] = ()
    """Block counts at which a cell is tested and, if decided, stopped. If empty, all blocks run."""
    decided_by: tuple[str, ...] = ()
    """Names of the contrasts that decide a cell. If empty, all contrasts do."""
    is_race: bool = False
    """Whether the sweep searches for each cell's fastest config and drops slower configs."""

    @property
    def plan_hash(self) -> str:
        trials = [(trial.trial_id, trial.block, trial.cache_generation) for trial in self.trials]
        # if these have their defaults, plans keep their old hash
        named = (self.decided_by,) * bool(self.decided_by) + ("race",) * self.is_race
        return content_hash((trials, self.measure.model_dump(), self.looks, *named))

    def cell_ids(self) -> set[str]:
        return {trial.cell.cell_id for trial in self.trials}

    def configs(self) -> list[Config]:
        return sorted({trial.config for trial in self.trials}, key=str)

    def blocks(self) -> Iterator[tuple[int, list[Trial]]]:
        for block, trials in groupby(self.trials, key=lambda trial: trial.block):
            yield block, list(trials)

    def without(self, trial_ids: set[str]) -> "Plan":
        return replace(self, trials=tuple(t for t in self.trials if t.trial_id not in trial_ids))

    def with_ranks(self, count: int) -> "Plan":
        return replace(self, trials=tuple(t for t in self.trials if t.cell.rank_count == count))

    def estimated_s(self, slots: int, *, gpu: bool) -> float:
        spec = self.measure
        closed_s = spec.warmup_s + spec.steady_budget_s
        if gpu and spec.device_budget_s > 0:
            closed_s += spec.warmup_s + spec.device_budget_s
        sum_s = 0.0
        for trial in self.trials:
            budget_s = closed_s if trial.cell.may_end() else spec.open_budget_s / 2
            overhead_s = NETWORK_S if gpu and trial.cell.model is not None else OVERHEAD_S
            processes = 2 if gpu and trial.replicate < spec.logged_replicates else 1
            trial_s = budget_s + overhead_s * processes + COMPILE_S * trial.config.how.compiles
            sum_s += trial_s * (trial.cell.rank_count if gpu else 1)
        return START_S + sum_s / slots

    def first_look(self) -> "Plan":
        """Return the first blocks of each cell: `looks[0]`, or LOOKS[0] if `looks` is empty."""
        first = (self.looks or LOOKS)[0]
        return replace(self, trials=tuple(t for t in self.trials if t.replicate < first))

    def cell_by_cell(self) -> "Plan":
        """Return the plan with the trials of `first_look` at the front, one cell after the other.
        The cell with the fewest of these trials comes first.
        """
        first = self.first_look().trials
        lacking = Counter(trial.cell.cell_id for trial in first)
        ahead = sorted(first, key=lambda each: (lacking[each.cell.cell_id], each.cell.cell_id))
        last = max((trial.replicate for trial in first), default=-1)
        behind = [trial for trial in self.trials if trial.replicate > last]
        return replace(self, trials=(*ahead, *behind))


OVERHEAD_S = 0.9  # a process's start and end, cold calls, checks: seen on an H200 and on two cores
NETWORK_S = 4.3  # the same of a network's process: the mean over the suite `models` on H200s
COMPILE_S = 60.0  # compiling: a ResNet-50 training step's first call took 49 s on an H200
START_S = 12.0  # Ray's start, and the first import of torch


def make_plan(
    name: str,
    suite: SuiteSpec,
    cells: list[Cell],
    configs: Mapping[str, tuple[Config, ...]] | None = None,
) -> Plan:
    """Plan a suite. Each replicate has a block of every cell, in random order.

    So if a time limit ends the sweep, no cell is more than one replicate behind another. The cells
    are the seed of the order, so the order is the same every night. `configs` replaces the suite's
    configs for some cells, by cell_id.
    """
    replicates = most_replicates(suite.replicates)
    given = {cell.cell_id: tuple(suite.configs) for cell in cells} | dict(configs or {})
    of_cell = {
        cell.cell_id: [each.beside(cell.layout, cell.precision) for each in given[cell.cell_id]]
        for cell in cells
    }
    if fault := too_many_trials(replicates * sum(map(len, of_cell.values()))):
        raise SpecError(f"suite {name}: {fault}")
    order = random.Random(content_hash([cell.cell_id for cell in cells]))
    blocks = [
        (cell, replicate)
        for replicate in range(replicates)
        for cell in order.sample(cells, len(cells))
    ]
    orders = {cell.cell_id: _BlockOrder(of_cell[cell.cell_id], order) for cell in cells}
    trials: list[Trial] = []
    for block, (cell, replicate) in enumerate(blocks):
        has_twin = block % suite.twin_every == 0
        for config, twin in orders[cell.cell_id].of(replicate, has_twin=has_twin):
            trial = Trial(
                cell=cell,
                config=config,
                replicate=replicate,
                twin=twin,
                block=block,
                position=len(trials),
                cache_generation=min(replicate, suite.new_compute_caches - 1),
            )
            trials.append(trial)
    return Plan(
        suite=name,
        measure=suite.measure,
        trials=tuple(trials),
        looks=suite.looks,
        decided_by=() if suite.is_race else tuple(suite.decided_by),
        is_race=suite.is_race,
    )


def with_alternate_caches(plan: Plan) -> Plan:
    """Return the plan with one compute cache per two replicates. The first replicate fills it."""
    trials = tuple(
        replace(trial, cache_generation=trial.replicate - trial.replicate % 2)
        for trial in plan.trials
    )
    return replace(plan, trials=trials)


def first_blocks(plan: Plan, most: int) -> Plan:
    """Return a plan of the replicates below `most`, or the whole plan if none is below `most`."""
    kept = tuple(trial for trial in plan.trials if trial.replicate < most)
    return replace(plan, trials=kept or plan.trials)


def first_calls(plan: Plan) -> list[TrialRequest]:
    """Return one request for each user model, and for each bundled model that has `expect`."""
    first: dict[tuple[str, str], Trial] = {}
    for trial in plan.trials:
        cell = trial.cell
        model, is_bundled = cell.model, cell.workload.startswith(BUNDLED)
        if model is not None and (model.expect is not None or not is_bundled):
            first.setdefault((cell.workload, repr(model)), trial)
    return [
        TrialRequest(
            cell=trial.cell,
            config=Config(),
            measure=plan.measure,
            seed=trial.seed,
            compute_cache=None,
        )
        for trial in first.values()
    ]


class _BlockOrder:
    def __init__(self, of_cell: Sequence[Config], order: random.Random) -> None:
        configs = list(dict.fromkeys(of_cell))
        sides = [config for config in configs if config.code is not None]
        self._paired = sides or configs[:1]
        self._start = order.sample(configs, len(configs))
        self._twin_leads = order.random() < 0.5
        self._order = order

    def of(self, replicate: int, *, has_twin: bool) -> list[tuple[Config, int]]:
        """Return the block's processes in order, as (config, twin). In every second A/A pair, twin
        1 runs before twin 0.
        """
        placed = [(config, 0) for config in balanced(self._start, replicate)]
        if has_twin:
            paired = self._paired[replicate % len(self._paired)]  # a gate's two codes alternate
            there = placed.index((paired, 0))
            first, last = (0, there) if self._twin_leads else (there + 1, len(placed))
            placed.insert(self._order.randint(first, last), (paired, 1))
            self._twin_leads = not self._twin_leads
        return placed


def balanced(start: Sequence[T], number: int) -> list[T]:
    """Return `start` in the order of block `number`, counted from 0. Each member precedes each
    other member in half of the blocks. In 2 * len(start) blocks, each member comes first twice.
    """
    first = 2 * (number // 2) % len(start)
    rotated = [*start[first:], *start[:first]]
    return rotated[::-1] if number % 2 else rotated  # an odd block reverses the one before it


def narrow(plan: Plan, choices: list[tuple[str, str]]) -> Plan:
    """Keep the trials matching all `choices`. Raises SpecError for an unknown field or no match."""
    kept = plan.trials
    for field, value in choices:
        allowed = sorted(plan.trials[0].fields())
        if field not in allowed:
            fault = f"--only: unknown field {field!r}{did_you_mean(field, allowed)}"
            raise SpecError(f"{fault}; allowed: {', '.join(allowed)}")
        chosen = tuple(trial for trial in kept if trial.has(field, value))
        if not chosen:
            values = sorted({trial.fields()[field] or "''" for trial in kept})
            fault = f"--only {field}={value} leaves no trial{did_you_mean(value, values)}"
            raise SpecError(f"{fault}; found: {', '.join(values[:12])}")
        kept = chosen
    if not plan.looks:
        return replace(plan, trials=kept)
    cells = {trial.cell.cell_id for trial in kept}
    # no look can decide a cell that keeps only a part of its trials
    is_whole = len(kept) == sum(trial.cell.cell_id in cells for trial in plan.trials)
    return replace(plan, trials=kept, looks=plan.looks if is_whole else ())


@dataclass(frozen=True, kw_only=True, slots=True)
class Shard:
    number: int  # from 1
    of: int

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    def part(self, plan: Plan) -> Plan:
        """Return this shard's part of the plan. Raises SpecError if it is empty.

        Blocks are dealt out in the order of their hashes. If their numbers gave the order, one
        shard might get all A/A pairs. If the plan has looks, whole cells are dealt out, as a look
        needs all of a cell's blocks.
        """
        whole = "cells" if plan.looks else "blocks"
        part_of = {t.block: t.cell.cell_id if plan.looks else t.block for t in plan.trials}
        parts = sorted(set(part_of.values()), key=content_hash)
        own = set(parts[self.number - 1 :: self.of])
        if not own:
            raise SpecError(f"--shard {self}: the plan has only {len(parts)} {whole}")
        mine = tuple(trial for trial in plan.trials if part_of[trial.block] in own)
        return replace(plan, trials=mine)


def read_shard(text: str) -> Shard:
    """Parse a shard such as `2/4`. Raises SpecError."""
    match = WRITTEN.fullmatch(text)
    number, of = map(int, match.groups()) if match else (0, 0)
    if not 1 <= number <= of:
        raise SpecError(f"--shard: found {text!r}, allowed: I/N with I from 1 to N, such as 2/4")
    return Shard(number=number, of=of)
