"""Which GPUs a sweep runs on, of those that are there: by model, and what share of each."""

import math
from collections.abc import Iterable
from dataclasses import replace

from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.workloads.cells.suite import ALL_MODELS, GpuChoice, as_list
from cudnn_sweep.workloads.survey import Survey

ROUNDING = 1e-9  # 0.29 of 100 is 28.999999999999996


def models_asked(choice: GpuChoice, there: Iterable[str]) -> list[str]:
    """Which of the models `there` are asked for. Raises SpecError where none is."""
    models = list(dict.fromkeys(there))
    if choice.models == ALL_MODELS:
        return models
    chosen = {model for name in as_list(choice.models) for model in _called(name, models)}
    if not chosen:
        raise SpecError(
            f"gpus.models: asked for {', '.join(as_list(choice.models))}, found {', '.join(models)}"
        )
    return [model for model in models if model in chosen]


def model_asked(choice: GpuChoice, there: Iterable[str]) -> str:
    """The model that a launch measures. Raises SpecError where none is asked for, or several."""
    models = models_asked(choice, there)
    if len(models) > 1:
        raise SpecError(
            f"GPUs of several models: {', '.join(sorted(models))}; ask for one of them by gpus.models"
        )
    return models[0]


def models_missing(choice: GpuChoice, there: Iterable[str]) -> list[str]:
    """The names asked for that no model has."""
    models = list(there)
    names = [] if choice.models == ALL_MODELS else as_list(choice.models)
    return [name for name in names if not _called(name, models)]


def share_of(choice: GpuChoice, gpus: int) -> int:
    """How many of a model's GPUs, at most that share of them, but one at least."""
    return max(1, math.floor(choice.share * gpus + ROUNDING))


def gpus_asked(choice: GpuChoice, machine: Survey) -> Survey:
    """`machine` with only the GPUs that are asked for, all of one model.

    Raises SpecError where none is asked for, or several models are.
    """
    asked = model_asked(choice, machine.gpus or [machine.environment.gpu])
    seen = zip(machine.gpus, machine.gpu_uuids, strict=True)
    uuids = [uuid for model, uuid in seen if model == asked]
    kept = uuids[: share_of(choice, len(uuids))]
    return replace(machine, gpus=[asked] * len(kept), gpu_uuids=kept)


def _called(name: str, models: list[str]) -> list[str]:
    """The model of that name or, where there is none, those whose name has it as a part."""
    wanted = name.casefold()
    exact = [model for model in models if model.casefold() == wanted]
    return exact or [model for model in models if wanted in model.casefold()]
