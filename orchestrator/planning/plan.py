"""Makes plans. A plan is the ordered list of a suite's trials on one GPU model."""

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

OWN_SOFTWARE = ""  # the software of the launch itself
LAST_GOOD = "last_good"  # the software of `nightly.last_good`


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """One run of a cell with a config. `twin` is 1 in the second process of an A/A pair, else 0."""

    cell: Cell
    config: Config
    replicate: int
    twin: int
    block: int
    position: int
    cache_generation: int
    """Number of the compute cache that the trial uses. Each cache is empty at first."""
    repeats_block: int | None = None
    """Number of the block that this trial repeats, or None for a planned trial."""
    software: str = OWN_SOFTWARE
    """Key of the trial's Python in `Session.pythons`. Empty for the Python of the launch."""

    @property
    def trial_id(self) -> str:
        config = _text(self.config)
        return content_hash((self.cell.cell_id, config, self.replicate, self.twin, self.software))

    @property
    def seed(self) -> int:
        """Random seed. It is the same for all configs of a block."""
        return int(content_hash((self.cell.cell_id, self.replicate)), 16) % 2**31

    def fields(self) -> dict[str, str]:
        """Return the values that `--only` can select, by field."""
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
        """Return whether a field has this value. Case and the prefix BUNDLED are ignored."""
        own = self.fields()[field].lower()
        return value.lower() in (own, own.removeprefix(BUNDLED))


@cache
def _text(config: Config) -> str:
    return json.dumps(config.identity(), sort_keys=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    suite: str
    measure: MeasureSpec
    trials: tuple[Trial, ...]
    looks: tuple[int, ...] = ()
    """Numbers of blocks after which a cell is tested. If empty, the number of blocks is fixed."""
    decided_by: tuple[str, ...] = ()
    """Names of the contrasts that decide a cell. If empty, all contrasts decide it."""
    is_race: bool = False
    """Whether the sweep searches for the fastest config of each cell."""

    @property
    def plan_hash(self) -> str:
        trials = [(trial.trial_id, trial.block, trial.cache_generation) for trial in self.trials]
        # defaults are left out, so that older plans keep their hash
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
        """Return a plan of the blocks that each cell runs before its first interim analysis."""
        first = (self.looks or LOOKS)[0]
        return replace(self, trials=tuple(t for t in self.trials if t.replicate < first))

    def cell_by_cell(self) -> "Plan":
        """Reorder the plan so that a cell reaches its first analysis before the next cell starts."""
        first = self.first_look().trials
        lacking = Counter(trial.cell.cell_id for trial in first)
        ahead = sorted(first, key=lambda each: (lacking[each.cell.cell_id], each.cell.cell_id))
        last = max((trial.replicate for trial in first), default=-1)
        behind = [trial for trial in self.trials if trial.replicate > last]
        return replace(self, trials=(*ahead, *behind))


OVERHEAD_S = 0.9  # start and end of a process, cold calls and checks, measured on an H200
NETWORK_S = 4.3  # the same for a network, as a mean over the suite `models` on H200s
COMPILE_S = 60.0  # the first training step of a compiled ResNet-50 took 49 s on an H200
START_S = 12.0  # start of Ray, and the first import of torch


def make_plan(
    name: str,
    suite: SuiteSpec,
    cells: list[Cell],
    configs: Mapping[str, tuple[Config, ...]] | None = None,
) -> Plan:
    """Plan one block of each cell per replicate, in a random order that depends only on the cells.

    `configs` replaces the suite's, by cell_id. Raises SpecError if there are too many trials.
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
    """Return the plan with a new compute cache in every second replicate."""
    trials = tuple(
        replace(trial, cache_generation=trial.replicate - trial.replicate % 2)
        for trial in plan.trials
    )
    return replace(plan, trials=trials)


def first_blocks(plan: Plan, most: int) -> Plan:
    """Return a plan of the first `most` replicates, or the whole plan if it has none of them."""
    kept = tuple(trial for trial in plan.trials if trial.replicate < most)
    return replace(plan, trials=kept or plan.trials)


def first_calls(plan: Plan) -> list[TrialRequest]:
    """Return a request for each user model, and for each bundled model with expected counts."""
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
        """Return the processes of a block in order, as (config, twin)."""
        placed = [(config, 0) for config in balanced(self._start, replicate)]
        if has_twin:
            paired = self._paired[replicate % len(self._paired)]  # a gate's two codes alternate
            there = placed.index((paired, 0))
            first, last = (0, there) if self._twin_leads else (there + 1, len(placed))
            placed.insert(self._order.randint(first, last), (paired, 1))
            self._twin_leads = not self._twin_leads
        return placed


def balanced(start: Sequence[T], number: int) -> list[T]:
    """Order the members for a block. Each comes before each other one in half of the blocks."""
    first = 2 * (number // 2) % len(start)
    rotated = [*start[first:], *start[:first]]
    return rotated[::-1] if number % 2 else rotated  # odd blocks reverse the previous order


def narrow(plan: Plan, choices: list[tuple[str, str]]) -> Plan:
    """Keep the trials that match all `choices`. Raises SpecError for a wrong field or value."""
    kept = plan.trials
    for field, value in choices:
        allowed = sorted(plan.trials[0].fields())
        if field not in allowed:
            fault = f"--only: unknown field {field!r}{did_you_mean(field, allowed)}"
            raise SpecError(f"{fault}; allowed: {', '.join(allowed)}")
        chosen = tuple(trial for trial in kept if trial.has(field, value))
        if not chosen:
            values = sorted({trial.fields()[field] or "''" for trial in kept})
            fault = f"--only {field}={value} matches no trial{did_you_mean(value, values)}"
            raise SpecError(f"{fault}; found: {', '.join(values[:12])}")
        kept = chosen
    if not plan.looks:
        return replace(plan, trials=kept)
    cells = {trial.cell.cell_id for trial in kept}
    # a cell cannot be decided without all of its trials
    is_whole = len(kept) == sum(trial.cell.cell_id in cells for trial in plan.trials)
    return replace(plan, trials=kept, looks=plan.looks if is_whole else ())


@dataclass(frozen=True, kw_only=True, slots=True)
class Shard:
    number: int  # from 1
    of: int

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    def part(self, plan: Plan) -> Plan:
        """Return the part of the plan that this shard runs. Raises SpecError if it is empty."""
        whole = "cells" if plan.looks else "blocks"
        part_of = {t.block: t.cell.cell_id if plan.looks else t.block for t in plan.trials}
        # in the order of their numbers, one shard could get all A/A pairs
        parts = sorted(set(part_of.values()), key=content_hash)
        own = set(parts[self.number - 1 :: self.of])
        if not own:
            raise SpecError(f"--shard {self}: the plan has only {len(parts)} {whole}")
        mine = tuple(trial for trial in plan.trials if part_of[trial.block] in own)
        return replace(plan, trials=mine)


def read_shard(text: str) -> Shard:
    """Parse a shard such as `2/4`. Raises SpecError if it is invalid."""
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    number, of = map(int, match.groups()) if match else (0, 0)
    if not 1 <= number <= of:
        raise SpecError(f"--shard: found {text!r}, allowed: I/N with I from 1 to N, such as 2/4")
    return Shard(number=number, of=of)
