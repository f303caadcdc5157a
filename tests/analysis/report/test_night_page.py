"""A night's page as a person has it: opened from disk in a real browser, with no network."""

import re
from pathlib import Path

import pytest

from cudnn_sweep.analysis.nightly.reports.page import to_html
from tests.analysis.report.conftest import Browser
from tests.made_up_night import Night


def test_each_findings_history_is_drawn(night: Night) -> None:
    outcome, series = night
    articles = re.findall("<article.*?</article>", to_html(outcome, series), re.DOTALL)
    assert len(articles) == len(outcome.findings)
    drawn = {
        each.key: sum(value is not None for value in each.numbers + each.words) for each in series
    }
    changed = [3, 3, 1, 10]
    for finding, text, nights in zip(outcome.findings, articles, changed, strict=True):
        assert text.count("<circle") == drawn[finding.key]
        assert text.count('fill="var(--c2)"') == nights
        assert text.count("2026-02-28: torch 2.9.0 → 2.10.0") == 1
    assert "<title>2026-03-02: 1.11 ms</title>" in articles[0]


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True])
def test_a_phone_scrolls_down_alone_and_no_name_attacks(
    browser: Browser, night: Night, tmp_path: Path, dark: bool
) -> None:
    file = tmp_path / "night.html"
    file.write_text(to_html(*night))
    browser.open(file, width=390, dark=dark, drawn="document.readyState === 'complete'")
    assert browser.evaluate("document.documentElement.scrollWidth") == 390
    assert browser.evaluate("window.pwned === undefined && !document.querySelector('img')")
    name = night[0].findings[1].key.cell[:40]
    assert name in str(browser.evaluate("document.querySelectorAll('summary')[1].textContent"))
    assert browser.complaints == []
    assert browser.requests == [file.as_uri()]
