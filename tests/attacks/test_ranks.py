"""Launches of trials over two ranks: killed ranks, signals at random moments, and a lost Ray worker."""

import os
import random
import re
import signal
import time
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests import processes
from tests.attacks.test_launches import (
    Attempts,
    Launch,
    begun,
    finish,
    kill,
    left_behind,
    prepare,
    targets,
)

pytestmark = [pytest.mark.measuring, pytest.mark.slow, pytest.mark.timeout(900)]

REPLICATES = 20
TRIALS = 2 * REPLICATES + 1  # two configs, and an A/A pair's second
LAUNCH_FILE = f"""
metadata:
  sweep:
    configs: [{{benchmark: false}}, {{benchmark: true}}]
    replicates: {REPLICATES}
    measure: {{warmup_s: 0, steady_budget_s: 0.05, calibrate: false, timeout_s: 60}}
    cells: [{{workload: "net.py:Net", input: 4x3x8x8, ranks: 2}}]
"""
NET = """
from torch import nn

class Net(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(144, 2))
"""
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
COLUMNS = ["trial_id", "status", "message", "checks_error", "rank_results", "repeats_block"]


@pytest.mark.long
def test_killed_ranks_end_their_trials_alone_with_their_names(
    tmp_path: Path, attempts: Attempts, seed: int
) -> None:
    wanted, kills, ends, dice = attempts(2, 100), 0, Counter[str](), random.Random(seed)
    shared = set(os.listdir("/dev/shm"))
    while kills < wanted:
        folder = _prepared(tmp_path / f"after-{kills}")
        with begun(folder) as launch:
            while launch.process.poll() is None:
                time.sleep(dice.uniform(0.0, 4.0))
                if kills < wanted and (ranks := _ranks(launch)):
                    kill(dice.choice(ranks))
                    kills += 1
            assert launch.process.returncode == 0, launch.said()
            assert not left_behind(launch)
        ends += _ends(folder)
    assert not set(os.listdir("/dev/shm")) - shared
    print(f"{kills} kills: {dict(ends)}")


@pytest.mark.long
@pytest.mark.parametrize("target", ["shell's process", "everything", "worker"])
def test_stopped_launch_of_ranks_leaves_nothing_and_resumes(
    target: str, tmp_path: Path, attempts: Attempts, seed: int
) -> None:
    dice, shared = random.Random(f"{seed} {target}"), set(os.listdir("/dev/shm"))
    for number in range(attempts(1, 10)):
        folder = _prepared(tmp_path / f"sweep-{number}")
        signalled = signal.SIGKILL if target == "worker" else dice.choice([*CODES])
        with begun(folder) as launch:
            while launch.recorded() < 2 or not _ranks(launch):
                assert launch.process.poll() is None, launch.said()
                time.sleep(0.05)
            time.sleep(dice.uniform(0.0, 4.0))
            for pid in targets(launch, target):
                kill(pid, signalled)
            code = launch.wait()
            assert "Traceback" not in launch.said(), launch.said()
            assert not left_behind(launch)
        assert code in (0, CODES.get(signalled, 1)), launch.said()
        if code:
            finish(folder)
        _ends(folder)
    assert not set(os.listdir("/dev/shm")) - shared


def _prepared(folder: Path) -> Path:
    prepare(folder, LAUNCH_FILE)
    (folder / "net.py").write_text(NET)
    return folder


def _ranks(launch: Launch) -> list[int]:
    """Return the processes of trials: a fork server forks two for a trial, one for other jobs."""
    forked = map(processes.children, launch.role("fork server"))
    return sorted(pid for pids in forked if len(pids) > 1 for pid in pids)


def _ends(folder: Path) -> Counter[str]:
    """Count how trials ended. Check that each planned one has one record and that a fault names its rank."""
    parts = (folder / "results").rglob("*.parquet")
    rows = [row for part in parts for row in pq.read_table(part, columns=COLUMNS).to_pylist()]
    planned = [row["trial_id"] for row in rows if row["repeats_block"] is None]
    assert len(planned) == len(set(planned)) == TRIALS
    ends = Counter[str]()
    for row in rows:
        if fault := row["message"] or row["checks_error"]:
            assert re.match(r"rank [01] of 2: SIGKILL", fault), fault
        if row["status"] == "ok":
            assert len(row["rank_results"]) == 2
        ends[row["status"] + " without checks" * bool(row["checks_error"])] += 1
    return ends
