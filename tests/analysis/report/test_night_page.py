"""A night's page as a person has it: opened from disk in a real browser, with no network."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cudnn_sweep.analysis.nightly.reports.page import to_html
from tests.analysis.report.conftest import Browser
from tests.made_up_night import Night


@pytest.fixture
def file(night: Night, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made once."""
    file = tmp_path_factory.getbasetemp() / "night.html"
    if not file.exists():
        file.write_text(to_html(*night))
    return file


@pytest.fixture
def page(browser: Browser, file: Path) -> Iterator[Browser]:
    """The night, open; nothing of it may complain or ask for anything, whatever a test does."""
    yield from browser.reading(file)


@pytest.mark.slow
def test_each_findings_history_is_drawn(page: Browser, night: Night) -> None:
    outcome, _ = night
    nights = outcome.nights + 1
    for number in range(len(outcome.findings)):
        chart = f"#finding-{number} .chart"
        assert page.count(f"{chart} path[aria-label*=' Feb 2026: ']") == 28
        assert page.count(f"{chart} path[aria-label*=' Mar 2026: ']") == nights - 28
        assert page.count(f"{chart} .mark-rule line[stroke-dasharray]") == 1, "a version"
        assert "torch 2.9.0 → 2.10.0" in page.text(f"#finding-{number} .versions")
    assert _states(page, 0) == {"usual": 26, "not measured": 1, "worse": 3}
    assert _states(page, 1) == {"usual": 27, "changed": 3}
    assert _states(page, 2) == {"usual": 28, "beyond the scale": 2}
    assert _states(page, 3) == {"usual": 20, "better": 10}


def test_levels_and_changes_are_marked(page: Browser) -> None:
    sizes = [page.text(f"#finding-{number} .mark-text.role-mark:last-child") for number in (0, 3)]
    assert str(sizes[0]).startswith("+") and sizes[1] == "−50.0%"
    assert page.text("#finding-2 .mark-text.role-mark:last-child") == "", "spikes are no change"


def test_a_night_tells_its_values_and_all_stand_in_a_table(page: Browser) -> None:
    page.evaluate(
        "{const mark = document.querySelector('#finding-0 path[aria-label*=\"2 Mar 2026\"]');"
        "const {x, y} = mark.getBoundingClientRect(); mark.dispatchEvent("
        "new PointerEvent('pointermove', {bubbles: true, clientX: x + 4, clientY: y + 4}))}"
    )
    told = page.text("#tooltip")
    assert "1.10" in told and "since 2026-02-28: torch 2.9.0 → 2.10.0" in told
    page.evaluate("document.querySelector('#finding-0 summary').click()")
    page.wait("document.querySelectorAll('#finding-0 tbody tr').length === 30")


def test_the_keyboard_leads_to_findings_and_series(page: Browser) -> None:
    page.evaluate("document.querySelector('#found-table a').focus()")
    page.press("Enter")
    assert page.evaluate("location.hash === '#finding-0'")
    page.evaluate(
        "{const search = document.querySelector('#filter-text'); search.value = 'VGG16 empty';"
        "search.dispatchEvent(new Event('input'))}"
    )
    assert page.count("#filter-series option") == 1
    assert page.evaluate(
        "[...document.querySelectorAll('select, input')].every((e) => e.labels.length)"
    )


def test_a_name_that_attacks_is_shown_and_does_nothing(page: Browser, night: Night) -> None:
    assert page.evaluate("window.pwned === undefined && !document.querySelector('img')")
    assert night[0].findings[1].key.cell[:40] in page.text("#finding-1 h4")


@pytest.mark.parametrize("dark", [False, True])
def test_a_phone_scrolls_down_alone(browser: Browser, file: Path, dark: bool) -> None:
    browser.open(file, width=390, dark=dark)
    assert browser.evaluate("document.documentElement.scrollWidth") == 390
    change = "[...document.querySelectorAll('#found-table tbody a')]"
    assert browser.evaluate(f"{change}.every((e) => e.getBoundingClientRect().right < 390)")


def _states(page: Browser, number: int) -> dict[str, int]:
    labels = page.evaluate(
        f"[...document.querySelectorAll('#finding-{number} .chart path[aria-label*=\": \"]')]"
        ".map((each) => each.getAttribute('aria-label').split(', ').at(-1))"
    )
    assert isinstance(labels, list)
    return {state: labels.count(state) for state in dict.fromkeys(labels)}
