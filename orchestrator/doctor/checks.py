"""Checks of GPUs, the compiler and folders, for `sweep doctor`."""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal

from cudnn_sweep.analysis.errors import StoreError
from cudnn_sweep.analysis.store.store import open_store
from cudnn_sweep.analysis.words import cudnn_version, number
from cudnn_sweep.orchestrator.errors import OrchestratorError
from cudnn_sweep.orchestrator.gpus.cpu_pinning import pinning_of
from cudnn_sweep.orchestrator.locks import private_folder
from cudnn_sweep.workloads.hardware.environment import installed_version
from cudnn_sweep.workloads.hardware.monitor import MonitorKind
from cudnn_sweep.workloads.hardware.nvml import open_monitor
from cudnn_sweep.workloads.measuring.telemetry import Telemetry
from cudnn_sweep.workloads.records.measured import GpuTelemetry
from cudnn_sweep.workloads.survey import Survey
from cudnn_sweep.workloads.warnings import ADVICE

LEAST_FREE_GB = 2.0  # the records of a night take 0.1 GB, and Ray also needs space
State = Literal["ok", "warning", "problem"]
SEVERITY: tuple[State, ...] = ("ok", "warning", "problem")


@dataclass(frozen=True, slots=True)
class Check:
    """Result of a check. A problem prevents sweeps or makes verdicts wrong."""

    name: str
    state: State = field(kw_only=True)
    found: str
    advice: str = ""


ok, warning, problem = (partial(Check, state=state) for state in SEVERITY)


def worst(checks: list[Check]) -> State:
    return max((check.state for check in checks), key=SEVERITY.index, default="ok")


def check_gpus(machine: Survey, source: MonitorKind) -> Iterator[Check]:
    where = machine.environment
    yield _cuda(machine)
    if machine.gpus:
        yield _cudnn(where.cudnn)
        yield _driver(where.driver)
    if len(machine.gpus) > 1:
        yield _ranks(machine)
    uuids: list[str | None] = [*machine.gpu_uuids] or [None]
    readings = [_read(source, uuid) for uuid in uuids]
    yield _monitor(source, readings, len(machine.gpus))
    for index, uuid in enumerate(machine.gpu_uuids):
        yield _cores(f"GPU {index} cores", uuid, machine.gpu_uuids)
    for index, reading in enumerate(readings):
        if reading.telemetry is not None:
            yield _clocks(f"GPU {index} clocks", reading, where.max_sm_clock_mhz)
            yield _others(f"GPU {index} users", reading)


def _cuda(machine: Survey) -> Check:
    models = sorted(set(machine.gpus))
    if len(models) > 1:
        advice = "select GPUs of one model with CUDA_VISIBLE_DEVICES"
        return problem("CUDA", f"GPUs of several models: {', '.join(models)}", advice)
    if models:
        return ok("CUDA", f"{machine.environment.cuda}, {len(machine.gpus)} × {models[0]}")
    why = machine.no_cuda or "torch finds no GPU: check that nvidia-smi lists one"
    reason, _, advice = why.partition(": ")
    return warning("CUDA", f"no CUDA: settings have no effect here; {reason}", advice)


def _cudnn(version: int | None) -> Check:
    if version is None:
        advice = "install a torch build with cuDNN (pytorch.org)"
        return problem("cuDNN", "torch is built without cuDNN", advice)
    return ok("cuDNN", cudnn_version(version))


def _driver(version: str | None) -> Check:
    if version is not None:
        return ok("driver", version)
    advice = "install libnvidia-ml.so.1, so that results record the version of the driver"
    return warning("driver", "unknown without NVML", advice)


def _ranks(machine: Survey) -> Check:
    if machine.nccl is None:
        advice = "install a torch build with NCCL (pytorch.org), or leave `ranks` at 1"
        return problem("ranks", "torch is built without NCCL, which several ranks need", advice)
    if not machine.peer_access:
        advice = "see `nvidia-smi topo -m`. Without peer access, NCCL copies data through the host"
        return warning("ranks", f"NCCL {machine.nccl}; not all GPUs have peer access", advice)
    return ok("ranks", f"NCCL {machine.nccl}; the GPUs reach each other's memory")


def _read(source: MonitorKind, uuid: str | None) -> GpuTelemetry:
    """Read a GPU's telemetry once. Our own processes must not use the GPU meanwhile."""
    telemetry = Telemetry(open_monitor(source, uuid, our_pids=()))
    telemetry.note()
    return telemetry.summary(None)


def _monitor(source: MonitorKind, readings: list[GpuTelemetry], gpus: int) -> Check:
    silent = sum(reading.telemetry is None for reading in readings)
    if source != "nvml":
        advice = "use --telemetry nvml, because only NVML reports real clocks and other processes"
        return warning("NVML", f"not queried: telemetry is {source}", advice)
    if not gpus:
        state = "there is no GPU that NVML could report on"
        return warning("NVML", state, "nothing to do, because NVML is not needed without a GPU")
    if silent:
        advice = (
            "check that nvidia-smi lists them. In a container, NVIDIA_DRIVER_CAPABILITIES must have "
            "`utility`. Until then, trials cannot report a shared or throttled GPU"
        )
        return warning("NVML", f"no answer for {silent} of {gpus} GPUs", advice)
    return ok("NVML", f"answers for {gpus} of {gpus} GPUs")


def _clocks(name: str, reading: GpuTelemetry, max_mhz: int | None) -> Check:
    if reading.sm_clock_mhz is None:
        advice = "measure on a whole GPU if throttling matters, because a slice does not report it"
        return warning(name, "not reported", advice)
    most = "" if max_mhz is None else f" of at most {max_mhz}"
    warmth = "" if reading.temperature_c is None else f", {reading.temperature_c} °C"
    reasons = ", ".join(reading.throttle_reasons or ()) or "none"
    clocks = f"SM clock {reading.sm_clock_mhz:g}{most} MHz{warmth}, throttle reasons: {reasons}"
    is_throttled = "throttled" in (reading.warnings or ())
    return warning(name, clocks, ADVICE["throttled"]) if is_throttled else ok(name, clocks)


def _cores(name: str, uuid: str, uuids: Sequence[str]) -> Check:
    pinning = pinning_of(uuid, uuids)
    if pinning is None:
        cores = "trials of this GPU run on all cores, because NVML does not list the GPU"
        until_then = "until then, use only one GPU of this host at a time"
        return warning(name, cores, f"check that nvidia-smi lists this GPU; {until_then}")
    node = "unknown" if pinning.node is None else pinning.node
    return ok(name, f"CPUs {pinning} run only this GPU's trials; the GPU's NUMA node is {node}")


def others_on(uuid: str) -> int:
    return _read("nvml", uuid).other_processes or 0


def _others(name: str, reading: GpuTelemetry) -> Check:
    if reading.other_processes is None:
        advice = "check with nvidia-smi that no process uses this GPU: trials cannot check it"
        return warning(name, "not reported", advice)
    if "shared_gpu" in (reading.warnings or ()):
        users = f"other processes that work on this GPU: {reading.other_processes}"
        return warning(name, users, ADVICE["shared_gpu"])
    return ok(name, "no other process works on this GPU")


def check_compiler(machine: Survey) -> Check:
    triton = installed_version("triton")
    kernels = "no Triton" if triton is None else f"Triton {triton}"
    if machine.compiler is None:
        advice = "`execution: compile` needs a C++ compiler; install g++, or set CXX to another one"
        return warning("compiler", f"no C++ compiler for torch.compile; {kernels}", advice)
    if machine.gpus and triton is None:
        advice = "install triton, which `execution: compile` needs for GPU kernels"
        return warning("compiler", f"{machine.compiler}; {kernels}", advice)
    return ok("compiler", f"{machine.compiler}; {kernels}")


def check_storage(results: str) -> Iterator[Check]:
    yield _results(results)
    yield _room("temporary files", Path(tempfile.gettempdir()))
    yield _compute_caches(private_folder.temporary_path())


def _results(location: str) -> Check:
    try:
        store = open_store(location)
        with _made_folders_removed(Path(store.location) if store.folder.is_local else None):
            store.check_writable()
    except StoreError as error:
        advice = "choose another location with --results, or with `results` in the launch file"
        return problem("results", str(error), advice)
    if not store.folder.is_local:
        return ok("results", f"{store.folder.shown()} can be written")
    return _room("results", Path(store.location))


def _compute_caches(folder: Path) -> Check:
    name = "compute caches"
    try:
        with _made_folders_removed(folder):
            private_folder.our_temporary_folder()
            with tempfile.NamedTemporaryFile(dir=folder):
                pass
    except OrchestratorError as error:
        reason, _, advice = str(error).rpartition(": ")
        return problem(name, reason, advice)
    except OSError as error:
        reason = f"{folder} cannot be written: {error.strerror}"
        return problem(name, reason, private_folder.ADVICE)
    return ok(name, f"{folder} can be written")


def _room(name: str, folder: Path) -> Check:
    there = next(path for path in (folder, *folder.parents) if path.exists())
    free_gb = shutil.disk_usage(there).free / 1e9
    if free_gb >= LEAST_FREE_GB:
        return ok(name, f"{folder} can be written, {number(free_gb)} GB free")
    advice = f"make {LEAST_FREE_GB:g} GB free there, because a sweep stops if its disk is full"
    return warning(name, f"{folder}: {number(free_gb)} GB free", advice)


@contextmanager
def _made_folders_removed(folder: Path | None) -> Iterator[None]:
    """Remove `folder` and its parents afterwards if they are new and empty."""
    folders = [] if folder is None else [folder, *folder.parents]
    new = [path for path in folders if not path.exists()]
    try:
        yield
    finally:
        for path in new:
            if path.is_dir() and not any(path.iterdir()):
                path.rmdir()
