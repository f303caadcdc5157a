"""Reads the hardware and software of a measurement. This starts CUDA."""

import os
import platform
import socket
import subprocess
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

from cudnn_sweep.workloads.hardware.cpus import usable_cpus
from cudnn_sweep.workloads.hashes import content_hash

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
HARDWARE = ("gpu", "gpu_memory_bytes", "mig_profile", "max_sm_clock_mhz", "power_limit_w")
SOFTWARE = ("torch", "cuda", "cudnn", "driver", "python", "ray", "version")


@dataclass(frozen=True, kw_only=True, slots=True)
class Environment:
    """Hardware and software of a record. `records/row.py` explains the fields."""

    device: Literal["cuda", "cpu"]
    gpu: str
    gpu_uuid: str | None = None
    gpu_memory_bytes: int | None = None
    mig_profile: str | None = None
    max_sm_clock_mhz: int | None = None
    power_limit_w: float | None = None
    driver: str | None = None
    cuda: str | None
    cudnn: int | None
    torch: str
    ray: str
    python: str
    os: str
    host: str
    cpu_model: str | None = None
    cpu_cores: int
    pinned_cpus: str | None = None
    numa_node: int | None = None
    version: str
    commit: str | None

    @property
    def env_hash(self) -> str:
        return content_hash({name: getattr(self, name) for name in HARDWARE})

    @property
    def software_hash(self) -> str:
        return content_hash({name: getattr(self, name) for name in SOFTWARE})


def capture_environment() -> Environment:
    """Return the environment of this process, with its first GPU or, without CUDA, its CPU.

    The environment variables SWEEP_VERSION and SWEEP_COMMIT replace the version and the commit.
    SWEEP_FAKE_GPU replaces the name of the CPU.
    """
    import torch

    from cudnn_sweep.workloads.hardware.gpu import read_gpu

    cuda = torch.cuda.is_available()
    gpu = read_gpu() if cuda else {"gpu": os.environ.get("SWEEP_FAKE_GPU") or processor()}
    return Environment(
        device="cuda" if cuda else "cpu",
        **gpu,
        cuda=torch.version.cuda,
        cudnn=torch.backends.cudnn.version() if cuda else None,
        torch=torch.__version__,
        ray=version("ray"),
        python=platform.python_version(),
        os=f"{platform.system()} {platform.release()}",
        host=host_name(),
        cpu_model=processor(),
        cpu_cores=usable_cpus(),
        version=os.environ.get("SWEEP_VERSION") or our_version(),
        commit=os.environ.get("SWEEP_COMMIT") or our_commit(),
    )


def host_name() -> str:
    """Return the name of the host, followed by a hash of its boot id if that is known."""
    boot = f"-{content_hash(BOOT_ID.read_text())[:6]}" if BOOT_ID.exists() else ""
    return f"{socket.gethostname()}{boot}"


def installed_version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def our_version() -> str:
    return installed_version("cudnn-sweep") or "unknown"


def our_commit() -> str | None:
    """Return the git commit of this code, or None if it is unknown. `-dirty` marks changes."""
    checkout = Path(__file__).parents[2]
    if not (checkout / ".git").exists():
        return None
    describe = ["git", "-C", str(checkout), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        return subprocess.run(describe, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())
