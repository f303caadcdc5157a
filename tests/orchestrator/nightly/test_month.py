"""24 nights with planted faults, on the fake machine: the real command, store, reports, news.

Each fault is to be found, confirmed and named within its nights, and nothing else alerted.
"""

import json
import re
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from cudnn_sweep.analysis.nights.outcome import Finding, NightOutcome
from cudnn_sweep.analysis.nights.reports.report import from_json
from cudnn_sweep.analysis.nights.series import SeriesKey
from cudnn_sweep.orchestrator.nightly import night as news_room
from cudnn_sweep.orchestrator.nightly.news import News
from cudnn_sweep.orchestrator.nightly.night import run_night
from cudnn_sweep.orchestrator.nightly.request import accept_change
from cudnn_sweep.orchestrator.planning.options import NightOptions
from tests.fake_machine import FakeMachine, read_fake_machine

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]  # the first test waits for all nights


NIGHTS = [date(2026, 11, 1) + timedelta(days=day) for day in range(24)]
LAUNCH_FILE = """
cluster_name: month
metadata:
  sweep:
    nightly:
      suite: suite.yaml
      last_good: /opt/last-good/bin/python
      webhook: {url_env: NIGHTLY_WEBHOOK}
"""
SUITE = """
replicates: 2
cells:
  - workload: conv
    problem: [tutorials/rgb224, tutorials/rgb256, tutorials/vgg16_conv3_2]
    precision: [tf32, bf16]
  - workload: conv
    problem: tutorials/rgb224
    precision: fp16
"""
SCRIPT = """
seed: 3
noise: {night: 0.005, process: 0.01}
last_good: {torch: 2.11.0, cudnn: 91900}
installed:
  - {from: 2026-11-10, torch: 2.12.0}
  - {from: 2026-11-12, cudnn: 92100}
  - {from: 2026-11-23, power_limit_w: 600.0}
effects:
  - {where: {problem: tutorials/rgb256, precision: tf32}, from: 2026-11-10, time: 1.07}
  - {where: {problem: tutorials/rgb224, precision: bf16, benchmark: "true"}, from: 2026-11-12, memory: 2.0}
  - {where: {problem: tutorials/rgb224, precision: tf32, benchmark: "true"}, from: 2026-11-14, engine: other_kernel}
  - {from: 2026-11-15, to: 2026-11-15, cause: hardware, time: 1.2}
  - {where: {problem: tutorials/vgg16_conv3_2, precision: tf32}, from: 2026-11-17, status: crash}
  - {where: {problem: tutorials/vgg16_conv3_2, precision: bf16}, from: 2026-11-18, lost: true}
  - {where: {problem: tutorials/rgb256, precision: bf16, benchmark: "true"}, from: 2026-11-20, time: 2.0}
  - {where: {problem: tutorials/rgb224, precision: fp16}, from: 2026-11-11, cause: hardware, a_night: 1.012}
"""
TIMES = ("steady_wall", "steady_device")


BOTH = ("benchmark=false", "benchmark=true")
ON = ("benchmark=true",)


@dataclass(frozen=True)
class Planted:
    """The days are November's."""

    where: str
    metrics: tuple[str, ...]
    settings: tuple[str, ...]
    begins: int
    found_by: int
    moved: str = ""
    cause: str = "software"

    def explains(self, finding: Finding) -> bool:
        problem, precision = self.where.split()
        words = finding.key.cell.split()
        return (
            words[0] == f"tutorials/{problem}"
            and precision in words
            and finding.key.metric in self.metrics
            and finding.key.settings in self.settings
        )


PLANTED = [
    Planted("rgb256 tf32", TIMES, BOTH, 10, 12, "torch"),
    Planted("rgb224 bf16", ("peak_memory",), ON, 12, 14, "cudnn"),
    Planted("rgb224 tf32", ("engine",), ON, 14, 16),
    Planted("vgg16_conv3_2 tf32", ("failure",), BOTH, 17, 17),
    Planted("vgg16_conv3_2 bf16", ("missing",), ("every config",), 18, 18),
    Planted("rgb256 bf16", (*TIMES, "sign"), (*ON, "benchmark: false → true"), 20, 22),
    Planted("rgb224 fp16", TIMES, BOTH, 11, 22, cause="hardware"),
]
NEW_BASELINE = date(2026, 11, 23)


@dataclass(frozen=True, kw_only=True)
class Month:
    outcomes: dict[date, NightOutcome]
    exit_codes: dict[date, int]
    posts: list[News]
    folder: Path


@pytest.fixture(scope="module")
def month(tmp_path_factory: pytest.TempPathFactory) -> Month:
    return play(tmp_path_factory.mktemp("month"), NIGHTS, LAUNCH_FILE, SCRIPT)


def play(folder: Path, nights: list[date], launch_file: str, script: str) -> Month:
    for name, text in {"cluster": launch_file, "suite": SUITE, "script": script}.items():
        (folder / f"{name}.yaml").write_text(text)
    outcomes, exit_codes = {}, {}
    posts: list[News] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(news_room, "tell", lambda webhook, news: posts.append(news))
        for night in nights:
            exit_codes[night], outcomes[night] = run_one(
                folder, night, read_fake_machine(folder / "script.yaml", night)
            )
    return Month(outcomes=outcomes, exit_codes=exit_codes, posts=posts, folder=folder)


def run_one(
    folder: Path, night: date, place: FakeMachine | None = None, **options: Any
) -> tuple[int, NightOutcome]:
    """That night's exit code, and what it found."""
    asked = NightOptions(file=Path("cluster.yaml"), night=night, **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        code = run_night(asked, {"NIGHTLY_WEBHOOK": "https://hook"}, Console(quiet=True), place)
    (written,) = (folder / "results" / "nightly").glob(f"*/night-{night}-*.json")
    return code, from_json(json.dumps(json.loads(written.read_text())["content"]))


@pytest.mark.parametrize("planted", PLANTED, ids=lambda each: f"{each.where} {each.metrics[-1]}")
def test_a_planted_fault_is_found_in_time_and_named_and_alerts_every_night(
    month: Month, planted: Planted
) -> None:
    """Until other hardware opens a baseline; more nights are slow by then than were not."""
    alerted: dict[SeriesKey, dict[date, Finding]] = {}
    for night, outcome in month.outcomes.items():
        for alert in filter(planted.explains, outcome.alerts):
            alerted.setdefault(alert.key, {})[night] = alert
    assert {key.metric for key in alerted} == set(planted.metrics)
    for key, nights in alerted.items():
        first, alert = next(iter(nights.items()))
        assert planted.begins <= first.day <= planted.found_by
        assert alert.cause == planted.cause
        assert planted.moved in " ".join(change.part for change in alert.moved)
        assert key.cell_id in alert.command
        assert list(nights) == [night for night in NIGHTS if first <= night < NEW_BASELINE], key


def test_nothing_else_is_alerted(month: Month) -> None:
    for night, outcome in month.outcomes.items():
        for alert in outcome.alerts:
            told = f"{night}: {alert.key.cell} {alert.key.settings} {alert.key.metric}"
            assert any(planted.explains(alert) for planted in PLANTED), told


def test_exit_codes_say_what_was_told(month: Month) -> None:
    for night, code in month.exit_codes.items():
        if night < NIGHTS[6] or night >= NEW_BASELINE:
            assert code == 0, f"{night}: too few nights to compare with"
            assert month.outcomes[night].state == "learning"
            assert "of the 7 nights" in month.outcomes[night].reasons[0]
        else:
            assert code == (1 if month.outcomes[night].alerts else 0)


def test_other_hardware_opens_a_baseline_and_says_so(month: Month) -> None:
    said = {night: outcome.new_baseline for night, outcome in month.outcomes.items()}
    assert [night for night, text in said.items() if text] == [NEW_BASELINE]
    assert "power_limit_w 700.0 → 600.0" in (said[NEW_BASELINE] or "")
    assert month.outcomes[NIGHTS[-1]].nights == (NIGHTS[-1] - NEW_BASELINE).days


def test_each_alert_is_told_once_and_only_news_is_posted(month: Month) -> None:
    texts = [text for post in month.posts for text in post.findings]
    told = [
        int(found[1])
        for text in texts
        if (found := re.search(r"^(\d+) series: ", text, re.MULTILINE))
    ]
    alerts = {
        (alert.key, alert.since) for outcome in month.outcomes.values() for alert in outcome.alerts
    }
    assert sum(told) == len(alerts) > len(told)
    assert any(NEW_BASELINE.isoformat() in post.headline for post in month.posts)
    assert len(month.posts) < 15


def test_a_night_compared_anew_without_measuring_keeps_what_fresh_trials_said(month: Month) -> None:
    night = date(2026, 11, 22)
    alerts = month.outcomes[night].alerts
    assert any(each.blocks for each in alerts)
    again = run_one(month.folder, night, measure=False)[1]
    assert (again.alerts, again.nights) == (alerts, 21), "confirmations are no nights"


FARM = LAUNCH_FILE.replace("month", "farm").replace(
    "      last_good: /opt/last-good/bin/python\n", ""
)
FARM_NIGHTS = [date(2026, 11, day) for day in (*range(5, 19), *range(25, 29))]
FARM_SCRIPT = """
seed: 1
noise: {night: 0.005, process: 0.01}
installed:
  - {from: 2026-11-01, torch: 2.11.0, host: gpu07}
  - {from: 2026-11-15, torch: 2.12.0}
effects:
  - {where: {problem: tutorials/rgb256}, from: 2026-11-15, time: 1.08}
  - {where: {problem: tutorials/rgb256, precision: bf16}, from: 2026-11-12, to: 2026-11-14, cause: hardware, time: 1.03}
  - {from: 2026-11-26, cause: hardware, time: 1.06}
"""
TORCH = "% more since 2026-11-15, software: torch 2.11.0 → 2.12.0"


@pytest.fixture(scope="module")
def farm(tmp_path_factory: pytest.TempPathFactory) -> Month:
    """A suspicion since the 12th, torch 2.12 from the 15th and a slow GPU from the 26th."""
    return play(tmp_path_factory.mktemp("farm"), FARM_NIGHTS, FARM, FARM_SCRIPT)


def test_a_suspicion_of_before_does_not_carry_what_a_new_software_brings(farm: Month) -> None:
    waited = farm.outcomes[date(2026, 11, 14)].findings
    of_noise = [each for each in waited if "rgb256" in each.key.cell and "bf16" in each.key.cell]
    assert {each.since.day for each in of_noise if each.state == "waiting"} == {12}
    told = farm.outcomes[date(2026, 11, 18)].alerts
    assert len(told) == 8, "wall and device time, two cells, two configs"
    for alert in told:
        assert "rgb256" in alert.key.cell
        assert (alert.since, alert.cause) == (date(2026, 11, 15), "software")
        assert [change.part for change in alert.moved] == ["torch"]
    for outcome in farm.outcomes.values():
        for each in (*outcome.findings, *outcome.members):
            if isinstance(each.before, float) and isinstance(each.now, float) and not each.blocks:
                assert each.now / each.before == pytest.approx(each.ratio)


def test_a_slow_gpu_is_not_told_as_the_torch_that_was_slow_before(farm: Month) -> None:
    waits, told = (farm.outcomes[date(2026, 11, day)] for day in (27, 28))
    (group,) = (each for each in waits.findings if each.key.metric == "shared")
    assert (group.state, group.since) == ("waiting", date(2026, 11, 26))
    assert [each.since for each in waits.alerts] == [date(2026, 11, 15)] * 8, "grown or not"
    (group,) = (each for each in told.findings if each.key.metric == "shared")
    assert (group.is_alert, group.since, group.moved) == (True, date(2026, 11, 26), ())
    assert group.now == "20 of 28 times", "none of rgb256, which torch has slowed"
    assert not any("rgb256" in each.key.cell for each in told.members)
    assert len(told.alerts) == 9


def test_a_slow_gpu_is_accepted_as_one(farm: Month, monkeypatch: pytest.MonkeyPatch) -> None:
    night = FARM_NIGHTS[-1]
    before = farm.outcomes[night]
    (group,) = (each for each in before.findings if each.key.metric == "shared")
    monkeypatch.chdir(farm.folder)
    options = NightOptions(file=Path("cluster.yaml"), night=night)
    accept_change(options, group.key.series_id, "2026-11-26", "moved")
    code, after = run_one(farm.folder, night, measure=False)
    grown = [each.key.cell for each in after.alerts if each.since.day == 26]
    assert all("rgb256" in cell for cell in grown), "torch had slowed it, and gpu07 slows it more"
    assert (code, {each.since.day for each in after.alerts}) == (1, {15, 26}), "torch is as before"
    assert len(after.accepted) == len([each for each in before.members if each.is_alert]) > 1


def test_each_fact_is_posted_once_with_its_cause(farm: Month) -> None:
    heads = [post.headline for post in farm.posts]
    of_torch, of_gpu = ([head for head in heads if cause in head] for cause in (TORCH, "gpu07 are"))
    assert heads == [*of_torch, *of_gpu]
    (head,) = of_gpu
    assert head == (
        "farm on gpu07 (NVIDIA H200), 2026-11-28: 20 of 28 times on gpu07 are slower, typically by 6%, "
        "since 2026-11-26, nothing known has changed; 2 other confirmed changes"
    )
    texts = [text for post in farm.posts for text in post.findings]
    told = re.findall(r"^(\d+) series: ", "\n".join(texts), re.MULTILINE)
    assert list(map(int, told)) == [2, 6, 2], "the last two have grown beyond what was posted"
