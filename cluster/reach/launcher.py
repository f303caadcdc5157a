"""Ray's own launcher, as a person would call it: it brings a cluster up and down, and tunnels to its head."""

import copy
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import yaml  # type: ignore[import-untyped]

from cudnn_sweep.cluster.errors import ClusterError
from cudnn_sweep.cluster.reach.jobs import DASHBOARD_PORT

TUNNEL_S = 60.0
LINES_SHOWN = 20
# Autoscaler v2 counts the head as a worker of provider `local` and starts one too few.
SETTINGS = {"RAY_UP_enable_autoscaler_v2": "0", "RAY_USAGE_STATS_ENABLED": "0"}


def bring_up(file: Path) -> None:
    """`ray up`: makes what is missing, changes what differs. Raises ClusterError."""
    _ray("up", "-y", "--no-config-cache", str(file), log=file.with_name("up.log"))


def take_down(file: Path) -> None:
    """`ray down`: ends every node. Raises ClusterError.

    Machines that no cloud takes back are to end their Ray. `ray down` asks the head for a bare `ray stop`,
    which finds no `ray` in an environment of its own, and goes on; the file's own commands find it. The
    other nodes end when their head is gone.
    """
    log = file.with_name("down.log")
    for command in stop_commands(yaml.safe_load(file.read_text())):
        with suppress(ClusterError):  # a head that is gone has nothing to stop
            _ray("exec", str(file), command, log=log)
    _ray("down", "-y", str(file), log=log)


def stop_commands(ray_part: Mapping[str, Any]) -> list[str]:
    """Those of the head's start commands that end an earlier Ray, and only that."""
    commands: list[str] = ray_part.get("head_start_ray_commands") or []
    return [each for each in commands if "ray stop" in each and "ray start" not in each]


def workers_at_first(ray_part: Mapping[str, Any]) -> int:
    """How many nodes besides the head `ray up` starts before any work asks for them."""
    from ray.autoscaler._private.util import prepare_config

    types = prepare_config(copy.deepcopy(dict(ray_part)))["available_node_types"].values()
    return sum(int(kind.get("min_workers", 0)) for kind in types)


@contextmanager
def tunnel(file: Path, *, timeout_s: float = TUNNEL_S) -> Iterator[str]:
    """The address, on this machine, under which the head's dashboard answers. Raises ClusterError."""
    port = _free_port()
    command = _command(
        "dashboard", "--port", str(port), "--remote-port", str(DASHBOARD_PORT), str(file)
    )
    process = subprocess.Popen(
        command,
        env={**os.environ, **SETTINGS},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        _wait_for(port, process, timeout_s)
        yield f"127.0.0.1:{port}"
    finally:
        _end(process)


def _ray(*words: str, log: Path) -> None:
    """It says more than anybody reads: that goes into `log`, and its end to whoever must mend it."""
    with log.open("w") as output:
        done = subprocess.run(
            _command(*words),
            env={**os.environ, **SETTINGS},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if done.returncode != 0:
        end = "\n".join(log.read_text(errors="replace").splitlines()[-LINES_SHOWN:])
        raise ClusterError(
            f"`ray {words[0]}` failed, exit code {done.returncode}; {log} ends:\n{end}"
        )


def _command(*words: str) -> list[str]:
    return [sys.executable, "-m", "ray.scripts.scripts", *words]


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def _wait_for(port: int, process: subprocess.Popen[bytes], timeout_s: float) -> None:
    ends = monotonic() + timeout_s
    while monotonic() < ends:
        if process.poll() is not None:
            assert process.stdout is not None
            last = process.stdout.read().decode(errors="replace").strip().splitlines()[-3:]
            raise ClusterError(f"no tunnel to the head: {' '.join(last) or process.returncode}")
        with socket.socket() as probe:
            probe.settimeout(1.0)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        sleep(0.2)
    raise ClusterError(f"no tunnel to the head after {timeout_s:.0f} s")


def _end(process: subprocess.Popen[bytes]) -> None:
    """With the ssh that it started."""
    if process.poll() is None:
        os.killpg(process.pid, 15)
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()
    if process.stdout is not None:
        process.stdout.close()
