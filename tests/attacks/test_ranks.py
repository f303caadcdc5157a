"""Trials over two ranks whose processes are killed one at a time, at random moments."""

import os
import random
import re
import time
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests import processes
from tests.attacks.test_launches import Attempts, Launch, begun, kill, left_behind, prepare

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
COLUMNS = ["trial_id", "status", "message", "checks_error", "rank_results"]


@pytest.mark.long
def test_killed_ranks_end_their_trials_alone_with_their_names(
    tmp_path: Path, attempts: Attempts, seed: int
) -> None:
    wanted, kills, ends, dice = attempts(2, 100), 0, Counter[str](), random.Random(seed)
    shared = set(os.listdir("/dev/shm"))
    while kills < wanted:
        folder = prepare(tmp_path / f"after-{kills}", LAUNCH_FILE)
        (folder / "net.py").write_text(NET)
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


def _ranks(launch: Launch) -> list[int]:
    """Return the processes of trials: a fork server forks two for a trial, one for other jobs."""
    forked = map(processes.children, launch.role("fork server"))
    return sorted(pid for pids in forked if len(pids) > 1 for pid in pids)


def _ends(folder: Path) -> Counter[str]:
    """Count how trials ended. Check that each has one record and that a fault names its rank."""
    parts = (folder / "results").rglob("*.parquet")
    rows = [row for part in parts for row in pq.read_table(part, columns=COLUMNS).to_pylist()]
    assert len(rows) == len({row["trial_id"] for row in rows}) == TRIALS
    ends = Counter[str]()
    for row in rows:
        if fault := row["message"] or row["checks_error"]:
            assert re.match(r"rank [01] of 2: SIGKILL", fault), fault
        if row["status"] == "ok":
            assert len(row["rank_results"]) == 2
        ends[row["status"] + " without checks" * bool(row["checks_error"])] += 1
    return ends
