"""`sweep launch` as it is typed: what it says, what it leaves behind, how it goes on after a kill."""

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
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest
from typer.testing import CliRunner, Result

from cudnn_sweep.analysis.storing.progress import blocks_of, planned
from cudnn_sweep.analysis.storing.store import open_store
from cudnn_sweep.orchestrator.cli import app
from cudnn_sweep.orchestrator.planning.spec import suite_names
from cudnn_sweep.orchestrator.process.client import ForkServer

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
GIVEN_UP = 2  # trials of the cell that raises, where its first four came after the kill
UNFINISHED, CELL_FAILED = 1, 4
TRIALS = 19  # of three cells, two configs, three replicates, and an A/A pair's second


def write(here: Path, *workloads: str, replicates: int) -> None:
    cells = "".join(f"      - workload: {workload}\n" for workload in workloads)
    (here / "cluster.yaml").write_text(LAUNCH_FILE.format(replicates=replicates) + cells)


def sweep(here: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*SWEEP, *arguments], cwd=here, capture_output=True, text=True, check=False
    )


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
    """A launch killed in the middle, what was stored by then, and two further launches."""

    here: Path
    pid: int
    sweep_id: str
    rows: dict[str, str]
    torn: Path
    meanwhile: subprocess.CompletedProcess[str]
    after: subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def resumed(tmp_path_factory: pytest.TempPathFactory, faulty: str) -> Resumed:
    """Made once: each launch starts a Ray."""
    here = tmp_path_factory.mktemp("killed")
    write(
        here,
        *(f"{faulty}:{name}" for name in ("takes_a_while", "raises", "segfaults")),
        replicates=3,
    )
    with begun(here) as launch:
        (worker,) = Path(f"/proc/{launch.pid}/task/{launch.pid}/children").read_text().split()
        os.kill(int(worker), signal.SIGSTOP)  # it would be through before the other has asked
        meanwhile = sweep(here, "launch")
        os.kill(launch.pid, signal.SIGKILL)
        launch.wait()
    ((sweep_id, _),) = stored(here).items()
    torn = here / "results" / f"sweep={sweep_id}" / "trials" / "half-written.parquet"
    torn.write_bytes(b"PAR1 and then the power went")
    return Resumed(
        here=here,
        pid=int(worker),
        sweep_id=sweep_id,
        rows=first_rows(here, sweep_id),
        torn=torn,
        meanwhile=meanwhile,
        after=sweep(here, "launch"),
    )


def test_launch_is_refused_while_another_runs_the_same_plan(resumed: Resumed) -> None:
    assert resumed.meanwhile.returncode == 2
    told = resumed.meanwhile.stderr
    assert "this sweep is in progress" in told and f"process {resumed.pid} on" in told


def test_killed_launch_is_resumed_and_nothing_is_lost_or_doubled(resumed: Resumed) -> None:
    assert 0 < len(resumed.rows) < TRIALS
    after = resumed.after
    assert after.returncode == CELL_FAILED, after.stdout + after.stderr
    assert f"resuming {resumed.sweep_id}" in after.stdout
    assert "foreign file was set aside" in after.stdout
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


def test_failures_are_rows_and_come_with_their_commands(resumed: Resumed) -> None:
    told = resumed.after.stdout
    assert "no_effect (no_cuda)" in told
    assert told.count("not measured") == 2, "cells that failed under both configs"
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
    retried = sweep(resumed.here, *command[1:], "--json")
    assert retried.returncode in (UNFINISHED, CELL_FAILED), retried.stdout + retried.stderr
    assert " of 19 trials recorded" in retried.stderr, "what people read is there too"
    (trial_id,) = [word.partition("=")[2] for word in command if word.startswith("trial_id=")]
    trials = open_store(str(resumed.here / "results")).stored_trials(resumed.sweep_id)
    assert [trial.retry for trial in trials.values()].count(1) == 1
    assert trials[trial_id].retry == 1
    assert_same(json.loads(retried.stdout), retried.returncode, resumed, trial_id)


def assert_same(found: dict[str, Any], exit_code: int, resumed: Resumed, retried: str) -> None:
    """What a launch's JSON says and what is stored."""
    assert found["sweep_id"] == resumed.sweep_id and found["exit_code"] == exit_code
    store = open_store(str(resumed.here / found["results"]))
    statuses = Counter(
        each.status for each in planned(store.stored_trials(resumed.sweep_id).values())
    )
    assert found["statuses"] == statuses
    assert found["trials_recorded"] == statuses.total() and found["trials_planned"] == TRIALS
    assert [each["trial_id"] for each in found["failures"]] == [retried]
    (measured,) = [each for each in found["verdicts"] if each["ratio"] is not None]
    assert "takes_a_while" in measured["cell"] and measured["wall_verdict"] == "no_effect"
    assert measured["ratio_low"] <= measured["ratio"] <= measured["ratio_high"]
    assert measured["cell_id"] in {each["cell_id"] for each in found["break_evens"]}


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_keeps_what_is_recorded_and_leaves_no_process(
    tmp_path: Path, faulty: str, number: signal.Signals, code: int
) -> None:
    write(tmp_path, f"{faulty}:takes_a_while", replicates=6)
    with begun(tmp_path) as launch:
        if number == signal.SIGINT:  # as a terminal sends it: to everyone in the foreground
            os.killpg(launch.pid, number)
        else:
            launch.send_signal(number)
        output, _ = launch.communicate()
    assert launch.returncode == code, output
    assert "launch again to resume" in output
    assert "logging.cc" not in output and "nanobind" not in output
    ((_, trials),) = stored(tmp_path).items()
    assert 0 < len(trials) < 13
    assert processes_of(tmp_path) == []


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
    "no such file": (["nowhere.yaml"], "", "nowhere.yaml"),
    "unknown suite": (
        ["--suite", "quik"],
        "",
        f"unknown suite 'quik'; allowed: {', '.join(suite_names())}, or a .yaml file",
    ),
    "unknown key": (
        [],
        "metadata: {sweep: {sweet: quick}}",
        "metadata.sweep.sweet",
    ),
    "preload": (
        [],
        "metadata: {sweep: {preload: [no_such_package.nets]}}",
        "metadata.sweep.preload: no_such_package.nets is not installed",
    ),
    "wrong type": ([], "metadata: {sweep: {replicates: no}}", "metadata.sweep.replicates"),
    "config field": (
        [],
        "metadata: {sweep: {cells: [{workload: noop}], configs: [{benchmrk: true}]}}",
        "benchmrk",
    ),
    "no cells": ([], "metadata: {sweep: {cells: []}}", "cells"),
    "cluster": (
        [],
        "metadata: {sweep: {address: '127.0.0.1:1'}}",
        "http://127.0.0.1:1 does not answer",
    ),
    "json of a cluster": (
        ["--json"],
        "metadata: {sweep: {address: '127.0.0.1:1'}}",
        "--json: the launch file names a cluster",
    ),
    "json of a plan": (["--json", "--dry-run"], "", "--json cannot be combined with --dry-run"),
    "only": (["--only", "workload"], "", "FIELD=VALUE"),
    "shard": (["--shard", "3/2", "--sweep-id", "june"], "", "--shard: found '3/2', allowed: I/N"),
    "no sweep": (["--shard", "1/2"], "", "--shard needs --sweep-id ID"),
    "resume and new": (["--resume", "a", "--new"], "", "--resume and --new cannot be combined"),
    "new and id": (["--new", "--sweep-id", "a"], "", "--new and --sweep-id cannot be combined"),
    "sweep id": (["--sweep-id", "a/b"], "", "'a/b' cannot name a file"),
}


class Typed(Protocol):
    """What `sweep launch` with these words says."""

    def __call__(self, *words: str) -> Result: ...


@pytest.fixture
def typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: ForkServer) -> Typed:
    """What a launch in this process says; planning asks this folder's fork server."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "cudnn_sweep.orchestrator.running.this_machine.ForkServer", lambda **_: nullcontext(server)
    )
    monkeypatch.setattr("cudnn_sweep.orchestrator.cli.failing.leave", lambda code: None)
    return lambda *words: CliRunner().invoke(app, ["launch", *words])


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistake_is_named_before_anything_starts(
    typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mistake: str
) -> None:
    arguments, text, message = MISTAKES[mistake]
    (tmp_path / "cluster.yaml").write_text(text)
    monkeypatch.setattr("cudnn_sweep.orchestrator.running.this_machine.ForkServer", None)
    told = typed(*arguments)
    assert told.exit_code == 2, told.output
    assert message in told.stderr
    assert "Traceback" not in told.output
    assert not (tmp_path / "results").exists()


LATE_MISTAKES = {
    "workload": ("{workload: convv}", "unknown workload 'convv'; allowed: "),
    "regime": ("{workload: noop, regime: often}", "unknown regime 'often'; allowed: "),
    "needs problem": ("{workload: conv}", "workload conv needs a problem"),
    "varies": (
        "{workload: mnist, regime: fresh}",
        "regime fresh varies space; workload mnist may vary batch",
    ),
    "file": ("{workload: 'gone.py:x'}", "there is no file gone.py"),
    "no regime": (
        "{workload: mnist, regime: 'torch.nn:Linear'}",
        "regime torch.nn:Linear is no regime: write it under `workload`",
    ),
    "own regime": (
        "{workload: mnist, regime: 'cudnn_sweep.workloads.regime:ShapeRegime'}",
        "regime cudnn_sweep.workloads.regime:ShapeRegime has no method `period`",
    ),
}


@pytest.mark.parametrize("mistake", LATE_MISTAKES)
def test_mistake_in_a_cell_is_named(typed: Typed, tmp_path: Path, mistake: str) -> None:
    cell, message = LATE_MISTAKES[mistake]
    (tmp_path / "cluster.yaml").write_text(f"metadata: {{sweep: {{cells: [{cell}]}}}}")
    told = typed("--dry-run")
    assert told.exit_code == 2, told.output
    assert f"cluster.yaml:1: metadata.sweep.cells[0]: {message}" in told.stderr
    assert "Traceback" not in told.output


def test_planning_needs_no_torch_in_its_own_process(tmp_path: Path) -> None:
    """Only its survey, a process that is thrown away, spends the seconds that this import takes."""
    (tmp_path / "cluster.yaml").write_text(
        "metadata: {sweep: {replicates: 1, cells: [{workload: mnist}, {workload: conv, problem: tutorials/rgb224}]}}"
    )
    code = (
        "import sys; sys.modules['torch'] = None  # an import fails\n"
        "from cudnn_sweep.orchestrator.cli import app; app(['launch', 'cluster.yaml', '--dry-run'])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert "2 cells" in ran.stdout


def test_suite_that_needs_cuda_is_refused_without(typed: Typed, tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text("")
    (tmp_path / "gpu.yaml").write_text("needs_cuda: true\ncells: [{workload: noop}]\n")
    told = typed("--suite", "gpu.yaml", "--dry-run")
    import torch

    if torch.cuda.is_available():
        assert told.exit_code == 0
    else:
        assert told.exit_code == 2
        assert "needs CUDA" in told.stderr


def test_dry_run_is_of_the_shard_and_the_gpus_asked_for(typed: Typed, tmp_path: Path) -> None:
    file, noops = tmp_path / "cluster.yaml", "cells: [{workload: noop}], replicates: 6"
    file.write_text(f"metadata: {{sweep: {{{noops}}}}}")
    told = typed("--dry-run", "--sweep-id", "june", "--shard", "2/2")
    assert re.search(r"6 trials: 1 cells × 2 configs in 3 blocks", told.output), told.output
    assert "Shard 2/2 of 13 trials" in told.output
    file.write_text(f"metadata: {{sweep: {{{noops}, gpus: {{models: B200}}}}}}")
    told = typed("--dry-run")
    assert told.exit_code == 2
    assert "gpus.models: asked for B200, found " in told.stderr


def test_names_in_brackets_are_shown_whole(typed: Typed, tmp_path: Path) -> None:
    (tmp_path / "net [red].py").write_text("import torch\nnet = torch.nn.Conv2d(3, 4, 1)\n")
    cell = f"{{workload: '{tmp_path}/net [red].py:net', input: 1x3x8x8}}"
    (tmp_path / "cluster.yaml").write_text(f"metadata: {{sweep: {{cells: [{cell}]}}}}")
    told = typed("--dry-run")
    assert "net [red].py:net training" in told.output


def test_results_that_cannot_be_written_are_refused(typed: Typed, tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text("metadata: {sweep: {cells: [{workload: noop}]}}")
    (tmp_path / "results").write_text("a file is in the way")
    told = typed()
    assert told.exit_code == 2, told.output
    assert "results" in told.stderr
    assert "Traceback" not in told.output


def test_dry_run_tries_a_process_of_each_cell(tmp_path: Path, faulty: str) -> None:
    write(tmp_path, f"{faulty}:fine", f"{faulty}:raises", f"{faulty}:is_never_built", replicates=3)
    tried = sweep(tmp_path, "launch", "--dry-run", "--try")
    assert tried.returncode == CELL_FAILED, tried.stderr
    assert "error in 1 of 3 cells: ValueError: the user's step is wrong" in tried.stdout
    assert "error in 1 of 3 cells: ValueError: the user's build is wrong" in tried.stdout
    assert not (tmp_path / "results").exists()


def test_dry_run_prints_the_plan_and_starts_nothing(tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text("")
    plan = sweep(tmp_path, "launch", "--dry-run")
    assert plan.returncode == 0, plan.stderr
    counts = r"\d+ trials: 9 cells × 2 configs in \d+ blocks, [13] of them with an A/A"
    assert re.search(counts, plan.stdout)
    assert "contrasts: benchmark: false → true" in plan.stdout
    assert re.search(r"about \d+\.\d minutes", plan.stdout)
    assert list(tmp_path.iterdir()) == [tmp_path / "cluster.yaml"]
