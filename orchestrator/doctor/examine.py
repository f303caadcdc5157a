"""Doctor: is this machine fit to measure on? Found out before hours of it are spent."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version

from cudnn_sweep.analysis.words import clock
from cudnn_sweep.cluster.errors import LocalRayError
from cudnn_sweep.orchestrator.doctor.check import Check
from cudnn_sweep.orchestrator.doctor.gpu_checks import check_gpus
from cudnn_sweep.orchestrator.doctor.self_test import check_pairs
from cudnn_sweep.orchestrator.doctor.storage_checks import check_storage
from cudnn_sweep.orchestrator.errors import ServerError
from cudnn_sweep.orchestrator.process.client import ForkServer
from cudnn_sweep.orchestrator.process.survey import survey
from cudnn_sweep.workloads.hardware.cpus import usable_cpus
from cudnn_sweep.workloads.hardware.environment import processor
from cudnn_sweep.workloads.hardware.monitor import MonitorKind
from cudnn_sweep.workloads.survey import Survey


@dataclass(frozen=True, kw_only=True, slots=True)
class DoctorOptions:
    results: str
    """Folder or URL that must take records."""
    self_test_s: float
    telemetry: MonitorKind = "nvml"
    quick: bool = False
    """Leave out what takes its time: Ray's start and the self-test."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Probes:
    survey: Callable[[], Survey]
    """Raises ServerError."""
    ray: Callable[[], float]
    """Starts and ends one, in so many seconds. Raises LocalRayError."""
    pairs: Callable[[Survey, MonitorKind, float], Iterator[Check]] = check_pairs


def look_at_this_machine() -> Survey:
    """Torch and CUDA are looked at in a process that is thrown away, never in this one."""
    with ForkServer(survey_only=True) as server:
        return survey(server, [])


def start_and_end_ray() -> float:
    from cudnn_sweep.cluster.local.local_ray import probe_ray

    return probe_ray()


THIS_MACHINE = Probes(survey=look_at_this_machine, ray=start_and_end_ray)


def examine(options: DoctorOptions, probes: Probes = THIS_MACHINE) -> Iterator[Check]:
    """One check after the other, each as soon as it is done."""
    yield _cpu()
    machine: Survey | ServerError
    try:
        machine = probes.survey()
    except ServerError as error:
        machine = error
    yield _torch(machine)
    if isinstance(machine, Survey):
        yield from check_gpus(machine, options.telemetry)
    yield from check_storage(options.results)
    yield _ray(None if options.quick else probes.ray)
    if isinstance(machine, Survey) and not options.quick:
        yield from probes.pairs(machine, options.telemetry, options.self_test_s)


def _cpu() -> Check:
    cores = usable_cpus()
    found = f"{processor()}, {cores} of {os.cpu_count()} cores"
    return Check(name="CPU", found=found)


def _torch(machine: Survey | ServerError) -> Check:
    if isinstance(machine, Survey):
        where = machine.environment
        return Check(name="torch", found=f"{where.torch}, Python {where.python}")
    return Check(
        name="torch",
        state="problem",
        found=str(machine),
        advice="check that `python -c 'import torch; torch.zeros(1)'` works in this environment",
    )


def _ray(probe: Callable[[], float] | None) -> Check:
    installed = version("ray")
    if probe is None:
        return Check(name="Ray", found=f"{installed}; not started (--quick)")
    try:
        seconds = probe()
    except LocalRayError as error:
        advice = "check that no firewall blocks 127.0.0.1 and that TMPDIR has room, then try again"
        return Check(name="Ray", state="problem", found=f"{installed}: {error}", advice=advice)
    return Check(
        name="Ray", found=f"{installed}; started, ran a task and ended in {clock(seconds)}"
    )
