"""What of the plan is measured again, for what tonight's candidates are: each suspect's configs under several
softwares, interleaved on one slot.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from cudnn_sweep.analysis.asking.settings import config_name
from cudnn_sweep.analysis.nightly.judge import Candidate
from cudnn_sweep.orchestrator.planning.contrasts import settings_of
from cudnn_sweep.orchestrator.planning.plan import OWN_SOFTWARE, Plan, Trial, balanced
from cudnn_sweep.workloads.cells.cell import Cell
from cudnn_sweep.workloads.cells.config import CudnnConfig
from cudnn_sweep.workloads.cells.suite import SuiteSpec
from cudnn_sweep.workloads.hashes import content_hash

LAST_GOOD = "last_good"
OF_EVERY_CONFIG = ("sign", "missing")


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
    starts = {}
    for suspect in suspects:
        placed = [(config, software) for config in suspect.configs for software in softwares]
        starts[suspect.cell.cell_id] = order.sample(placed, len(placed))
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


def suspects_of(candidates: Sequence[Candidate], whole: Plan) -> list[Suspect]:
    """In the plan's order; cells that it has no more are left out."""
    cells = {trial.cell.cell_id: trial.cell for trial in whole.trials}
    found = {
        cell_id: tuple(
            config for config in whole.configs() if _is_wanted(cell_id, config, candidates)
        )
        for cell_id in cells
    }
    return [
        Suspect(cell=cells[each], configs=configs) for each, configs in found.items() if configs
    ]


def _is_wanted(cell_id: str, config: CudnnConfig, candidates: Sequence[Candidate]) -> bool:
    keys = [each.key for each in candidates if each.key.cell_id == cell_id]
    name = config_name(settings_of(config))
    return any(key.metric in OF_EVERY_CONFIG or key.settings == name for key in keys)


def suite_again(suite: SuiteSpec, candidates: Sequence[Candidate], blocks: int) -> SuiteSpec:
    """Measured as the suite does, but that each block has what the candidates are about."""
    metrics = {candidate.key.metric for candidate in candidates}
    measure = suite.measure.model_copy(
        update={
            "reference_replicates": blocks if "error" in metrics else 0,
            "logged_replicates": blocks if "engine" in metrics else 0,
        }
    )
    caches = blocks if "cold_empty" in metrics else suite.new_compute_caches
    return suite.model_copy(update={"measure": measure, "new_compute_caches": caches})
