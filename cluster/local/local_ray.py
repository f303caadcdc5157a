"""Starts a private Ray on this machine.

It listens only on the loopback interface, and its clients need a token. Its processes and files are
removed after the `with` block, even if our process is killed.
"""

import logging
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, TypeAlias

from cudnn_sweep.cluster.errors import LocalRayError
from cudnn_sweep.cluster.leftovers import SUFFIX, make_held
from cudnn_sweep.cluster.local import janitor

# The longest path of a socket in Ray's folder.
SOCKET = "/r/session_2026-01-01_00-00-00_000000_1234567/sockets/plasma_store"
MAX_SOCKET_BYTES = 107  # Linux's limit
PREFIX = "sweep-"
MAX_PARENT_BYTES = MAX_SOCKET_BYTES - len(f"/{PREFIX}12345678{SUFFIX}{SOCKET}")

OBJECT_STORE_BYTES = 80_000_000  # Ray's minimum is 75 MiB
TOO_SLOW = "timed out during startup"  # part of Ray's error on a busy machine
START_S = 180.0  # longest wait for two tries
STOP_TIMEOUT_S = 15.0  # the janitor needs at most 8 s

SETTINGS = {
    "RAY_AUTH_MODE": "token",
    "RAY_USAGE_STATS_ENABLED": "0",
    # Otherwise Ray starts workers through uv under `uv run`.
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
    # Every port listens on 127.0.0.1.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    # A worker without a GPU of its own sees all GPUs, as in newer versions of Ray.
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    # If memory runs out, Ray would kill the recorder or a slot instead of the trial.
    "RAY_memory_monitor_refresh_ms": "0",
    # Ray ends after this number of seconds without its head. The default is 60.
    "RAY_gcs_rpc_server_reconnect_timeout_s": "15",
    "RAY_enable_metrics_collection": "0",
}
# Variables of the user that would change the private Ray.
REMOVED = (
    "RAY_ADDRESS",
    "RAY_AUTH_TOKEN",
    "RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES",
    "RAY_JOB_CONFIG_JSON_ENV_VAR",
    "RAY_REDIS_ADDRESS",
    "RAY_RUNTIME_ENV_HOOK",
)
LEFT_BY_RAY = ("PYTHONBREAKPOINT", "RAY_CLIENT_MODE")
# Constants that Ray reads from the environment only when it is imported.
CONSTANTS = ("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "ENABLE_RAY_CLUSTER")
TASK_TIMEOUT_S = 60.0  # from a slow disk, a worker takes tens of seconds to start


Beside: TypeAlias = Callable[[Mapping[str, str]], AbstractContextManager[object]]


@contextmanager
def local_ray(
    *,
    slots: int,
    gpus: int = 0,
    gpu_uuids: Sequence[str] = (),
    beside: Beside = lambda variables: nullcontext(),
) -> Iterator[Path]:
    """Start a Ray with `slots` CPUs and `gpus` GPUs, connect to it, and yield its private folder.

    Ray's workers see only the GPUs or MIG slices in `gpu_uuids`, if there are any. The thread that
    enters the `with` block must outlive it, because Linux ends Ray when that thread ends.
    `beside` gets environment variables and returns a context manager. Ray starts and ends inside
    this context, and processes with these variables end with Ray. Raises LocalRayError.
    """
    import ray

    if ray.is_initialized():
        raise LocalRayError("this process is connected to a Ray already: call ray.shutdown() first")
    with ExitStack() as stack:
        folder = stack.enter_context(_folder())
        stack.enter_context(beside({janitor.MARKER: str(folder)}))
        # other users cannot read the folder
        token = folder / "token"
        token.touch(mode=0o600)
        token.write_text(secrets.token_hex(32))
        settings = {**SETTINGS, "RAY_AUTH_TOKEN_PATH": str(token)}
        if gpu_uuids:
            settings["CUDA_VISIBLE_DEVICES"] = ",".join(gpu_uuids)
        stack.enter_context(_ray_reads(settings))
        stack.callback(ray.shutdown)
        with _with_less_beside():
            _init(slots, gpus, folder)
        yield folder


@contextmanager
def _folder() -> Iterator[Path]:
    """Yield a new folder. A janitor process removes it after the `with` block."""
    folder, held = make_held(PREFIX, _parent(), _end)
    # Without site-packages (-I -S), it starts in 20 ms.
    command = [sys.executable, "-I", "-S", janitor.__file__, str(folder)]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, start_new_session=True, pass_fds=[held]
    )
    try:
        yield folder
    finally:
        try:
            process.communicate(timeout=STOP_TIMEOUT_S)  # closes its input, so it starts to work
        except subprocess.TimeoutExpired:
            if any(janitor.processes_of(folder)):
                raise LocalRayError(f"the processes of the Ray in {folder} do not end") from None
            process.wait()  # it still deletes files
        finally:
            os.close(held)


def _end(folder: Path) -> None:
    """End the remaining processes of the Ray in `folder`."""
    for pid in janitor.processes_of(folder):
        janitor.kill(pid)


def _parent() -> Path:
    """Return the system's temporary folder, or /tmp if a socket's path there would be too long."""
    usual = Path(tempfile.gettempdir())
    return usual if len(os.fsencode(usual)) <= MAX_PARENT_BYTES else Path("/tmp")


@contextmanager
def _ray_reads(settings: Mapping[str, str]) -> Iterator[None]:
    """Set Ray's environment variables, and restore the environment at the end."""
    from ray._private import ray_constants

    before = dict(os.environ)
    constants = {name: getattr(ray_constants, name) for name in CONSTANTS}
    for name in REMOVED:
        os.environ.pop(name, None)
    os.environ.update(settings)
    try:
        for name in CONSTANTS:
            setattr(ray_constants, name, False)
        _read_environment_again()
        yield
    finally:
        for name in (*settings, *REMOVED, *LEFT_BY_RAY):
            os.environ.pop(name, None)
            if name in before:
                os.environ[name] = before[name]
        for name, value in constants.items():
            setattr(ray_constants, name, value)
        _read_environment_again()


def _read_environment_again() -> None:
    """Make Ray's C++ code read its settings and the token again."""
    from ray._raylet import (  # type: ignore[attr-defined]
        AuthenticationTokenLoader,
        Config,
    )

    Config.initialize("")
    AuthenticationTokenLoader.instance().reset_cache()


@contextmanager
def _with_less_beside() -> Iterator[None]:
    """Start Ray without its autoscaler, log monitor and dashboard, which slow measurements."""
    from ray._private import parameter, services

    of_ray = parameter.RayParams, services.start_api_server
    params = partial(
        parameter.RayParams,
        dashboard_agent_listen_port=0,  # a free port
        include_log_monitor=False,  # type: ignore[arg-type]  # Ray annotates this flag as text
        no_monitor=True,
    )
    parameter.RayParams = params  # type: ignore[assignment,misc]
    services.start_api_server = lambda *_, **__: (None, None)
    try:
        yield
    finally:
        parameter.RayParams, services.start_api_server = of_ray  # type: ignore[misc]


def _give_up() -> None:
    os.write(2, f"sweep: Ray does not start on this machine within {START_S:g} s\n".encode())
    os._exit(1)  # the main thread waits in Ray and cannot be interrupted


def _init(slots: int, gpus: int, folder: Path) -> None:
    import ray
    from ray.job_config import JobConfig

    class InstalledCode(JobConfig):
        """Keeps the current folder off the sys.path of Ray's workers."""

        def _runtime_env_has_working_dir(self) -> bool:
            return True  # Ray then adds no folder

    options: dict[str, Any] = {
        "address": "local",
        "num_cpus": slots,
        "num_gpus": gpus,
        "object_store_memory": OBJECT_STORE_BYTES,
        "include_dashboard": False,
        "job_config": InstalledCode(),
        "log_to_driver": False,
        "logging_level": logging.WARNING,
        "_node_ip_address": "127.0.0.1",
        "_temp_dir": str(folder / "r"),  # Ray makes this folder public, but not its parent
    }
    # Ray replaces the handler.
    on_sigterm = signal.getsignal(signal.SIGTERM)
    limit = threading.Timer(START_S, _give_up)
    limit.start()
    os.environ[janitor.MARKER] = str(folder)  # for processes that Ray starts
    try:
        try:
            ray.init(**options)
        except Exception as error:
            if TOO_SLOW not in str(error):
                raise
            ray.init(**options)  # the janitor ends the rest of the first Ray
    except Exception as error:  # Ray has no error class for this
        raise LocalRayError(f"Ray does not start on this machine: {error}") from error
    finally:
        limit.cancel()
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, on_sigterm)
        del os.environ[janitor.MARKER]


def probe_ray() -> float:
    """Start Ray, run a task and stop Ray. Return the time in seconds. Raises LocalRayError."""
    import ray
    from ray.exceptions import RayError

    began = monotonic()
    with local_ray(slots=1):
        try:
            ray.get(ray.remote(_worker_pid).remote(), timeout=TASK_TIMEOUT_S)
        except RayError as error:
            raise LocalRayError(f"Ray starts on this machine but runs no task: {error}") from error
    return monotonic() - began


def _worker_pid() -> int:
    """Return the worker's process id. The worker imports our package, as in a sweep."""
    return os.getpid()
