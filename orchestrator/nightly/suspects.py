"""What of the plan is to be measured again, for what tonight's candidates are."""

from collections.abc import Sequence

from cudnn_sweep.analysis.asking.settings import config_name
from cudnn_sweep.analysis.nightly.judge import Candidate
from cudnn_sweep.orchestrator.nightly.confirmation_plan import Suspect
from cudnn_sweep.orchestrator.planning.contrasts import settings_of
from cudnn_sweep.orchestrator.planning.plan import Plan
from cudnn_sweep.workloads.cells.config import CudnnConfig
from cudnn_sweep.workloads.cells.suite import SuiteSpec

OF_EVERY_CONFIG = ("sign", "missing")


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
        Suspect(cell=cells[cell_id], configs=configs)
        for cell_id, configs in found.items()
        if configs
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
