"""What nights on the fake machine tell: once, confirmed, with its cause, until it is accepted."""

import io
import json
import re
import shlex
import sys
from datetime import date
from pathlib import Path
from types import ModuleType

import pytest
import torch
from rich.console import Console

from cudnn_sweep.analysis.nights.reports.report import from_json
from cudnn_sweep.analysis.store.store import open_store
from cudnn_sweep.cluster.errors import ClusterError
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.nightly import night as news_room
from cudnn_sweep.orchestrator.nightly.news import News, WhereToLook, news_of
from cudnn_sweep.orchestrator.nightly.request import accept_change
from cudnn_sweep.orchestrator.process.client import ForkServer, survey
from cudnn_sweep.orchestrator.running.this_machine import ThisMachine
from tests.fake_machine import FakeMachine, FakeScript
from tests.orchestrator.nightly.conftest import CRASH, FILES, RunNight, options_of, outcome
from tests.orchestrator.typed import invoke


@pytest.fixture
def posts(here: Path, monkeypatch: pytest.MonkeyPatch) -> list[News]:
    """What a webhook is told."""
    told: list[News] = []
    monkeypatch.setattr(news_room, "tell", lambda webhook, news: told.append(news))
    (here / "hook").write_text("https://hook")
    keys = "{suite: suite.yaml, webhook: {url_file: hook}}"
    (here / "cluster.yaml").write_text(FILES["cluster.yaml"].replace("{suite: suite.yaml}", keys))
    return told


def test_a_mistake_in_the_suite_is_reported_and_posted_once(
    here: Path, play: RunNight, posts: list[News]
) -> None:
    (here / "suite.yaml").write_text("cells: [{workloa: conv}]")
    for day in (1, 1, 2):
        with pytest.raises(ClusterError, match="workloa: unknown key"):
            play(day)
        assert "workloa: unknown key" in outcome(here, day).reasons[0]
    assert (here / "results/nightly/lab/reports/2026-11-02/night.md").exists()
    (news,) = posts
    assert "2026-11-01: could not tell" in news.headline
    assert "workloa: unknown key" in news.findings[0]


@pytest.mark.long
def test_networks_without_their_package_are_left_out_and_are_no_change(
    here: Path, play: RunNight, posts: list[News], monkeypatch: pytest.MonkeyPatch
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

    for day in range(2, 13):
        install(None if day in (9, 10, 11) else models)
        assert play(day) == 0
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


@pytest.mark.long
def test_a_webhook_that_is_not_found_costs_no_night(
    here: Path, play: RunNight, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = here / "cluster.yaml"
    keys = "{suite: suite.yaml, webhook: {url_env: HOOK}}"
    file.write_text(FILES["cluster.yaml"].replace("{suite: suite.yaml}", keys))
    (here / "script.yaml").write_text(CRASH)
    said = io.StringIO()
    console = Console(file=said, width=400)
    assert [play(day, console=console) for day in (1, 2)] == [0, 1]
    assert outcome(here, 1).recorded_trials == outcome(here, 1).planned_trials
    not_set = "metadata.sweep.nightly.webhook.url_env: HOOK is not set in the environment"
    assert said.getvalue().count(f"warning: no notification will be sent: {not_set}") == 2
    assert said.getvalue().count(f"warning: no notification was sent: {not_set}") == 1
    told = json.loads((here / "results/nightly/lab/told.json").read_text())
    assert told["content"] == [], "to be told yet"
    look = FakeMachine(script=FakeScript(), night=date(2026, 11, 1)).look
    monkeypatch.setattr(ThisMachine, "look", lambda self, suite: look(suite))
    assert play(3, console=console, dry_run=True, minutes=40.0) == 0
    cost = "at most about 1 hours on each GPU: 40 minutes for the suite, 20 for fresh trials"
    assert cost in said.getvalue()
    assert said.getvalue().count(f"warning: no notification will be sent: {not_set}") == 3


@pytest.mark.long
@pytest.mark.usefixtures("crashed")
def test_what_was_told_stays_so_through_a_night_without_trials_and_an_old_one_again(
    here: Path, play: RunNight, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = here / "results" / "nightly" / "lab" / "told.json"
    told = file.read_text()
    assert told.count("2026-11-02") == len(outcome(here, 2).alerts) == 2
    with monkeypatch.context() as patch:
        patch.setattr("cudnn_sweep.orchestrator.nightly.night.why_unfit", lambda *_: ("no GPU",))
        assert play(3) == 3
    assert file.read_text() == told
    assert play(1) == 0
    assert file.read_text() == told
    file.write_text(told[:20])
    assert play(4) == 1
    assert file.read_text() == told, "what cannot be read is made anew"


@pytest.mark.long
def test_what_had_no_turn_when_the_time_was_up_is_not_confirmed(
    here: Path, play: RunNight, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = "{where: {problem: tutorials/rgb224}, from: 2026-11-02, lost: true}"
    (here / "script.yaml").write_text(f"noise: {{night: 0.001, process: 0.001}}\neffects: [{lost}]")
    for day, share, state in (
        (1, 0, []),
        (2, 0, ["waiting"]),
        (3, 0, ["waiting"]),
        (4, 0.5, ["confirmed"]),
    ):
        monkeypatch.setattr("cudnn_sweep.orchestrator.nightly.night.TIME_SHARE", share)
        play(day)
        assert [each.state for each in outcome(here, day).findings] == state
    assert outcome(here, 4).alerts[0].since == date(2026, 11, 2)


@pytest.mark.long
@pytest.mark.usefixtures("crashed")
def test_an_accepted_change_is_no_alert_any_more_and_every_report_says_why(
    here: Path, play: RunNight
) -> None:
    options = options_of(2)
    one, other = outcome(here, 2).alerts
    said = accept_change(options, one.key.series_id, "2026-11-02", "never <worked>")
    assert said.startswith(f"Accepted from 2026-11-02 on: {one.key.cell} · {one.key.settings}: ")
    assert play(3) == 1
    assert [each.key for each in outcome(here, 3).alerts] == [other.key]
    accept_change(options, other.key.cell_id, "2026-11-02", "as the other")
    printed = io.StringIO()
    assert play(4, Console(file=printed, width=300)) == 0, "too few nights, no alert"
    assert {each.reason for each in outcome(here, 4).accepted} == {"never <worked>", "as the other"}
    assert "as the other" in printed.getvalue()
    folder = here / "results" / "nightly" / "lab" / "reports" / "latest"
    reports = [file for file in folder.rglob("*") if file.is_file()]
    assert {".html", ".md", ".json", ".xml"} <= {file.suffix for file in reports}
    for file in reports:
        assert "as the other" in file.read_text() or file.suffix == ".prom", "numbers alone"


@pytest.mark.usefixtures("crashed")
@pytest.mark.parametrize(
    ("what", "first", "reason", "said"),
    [
        ("conv", "2026-11-02", "so", "--accept conv: no alert of night-2026-11-02-lab has this"),
        ("failure", None, "so", "--accept failure: needs --from DATE"),
        ("failure", "2026-11-02", " ", "failure: needs --from DATE.* and --reason TEXT"),
        ("failure", "soon", "so", "--from: found 'soon', allowed: a date"),
        (
            "failure",
            "2026-11-03",
            "so",
            "--from 2026-11-03: this night is after the last night, 2026-11-02",
        ),
    ],
)
def test_an_acceptance_of_nothing_is_refused(
    here: Path, what: str, first: str | None, reason: str, said: str
) -> None:
    with pytest.raises(SpecError, match=said):
        accept_change(options_of(3), what, first, reason)
    assert not (here / "results" / "nightly" / "lab" / "accepted.json").exists()
    with pytest.raises(SpecError, match="--accept x: there is no night of lab yet"):
        accept_change(options_of(3, results="none"), "x", "2026-11-02", "so")


HIDDEN = """
noise: {night: 0.002, process: 0.002}
installed: [{torch: 2.12.0}]
last_good: {torch: 2.11.0}
effects:
  - {cause: hardware, wall: 3}
  - {from: 2026-11-07, where: {problem: tutorials/rgb224}, device: 1.12}
"""


@pytest.mark.long
def test_what_a_loop_hides_that_waits_for_the_cpu_is_told_with_both_clocks(
    here: Path, play: RunNight
) -> None:
    last_good = ".yaml, last_good: /opt/good/bin/python}"
    (here / "cluster.yaml").write_text(FILES["cluster.yaml"].replace(".yaml}", last_good))
    (here / "script.yaml").write_text(HIDDEN)
    printed = io.StringIO()
    assert [play(day, Console(file=printed, width=300)) for day in range(1, 11)][-1] == 1
    alerts = outcome(here, 10).alerts
    assert {(each.key.metric, each.blocks > 0) for each in alerts} == {("steady_device", True)}
    told = r"device time 1\d\.\d% more \(95% interval .*\), wall time \S*% (more|less) \(.*\) "
    told += r"\(the loop is CPU-bound\)"
    assert re.search(told, printed.getvalue())


@pytest.mark.long
@pytest.mark.measuring
def test_each_command_that_a_night_prints_works_when_pasted(
    here: Path, play: RunNight, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the machine that it measured: here the fake one says that it is this one."""
    with ForkServer(survey_only=True) as server:
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
        play(day, results="mine")
    printed = io.StringIO()
    assert play(10, Console(file=printed, width=400), results="mine") == 1
    told = from_json((here / "mine/nightly/lab/reports/2026-11-10/night.json").read_text())
    where = WhereToLook(folder=here, program="sweep", results="mine", page="night.html")
    lines = [printed.getvalue(), *news_of(told, told.alerts, where).findings]
    commands = set(re.findall(r"(?:; |: |&& )(sweep [a-z].*)$", "\n".join(lines), re.MULTILINE))
    of_each_kind = {command.split()[1]: command for command in sorted(commands)}
    assert of_each_kind.keys() == {"launch", "nightly", "compare"}
    monkeypatch.setattr(
        "cudnn_sweep.orchestrator.cli.failing.leave", sys.exit
    )  # the tests' process goes on
    for command in of_each_kind.values():
        planned = ["--dry-run"] if command == of_each_kind["launch"] else []
        ran = invoke([*shlex.split(command)[1:], *planned])
        assert ran.exit_code == 0, f"{command}\n{ran.output}"
    assert len(open_store("mine").sweep_ids()) == 11, "ten nights, a confirmation"
