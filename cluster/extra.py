"""What a cluster needs beyond one machine comes with the extra `cluster`."""

from importlib.util import find_spec
from pathlib import Path

from cudnn_sweep.cluster.errors import LaunchFileError

# What ray[default] adds to Ray, and the launcher, jobs and runtime environments use.
NEEDED = ("aiohttp", "aiohttp_cors", "virtualenv")


def require_cluster_extra(file: Path) -> None:
    """Raise LaunchFileError, naming the extra, where it is not installed."""
    missing = [module for module in NEEDED if find_spec(module) is None]
    if missing:
        raise LaunchFileError(
            f"{file} asks for a cluster, for which {', '.join(missing)} is missing: "
            "pip install 'cudnn-sweep[cluster]'"
        )
