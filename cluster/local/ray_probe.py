"""Whether Ray works on this machine: starts one, has it run a task, ends it."""

import os
from time import monotonic

from cudnn_sweep.cluster.errors import LocalRayError
from cudnn_sweep.cluster.local.local_ray import local_ray

TASK_TIMEOUT_S = 60.0  # a worker's start takes 1 s here, tens of seconds from a slow network disk


def probe_ray() -> float:
    """Seconds for all of it. Raises LocalRayError; see `local_ray` for what it asks of the caller."""
    import ray
    from ray.exceptions import RayError

    began = monotonic()
    with local_ray(slots=1):
        try:
            ray.get(ray.remote(_worker_pid).remote(), timeout=TASK_TIMEOUT_S)
        except RayError as error:
            raise LocalRayError(f"Ray starts and does not run a task: {error}") from error
    return monotonic() - began


def _worker_pid() -> int:
    """A worker must import this module to run it, as it imports what a sweep sends."""
    return os.getpid()
