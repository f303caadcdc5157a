"""Chooses the model of a sweep's GPUs, and how many GPUs of this model the sweep uses."""

import math
from collections.abc import Iterable
from dataclasses import replace

from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.workloads.cells.suite import ALL_MODELS, GpuChoice, as_list
from cudnn_sweep.workloads.survey import Survey

ROUNDING = 1e-9  # because 0.29 * 100 is 28.999999999999996


def model_asked(choice: GpuChoice, there: Iterable[str]) -> str:
    """Return the GPU model that `choice` selects. Raises SpecError unless exactly one matches."""
    models, names = list(dict.fromkeys(there)), as_list(choice.models)
    is_any = choice.models == ALL_MODELS
    chosen = set(models) if is_any else {m for name in names for m in _called(name, models)}
    if not chosen:
        raise SpecError(f"gpus.models: requested {', '.join(names)}, found {', '.join(models)}")
    if len(chosen) > 1:
        raise SpecError(
            f"GPUs of several models: {', '.join(sorted(chosen))}; choose one by gpus.models"
        )
    return chosen.pop()


def models_missing(choice: GpuChoice, there: Iterable[str]) -> list[str]:
    models = list(there)
    names = [] if choice.models == ALL_MODELS else as_list(choice.models)
    return [name for name in names if not _called(name, models)]


def share_of(choice: GpuChoice, gpus: int) -> int:
    """Return how many of `gpus` GPUs to use. The number is at least 1."""
    return max(1, math.floor(choice.share * gpus + ROUNDING))


def gpus_asked(choice: GpuChoice, machine: Survey) -> Survey:
    """Return `machine` with only the requested GPUs. Raises the errors of `model_asked`."""
    model = model_asked(choice, machine.gpus or [machine.environment.gpu])
    seen = zip(machine.gpus, machine.gpu_uuids, strict=True)
    uuids = [uuid for name, uuid in seen if name == model]
    kept = uuids[: share_of(choice, len(uuids))]
    return replace(machine, gpus=[model] * len(kept), gpu_uuids=kept)


def _called(name: str, models: list[str]) -> list[str]:
    """Return the model with this name. If there is none, return all models that contain it."""
    wanted = name.casefold()
    exact = [model for model in models if model.casefold() == wanted]
    return exact or [model for model in models if wanted in model.casefold()]
