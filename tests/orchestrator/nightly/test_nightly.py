"""`sweep nightly`, a night at a time, on the fake machine: locks, budgets, resuming, pins, exit codes."""

from __future__ import annotations

import io
import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from datetime import date
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest
import torch
import typer
from rich.console import Console
from typer.testing import CliRunner

from cudnn_sweep.analysis.answering.cell_names import cell_name
from cudnn_sweep.analysis.nightly.history import History, read_history
from cudnn_sweep.analysis.nightly.outcome import Change, NightOutcome
from cudnn_sweep.analysis.nightly.reports import as_json, junit, markdown, write
from cudnn_sweep.analysis.nightly.reports.as_json import from_json
from cudnn_sweep.analysis.storing.schema import RunRecord
from cudnn_sweep.analysis.storing.store import open_store
from cudnn_sweep.cluster.errors import ClusterError
from cudnn_sweep.orchestrator.cli import app
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.locks.sweep_lock import night_lock
from cudnn_sweep.orchestrator.nightly import notify
from cudnn_sweep.orchestrator.nightly.accepting import accept_change, pin_baseline
from cudnn_sweep.orchestrator.nightly.diary import Diary
from cudnn_sweep.orchestrator.nightly.fake.machine import FakeMachine
from cudnn_sweep.orchestrator.nightly.fake.script import FakeScript
from cudnn_sweep.orchestrator.nightly.night import run_night
from cudnn_sweep.orchestrator.nightly.notify import WhereToLook, news_of
from cudnn_sweep.orchestrator.nightly.request import NightOptions
from cudnn_sweep.orchestrator.nightly.webhook import News
from cudnn_sweep.orchestrator.planning.night_name import NightName
from cudnn_sweep.orchestrator.planning.options import LaunchOptions
from cudnn_sweep.orchestrator.planning.plan import make_plan
from cudnn_sweep.orchestrator.planning.request import SweepRequest
from cudnn_sweep.orchestrator.planning.session import session_of
from cudnn_sweep.orchestrator.planning.spec import load_suite
from cudnn_sweep.orchestrator.process.client import ForkServer
from cudnn_sweep.orchestrator.process.survey import survey
from cudnn_sweep.orchestrator.running.run_sweep import plan_sweep
from cudnn_sweep.orchestrator.running.this_machine import ThisMachine
from cudnn_sweep.orchestrator.schedule.check import check
from cudnn_sweep.workloads.cells.expand import expand_cells
from cudnn_sweep.workloads.cells.suite import workload_names
from cudnn_sweep.workloads.survey import workload_facts

if TYPE_CHECKING:
    from tests.makers import RecordOf

FILES = {
    "cluster.yaml": """
cluster_name: lab
metadata:
  sweep:
    nightly: {suite: suite.yaml}
""",
    "suite.yaml": """
replicates: 3
cells:
  - workload: conv
    problem: [tutorials/rgb224, tutorials/rgb256, tutorials/vgg16_conv3_2]
""",
    "script.yaml": "trial_s: 10.0",
}
A_MODEL = "cudnn_sweep.workloads.nets.darknet:Darknet53"
RunNight = Callable[..., int]
PLAIN = [as_json.REPORT, junit.REPORT, markdown.REPORT]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def night(here: Path) -> RunNight:
    """`pages`: with those for a browser, which take half of the time."""
    return _run_night


def _run_night(
    day: int = 1, console: Console | None = None, pages: bool = False, **options: Any
) -> int:
    chosen: dict[str, Any] = {"file": Path("cluster.yaml"), "fake": Path("script.yaml")}
    asked = NightOptions(**(chosen | {"night": date(2026, 11, day)} | options))
    with pytest.MonkeyPatch.context() as patch:
        if not pages:
            patch.setattr(write, "night_reports", lambda: PLAIN)
        return run_night(asked, {}, console or Console(quiet=True))


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of the first night."""
    folder = tmp_path_factory.mktemp("measured")
    for name, text in FILES.items():
        (folder / name).write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        _run_night(1)
    return folder / "results"


@pytest.fixture
def first_night(here: Path, measured: Path) -> None:
    """It was measured."""
    shutil.copytree(measured, here / "results")


def outcome(here: Path, day: int = 1) -> NightOutcome:
    diary = Diary(store=open_store(str(here / "results")), launch="lab")
    found = diary.of(NightName(date=date(2026, 11, day), launch="lab"))
    assert found is not None
    return found


def history(day: int = 1) -> History:
    found = read_history(open_store("results"), "lab", f"night-2026-11-{day:02}-lab", [])
    assert found is not None
    return found


def test_a_second_night_is_refused_and_names_the_first(here: Path, night: RunNight) -> None:
    said = io.StringIO()
    with night_lock("results", "lab"):
        assert night(console=Console(file=said, width=200)) == 3
    assert re.search(r"a night .* is in progress: process \d+ on ", said.getvalue())
    assert not list(here.glob("results/sweep=*"))


def test_a_last_good_that_is_not_there_is_told_at_once(here: Path, night: RunNight) -> None:
    file = here / "cluster.yaml"
    keys = "{suite: suite.yaml, last_good: /opt/none/bin/python}"
    file.write_text(FILES["cluster.yaml"].replace("{suite: suite.yaml}", keys))
    with pytest.raises(
        SpecError, match="last_good: found no program /opt/none/bin/python; allowed"
    ):
        night(fake=None)
    with pytest.raises(SpecError, match="last_good: found no program"):
        check(file)
    assert night(measure=False, fake=None) == 3, "compares anywhere"


@pytest.fixture
def posts(here: Path, monkeypatch: pytest.MonkeyPatch) -> list[News]:
    """What a webhook is told."""
    told: list[News] = []
    monkeypatch.setattr(notify, "tell", lambda webhook, news: told.append(news))
    (here / "hook").write_text("https://hook")
    keys = "{suite: suite.yaml, webhook: {url_file: hook}}"
    (here / "cluster.yaml").write_text(FILES["cluster.yaml"].replace("{suite: suite.yaml}", keys))
    return told


def test_a_mistake_in_the_suite_is_reported_and_posted_once(
    here: Path, night: RunNight, posts: list[News]
) -> None:
    (here / "suite.yaml").write_text("cells: [{workloa: conv}]")
    for day in (1, 1, 2):
        with pytest.raises(ClusterError, match="workloa: unknown key"):
            night(day)
        assert "workloa: unknown key" in outcome(here, day).reasons[0]
    assert (here / "results/nightly/lab/reports/2026-11-02/night.md").exists()
    (news,) = posts
    assert "2026-11-01: could not tell" in news.headline
    assert "workloa: unknown key" in news.findings[0]


def test_networks_without_their_package_are_left_out_and_are_no_change(
    here: Path, night: RunNight, posts: list[News], monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "suite.yaml").write_text(
        "replicates: 2\ncells:\n- {workload: conv, problem: tutorials/rgb224}\n"
        "- {workload: 'torchvision.models:Tiny', input: 1x3x8x8}\n"
    )
    lost = "{where: {problem: tutorials/rgb224, replicate: '0', benchmark: 'true'}, from: 2026-11-09, to: 2026-11-09, lost: true}"
    (here / "script.yaml").write_text(f"noise: {{night: 0.001, process: 0.001}}\neffects: [{lost}]")
    models = ModuleType("torchvision.models")
    models.Tiny = type("Tiny", (torch.nn.Module,), {})  # type: ignore[attr-defined]

    def install(package: ModuleType | None) -> None:
        for name in ("torchvision", "torchvision.models"):
            monkeypatch.setitem(sys.modules, name, package)

    for day in range(1, 14):
        install(None if day in (9, 10, 11) else models)
        assert night(day) == 0
        found = outcome(here, day)
        assert list(found.skipped) == (["torchvision.models:Tiny"] if day in (9, 10, 11) else [])
        assert not [each for each in found.findings if "Tiny" in each.key.cell], day
    assert "night.md" in [file.name for file in here.glob("results/nightly/lab/reports/*-09/*")]
    of_loss = [news for news in posts if "network" in news.headline]
    assert ["2026-11-09" in news.headline for news in of_loss] == [True]
    assert of_loss[0].headline.endswith("1 network not measured")
    assert any(
        "Tiny: torchvision.models cannot be imported" in text for text in of_loss[0].findings
    )
    request = SweepRequest(
        options=LaunchOptions(file=Path("cluster.yaml")),
        suite_name="suite.yaml",
        suite=load_suite("suite.yaml"),
        results="r",
    )
    install(None)
    with pytest.raises(SpecError, match=r"cells\[1\]: torchvision.models cannot be imported"):
        plan_sweep(request, FakeMachine(script=FakeScript(), night=date(2026, 11, 1)))


def test_a_webhook_that_is_not_found_costs_no_night(
    here: Path, night: RunNight, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = here / "cluster.yaml"
    keys = "{suite: suite.yaml, webhook: {url_env: HOOK}}"
    file.write_text(FILES["cluster.yaml"].replace("{suite: suite.yaml}", keys))
    crash = "{where: {problem: tutorials/rgb224}, from: 2026-11-02, status: crash}"
    (here / "script.yaml").write_text(f"effects: [{crash}]")
    said = io.StringIO()
    console = Console(file=said, width=400)
    assert [night(day, console=console) for day in (1, 2)] == [0, 1]
    assert outcome(here, 1).recorded_trials == outcome(here, 1).planned_trials
    not_set = "metadata.sweep.nightly.webhook.url_env: HOOK is not set in the environment"
    assert said.getvalue().count(f"warning: nobody will be told: {not_set}") == 2
    assert said.getvalue().count(f"warning: no notification was sent: {not_set}") == 1
    told = json.loads((here / "results/nightly/lab/told.json").read_text())
    assert told["content"] == [], "to be told yet"
    look = FakeMachine(script=FakeScript(), night=date(2026, 11, 1)).look
    monkeypatch.setattr(ThisMachine, "look", lambda self, suite: look(suite))
    assert "HOOK" in check(file)[0]


def test_results_below_the_home_folder_keep_a_night_together(
    here: Path, night: RunNight, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(here / "home"))
    assert night(results="~/sweeps", measure=False) == 3
    assert not (here / "~").exists()
    assert (here / "home" / "sweeps" / "nightly" / "lab" / "reports").is_dir()


@pytest.mark.parametrize("in_the_way", ["results", "results/.nightly-lab.lock/folder"])
def test_results_that_cannot_be_written_cannot_tell(
    here: Path, night: RunNight, in_the_way: str
) -> None:
    (here / in_the_way).parent.mkdir(parents=True, exist_ok=True)
    (here / in_the_way).touch()
    said = io.StringIO()
    assert night(console=Console(file=said, width=200)) == 3
    assert "could not tell: no lock can be made in results: " in said.getvalue()


@pytest.mark.usefixtures("first_night")
def test_a_night_that_is_cut_goes_on_and_nothing_of_it_is_missing(
    here: Path, night: RunNight
) -> None:
    whole = outcome(here, 1)
    assert whole.recorded_trials == whole.planned_trials
    night(2, budget_minutes=0.5)
    cut = outcome(here, 2)
    assert 0 < cut.recorded_trials < cut.planned_trials
    seen = {series.key.cell_id: series for series in history(2).series if is_presence(series)}
    assert {series.points[-1].value for series in seen.values()} == {"present", None}
    night(2, budget_minutes=0.5)
    assert cut.recorded_trials < outcome(here, 2).recorded_trials


def test_a_night_ended_by_sigterm_lets_go_and_goes_on_where_it_was(
    here: Path, night: RunNight
) -> None:
    (here / "suite.yaml").write_text(FILES["suite.yaml"].replace("replicates: 3", "replicates: 30"))
    words = ["nightly", "--fake", "script.yaml", "--night", "2026-11-01"]
    with subprocess.Popen(
        [sys.executable, "-m", "cudnn_sweep.orchestrator.cli", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as begun:
        while not any(here.glob("results/sweep=*/trials/*.parquet")) and begun.poll() is None:
            time.sleep(0.02)
        begun.send_signal(signal.SIGTERM)
        said, _ = begun.communicate()
    assert begun.returncode == 143, said
    assert "launch again to resume" in said
    assert not list(here.glob("results/.*.holder"))
    (sweep_id,) = open_store("results").sweep_ids()
    before = open_store("results").stored_trials(sweep_id)
    night(1)
    after = open_store("results").stored_trials(sweep_id)
    assert 0 < len(before) < outcome(here).recorded_trials == outcome(here).planned_trials
    assert {trial_id: after[trial_id].attempt_id for trial_id in before} == {
        trial_id: trial.attempt_id for trial_id, trial in before.items()
    }


def is_presence(series: Any) -> bool:
    return bool(series.key.metric == "missing")


def test_a_cut_night_leaves_each_cell_as_many_replicates_but_for_one(
    here: Path, night: RunNight
) -> None:
    night(1, budget_minutes=1.5)
    trials = open_store("results").snapshot().table(["cell_id", "replicate"]).to_pylist()
    replicates = [
        len({each["replicate"] for each in trials if each["cell_id"] == cell})
        for cell in {each["cell_id"] for each in trials}
    ]
    assert len(replicates) == 3
    assert max(replicates) - min(replicates) <= 1 < sum(replicates)


@pytest.mark.usefixtures("first_night")
def test_a_finished_night_is_only_compared_again(here: Path, night: RunNight) -> None:
    before = sorted(path.name for path in here.glob("results/sweep=*/**/*.parquet"))
    assert night(1) == 0
    assert sorted(path.name for path in here.glob("results/sweep=*/**/*.parquet")) == before
    assert "1 of the 7 nights" in outcome(here).reasons[0]


@pytest.mark.usefixtures("first_night")
def test_launch_files_that_share_results_have_nights_of_their_own(
    here: Path, night: RunNight
) -> None:
    (here / "other.yaml").write_text(FILES["cluster.yaml"].replace("lab", "other lab"))
    night(2, file=Path("other.yaml"))
    assert [each.sweep_id for each in history(1).nights] == ["night-2026-11-01-lab"]
    assert (here / "results" / "nightly" / "other-lab" / "night-2026-11-02-other-lab.json").exists()


@pytest.mark.parametrize("content", [b"\xff\xfe", b"[" * 100_000, b"", b'{"a": 1}'])
@pytest.mark.usefixtures("first_night")
def test_a_damaged_diary_ends_no_night_and_is_named(
    here: Path, night: RunNight, content: bytes
) -> None:
    diary = here / "results" / "nightly" / "lab"
    (diary / "night-2026-11-01-lab.json").write_bytes(content)
    (diary / "told.json").write_bytes(content)
    said = io.StringIO()
    assert night(2, console=Console(file=said, width=400)) == 0, "too few nights"
    for name in ("night-2026-11-01-lab.json", "told.json"):
        assert re.search(f"warning: .*{name} cannot be read", said.getvalue()), name
    assert outcome(here, 2).recorded_trials > 0


@pytest.mark.usefixtures("first_night")
def test_an_unreadable_pin_is_refused_by_name_and_unpins_nothing(
    here: Path, night: RunNight
) -> None:
    (here / "results" / "nightly" / "lab" / "baseline.json").write_bytes(b"")
    said = io.StringIO()
    assert night(2, console=Console(file=said, width=400)) == 3
    assert re.search(
        r"baseline.json cannot be read .*: ''; --pin DATE and --unpin", said.getvalue()
    )


@pytest.mark.usefixtures("first_night")
def test_a_night_before_the_pinned_one_says_so(here: Path, night: RunNight) -> None:
    night(2)
    pin_baseline(
        NightOptions(file=Path("cluster.yaml"), night=date(2026, 11, 2)), date(2026, 11, 2)
    )
    assert night(1, measure=False) == 3
    assert outcome(here, 1).reasons == (
        "2026-11-01 is before 2026-11-02, the pinned night: --unpin, or --pin an earlier one",
    )


def test_what_was_not_foreseen_is_no_regression(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> int:
        raise ZeroDivisionError("of a library's")

    monkeypatch.setattr("cudnn_sweep.orchestrator.nightly.night.run_night", fails)
    monkeypatch.setattr("cudnn_sweep.orchestrator.cli.failing.leave", _raise_exit)
    done = CliRunner().invoke(app, ["nightly", "--fake", "script.yaml"])
    assert done.exit_code == 3
    assert "could not tell: ZeroDivisionError: of a library's" in done.stderr


def _raise_exit(code: int) -> None:
    raise typer.Exit(code)


@pytest.mark.usefixtures("first_night")
def test_a_pinned_night_begins_what_is_compared_with(here: Path, night: RunNight) -> None:
    options = NightOptions(file=Path("cluster.yaml"), night=date(2026, 11, 3))
    for day in (2, 3):
        night(day)
    with pytest.raises(SpecError, match="no night-2026-12-01-lab; the last nights: .*11-03-lab"):
        pin_baseline(options, date(2026, 12, 1))
    pin_baseline(options, date(2026, 11, 2))
    night(3)
    assert outcome(here, 3).nights == 1
    pin_baseline(options, None)
    night(3)
    assert outcome(here, 3).nights == 2


@pytest.mark.parametrize("name", ["nightly", "regimes", "models", "states"])
def test_no_two_cells_of_a_suite_share_a_name(
    name: str, record_of: RecordOf, tmp_path: Path
) -> None:
    suite = load_suite(name).model_copy(update={"replicates": 1})
    names = {each: A_MODEL if ":" in each else each for each in workload_names(suite)}
    facts = workload_facts(sorted(set(names.values())))  # other models may not be installed
    found = {each: facts[stand_in] for each, stand_in in names.items()}
    plan = make_plan(name, suite, expand_cells(suite, found, device="cuda", gpu="NVIDIA H200"))
    session = session_of(plan, "night", tmp_path)
    firsts = {trial.cell.cell_id: trial for trial in plan.trials}.values()
    named = Counter(cell_name(as_stored(record_of(session, trial))) for trial in firsts)
    assert [each for each, count in named.items() if count > 1] == []


def as_stored(record: RunRecord) -> dict[str, Any]:
    row = asdict(record) | {"input_shape": "x".join(map(str, record.input_shape))}
    return {
        key: list(value.items()) if isinstance(value, dict) else value for key, value in row.items()
    }


def test_without_cuda_it_cannot_tell_and_says_so(
    here: Path, night: RunNight, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert night(1, fake=None, suite="nightly") == 3
    (reason,) = outcome(here).reasons
    assert reason.startswith("CUDA: no CUDA")
    assert not list(here.glob("results/sweep=*"))


@pytest.mark.parametrize(
    ("where", "named"),
    [
        (
            "problm: x",
            r"script.yaml: effects\[0\].where: unknown field 'problm'; allowed: .*problem",
        ),
        ('benchmark: "1"', r"effects\[0\].where benchmark=1 leaves no trial; found: false, true"),
    ],
)
def test_an_effect_on_no_trial_ends_it_before_anything_runs(
    here: Path, night: RunNight, where: str, named: str
) -> None:
    (here / "script.yaml").write_text(f"effects: [{{where: {{{where}}}, time: 2.0}}]")
    with pytest.raises(SpecError, match=named):
        night()
    assert not (here / "results").exists()


@pytest.mark.parametrize(
    ("name", "text", "named"),
    [
        ("script.yaml", "effects: [{tim: 2.0}]", r"script.yaml:1: effects\[0\].tim: unknown key"),
        ("suite.yaml", "cells: []", r"suite.yaml:1: cells"),
    ],
)
def test_a_mistake_ends_it_before_anything_runs(
    here: Path, night: RunNight, name: str, text: str, named: str
) -> None:
    (here / name).write_text(text)
    with pytest.raises(ClusterError, match=named):
        night()
    assert not list(here.glob("results/sweep=*"))


def test_what_was_told_stays_so_through_a_night_without_trials_and_an_old_one_again(
    here: Path, night: RunNight, monkeypatch: pytest.MonkeyPatch
) -> None:
    crash = "{where: {problem: tutorials/rgb224}, from: 2026-11-02, status: crash}"
    (here / "script.yaml").write_text(f"effects: [{crash}]")
    assert [night(day) for day in (1, 2)] == [0, 1]
    file = here / "results" / "nightly" / "lab" / "told.json"
    told = file.read_text()
    assert told.count("2026-11-02") == len(outcome(here, 2).alerts) == 2
    with monkeypatch.context() as patch:
        patch.setattr("cudnn_sweep.orchestrator.nightly.night.why_unfit", lambda _: ("no GPU",))
        assert night(3) == 3
    assert file.read_text() == told
    assert night(1) == 0
    assert file.read_text() == told
    file.write_text(told[:20])
    assert night(4) == 1
    assert file.read_text() == told, "what cannot be read is made anew"


def test_a_night_compared_anew_without_measuring_keeps_what_fresh_trials_said(
    here: Path, night: RunNight
) -> None:
    file = FILES["cluster.yaml"].replace("yaml}", "yaml, last_good: /opt/good/bin/python}")
    (here / "cluster.yaml").write_text(file)
    slow = "{where: {problem: tutorials/rgb224}, from: 2026-11-07, time: 1.2}"
    (here / "script.yaml").write_text(
        f"installed: [{{torch: 2.12.0}}]\nlast_good: {{torch: 2.11.0}}\neffects: [{slow}]"
    )
    codes = [night(day) for day in range(1, 9)]
    told = outcome(here, 8).alerts
    assert codes[-1] == night(8, measure=False) == 1
    assert outcome(here, 8).alerts == told
    assert {(each.blocks > 0, each.cause) for each in told} == {(True, "software")}


def test_what_had_no_turn_when_the_time_was_up_is_not_confirmed(
    here: Path, night: RunNight, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = "{where: {problem: tutorials/rgb224}, from: 2026-11-02, lost: true}"
    (here / "script.yaml").write_text(f"noise: {{night: 0.001, process: 0.001}}\neffects: [{lost}]")
    monkeypatch.setattr("cudnn_sweep.orchestrator.nightly.confirm.TIME_SHARE", 0.0)
    for day, state in ((1, []), (2, ["waiting"]), (3, ["waiting"]), (4, ["confirmed"])):
        night(day)
        assert [each.state for each in outcome(here, day).findings] == state


def test_an_accepted_change_is_no_alert_any_more_and_every_report_says_why(
    here: Path, night: RunNight
) -> None:
    crash = "{where: {problem: tutorials/rgb224}, from: 2026-11-02, status: crash}"
    (here / "script.yaml").write_text(f"effects: [{crash}]")
    assert [night(day) for day in (1, 2)] == [0, 1]
    options = NightOptions(file=Path("cluster.yaml"), night=date(2026, 11, 2))
    one, other = outcome(here, 2).alerts
    said = accept_change(options, one.key.series_id, "2026-11-02", "never <worked>")
    assert said.startswith(f"Accepted from 2026-11-02 on: {one.key.cell} · {one.key.settings}: ")
    assert night(3) == 1
    assert [each.key for each in outcome(here, 3).alerts] == [other.key]
    accept_change(options, other.key.cell_id, "2026-11-02", "as the other")
    printed = io.StringIO()
    assert night(4, Console(file=printed, width=300), pages=True) == 0, "too few nights, no alert"
    assert {each.reason for each in outcome(here, 4).accepted} == {"never <worked>", "as the other"}
    assert "as the other" in printed.getvalue()
    folder = here / "results" / "nightly" / "lab" / "reports" / "latest"
    reports = [file for file in folder.rglob("*") if file.is_file()]
    assert {".html", ".md", ".json", ".xml"} <= {file.suffix for file in reports}
    for file in reports:
        assert "as the other" in file.read_text(), file


def test_an_acceptance_of_nothing_is_refused(here: Path, night: RunNight) -> None:
    crash = "{where: {problem: tutorials/rgb224}, from: 2026-11-02, status: crash}"
    (here / "script.yaml").write_text(f"effects: [{crash}]")
    options = NightOptions(file=Path("cluster.yaml"), night=date(2026, 11, 3))
    with pytest.raises(SpecError, match="--accept x: there is no night of lab yet"):
        accept_change(options, "x", "2026-11-02", "so")
    for each in (1, 2):
        night(each)
    for what, first, reason, said in (
        (
            "conv",
            "2026-11-02",
            "so",
            "--accept conv: no alert of night-2026-11-02-lab is of such a",
        ),
        ("failure", None, "so", "--accept failure: needs --from DATE"),
        ("failure", "2026-11-02", " ", "--accept failure: needs --from DATE.* and --reason TEXT"),
        ("failure", "soon", "so", "--from soon: found no date"),
        ("failure", "2026-11-03", "so", "--from 2026-11-03: is after the last night, 2026-11-02"),
    ):
        with pytest.raises(SpecError, match=said):
            accept_change(options, what, first, reason)
    assert not (here / "results" / "nightly" / "lab" / "accepted.json").exists()


def test_a_slow_gpu_is_one_finding_and_is_accepted_as_one(here: Path, night: RunNight) -> None:
    (here / "script.yaml").write_text(
        """
noise: {night: 0.002, process: 0.002}
installed: [{gpu_uuid: GPU-a}, {from: 2026-11-08, gpu_uuid: GPU-b}]
effects: [{from: 2026-11-08, cause: hardware, time: 1.06}]
"""
    )
    assert [night(day) for day in range(1, 11)][-3:] == [0, 1, 1]
    (alert,) = outcome(here, 10).alerts
    assert alert.key.cell == "GPU-b on fake"
    assert alert.cause == "hardware"
    assert alert.moved[0] == Change(part="gpu_uuid", before="GPU-a", now="GPU-b")
    members = outcome(here, 10).members
    assert len([each for each in members if each.key.metric == "steady_device"]) == 6
    options = NightOptions(file=Path("cluster.yaml"), night=date(2026, 11, 10))
    accept_change(options, alert.key.series_id, "2026-11-08", "moved")
    night(11)
    assert outcome(here, 11).alerts == ()
    assert len(outcome(here, 11).accepted) == len([each for each in members if each.is_alert])


HIDDEN = """
noise: {night: 0.002, process: 0.002}
installed: [{torch: 2.12.0}]
last_good: {torch: 2.11.0}
effects:
  - {cause: hardware, wall: 3}
  - {from: 2026-11-07, DEVICE}
"""
HIDDEN_WORDS = (
    r"GPU work 12% more \(1\d–1\d%\); the loop waits for the CPU: wall \d% (more|less) \(.*\)"
)


@pytest.mark.parametrize("last_good", ["/opt/good/bin/python", None])
def test_what_a_loop_hides_that_waits_for_the_cpu_is_told_with_both_clocks(
    here: Path, night: RunNight, last_good: str | None
) -> None:
    named = f", last_good: {last_good}" if last_good else ""
    (here / "cluster.yaml").write_text(FILES["cluster.yaml"].replace(".yaml}", f".yaml{named}}}"))
    slower = "where: {problem: tutorials/rgb224}, device: 1.12"
    (here / "script.yaml").write_text(HIDDEN.replace("DEVICE", slower))
    printed = io.StringIO()
    for day in range(1, 11):
        code = night(day, Console(file=printed, width=300))
    assert code == 1
    alerts = outcome(here, 10).alerts
    assert {each.key.metric for each in alerts} == {"steady_device"}
    assert all(bool(each.blocks) == (last_good is not None) for each in alerts)
    assert re.search(HIDDEN_WORDS, printed.getvalue())


def test_a_gpu_whose_work_is_slower_behind_the_cpu_is_told_with_both_clocks(
    here: Path, night: RunNight
) -> None:
    (here / "script.yaml").write_text(HIDDEN.replace("DEVICE", "cause: hardware, device: 1.12"))
    printed = io.StringIO()
    for day in range(1, 11):
        night(day, Console(file=printed, width=300))
    (alert,) = outcome(here, 10).alerts
    assert "12% more; the loop waits for the CPU: wall 0% " in printed.getvalue()
    assert alert.wall_ratio == pytest.approx(1, abs=0.01)


@pytest.mark.measuring
def test_each_command_that_a_night_prints_works_when_pasted(here: Path, night: RunNight) -> None:
    """On the machine that it measured: here the fake one says that it is this one."""
    with ForkServer() as server:
        device = survey(server, ["conv"]).environment.gpu
    script = {
        "gpu": device,
        "noise": {"night": 0.002, "process": 0.002},
        "installed": [{"torch": "2.11.0"}, {"from": "2026-11-09", "torch": "2.12.0"}],
        "effects": [{"from": "2026-11-09", "time": 1.2}],
    }
    (here / "script.yaml").write_text(json.dumps(script))
    cell = "{workload: conv, problem: tutorials/rgb224, direction: forward}"
    measure = "{warmup_s: 0, steady_budget_s: 0.02, calibrate: false}"
    (here / "suite.yaml").write_text(f"replicates: 2\nmeasure: {measure}\ncells: [{cell}]\n")
    for day in range(1, 10):
        night(day, results="mine")
    printed = io.StringIO()
    assert night(10, Console(file=printed, width=400), results="mine") == 1
    told = from_json((here / "mine/nightly/lab/reports/2026-11-10/night.json").read_text())
    where = WhereToLook(folder=here, program="sweep", results="mine", page="night.html")
    lines = [printed.getvalue(), *news_of(told, told.alerts, where).findings]
    commands = set(re.findall(r"(?:; |: |&& )(sweep [a-z].*)$", "\n".join(lines), re.MULTILINE))
    assert {command.split()[1] for command in commands} == {"launch", "nightly", "compare"}
    for command in sorted(commands):
        ran = subprocess.run(
            [sys.executable, "-m", "cudnn_sweep.orchestrator.cli", *shlex.split(command)[1:]],
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, f"{command}\n{ran.stdout}{ran.stderr}"
    assert len(open_store("mine").sweep_ids()) == 11 + sum(" launch " in each for each in commands)
