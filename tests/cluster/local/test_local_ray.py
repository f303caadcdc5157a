import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib.util import find_spec
from typing import Any

import pytest
import ray
from ray._private.ray_constants import DEFAULT_DASHBOARD_AGENT_LISTEN_PORT

from cudnn_sweep.cluster.errors import LocalRayError
from cudnn_sweep.cluster.local.local_ray import local_ray, probe_ray

pytestmark = [pytest.mark.measuring, pytest.mark.slow]

SLICES = ["MIG-1", "MIG-2"]


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One Ray for all tests here, started amid settings that would lead it elsewhere, in a folder with a module,
    beside another's agent, and too slowly at first.
    """
    init = ray.init

    def slow_at_first(**_: object) -> None:
        patch.setattr(ray, "init", init)
        raise RuntimeError("The current node timed out during startup.")

    users = {
        "RAY_ADDRESS": "192.0.2.1:6379",
        "RAY_AUTH_TOKEN": "a" * 64,
        "RAY_AUTH_MODE": "disabled",
        "RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES": "1",
        "CUDA_VISIBLE_DEVICES": "0,1,2",
    }
    with pytest.MonkeyPatch.context() as patch, socket.socket() as another:
        with suppress(OSError):  # a Ray of this machine has it
            another.bind(("127.0.0.1", DEFAULT_DASHBOARD_AGENT_LISTEN_PORT))
            another.listen()
        patch.setattr(ray, "init", slow_at_first)
        for name, value in users.items():
            patch.setenv(name, value)
        folder = tmp_path_factory.mktemp("typed")
        (folder / "stands_in.py").touch()
        patch.chdir(folder)
        before = _environment()
        with local_ray(slots=2, gpus=2, gpu_uuids=SLICES):
            yield
        assert _environment() == before


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}


def test_files_of_the_current_folder_are_no_modules_of_its_workers(ours: None) -> None:
    assert ray.get(ray.remote(lambda: find_spec("numpy")).remote())
    assert ray.get(ray.remote(lambda: find_spec("stands_in")).remote()) is None


def test_has_the_slots_and_gpus_asked_for(ours: None) -> None:
    resources = ray.cluster_resources()
    assert (resources["CPU"], resources["GPU"]) == (2, 2)
    assert ray.get(ray.remote(lambda: os.getpid()).remote()) != os.getpid()


def test_each_worker_sees_a_gpu_of_its_own(ours: None) -> None:
    class Worker:
        def visible(self) -> str:
            return os.environ["CUDA_VISIBLE_DEVICES"]

    workers: list[Any] = [ray.remote(Worker).options(num_gpus=1).remote() for _ in SLICES]
    assert sorted(ray.get([worker.visible.remote() for worker in workers])) == SLICES


def test_no_autoscaler_log_monitor_or_dashboard_runs_beside(ours: None) -> None:
    from ray._private.worker import global_worker

    assert global_worker.node is not None
    assert not {"monitor", "log_monitor", "dashboard"} & {*global_worker.node.all_processes}


def test_its_agent_answers_beside_that_of_another_ray(ours: None) -> None:
    from ray._private.worker import global_worker

    assert global_worker.node is not None
    port = global_worker.node.dashboard_agent_listen_port
    assert port != DEFAULT_DASHBOARD_AGENT_LISTEN_PORT
    with socket.create_connection(("127.0.0.1", port), timeout=10):
        pass


@pytest.mark.slow
def test_another_process_joins_with_the_token_alone(ours: None) -> None:
    address = ray.get_runtime_context().gcs_address
    right = {name: os.environ[name] for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN_PATH")}
    refused = "Authentication token is missing or incorrect"
    assert _ask(address, right)[0] == 0
    for wrong in ({"RAY_AUTH_TOKEN": "0" * 64}, {"RAY_AUTH_MODE": "disabled"}):
        code, error = _ask(address, {**right, **wrong})
        assert code != 0
        assert refused in error


def _ask(address: str, environment: Mapping[str, str]) -> tuple[int, str]:
    """Ends in 0 when Ray answers it."""
    asks = f"from ray._raylet import GcsClient; GcsClient({address!r}).internal_kv_keys(b'', b'')"
    one_try = {"RAY_NUM_REDIS_GET_RETRIES": "1"}  # of 20, one a second
    done = subprocess.run(
        [sys.executable, "-c", asks],
        check=False,
        env={**environment, **one_try},
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stderr


def test_one_process_has_one_ray(ours: None) -> None:
    with pytest.raises(LocalRayError, match="connected to a Ray already"), local_ray(slots=1):
        pass
    with pytest.raises(LocalRayError, match="connected to a Ray already"):
        probe_ray()
    assert ray.is_initialized()
