"""What planning asks of a machine and of the workloads named, in a process that may be thrown away."""

from dataclasses import dataclass

from cudnn_sweep.workloads.environment import Environment, capture_environment
from cudnn_sweep.workloads.errors import WorkloadError
from cudnn_sweep.workloads.expand import WorkloadFacts


@dataclass(frozen=True, kw_only=True, slots=True)
class Survey:
    environment: Environment
    gpus: list[str]
    """Models of the GPUs that this process sees,"""
    gpu_uuids: list[str]
    """and their UUIDs, as NVML writes them."""
    workloads: dict[str, WorkloadFacts]


def survey_machine(names: list[str]) -> Survey:
    """Raises WorkloadError for a workload that is not there."""
    import torch

    from cudnn_sweep.workloads.gpu import gpu_uuid

    count = torch.cuda.device_count()
    return Survey(
        environment=capture_environment(),
        gpus=[torch.cuda.get_device_name(index) for index in range(count)],
        gpu_uuids=[gpu_uuid(index) for index in range(count)],
        workloads={name: _facts(name) for name in names},
    )


def _facts(name: str) -> WorkloadFacts:
    from cudnn_sweep.workloads.workload import find_workload

    workload = find_workload(name)
    if not workload.directions:
        raise WorkloadError(f"workload {name} names no direction")
    return WorkloadFacts(
        directions=workload.directions,
        varies=workload.varies,
        input_shape=workload.input_shape,
        recomputes=workload.recomputes,
        is_model=workload.is_model,
    )
