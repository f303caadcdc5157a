"""More nodes of a local Ray: raylets on this machine, each with CPUs and logical GPUs of its own."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from cudnn_sweep.cluster.errors import LocalRayError
from cudnn_sweep.cluster.local import janitor
from cudnn_sweep.cluster.local.local_ray import OBJECT_STORE_BYTES

UP_S = 60.0


@contextmanager
def more_nodes(folder: Path, count: int, *, slots: int, gpus: int) -> Iterator[None]:
    """`slots` CPUs and `gpus` logical GPUs each. `folder`: of the local Ray. Raises LocalRayError where one does not come up."""
    nodes: list[Any] = []
    try:
        while len(nodes) < count:
            nodes.append(_start(folder, slots, gpus))
        _wait_for(count)
        yield
    finally:
        for node in nodes:
            node.kill_all_processes(check_alive=False, allow_graceful=True, wait=True)


def _start(folder: Path, slots: int, gpus: int) -> Any:
    """As Ray's own tests do it: `ray start` does not stay on the loopback."""
    import ray
    from ray._private.node import Node
    from ray._private.parameter import RayParams

    parameters = RayParams(
        gcs_address=ray.get_runtime_context().gcs_address,
        node_ip_address="127.0.0.1",
        node_manager_port=0,
        num_cpus=slots,
        num_gpus=gpus,
        object_store_memory=OBJECT_STORE_BYTES,
        dashboard_agent_listen_port=None,
    )
    os.environ[janitor.MARKER] = str(folder)
    try:
        return Node(parameters, head=False, shutdown_at_exit=False, spawn_reaper=False)
    finally:
        del os.environ[janitor.MARKER]


def _wait_for(count: int) -> None:
    import ray

    ends = monotonic() + UP_S
    while (up := sum(node["Alive"] for node in ray.nodes()) - 1) < count:
        if monotonic() > ends:
            raise LocalRayError(f"{up} of {count} more nodes of Ray came up on this machine")
        sleep(0.1)
