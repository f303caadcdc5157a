"""Collects facts about the machine and the workloads in a separate process."""

import os
import shutil
from dataclasses import MISSING, dataclass, fields
from itertools import permutations

from cudnn_sweep.workloads.cells.expand import WorkloadFacts
from cudnn_sweep.workloads.errors import UserCodeError, WorkloadError
from cudnn_sweep.workloads.find_regime import own_regime_type
from cudnn_sweep.workloads.hardware.environment import Environment, capture_environment
from cudnn_sweep.workloads.parameters import parameter_types
from cudnn_sweep.workloads.regime import ShapeRegime


@dataclass(frozen=True, kw_only=True, slots=True)
class Survey:
    environment: Environment
    gpus: list[str]
    """Model of each GPU or GPU slice that trials may use."""
    gpu_uuids: list[str]
    """UUID of each GPU or slice, in the order of `gpus`."""
    workloads: dict[str, WorkloadFacts]
    no_cuda: str | None = None
    """Reason why torch finds no GPU. None if it finds one."""
    nccl: str | None = None
    """Version of torch's NCCL. None if torch lacks NCCL or finds fewer than two GPUs."""
    peer_access: bool | None = None
    """Whether the GPUs can access each other's memory. None if there are fewer than two GPUs."""
    compiler: str | None = None
    """Path of the C++ compiler that torch.compile finds. None if it finds no compiler."""


def survey_machine(names: list[str], *, needs_cuda: bool = False) -> Survey:
    """Survey this machine and the named workloads, but no workloads if a needed GPU is missing."""
    from cudnn_sweep.workloads.hardware.gpu import seen_gpus

    seen = seen_gpus()
    nccl, peer_access = _nccl_and_peer_access(len(seen)) if len(seen) > 1 else (None, None)
    return Survey(
        environment=capture_environment(),
        gpus=[model for model, _ in seen],
        gpu_uuids=[uuid for _, uuid in seen],
        workloads={} if needs_cuda and not seen else workload_facts(names),
        nccl=nccl,
        peer_access=peer_access,
        no_cuda=None if seen else why_no_cuda(),
        compiler=shutil.which(os.environ.get("CXX", "g++")),
    )


def _nccl_and_peer_access(gpus: int) -> tuple[str | None, bool]:
    import torch
    from torch import distributed

    version = torch.cuda.nccl.version() if distributed.is_nccl_available() else None
    reach = (torch.cuda.can_device_access_peer(a, b) for a, b in permutations(range(gpus), 2))
    return version and ".".join(map(str, version)), all(reach)


def workload_facts(names: list[str]) -> dict[str, WorkloadFacts]:
    """Return facts about each workload or regime. A message about an error goes to `fault`."""
    facts = {}
    for name in names:
        try:
            facts[name] = _facts(name)
        except WorkloadError as error:
            facts[name] = WorkloadFacts(fault=str(error), fails=isinstance(error, UserCodeError))
    return facts


def _facts(name: str) -> WorkloadFacts:
    from cudnn_sweep.workloads.find_workload import find_workload, import_repeatably

    imported = import_repeatably(name) if ":" in name else None
    if isinstance(imported, type) and issubclass(imported, ShapeRegime):
        return regime_facts(name, imported)
    workload = find_workload(name)
    if not workload.directions:
        raise WorkloadError(f"workload {name} has no `directions`; it needs at least one")
    return WorkloadFacts(
        directions=workload.directions,
        varies=workload.varies,
        input_shape=workload.input_shape,
        recomputes=workload.recomputes,
        is_model=workload.is_model,
        by_strides=getattr(imported, "by_strides", False) is True,
    )


def regime_facts(name: str, imported: type[ShapeRegime]) -> WorkloadFacts:
    rule = own_regime_type(name, imported)
    types = parameter_types(rule)
    for parameter, kind in types.items():
        if kind not in (int, float):
            raise WorkloadError(
                f"regime {name}: {parameter} is annotated {kind}; allowed: int or float"
            )
    parameters = {
        field.name: None if field.default is MISSING else types[field.name](field.default)
        for field in fields(rule)
    }
    varies = tuple(part for part in ("batch", "space") if part in rule.varies)
    return WorkloadFacts(varies=varies, regime_parameters=parameters)


def why_no_cuda() -> str:
    import torch

    version, cuda = torch.__version__, torch.version.cuda
    if cuda is None:
        return f"torch {version} is built without CUDA: install a build with CUDA (pytorch.org)"
    try:
        torch.cuda.init()
        reason = "check that CUDA_VISIBLE_DEVICES hides no GPU"
    except RuntimeError as error:
        reason = " ".join(str(error).split())
    return f"torch {version}, built for CUDA {cuda}, finds no GPU: {reason}"
