"""What a janitor ends and when, and how a Ray starts that is slow or refuses, on processes that are made up."""

import os
import select as select_module
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cudnn_sweep.cluster.errors import LocalRayError
from cudnn_sweep.cluster.local import janitor, local_ray
from cudnn_sweep.cluster.local.janitor import GRACE_S, KILL_S, MARKER, POLL_S


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, ends_at: dict[int, float]) -> None:
        """`ends_at`: when each process ends by itself."""
        self.now, self.killed = 0.0, list[tuple[float, int]]()
        self._ends_at = ends_at
        monkeypatch.setattr(signal, "signal", lambda *_: None)
        monkeypatch.setattr(janitor, "wait_for_the_end", lambda _: None)
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        monkeypatch.setattr(time, "sleep", self._sleep)
        monkeypatch.setattr(janitor, "processes_of", self._left)
        monkeypatch.setattr(janitor, "kill", lambda pid: self.killed.append((self.now, pid)))

    def _sleep(self, seconds: float) -> None:
        self.now += seconds

    def _left(self, _: Path) -> list[int]:
        return [pid for pid, at in self._ends_at.items() if at > self.now]


@pytest.mark.parametrize(
    ("ends_at", "killed", "took_s"),
    [
        ({}, set(), 0.0),
        ({7: 1.0}, set(), 1.0),
        ({7: GRACE_S}, set(), GRACE_S),
        ({7: GRACE_S + 1.0, 8: 1.0}, {7}, GRACE_S + 1.0),
        ({7: 99.0}, {7}, GRACE_S + KILL_S),
    ],
)
def test_processes_have_their_grace_and_are_waited_for_no_longer_than_it_makes_sense(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    ends_at: dict[int, float],
    killed: set[int],
    took_s: float,
) -> None:
    clock, folder = Clock(monkeypatch, ends_at), tmp_path / "ray"
    folder.mkdir()
    janitor.main(folder)
    assert not folder.exists()
    assert {pid for _, pid in clock.killed} == killed
    assert all(at > GRACE_S for at, _ in clock.killed)
    assert clock.now == pytest.approx(took_s, abs=3 * POLL_S)


@pytest.mark.parametrize(
    ("parents", "inputs", "looks"),
    [
        ([1, 1, 1, 2], [None, None, None], 3),
        ([2], [], 0),
        ([1, 1, 1, 1], [None, b""], 2),
        ([1, 1, 1, 1, 1], [b"x", b"y", b""], 3),
    ],
)
def test_a_janitor_waits_until_its_input_closes_or_its_parent_ends(
    monkeypatch: pytest.MonkeyPatch,
    parents: list[int],
    inputs: list[bytes | None],
    looks: int,
) -> None:
    """An input of None: nothing comes within a second."""
    of, left, looked = iter(parents), iter(inputs), list[bytes | None]()

    def select(*_: object) -> Any:
        looked.append(next(left))
        return ([] if looked[-1] is None else ["stdin"]), [], []

    monkeypatch.setattr(os, "getppid", lambda: next(of))
    monkeypatch.setattr(select_module, "select", select)
    monkeypatch.setattr(os, "read", lambda *_: looked[-1])
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(fileno=lambda: 0))
    janitor.wait_for_the_end(1)
    assert len(looked) == looks


def process(proc: Path, pid: int, environ: bytes, cmdline: bytes, *files: Path) -> None:
    folder = proc / str(pid)
    (folder / "fd").mkdir(parents=True)
    (folder / "environ").write_bytes(environ)
    (folder / "cmdline").write_bytes(cmdline)
    for number, file in enumerate(files):
        (folder / "fd" / str(number)).symlink_to(file)


def test_processes_of_a_ray_have_its_marker_or_are_agents_with_its_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    proc, ours, other = tmp_path / "proc", Path("/tmp/ours"), Path("/tmp/other")
    marker = f"A=1\0{MARKER}={ours}\0".encode()
    process(proc, 1, marker, b"python")
    process(proc, 2, f"{MARKER}={ours}-2\0".encode(), b"python")
    process(proc, 3, b"A=1\0", b"ray::agent", other / "log", ours / "log")
    process(proc, 4, b"A=1\0", b"ray::agent", other / "log")
    process(proc, 5, b"A=1\0", b"vim", ours / "log")
    process(proc, 6, b"A=1\0", b"ray::agent")
    (proc / "7").mkdir()
    monkeypatch.setattr(janitor, "PROC", proc)
    assert sorted(janitor.processes_of(ours)) == [1, 3]


@pytest.mark.parametrize(
    ("errors", "starts", "message"),
    [
        ([], 1, None),
        ([f"it {local_ray.TOO_SLOW}"], 2, None),
        ([f"it {local_ray.TOO_SLOW}"] * 2, 2, local_ray.TOO_SLOW),
        (["no room"], 1, "Ray does not start on this machine: no room"),
    ],
)
@pytest.mark.parametrize("in_main_thread", [True, False])
def test_a_ray_that_was_too_slow_is_started_once_more(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    errors: list[str],
    starts: int,
    message: str | None,
    in_main_thread: bool,
) -> None:
    import ray

    left, given = iter(errors), list[dict[str, Any]]()
    before = signal.getsignal(signal.SIGTERM)

    def init(**options: Any) -> None:
        given.append(options)
        assert os.environ[MARKER] == str(tmp_path)
        if (error := next(left, None)) is not None:
            raise RuntimeError(error)
        if in_main_thread:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # as Ray does

    monkeypatch.setattr(ray, "init", init)

    def start() -> None:
        if in_main_thread:
            local_ray._init(4, 2, tmp_path)
            return
        with ThreadPoolExecutor(1) as pool:
            pool.submit(local_ray._init, 4, 2, tmp_path).result()

    if message is None:
        start()
    else:
        with pytest.raises(LocalRayError, match=message):
            start()
    assert len(given) == starts
    assert {(each["num_cpus"], each["num_gpus"]) for each in given} == {(4, 2)}
    assert MARKER not in os.environ
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_probe_says_how_long_a_ray_took_or_why_it_ran_no_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import ray
    from ray.exceptions import RayError

    class Nothing:
        def __init__(self, **_: object) -> None: ...
        def __enter__(self) -> None: ...
        def __exit__(self, *_: object) -> None: ...

    ticks = iter([100.0, 107.5, 200.0])
    monkeypatch.setattr(local_ray, "monotonic", lambda: next(ticks))
    monkeypatch.setattr(local_ray, "local_ray", Nothing)
    monkeypatch.setattr(ray, "remote", lambda _: SimpleNamespace(remote=lambda: None))
    monkeypatch.setattr(ray, "get", lambda *_, **__: time.time())
    assert local_ray.probe_ray() == 7.5

    def fails(*_: object, **__: object) -> None:
        raise RayError("lost")

    monkeypatch.setattr(ray, "get", fails)
    with pytest.raises(LocalRayError, match="starts on this machine but runs no task: lost"):
        local_ray.probe_ray()
