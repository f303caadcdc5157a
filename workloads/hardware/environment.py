"""A measurement's hardware and software. Reading them starts CUDA, so a child process does it."""

import os
import platform
import socket
import subprocess
from dataclasses import asdict, dataclass
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
    """Columns of a record that describe hardware and software; `records/row.py` explains them."""

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
        return self._hash(HARDWARE)

    @property
    def software_hash(self) -> str:
        return self._hash(SOFTWARE)

    def _hash(self, names: tuple[str, ...]) -> str:
        values = asdict(self)
        return content_hash({name: values[name] for name in names})


def capture_environment() -> Environment:
    """Return the environment of this process, with its first GPU or else its CPU.

    If set, SWEEP_VERSION replaces the version, and SWEEP_COMMIT the commit. Set SWEEP_VERSION if
    the code is not installed, and SWEEP_COMMIT if it is not in git.
    Without CUDA, SWEEP_FAKE_GPU names a GPU model, to try out clusters of several GPU models.
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
    """Return the host's name and, if known, a hash of its boot id, since many hosts are named `vm`."""
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
    """Return the git commit of this code, with `-dirty` if files changed, or None if unknown."""
    checkout = Path(__file__).parents[2]
    if not (checkout / ".git").exists():
        return None
    describe = ["git", "-C", str(checkout), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        return subprocess.run(describe, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
