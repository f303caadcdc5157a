"""`sweep launch` as it is typed: what it says, what it leaves behind, how it goes on after a kill."""

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cudnn_sweep.analysis.store import open_store

SWEEP = [sys.executable, "-m", "cudnn_sweep.orchestrator.cli"]

LAUNCH_FILE = """
metadata:
  sweep:
    configs: [{{benchmark: false}}, {{benchmark: true}}]
    replicates: {replicates}
    measure: {{warmup_s: 0, steady_budget_s: 0.02, timeout_s: 20}}
    cells:
"""


@pytest.fixture
def here(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def write(here: Path) -> Callable[..., Path]:
    def write_launch_file(*workloads: str, replicates: int = 2) -> Path:
        cells = "".join(f"      - workload: {workload}\n" for workload in workloads)
        file = here / "cluster.yaml"
        file.write_text(LAUNCH_FILE.format(replicates=replicates) + cells)
        return file

    return write_launch_file


def sweep(here: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*SWEEP, *arguments], cwd=here, capture_output=True, text=True, check=False, timeout=100
    )


@pytest.fixture
def begin(here: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start a launch and return once its first trial is stored."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        launch = subprocess.Popen(
            [*SWEEP, "launch", *arguments],
            cwd=here,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        started.append(launch)
        deadline = time.monotonic() + 60
        while not any(here.glob("results/sweep=*/trials/*.parquet")):
            assert launch.poll() is None, launch.communicate()[0]
            assert time.monotonic() < deadline, "no trial was stored within a minute"
            time.sleep(0.05)
        return launch

    yield start
    for launch in started:
        if launch.poll() is None:
            launch.kill()
            launch.wait()
        assert launch.stdout is not None
        launch.stdout.close()


def stored(here: Path) -> dict[str, set[str]]:
    """Ids of the stored trials, by sweep."""
    store = open_store(str(here / "results"))
    return {sweep_id: set(store.stored_trials(sweep_id)) for sweep_id in store.sweep_ids()}


def test_failures_are_rows_and_come_with_their_commands(
    here: Path, write: Callable[..., Path], faulty: str
) -> None:
    write("noop", f"{faulty}:raises", f"{faulty}:segfaults")
    done = sweep(here, "launch", "cluster.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no_effect (no_cuda)" in done.stdout
    assert re.search(r"13 of 13 trials recorded \([45] crash, [45] error, [45] ok\)", done.stdout)
    assert "--results" not in done.stdout, "the default needs no option"
    assert "ValueError: the user's step is wrong" in done.stdout
    assert "SIGSEGV" in done.stdout

    (sweep_id,) = stored(here)
    again = next(line for line in done.stdout.splitlines() if "--retry-failed" in line)
    command = shlex.split(again)
    assert command[:2] == ["sweep", "launch"]
    retried = sweep(here, *command[1:])
    assert retried.returncode == 0, retried.stdout + retried.stderr
    assert "1/1" in retried.stdout or "13 of 13 trials recorded" in retried.stdout
    (trial_id,) = [word.partition("=")[2] for word in command if word.startswith("trial_id=")]
    trials = open_store(str(here / "results")).stored_trials(sweep_id)
    assert [trial.retry for trial in trials.values()].count(1) == 1
    assert trials[trial_id].retry == 1


def test_killed_launch_is_resumed_and_nothing_is_lost_or_doubled(
    here: Path, write: Callable[..., Path], begin: Callable[..., subprocess.Popen[str]], faulty: str
) -> None:
    write(f"{faulty}:takes_a_while", replicates=6)
    launch = begin("cluster.yaml")

    second = sweep(here, "launch", "cluster.yaml")
    assert second.returncode == 2
    assert f"in progress: process {launch.pid} on" in second.stderr

    os.kill(launch.pid, signal.SIGKILL)
    launch.wait()
    ((sweep_id, before),) = stored(here).items()
    assert 0 < len(before) < 13
    torn = here / "results" / f"sweep={sweep_id}" / "trials" / "half-written.parquet"
    torn.write_bytes(b"PAR1 and then the power went")
    rows = first_rows(here, sweep_id)

    resumed = sweep(here, "launch", "cluster.yaml")
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert f"resuming {sweep_id}" in resumed.stdout
    assert "half-written file was set aside" in resumed.stdout
    assert torn.with_name("half-written.parquet.torn").exists()
    ((same_id, after),) = stored(here).items()
    assert same_id == sweep_id
    assert len(after) == 13 and before <= after
    assert rows.items() <= first_rows(here, sweep_id).items(), "a finished trial was run again"
    table = open_store(str(here / "results")).snapshot(sweep_id).table(["trial_id"])
    assert table.num_rows == 13, "a trial is stored twice"

    another = sweep(here, "launch", "cluster.yaml")
    assert f"a new sweep: {sweep_id} is complete" in another.stdout
    assert sorted(map(len, stored(here).values())) == [13, 13]


def first_rows(here: Path, sweep_id: str) -> dict[str, str]:
    trials = open_store(str(here / "results")).stored_trials(sweep_id)
    return {trial_id: trial.attempt_id for trial_id, trial in trials.items()}


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_keeps_what_is_recorded_and_leaves_no_process(
    here: Path,
    write: Callable[..., Path],
    begin: Callable[..., subprocess.Popen[str]],
    faulty: str,
    number: signal.Signals,
    code: int,
) -> None:
    write(f"{faulty}:takes_a_while", replicates=6)
    launch = begin("cluster.yaml")
    if number == signal.SIGINT:  # as a terminal sends it: to everyone in the foreground
        os.killpg(launch.pid, number)
    else:
        launch.send_signal(number)
    output, _ = launch.communicate(timeout=30)
    assert launch.returncode == code, output
    assert "launch again to go on" in output
    assert "logging.cc" not in output and "nanobind" not in output
    ((_, trials),) = stored(here).items()
    assert 0 < len(trials) < 13
    assert processes_of(here) == []


def processes_of(here: Path) -> list[str]:
    """Processes that work in that folder, as a launch's own and its fork servers do."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            where, command = os.readlink(folder / "cwd"), (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if where == str(here):
            found.append(command.replace(b"\0", b" ").decode())
    return found


MISTAKES = {
    "no such file": (["launch", "nowhere.yaml"], "", "nowhere.yaml"),
    "unknown suite": (
        ["launch", "--suite", "quik"],
        "",
        "unknown suite 'quik'; allowed: controls, deepbench",
    ),
    "unknown key": (
        ["launch"],
        "metadata: {sweep: {sweet: quick}}",
        "metadata.sweep.sweet",
    ),
    "preload": (
        ["launch"],
        "metadata: {sweep: {preload: [no_such_package.nets]}}",
        "metadata.sweep.preload: no_such_package.nets is not installed",
    ),
    "wrong type": (["launch"], "metadata: {sweep: {replicates: no}}", "metadata.sweep.replicates"),
    "config field": (
        ["launch"],
        "metadata: {sweep: {cells: [{workload: noop}], configs: [{benchmrk: true}]}}",
        "benchmrk",
    ),
    "no cells": (["launch"], "metadata: {sweep: {cells: []}}", "cells"),
    "cluster": (
        ["launch"],
        "metadata: {sweep: {address: '127.0.0.1:1'}}",
        "http://127.0.0.1:1 does not answer",
    ),
    "only": (["launch", "--only", "workload"], "", "FIELD=VALUE"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistake_is_named_before_anything_starts(here: Path, mistake: str) -> None:
    arguments, text, message = MISTAKES[mistake]
    (here / "cluster.yaml").write_text(text)
    told = sweep(here, *arguments)
    assert told.returncode == 2, told.stdout + told.stderr
    assert message in told.stderr
    assert "Traceback" not in told.stdout + told.stderr
    assert not (here / "results").exists()


LATE_MISTAKES = {
    "workload": ("{workload: convv}", "unknown workload 'convv'; allowed: "),
    "regime": ("{workload: noop, regime: often}", "unknown regime 'often'; allowed: cycle, fixed"),
    "needs problem": ("{workload: conv}", "workload conv needs a problem"),
    "varies": ("{workload: mnist, regime: fresh}", "workload mnist may vary batch"),
    "file": ("{workload: 'gone.py:x'}", "gone.py cannot be imported"),
}


@pytest.mark.parametrize("mistake", LATE_MISTAKES)
def test_mistake_in_a_cell_is_named(here: Path, mistake: str) -> None:
    cell, message = LATE_MISTAKES[mistake]
    (here / "cluster.yaml").write_text(f"metadata: {{sweep: {{cells: [{cell}]}}}}")
    told = sweep(here, "launch", "--dry-run")
    assert told.returncode == 2, told.stdout + told.stderr
    assert message in told.stderr
    assert "Traceback" not in told.stdout + told.stderr


def test_suite_that_needs_cuda_is_refused_without(here: Path) -> None:
    (here / "cluster.yaml").write_text("")
    (here / "gpu.yaml").write_text("needs_cuda: true\ncells: [{workload: noop}]\n")
    told = sweep(here, "launch", "--suite", "gpu.yaml", "--dry-run")
    import torch

    if torch.cuda.is_available():
        assert told.returncode == 0
    else:
        assert told.returncode == 2
        assert "needs CUDA" in told.stderr


def test_results_that_cannot_be_written_are_refused(here: Path) -> None:
    (here / "cluster.yaml").write_text("metadata: {sweep: {cells: [{workload: noop}]}}")
    (here / "results").write_text("a file is in the way")
    told = sweep(here, "launch")
    assert told.returncode == 2, told.stdout + told.stderr
    assert "results" in told.stderr
    assert "Traceback" not in told.stderr


def test_dry_run_prints_the_plan_and_starts_nothing(here: Path) -> None:
    (here / "cluster.yaml").write_text("")
    plan = sweep(here, "launch", "--dry-run")
    assert plan.returncode == 0, plan.stderr
    assert re.search(
        r"93 trials: 9 cells × 2 configs in 45 blocks, 3 of them with an A/A", plan.stdout
    )
    assert "contrasts: benchmark: false → true" in plan.stdout
    assert re.search(r"about \d+\.\d minutes", plan.stdout)
    assert list(here.iterdir()) == [here / "cluster.yaml"]
