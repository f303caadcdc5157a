"""Starts and stops clusters with Ray's launcher, and opens a tunnel to the head.

The launch file is changed so that Ray (2.54 or newer) requires a token. Otherwise anybody who
reaches the dashboard could run code on the cluster (CVE-2023-48022).
"""

import copy
import difflib
import io
import logging
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import yaml  # type: ignore[import-untyped]

from cudnn_sweep.cluster.errors import ClusterError
from cudnn_sweep.cluster.jobs.jobs import DASHBOARD_PORT

TUNNEL_S = 60.0
HEAD_S = 60.0  # longest wait for the head's SSH server
LINES_SHOWN = 20
RAY = (sys.executable, "-P", "-m", "ray.scripts.scripts")
# With the provider `local`, autoscaler v2 starts one worker too few.
SETTINGS = {"RAY_UP_enable_autoscaler_v2": "0", "RAY_USAGE_STATS_ENABLED": "0"}
# These files are not in ~/.cudnn-sweep, because Docker would make that folder as root.
REMOTE_TOKEN = "~/.cudnn-sweep-token"  # path of the token's file on each node
REMOTE_MARK = "~/.cudnn-sweep-brought-up"
MARK = "brought_up"  # name of a file beside the token
# This text is put before each command that starts Ray.
EXPORT = 'export RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH="$HOME/.cudnn-sweep-token"; '
START_COMMANDS = ("head_start_ray_commands", "worker_start_ray_commands")
CHANGED = (*START_COMMANDS, "file_mounts")
# The variable is also set for each `ray start`, because a command may unset it.
START = re.compile(r"[\w./~${}-]*\bray\s+start\b")
START_WITH_TOKEN = r"env RAY_AUTH_MODE=token \g<0>"
EVERYBODY = "--dashboard-host=0.0.0.0"
LOOPBACK = "--dashboard-host=127.0.0.1"


def wait_for_head(ray_part: Mapping[str, Any], tell: Callable[[str], None]) -> None:
    """Wait until the SSH server at `head_ip` answers. Raises ClusterError after HEAD_S."""
    head = ray_part["provider"].get("head_ip")
    if head is None or ray_part["auth"].get("ssh_proxy_command"):
        return  # only `ray up` can reach the head
    command, ssh = ["ssh", "-G", "--", str(head)], {}
    with suppress(OSError):  # `ray up` reports a missing ssh
        shown = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        ssh = dict(line.split(" ", 1) for line in shown.splitlines() if " " in line)
    if ssh.keys() & {"proxycommand", "proxyjump"}:
        return
    host, port = ssh.get("hostname", head), int(ssh.get("port", 22))
    ends = monotonic() + HEAD_S
    if _speaks_ssh(host, port, 1.0):
        return
    tell(f"waiting for {host}:{port}; press Ctrl-C to stop")
    while (left_s := ends - monotonic()) > 0:
        if _speaks_ssh(host, port, min(left_s, 10.0)):
            return
        sleep(1)
    raise ClusterError(
        f"no SSH server answered at {host}:{port} within {HEAD_S:g} s; check that the host in "
        "`provider.head_ip` is up and reachable from here"
    )


def _speaks_ssh(host: str, port: int, timeout_s: float) -> bool:
    with suppress(OSError), socket.create_connection((host, port), timeout_s) as connection:
        return connection.recv(4) == b"SSH-"
    return False


def bring_up(file: Path, token: Path) -> None:
    """Run `ray up`, which starts the cluster or updates a running one. Raises ClusterError."""
    # `ray up` copies files to new nodes only if a file has changed
    token.with_name(MARK).write_text(secrets.token_hex(8))
    _ray("up", "-y", "--no-config-cache", str(file), log=file.with_name("up.log"))


def take_down(file: Path) -> None:
    """Run `ray down`, which ends every node. Raises ClusterError."""
    log = file.with_name("down.log")
    # `ray down` does not find a `ray` in a virtual environment
    for command in yaml.safe_load(file.read_text()).get("head_start_ray_commands") or []:
        if "ray stop" in command and "ray start" not in command:
            with suppress(ClusterError):  # a head that is gone has nothing to stop
                _ray("exec", str(file), command, log=log)
    _ray("down", "-y", str(file), log=log)


def with_defaults(ray_part: Mapping[str, Any]) -> dict[str, Any]:
    from ray.autoscaler._private.util import prepare_config

    with unheard():
        return dict(prepare_config(copy.deepcopy(dict(ray_part))))


@contextmanager
def unheard() -> Iterator[None]:
    """Suppress Ray's log messages and all output inside the `with` block."""
    logger = logging.getLogger("ray.autoscaler")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            yield
    finally:
        logger.setLevel(level)


def hosts_at_first(ray_part: Mapping[str, Any]) -> tuple[int, int | None]:
    """Return how many hosts and GPUs `ray up` starts at first. Unknown: None for the GPUs."""
    filled = with_defaults(ray_part)
    hosts, stated = 0, []
    for name, kind in filled["available_node_types"].items():
        count = int(kind.get("min_workers", 0)) + (name == filled["head_node_type"])
        hosts += count
        if count and "GPU" in kind.get("resources", {}):
            stated.append(int(count * kind["resources"]["GPU"]))
    return hosts, sum(stated) if stated else None


@contextmanager
def tunnel(file: Path, *, timeout_s: float = TUNNEL_S) -> Iterator[str]:
    """Open a tunnel to the head's dashboard and yield its local address. Raises ClusterError."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    options = ["--port", str(port), "--remote-port", str(DASHBOARD_PORT)]
    command = [*RAY, "dashboard", *options, str(file)]
    with running(command, end_s=5, variables=SETTINGS, stderr=subprocess.STDOUT) as process:
        _wait_for(port, process, timeout_s)
        yield f"127.0.0.1:{port}"


@contextmanager
def running(
    command: Sequence[str],
    *,
    end_s: float,
    variables: Mapping[str, str],
    folder: Path | None = None,
    stderr: int | None = None,
) -> Iterator[subprocess.Popen[str]]:
    """Run a process, and end it after the `with` block. Kill it if it runs `end_s` longer."""
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    with process:
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
                try:
                    process.wait(end_s)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)


def _ray(*words: str, log: Path) -> None:
    """Run a Ray command and write its output to `log`. Raises ClusterError if it fails."""
    with log.open("w") as output:
        done = subprocess.run(
            [*RAY, *words],
            env={**os.environ, **SETTINGS},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if done.returncode != 0:
        end = "\n".join(log.read_text(errors="replace").splitlines()[-LINES_SHOWN:])
        raise ClusterError(
            f"`ray {words[0]}` failed with exit code {done.returncode}. {log} ends with:\n{end}"
        )


def _wait_for(port: int, process: subprocess.Popen[str], timeout_s: float) -> None:
    ends = monotonic() + timeout_s
    while monotonic() < ends:
        if process.poll() is not None:
            assert process.stdout is not None
            last = process.stdout.read().strip().splitlines()[-3:]
            raise ClusterError(f"no tunnel to the head: {' '.join(last) or process.returncode}")
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
            return
        sleep(0.2)
    raise ClusterError(f"no tunnel to the head after {timeout_s:.0f} s")


def secure(ray_part: Mapping[str, Any], token: Path) -> dict[str, Any]:
    """Return a changed launch file, with which Ray requires the token in the file `token`."""
    config = copy.deepcopy(dict(ray_part))
    before = _changed_part(ray_part)
    for key in START_COMMANDS:
        commands = [EXPORT + START.sub(START_WITH_TOKEN, str(line)) for line in before[key]]
        if key not in ray_part:  # Ray's default opens the dashboard to every network
            commands = [command.replace(EVERYBODY, LOOPBACK) for command in commands]
        config[key] = [f"chmod 600 {REMOTE_TOKEN}", *commands]
    ours = {REMOTE_TOKEN: str(token), REMOTE_MARK: str(token.with_name(MARK))}
    config["file_mounts"] = {**before["file_mounts"], **ours}
    return config


def difference(ray_part: Mapping[str, Any], config: Mapping[str, Any]) -> str:
    parts = _changed_part(ray_part), {key: config[key] for key in CHANGED}
    # one line for each command
    old, new = (yaml.safe_dump(part, sort_keys=False, width=10**6).splitlines() for part in parts)
    return "\n".join(difflib.unified_diff(old, new, "your file", "as launched", lineterm=""))


def _changed_part(ray_part: Mapping[str, Any]) -> dict[str, Any]:
    filled = with_defaults(ray_part)
    return {key: filled.get(key) or ([] if key in START_COMMANDS else {}) for key in CHANGED}
