"""What a terminal and a webhook are told of a night."""

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from cudnn_sweep.analysis.nightly.outcome import NightOutcome
from cudnn_sweep.orchestrator.nightly.news import WhereToLook, json_body, news_of, show, slack_body
from tests.made_up_night import Night, hidden_from_wall

REPORTS = [Path("r/junit.xml"), Path("r/night.md")]
WHERE = WhereToLook(
    folder=Path("/srv/my gpu"),
    program="sweep",
    results="results",
    page="https://sweeps/2026-03-02/night.html",
)
FACTS = (
    "10.0% more (95% interval 8.00 to 12.0%)",
    "against 26 nights, since 2026-02-28",
    "confirmed by 12 fresh pairs",
    "software: torch 2.9.0 → 2.10.0",
    "sweep launch cluster.yaml --only cell_id=conv",
)


def printed(outcome: NightOutcome, width: int, *, terminal: bool) -> str:
    text = io.StringIO()
    console = Console(file=text, width=width, force_terminal=terminal, color_system=None)
    show(outcome, REPORTS, "text", console)
    return text.getvalue()


def test_news_are_the_findings_and_the_nights_json(night: Night) -> None:
    outcome, _ = night
    news = news_of(outcome, outcome.alerts, WHERE)
    assert news.headline == (
        "lab on node-1 (H200), 2026-03-02: "
        "wall time of an iteration: 10.0% more since 2026-02-28, software: torch 2.9.0 → 2.10.0; "
        "1 other confirmed change; 1 waiting; 1 better"
    )
    assert all(fact in news.findings[0] for fact in FACTS[:-1])
    assert f"cd '/srv/my gpu' && {FACTS[-1]}" in news.findings[0]
    assert news.findings[-2] == "Changed since the night before: driver 580.65 → 580.82"
    assert news.findings[-1].endswith("Page: https://sweeps/2026-03-02/night.html")
    assert not any("conv 4x8" in each for each in news.findings), "it waits"
    assert news.result["exit_code"] == 1
    assert json_body(news)["result"] is news.result
    assert "<img" not in str(slack_body(news))


def test_news_tell_what_wall_time_hides_in_one_phrase(night: Night) -> None:
    slower, *_ = night[0].findings
    of_device = hidden_from_wall(slower, 0.99, 0.98, 1.0)
    outcome = replace(night[0], findings=(of_device,))
    both = (
        "GPU work 12.0% more (95% interval 11.0 to 13.0%); "
        "the loop waits for the CPU: wall 1.00% less (95% interval 0 to 2.00%)"
    )
    news = news_of(outcome, outcome.alerts, WHERE)
    assert both in news.headline
    assert news.findings[0].startswith(f"{both} since 2026-02-28, software: torch")
    assert both in str(slack_body(news))
    assert both in printed(outcome, 80, terminal=False)
    wide = replace(of_device, wall_ratio_low=0.95, wall_ratio_high=1.03)
    news = news_of(replace(outcome, findings=(wide,)), [wide], WHERE)
    assert "wall 1.00% less (95% interval -3.00 to 5.00%)" in news.headline


@pytest.mark.parametrize("reason", ["only 2 nights compare", "no GPU was found"])
def test_news_say_why_a_night_could_not_tell(night: Night, reason: str) -> None:
    outcome = replace(night[0], state="could_not_tell", reasons=(reason,), findings=())
    assert news_of(outcome, (), WHERE).findings[0] == reason
    assert f"Could not tell\n{reason}" in printed(outcome, 80, terminal=False)
