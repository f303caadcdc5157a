"""`sweep launch` as it is typed: what it says, what it leaves behind, how it goes on after Ctrl-C."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cudnn_sweep.analysis.store.progress import blocks_of, planned
from cudnn_sweep.analysis.store.store import open_store
from cudnn_sweep.orchestrator.exit_codes import ExitCode
from tests import processes
from tests.orchestrator.typed import Done, sweep

pytestmark = pytest.mark.measuring

SWEEP = [sys.executable, "-m", "cudnn_sweep.orchestrator.cli"]

LAUNCH_FILE = """
metadata:
  sweep:
    configs: [{{benchmark: false}}, {{benchmark: true}}]
    replicates: {replicates}
    measure: {{warmup_s: 0, steady_budget_s: 0.02, calibrate: false, timeout_s: 100}}
    cells:
"""
GIVEN_UP = 2  # trials of the cell that raises, where its first four came after Ctrl-C
TRIALS = 19  # of three cells, two configs, three replicates, and an A/A pair's second


def write(here: Path, *workloads: str, replicates: int) -> None:
    cells = "".join(f"      - workload: {workload}\n" for workload in workloads)
    (here / "cluster.yaml").write_text(LAUNCH_FILE.format(replicates=replicates) + cells)


@contextmanager
def begun(here: Path) -> Iterator[subprocess.Popen[str]]:
    """A launch whose first trial is stored."""
    launch = subprocess.Popen(
        [*SWEEP, "launch"],
        cwd=here,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        while not any(here.glob("results/sweep=*/trials/*.parquet")):
            assert launch.poll() is None, launch.communicate()[0]
            time.sleep(0.05)
        yield launch
    finally:
        launch.kill()
        launch.wait()
        assert launch.stdout is not None
        launch.stdout.close()


def stored(here: Path) -> dict[str, set[str]]:
    """Ids of the stored trials, by sweep."""
    store = open_store(str(here / "results"))
    return {sweep_id: set(store.stored_trials(sweep_id)) for sweep_id in store.sweep_ids()}


def first_rows(here: Path, sweep_id: str) -> dict[str, str]:
    trials = open_store(str(here / "results")).stored_trials(sweep_id)
    return {trial.trial_id: trial.attempt_id for trial in planned(trials.values())}


@dataclass(frozen=True, kw_only=True)
class Resumed:
    """A launch that Ctrl-C ended, what it said and left, one beside it, and one after it."""

    here: Path
    pid: int
    interrupted: tuple[int, str]
    left: list[str]
    sweep_id: str
    rows: dict[str, str]
    torn: Path
    meanwhile: Done
    after: Done


@pytest.fixture(scope="module")
def resumed(tmp_path_factory: pytest.TempPathFactory, faulty: str) -> Resumed:
    """Made once: each launch starts a Ray. How one ends that is killed, tests/attacks/test_launches.py tries."""
    here = tmp_path_factory.mktemp("interrupted")
    cells = (f"{faulty}:{name}" for name in ("takes_a_while", "raises", "segfaults"))
    write(here, *cells, replicates=3)
    with begun(here) as launch:
        (worker,) = processes.children(launch.pid)
        os.kill(worker, signal.SIGSTOP)  # it would be through before the other has asked
        meanwhile = sweep("launch", here=here)
        os.killpg(launch.pid, signal.SIGINT)  # as a terminal sends it: to everyone there
        os.kill(worker, signal.SIGCONT)
        said, _ = launch.communicate()
    left = [
        processes.command(pid)
        for pid in processes.every()
        if processes.links(pid, "cwd") == {str(here)}
    ]
    ((sweep_id, _),) = stored(here).items()
    torn = here / "results" / f"sweep={sweep_id}" / "trials" / "half-written.parquet"
    torn.write_bytes(b"PAR1 and then the power went")
    return Resumed(
        here=here,
        pid=worker,
        interrupted=(launch.returncode, said),
        left=left,
        sweep_id=sweep_id,
        rows=first_rows(here, sweep_id),
        torn=torn,
        meanwhile=meanwhile,
        after=sweep("launch", "--json", here=here),
    )


@pytest.mark.slow
def test_launch_is_refused_while_another_measures(resumed: Resumed) -> None:
    assert resumed.meanwhile.returncode == ExitCode.UNFINISHED
    told = resumed.meanwhile.stderr
    assert f"another sweep is measuring on cpu: process {resumed.pid} of" in told
    assert "torch is imported" not in resumed.meanwhile.stdout, "it looks before"


@pytest.mark.slow
def test_interrupted_launch_is_resumed_and_nothing_is_lost_or_doubled(resumed: Resumed) -> None:
    after = resumed.after
    assert after.returncode == ExitCode.DOES_NOT_RUN, after.stdout + after.stderr
    assert f"resuming {resumed.sweep_id}" in after.stderr
    assert "foreign file was set aside" in after.stderr
    assert resumed.torn.with_name("half-written.parquet.torn").exists()
    assert list(stored(resumed.here)) == [resumed.sweep_id]
    rows = first_rows(resumed.here, resumed.sweep_id)
    assert TRIALS - len(rows) in (0, GIVEN_UP)
    assert resumed.rows.items() <= rows.items(), "a finished trial was run again"
    store = open_store(str(resumed.here / "results"))
    trials = store.stored_trials(resumed.sweep_id)
    table = store.snapshot(resumed.sweep_id).table(["trial_id"])
    assert table.num_rows == len(trials), "a trial is stored twice"
    assert all(split.mended for split in blocks_of(trials.values()).split)


@pytest.mark.slow
def test_failures_are_rows_and_come_with_their_commands(resumed: Resumed) -> None:
    told = resumed.after.stderr
    assert "no_effect (no_cuda)" in told
    table = told.partition("milliseconds per iteration")[2]
    assert table.count("not measured: failed") == 2, "cells that failed under both configs"
    assert re.search(r"1[79] of 19 trials recorded \([67] crash, [4-7] error, [67] ok\)", told)
    assert "--results" not in told, "the default needs no option"
    assert re.search(r"error in \d trials of 1 cell: ValueError: the user's step is wrong", told)
    assert told.count("ValueError: the user's step is wrong") == 2, (
        "once as it came, once at the end"
    )
    assert re.search(r"crash in \d trials of 1 cell: .*SIGSEGV", told)
    assert told.count("--retry-failed") == 2, "a command a cause"

    command = shlex.split(next(line for line in told.splitlines() if "--retry-failed" in line))
    assert command[:2] == ["sweep", "launch"]
    retried = sweep(*command[1:], "--dry-run", here=resumed.here)
    assert retried.returncode == 0, retried.stdout + retried.stderr
    assert "\n1 trials: 1 cell" in retried.stdout
    assert_same(json.loads(resumed.after.stdout), resumed)


def assert_same(found: dict[str, Any], resumed: Resumed) -> None:
    """What a launch's JSON says and what is stored."""
    assert found["sweep_id"] == resumed.sweep_id
    assert found["exit_code"] == resumed.after.returncode
    store = open_store(str(resumed.here / found["results"]))
    trials = list(planned(store.stored_trials(resumed.sweep_id).values()))
    assert found["statuses"] == Counter(each.status for each in trials)
    assert found["trials_recorded"] == len(trials) and found["trials_planned"] == TRIALS
    failed = {each.trial_id for each in trials if each.status != "ok"}
    assert {each["trial_id"] for each in found["failures"]} <= failed and found["failures"]
    (measured,) = [each for each in found["verdicts"] if each["ratio"] is not None]
    assert "takes_a_while" in measured["cell"] and measured["wall_verdict"] == "no_effect"
    assert measured["ratio_low"] <= measured["ratio"] <= measured["ratio_high"]
    assert measured["cell_id"] in {each["cell_id"] for each in found["break_evens"]}


@pytest.mark.slow
def test_an_interrupt_keeps_what_is_recorded_and_leaves_no_process(resumed: Resumed) -> None:
    code, output = resumed.interrupted
    assert code == 130, output
    assert "launch again to resume" in output
    assert f"of {TRIALS} trials recorded" in output and "# runs the missing trials" in output
    assert "logging.cc" not in output and "nanobind" not in output
    assert 0 < len(resumed.rows) < TRIALS
    assert resumed.left == []
