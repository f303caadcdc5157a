"""A night through a cluster's job server: followed, cut and followed again, confirmed there."""

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from ray._private import worker
from rich.console import Console

from cudnn_sweep.analysis.nights.detect import LOOKS
from cudnn_sweep.analysis.nights.reports.report import from_json, to_json
from cudnn_sweep.analysis.store.store import Store, open_store
from cudnn_sweep.cluster.jobs.jobs import SentJob
from cudnn_sweep.cluster.launch_file import read_launch_file
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.nightly.night import not_measured, run_night
from cudnn_sweep.orchestrator.nightly.request import Diary, read_night
from cudnn_sweep.orchestrator.planning.options import NightOptions
from cudnn_sweep.orchestrator.planning.plan import Plan, make_plan
from cudnn_sweep.orchestrator.planning.session import session_of
from cudnn_sweep.orchestrator.planning.spec import NightName, SweepSpec, load_suite
from cudnn_sweep.orchestrator.remote.clusters import RunningCluster
from cudnn_sweep.orchestrator.remote.destinations import cluster_of
from cudnn_sweep.orchestrator.remote.follow import Follower
from cudnn_sweep.orchestrator.remote.job import Ended, to_line
from cudnn_sweep.orchestrator.remote.nodes import remove_old_caches
from cudnn_sweep.workloads.cells.expand import expand_cells
from cudnn_sweep.workloads.cells.suite import workload_names
from cudnn_sweep.workloads.hardware.environment import Environment
from cudnn_sweep.workloads.survey import workload_facts
from tests.makers import RecordOf

pytestmark = [
    pytest.mark.clustered,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore:ssl=None is deprecated"),  # Ray's client
]

PACES = Path(__file__).parents[1] / "paces.py"
NIGHTS = [date(2026, 11, 1) + timedelta(days=day) for day in range(7)]
TONIGHT = date(2026, 11, 8)
LAUNCH_FILE = """
metadata:
  sweep:
    address: ADDRESS
    token: TOKEN
    gpus: {share: 0.125}  # one slot: two cores are shared by all
    nightly: {suite: suite.yaml, last_good: LAST_GOOD, name: lab}
"""
SUITE = """
replicates: 3
configs: [{benchmark: false}]
measure: {warmup_s: 0, steady_budget_s: 0.1, timeout_s: 100, calibrate: false, reference_replicates: 0}
cells: [{workload: [paces.py:slower_since, paces.py:as_before]}]
"""


@pytest.fixture
def here(our_ray: Path, last_good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with what a night on that Ray needs."""
    assert worker._global_node is not None
    filled = {
        "ADDRESS": worker._global_node.webui_url,
        "TOKEN": os.environ["RAY_AUTH_TOKEN_PATH"],
        "LAST_GOOD": str(last_good),
    }
    text = LAUNCH_FILE
    for name, value in filled.items():
        text = text.replace(name, value)
    (tmp_path / "cluster.yaml").write_text(text)
    (tmp_path / "suite.yaml").write_text(SUITE)
    shutil.copy(PACES, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


@pytest.fixture
def plan(here: Path, environment: Environment) -> Plan:
    suite = load_suite("suite.yaml")
    facts = workload_facts(workload_names(suite))
    cells = expand_cells(suite, facts, device="cpu", gpu=environment.gpu)
    return make_plan("suite.yaml", suite, cells)


@pytest.fixture
def store(here: Path, plan: Plan, record_of: RecordOf) -> Store:
    """With six nights at the old pace, and one in which one of the two workloads is as it is today."""
    store = open_store("results")
    alone = {block: len(trials) == 1 for block, trials in plan.blocks()}
    for night in NIGHTS:
        session = session_of(plan, f"night-{night}-lab", here)
        for trial in plan.trials:
            is_slow = "slower" in trial.cell.workload and night == NIGHTS[-1]
            ms = (60.0 if is_slow else 20.0) * (1 + trial.replicate / 500 + night.day / 1000)
            record = replace(record_of(session, trial), in_turns=not alone[trial.block])
            store.write(replace(record, steady_wall_ms=ms))
    return store


@pytest.mark.long
def test_a_night_that_is_cut_goes_on_there_and_confirms_there_what_got_slower(
    here: Path, plan: Plan, store: Store
) -> None:
    assert _cut_after_the_first_record(store) == 130
    options = NightOptions(file=Path("cluster.yaml"), night=TONIGHT)
    assert run_night(options, {}, Console(quiet=True)) == 1

    measured = store.stored_trials(f"night-{TONIGHT}-lab").values()
    assert len(measured) == len(plan.trials)
    assert len({trial.launch_id for trial in measured}) == 1  # of the start that was cut
    kept = json.loads(Path(f"results/nightly/lab/night-{TONIGHT}-lab.json").read_text())
    outcome = from_json(json.dumps(kept["content"]))
    (alert,) = outcome.alerts
    assert alert.key.cell.split()[0] == "paces.py:slower_since"
    assert alert.cause == "software"
    assert "version 0.0.1 → " in " ".join(f"{each.part} {each.before} → " for each in alert.moved)
    assert alert.blocks in LOOKS
    confirmed = store.stored_trials(f"confirm-{TONIGHT}-lab")
    assert len(confirmed) == 2 * alert.blocks


@pytest.mark.long
def test_a_night_is_refused_while_another_runs_there(here: Path, our_ray: Path) -> None:
    file = read_launch_file(Path("cluster.yaml"), SweepSpec)
    cluster, said = cluster_of(file), io.StringIO()
    with cluster.jobs() as jobs:
        before = f"night-{NIGHTS[-1]}-lab"
        job = SentJob(job_id="the-night-before", results="results", sweep="", night=before)
        jobs.submit(job, cluster.known.sender(), "sleep 100", {})
        options = NightOptions(file=file.path, night=TONIGHT)
        assert run_night(options, {}, Console(file=said, width=200)) == 6
        jobs.stop("the-night-before")
    assert f"in progress: {before}, as job the-night-before" in said.getvalue()


@pytest.mark.long
def test_on_a_node_a_night_is_a_process_there(
    here: Path, our_ray: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first of its nights, with another software to compare with."""
    assert worker._global_node is not None
    monkeypatch.setenv("RAY_ADDRESS", worker._global_node.address)
    text = Path("cluster.yaml").read_text()
    Path("cluster.yaml").write_text(re.sub(r"address: .*", "address: auto", text))
    said = io.StringIO()
    options = NightOptions(file=Path("cluster.yaml"), night=TONIGHT)
    assert run_night(options, {}, Console(file=said, width=200)) == 0, said.getvalue()
    outcome = Diary(store=open_store("results"), launch="lab").of(night_of(TONIGHT))
    assert outcome is not None
    assert (outcome.state, outcome.recorded_trials) == ("learning", outcome.planned_trials)
    assert (here / "results/nightly/lab/reports" / str(TONIGHT) / "night.md").exists()


def test_what_became_of_nights_that_nobody_followed_is_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    text = "metadata: {sweep: {address: 'head:8265', nightly: {name: lab}}}"
    Path("cluster.yaml").write_text(text)
    options = NightOptions(file=Path("cluster.yaml"), night=TONIGHT)
    known = RunningCluster(read_launch_file(options.file, SweepSpec)).known
    told: dict[str, str] = {}
    sent: list[SentJob] = []
    for night in (NIGHTS[-1], TONIGHT):
        unfit = replace(read_night(options, {}), name=night_of(night), host="laptop")
        outcome = not_measured(unfit, [f"why {night}"])
        told[f"job-{night}"] = to_line(Ended(exit_code=3, outcome=to_json(outcome)))
        name = night_of(night).sweep_id
        sent.append(SentJob(job_id=f"job-{night}", results="results", sweep="", night=name))
    ended = SimpleNamespace(
        sent=lambda _: sent,
        state=lambda _: ("SUCCEEDED", ""),
        output=told.__getitem__,
        last_lines=lambda job_id, _: told[job_id],
    )
    monkeypatch.setattr(RunningCluster, "jobs", lambda self: nullcontext(ended))

    assert run_night(options, {}, Console(quiet=True)) == 3
    diary = Diary(store=open_store("results"), launch="lab")
    for night in (NIGHTS[-1], TONIGHT):
        found = diary.of(night_of(night))
        assert found is not None and found.reasons == (f"why {night}",)
    assert f"why {TONIGHT}" in Path(f"results/nightly/lab/reports/{TONIGHT}/night.md").read_text()
    assert all(known.fetched(job).exists() for job in sent), "they are not fetched again"

    other = f"job-{TONIGHT}-again"
    told[other] = told[f"job-{NIGHTS[-1]}"]
    sent.append(replace(sent[-1], job_id=other))
    said = io.StringIO()
    assert run_night(options, {}, Console(file=said, width=300)) == 3
    assert (
        f"found the outcome of 'night-{NIGHTS[-1]}-lab', wanted that of night-{TONIGHT}-lab"
        in said.getvalue()
    )


def test_what_keeps_a_cluster_from_starting_is_the_reason(tmp_path: Path) -> None:
    follower = Follower(str(tmp_path), Console(quiet=True))
    follower.take(to_line(Ended(exit_code=2, reason="no node can take part: w1: no CUDA")))
    with pytest.raises(SpecError, match="no node can take part: w1: no CUDA"):
        follower.report("unused")


def test_compute_caches_of_nights_long_ago_go(tmp_path: Path) -> None:
    for days, sweep_id in ((8, "night-2026-11-01-lab"), (6, "night-2026-11-03-lab")):
        caches = tmp_path / sweep_id / "compute-cache"
        caches.mkdir(parents=True)
        then = time.time() - days * 86_400
        os.utime(caches, (then, then))
    remove_old_caches(tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["night-2026-11-03-lab"]


def night_of(night: date) -> NightName:
    return NightName(date=night, launch="lab")


def _cut_after_the_first_record(store: Store) -> int:
    """By Ctrl-C; the exit code."""
    command = [sys.executable, "-m", "cudnn_sweep.orchestrator.cli", "nightly", "--night"]
    launch = subprocess.Popen([*command, str(TONIGHT)], stdout=subprocess.PIPE, text=True)
    while not store.stored_trials(f"night-{TONIGHT}-lab"):
        assert launch.poll() is None, launch.communicate()[0]
        time.sleep(0.2)
    launch.send_signal(signal.SIGINT)
    output, _ = launch.communicate()
    assert f"Sweep night-{TONIGHT}-lab continues on the cluster" in output
    return launch.returncode
