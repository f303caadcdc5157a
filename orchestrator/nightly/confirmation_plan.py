"""The trials that confirm: each suspect's configs under several softwares, interleaved on one slot."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from cudnn_sweep.orchestrator.planning.plan import OWN_SOFTWARE, Plan, Trial, balanced
from cudnn_sweep.workloads.cells.cell import Cell
from cudnn_sweep.workloads.cells.config import CudnnConfig
from cudnn_sweep.workloads.cells.suite import SuiteSpec
from cudnn_sweep.workloads.hashes import content_hash

LAST_GOOD = "last_good"


@dataclass(frozen=True, kw_only=True, slots=True)
class Suspect:
    cell: Cell
    configs: tuple[CudnnConfig, ...]


def confirmation_plan(
    name: str,
    suite: SuiteSpec,
    suspects: Sequence[Suspect],
    *,
    blocks: int,
    softwares: Sequence[str] = (OWN_SOFTWARE, LAST_GOOD),
) -> Plan:
    """`blocks` of each cell, each with every config of it under every software, in an order that is balanced over
    them.

    In rounds of every cell once: the first n rounds, the trials whose replicate is below n, are n
    blocks of each cell, and the same ones of a plan that asks for more.
    """
    order = random.Random(content_hash([each.cell.cell_id for each in suspects]))
    starts = {suspect.cell.cell_id: _start(suspect, softwares, order) for suspect in suspects}
    trials: list[Trial] = []
    for replicate in range(blocks):
        for place, suspect in enumerate(order.sample(suspects, len(suspects))):
            for config, software in balanced(starts[suspect.cell.cell_id], replicate):
                trial = Trial(
                    cell=suspect.cell,
                    config=config,
                    replicate=replicate,
                    twin=0,
                    block=replicate * len(suspects) + place,
                    position=len(trials),
                    cache_generation=min(replicate, suite.new_compute_caches - 1),
                    software=software,
                )
                trials.append(trial)
    return Plan(suite=name, measure=suite.measure, trials=tuple(trials))


def _start(
    suspect: Suspect, softwares: Sequence[str], order: random.Random
) -> list[tuple[CudnnConfig, str]]:
    placed = [(config, software) for config in suspect.configs for software in softwares]
    return order.sample(placed, len(placed))
