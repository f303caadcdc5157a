"""Launches under attack, at random moments and through their ports. What they stored is read by pyarrow alone."""

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests import processes

pytestmark = [pytest.mark.measuring, pytest.mark.slow, pytest.mark.timeout(300)]

Attempts = Callable[[int, int], int]
NO_ANSWER_S = 10.0  # for the product's minute
# The product, but less patient, and a difference on a CPU counts: so that cells are looked at, and decided.
SWEEP = f"""
from cudnn_sweep.analysis.engine import prelude
from cudnn_sweep.orchestrator.cli import watchdog as stuck
stuck.NO_ANSWER_S, stuck.LOOK_S = {NO_ANSWER_S}, 1.0
macros, no_cuda = prelude.macros(), "when device = 'cpu' then 'no_cuda'"
assert no_cuda in macros
prelude.macros = lambda: macros.replace(no_cuda, "when device = 'cpu' then null")
from cudnn_sweep.orchestrator.cli import app
app(prog_name="sweep")
"""
HANG_S = 90.0  # in which a launch tells or stores something, on a machine that others use too
END_S = 60.0  # until nothing of a launch is left
REPLICATES = 8
TRIALS = 2 * REPLICATES + 1  # two configs, and an A/A pair's second
LAUNCH_FILE = f"""
metadata:
  sweep:
    configs: [{{benchmark: false}}, {{benchmark: true}}]
    replicates: {REPLICATES}
    measure: {{warmup_s: 0, steady_budget_s: 0.02, calibrate: false, timeout_s: 20}}
    cells: [{{workload: noop}}]
"""
DECIDED = LAUNCH_FILE.replace(f"{REPLICATES}\n", "{until: decided, at_most: 10}\n")
DECIDED = DECIDED.replace("{workload: noop}", "{workload: noop, batch: [1, 2, 4]}")
LOOKS = (2, 3, 5, 8, 10)
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F"}  # 127.0.0.1, and mapped into IPv6
COLUMNS = ["sweep_id", "trial_id", "cell_id", "replicate", "benchmark", "twin"]
COLUMNS += ["attempt_id", "repeats_block"]
# By a part of the command line, or of the name that Ray gives.
ROLES = {
    "worker": "ray::ResourceTrainable",
    "fork server": "cudnn_sweep.orchestrator.process.server",
    "recorder": "ray::Recorder",
    "raylet": "raylet/raylet",
    "GCS": "gcs_server",
    "agent": "ray::DashboardAgent",
    "runtime agent": "ray::RuntimeEnvAgent",
    "janitor": "janitor.py",
}


@pytest.fixture(autouse=True)
def _temporary_folders_removed(tmp_path: Path) -> Iterator[None]:
    yield
    for link in tmp_path.rglob("tmp"):
        if link.is_symlink():
            shutil.rmtree(link.resolve(), ignore_errors=True)


def prepare(folder: Path, launch_file: str = LAUNCH_FILE) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    # Ray's sockets need a short name; nothing but this launch may be in it.
    (folder / "tmp").symlink_to(tempfile.mkdtemp(prefix="a", dir="/tmp"))
    (folder / "cluster.yaml").write_text(launch_file)
    return folder


@dataclass(frozen=True, kw_only=True)
class Launch:
    folder: Path
    process: subprocess.Popen[bytes]
    output: Path

    def said(self) -> str:
        return self.output.read_text(errors="replace")

    def recorded(self) -> int:
        return sum(1 for _ in self.folder.glob("results/sweep=*/trials/*.parquet"))

    def pids(self) -> set[int]:
        """Of it and of all that it started: by descent, and by what Ray's processes carry."""
        mark = f"TMPDIR={(self.folder / 'tmp').resolve()}\0".encode()
        marked = {pid for pid in processes.every() if mark in processes.read(pid, "environ")}
        own = os.fsencode((self.folder / "tmp").resolve()) + b"/"
        of_ray = {pid for pid in processes.every() if own in processes.read(pid, "cmdline")}
        return marked | processes.below(self.process.pid) | of_ray

    def role(self, name: str) -> list[int]:
        """Processes of this launch that do that."""
        return [pid for pid in self.pids() if ROLES[name] in processes.command(pid)]

    def wait(self) -> int:
        """Its exit code. Raises TimeoutExpired where it hangs."""
        while True:
            before = self._progress()
            try:
                return self.process.wait(HANG_S)
            except subprocess.TimeoutExpired:
                if self._progress() == before:
                    raise

    def _progress(self) -> tuple[str, set[Path]]:
        return self.said(), _stored(self.folder)


@contextmanager
def begun(folder: Path, *arguments: str) -> Iterator[Launch]:
    """Whatever is left of it at the end is killed."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    output = folder / f"output-{time.monotonic_ns()}"
    own = {"TMPDIR": str((folder / "tmp").resolve()), "CUDA_VISIBLE_DEVICES": ""}
    with output.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-c", SWEEP, "launch", *arguments],
            cwd=folder,
            env=os.environ | own,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    with ended(Launch(folder=folder, process=process, output=output)) as launch:
        yield launch


@contextmanager
def ended(launch: Launch) -> Iterator[Launch]:
    """Print what it printed if the block fails; kill what is left of it at the end."""
    try:
        yield launch
    except BaseException:
        print(launch.said())
        raise
    finally:
        for pid in launch.pids():
            kill(pid)
        launch.process.wait()


def finish(folder: Path) -> None:
    """Launch until it is done."""
    for _ in range(4):
        with begun(folder) as launch:
            if launch.wait() == 0:
                return
    raise AssertionError(f"four launches did not finish it; the last said:\n{launch.said()}")


def left_behind(launch: Launch) -> list[str]:
    """Command lines of what still runs after END_S, and folders of a Ray that nobody removed."""
    ends = time.monotonic() + END_S
    while (left := launch.pids()) and time.monotonic() < ends:
        time.sleep(0.1)
    return [
        *map(processes.command, left),
        *map(str, (launch.folder / "tmp").glob("sweep-????????")),
    ]


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def check_stored(folder: Path) -> None:
    """By plain pyarrow: each trial of each sweep's plan once, no file that does not read."""
    files = sorted((folder / "results").rglob("*"))
    assert not [file for file in files if file.suffix == ".torn"]
    parts = [file for file in files if file.suffix == ".parquet"]
    rows = [row for part in parts for row in pq.read_table(part, columns=COLUMNS).to_pylist()]
    planned = [row for row in rows if row["repeats_block"] is None]
    assert len({row["attempt_id"] for row in rows}) == len(rows), "an attempt stands there twice"
    by_sweep = Counter(row["sweep_id"] for row in planned)
    keys = {(row["sweep_id"], row["trial_id"]) for row in planned}
    assert len(keys) == len(planned), "a trial stands there twice"
    if (folder / "cluster.yaml").read_text() == DECIDED:
        for sweep_id in by_sweep:
            _check_blocks([r for r in planned if r["sweep_id"] == sweep_id and not r["twin"]])
    else:
        assert set(by_sweep.values()) == {TRIALS}, f"a trial is missing: {by_sweep}"


def _check_blocks(rows: Sequence[Mapping[str, object]]) -> None:
    """Each cell ended at a look, and lacks no trial up to it."""
    for cell_id in (cells := {row["cell_id"] for row in rows}):
        there = {(row["replicate"], row["benchmark"]) for row in rows if row["cell_id"] == cell_id}
        blocks = len(there) // 2
        assert blocks in LOOKS, f"{blocks} blocks of {cell_id}"
        assert there == set(product(range(blocks), (False, True))), f"a trial is missing: {there}"
    assert len(cells) == 3, cells


EARLY_S = 8.0  # in which a launch starts
LOST_S = 30.0  # in which a launch ends, or goes on, that lost a part of its Ray
ALL = ("everything", "everything", "shell's process")
PARTS = ("driver", *(role for role in ROLES if role != "janitor"))
SIGNALS = (signal.SIGKILL, signal.SIGSTOP)


@pytest.mark.long
def test_killed_launches_lose_and_double_nothing(
    tmp_path: Path, attempts: Attempts, seed: int
) -> None:
    """Each sweep is hit a few times, then launched until it is done, and counted by pyarrow alone."""
    wanted, done, number = attempts(1, 200), Counter[str](), 0
    while done.total() < wanted:
        folder = prepare(tmp_path / f"sweep-{number}", DECIDED if number % 2 else LAUNCH_FILE)
        done += _killed(folder, wanted - done.total(), random.Random(f"{seed}-{number}"))
        number += 1
        print(f"{done.total()} kills, {number} sweeps of {TRIALS} trials: {dict(done)}", flush=True)


def _killed(folder: Path, most: int, dice: random.Random) -> Counter[str]:
    done: Counter[str] = Counter()
    for _ in range(min(dice.randint(1, 4), most)):
        before = _stored(folder)
        with begun(folder) as launch:
            target = dice.choice((*ALL, *PARTS))
            number = dice.choice(SIGNALS) if target in PARTS else signal.SIGKILL
            done[f"{number.name} {target}"] += _hit(launch, target, number, dice)
            launch.wait()
            assert "Traceback" not in launch.said()
            assert not left_behind(launch), f"after {number.name} to {target}"
        assert _rows_of(_stored(folder)) >= _rows_of(before), f"rows are gone after {target}"
    finish(folder)
    check_stored(folder)
    return done


def _hit(launch: Launch, target: str, number: int, dice: random.Random) -> bool:
    """While it starts, or after some more trials; whether there was something to hit by then."""
    already, more = launch.recorded(), dice.randint(-2, TRIALS - 3)
    began, delay_s = time.monotonic(), dice.uniform(0.0, EARLY_S if more < 0 else 0.6)
    while launch.process.poll() is None:
        if more < 0 or launch.recorded() >= already + more:
            if time.monotonic() - began >= delay_s and (pids := targets(launch, target)):
                for pid in pids:
                    kill(pid, number)
                return True
        else:
            began = time.monotonic()
        time.sleep(0.02)
    return False


def targets(launch: Launch, target: str) -> list[int]:
    if target == "everything":
        janitor = set(launch.role("janitor"))  # it is there to be left
        return sorted(launch.pids() - janitor)
    if target == "driver":
        return processes.children(launch.process.pid)  # which the shell's process waits for
    return [launch.process.pid] if target == "shell's process" else launch.role(target)


def _stored(folder: Path) -> set[Path]:
    return set(folder.glob("results/sweep=*/**/*.parquet"))


def _rows_of(files: set[Path]) -> int:
    return sum(pq.read_metadata(file).num_rows for file in files if file.exists())


@pytest.mark.parametrize("number", SIGNALS, ids=["killed", "stopped"])
@pytest.mark.parametrize("lost", PARTS)
@pytest.mark.long
def test_launch_that_lost_a_part_of_its_ray_ends_or_goes_on(
    lost: str, number: signal.Signals, tmp_path: Path, attempts: Attempts
) -> None:
    is_stopped = number == signal.SIGSTOP
    for each in range(attempts(int(is_stopped and lost == "recorder"), 3)):
        folder = prepare(tmp_path / f"{each}")
        with begun(folder) as launch:
            while launch.recorded() < 2:
                assert launch.process.poll() is None, launch.said()
                time.sleep(0.05)
            for pid in targets(launch, lost):
                kill(pid, number)
            began = time.monotonic()
            code = launch.process.wait(LOST_S + is_stopped * 2 * NO_ANSWER_S)
            took_s = time.monotonic() - began
            said = launch.said()
            assert not left_behind(launch)
        assert code == 0 or "launch again to resume" in said, said
        assert not is_stopped or "killed " in said, said
        print(f"{lost}: exit code {code} after {took_s:.1f} s")
        if code:
            finish(folder)
        check_stored(folder)


def test_signal_ends_a_launch_with_its_code_at_any_moment(
    tmp_path: Path, attempts: Attempts, seed: int
) -> None:
    """To the shell's process, and to the whole group as `timeout` and Slurm send it."""
    dice = random.Random(seed)
    codes = {signal.SIGINT: 130, signal.SIGTERM: 143}
    folder = prepare(tmp_path / "signals")
    ends: Counter[str] = Counter()
    for _ in range(attempts(0, 40)):
        number = dice.choice(list(codes))
        target = dice.choice(("everything", "shell's process"))
        with begun(folder, "--new") as launch:
            time.sleep(dice.uniform(0.15, 2 * EARLY_S))
            if launch.process.poll() is None:
                for pid in targets(launch, target):
                    kill(pid, number)
                code = launch.process.wait(40.0)
                assert code in (codes[number], 0), launch.said()
                assert "Traceback" not in launch.said(), launch.said()
                ends[f"{number.name} to {target}: {code}"] += 1
            assert not left_behind(launch)
    print(dict(ends))


@pytest.mark.long
def test_no_port_of_a_launch_is_open_to_others(tmp_path: Path) -> None:
    """Each listens on the loopback alone, and does nothing for who has no token."""
    folder = prepare(tmp_path / "ports")
    with begun(folder) as launch:
        while launch.recorded() < 1:
            assert launch.process.poll() is None, launch.said()
            time.sleep(0.05)
        doors = sorted(_listening(launch.pids()))
        assert len(doors) >= 5, doors
        assert {host for host, _ in doors} <= LOOPBACK, doors
        for _, port in doors:
            for path in ("/api/version", "/api/jobs/", "/nodes", "/logs"):
                answer = _asked(port, path)
                assert answer is None or answer.startswith((b"HTTP/1.1 4", b"HTTP/1.0 4")), answer
        token = next((folder / "tmp").glob("sweep-*/token"))
        assert token.stat().st_mode & 0o077 == 0
        secret = token.read_bytes()
        shown = [
            processes.read(pid, file) for pid in launch.pids() for file in ("cmdline", "environ")
        ]
        assert not any(secret in each for each in shown)
        assert secret.decode() not in launch.said()
        others = launch.pids() - {launch.process.pid}
        for pid in (launch.process.pid, *others):  # all at once, as Slurm does
            kill(pid, signal.SIGTERM)
        assert launch.process.wait(LOST_S) == 143, launch.said()
        assert "Traceback" not in launch.said()
        assert not left_behind(launch)
    print(f"{len(doors)} ports")


def _listening(pids: set[int]) -> set[tuple[str, int]]:
    """Addresses, as the kernel writes them, and ports on which they take TCP connections."""
    own = set().union(*(processes.links(pid, "fd/*") for pid in pids))
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and f"socket:[{words[9]}]" in own:
                address, port = words[1].split(":")
                found.add((address, int(port, 16)))
    return found


def _asked(port: int, path: str) -> bytes | None:
    """What it answers a stranger's POST; None where it speaks no HTTP, or only of how it is."""
    job = b'{"entrypoint": "touch /tmp/pwned"}'
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(job)}\r\n\r\n".encode()
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1) as door:
        door.sendall(head + job)
        answer = door.recv(200)
        return answer if answer.startswith(b"HTTP") else None
    return None
