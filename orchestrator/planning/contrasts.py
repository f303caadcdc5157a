"""The contrasts of a launch's configs, and what the results say of each."""

from collections.abc import Iterable
from dataclasses import asdict

from cudnn_sweep.analysis.answering.contrast import Contrast, contrasts_among
from cudnn_sweep.analysis.answering.verdicts import BreakEven, Verdict, break_evens, verdicts
from cudnn_sweep.analysis.asking.settings import texts_of
from cudnn_sweep.analysis.storing.store import Store
from cudnn_sweep.orchestrator.planning.plan import Plan
from cudnn_sweep.workloads.cells.config import CudnnConfig


def contrasts_of(configs: Iterable[CudnnConfig]) -> tuple[Contrast, ...]:
    """Every pair that differs in one field; the baseline has PyTorch's default there, or came first."""
    return contrasts_among(settings_of(config) for config in configs)


def contrasts_in(plan: Plan) -> tuple[Contrast, ...]:
    """Those between configs of one cell."""
    of_cells: dict[str, set[CudnnConfig]] = {}
    for trial in plan.trials:
        of_cells.setdefault(trial.cell.cell_id, set()).add(trial.config)
    distinct = {tuple(sorted(configs, key=str)) for configs in of_cells.values()}
    found = (
        contrast for configs in sorted(distinct, key=str) for contrast in contrasts_of(configs)
    )
    return tuple(dict.fromkeys(found))


def verdicts_of(store: Store, sweep_id: str, contrasts: Iterable[Contrast]) -> list[Verdict]:
    return [
        verdict
        for contrast in contrasts
        for verdict in verdicts(store, sweep_id, **contrast.values())
    ]


def break_evens_of(store: Store, sweep_id: str, contrasts: Iterable[Contrast]) -> list[BreakEven]:
    return [
        row for contrast in contrasts for row in break_evens(store, sweep_id, **contrast.values())
    ]


def settings_of(config: CudnnConfig) -> dict[str, str]:
    """Each field as text, the way SQL writes it."""
    return texts_of(asdict(config))
