"""A report as a person has it: opened from disk in a real browser, with no network."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cudnn_sweep.analysis.engine.database import open_database
from cudnn_sweep.analysis.report.content import gather
from cudnn_sweep.analysis.report.delivery import as_html, figures
from cudnn_sweep.analysis.report.payload import Payload, payload
from cudnn_sweep.analysis.results.contrast import RACE, Contrast
from cudnn_sweep.analysis.store.store import Store, open_store
from tests.analysis.conftest import in_cell, make_pair
from tests.analysis.report.conftest import Browser

pytestmark = pytest.mark.slow

BENCHMARK = Contrast(field="benchmark", baseline="false", candidate="true")
TWINS = Contrast(field="twin", baseline="0", candidate="1")
HOSTILE = "</script><script>window.pwned=1</script>\"'&<img src=x onerror='window.pwned=2'>"
CELLS: list[tuple[str, float, dict[str, object]]] = [
    ("gain", 0.4, {"regime": "fixed"}),
    ("loss", 1.2, {"regime": "cycle"}),
    ("same", 1.0, {"regime": "fixed", "precision": "fp32", "relative_l2_error": 1e-6}),
    ("hostile", 0.8, {"regime": "fixed", "workload": HOSTILE, "problem": HOSTILE}),
]
LINES = "#chart-effect .line:not(.axis)"
HAVE_ROWS = {"jobs", "memory", "precision_map", "time_line"}


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Four cells in four blocks, one of them with a name that attacks, and A/A pairs."""
    store = open_store(str(tmp_path_factory.mktemp("report")))
    for cell, ratio, changes in CELLS:
        for block in range(4):
            cache = {"compute_cache": "empty" if block < 2 else "warm"}
            off, on = make_pair(block, 10.0, 10.0 * ratio + block / 1000, **cache | changes)
            twin = replace(off, trial_id=f"twin-{block}", twin=1)
            for record in (off, on, twin) if cell == "gain" else (off, on):
                store.write(in_cell(record, cell))
    return store


@pytest.fixture(scope="module")
def told(stored: Store) -> Payload:
    with open_database(stored) as database:
        return payload(gather(database, [stored.location], [BENCHMARK, TWINS], 0.03))


@pytest.fixture(scope="module")
def report(told: Payload, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("page") / "report.html"
    file.write_text(as_html(told))
    return file


@pytest.fixture
def page(browser: Browser, report: Path) -> Iterator[Browser]:
    """The report, open; nothing of it may complain or ask for anything, whatever a test does."""
    yield from browser.reading(report)


def test_every_chart_is_drawn_and_described(page: Browser) -> None:
    names = {chart.name for chart in figures()}
    assert len(names) == len(figures())
    hidden = "document.querySelector('#chart-{}').parentElement.hidden"
    assert {name for name in names if not page.evaluate(hidden.format(name))} >= HAVE_ROWS
    for name in HAVE_ROWS:
        marks = page.evaluate(
            f"document.querySelectorAll('#chart-{name} .mark-symbol.role-mark path, "
            f"#chart-{name} .mark-rect.role-mark path').length"
        )
        assert isinstance(marks, int) and marks > 0, name
        label = page.evaluate(f"document.querySelector('#chart-{name}').ariaLabel")
        assert "A table of the rows follows" in str(label)


def test_the_first_screen_has_the_answer_and_what_to_set(page: Browser) -> None:
    assert page.text(".headline").startswith(
        "benchmark: false → true: 4 of 4 cells decided (helps in 2"
    )
    assert page.text(".tile.helps") == "2 ◀ helps"
    for width, height in ((1280, 800), (390, 844)):
        page.resize(width, height)
        first = "document.querySelector('#job-list tbody td').getBoundingClientRect().bottom"
        assert page.evaluate(f"{first} < {height}")
    assert page.evaluate("document.querySelector('#job-steps').value") == "20000"


def test_a_printed_table_of_every_cell_ends_at_the_paper_s_edge(page: Browser) -> None:
    page.resize(700, 1000)  # A4 without its margins
    page.call("Emulation.setEmulatedMedia", media="print")
    try:
        assert page.count("#cell-table thead th") == 13
        assert page.evaluate("document.querySelector('#cell-table .scrolls').scrollWidth") == 700
    finally:
        page.call("Emulation.setEmulatedMedia", media="")


def test_a_race_names_the_config_to_set(browser: Browser, tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "results"))
    for block in range(4):
        cache = {"compute_cache": "empty" if block < 2 else "warm"}
        off, on = make_pair(block, 10.0, 5.0 + block / 1000, **cache)
        both = replace(on, trial_id=f"both-{block}", deterministic=True, steady_wall_ms=5.002)
        store.write(off, on, both)
    with open_database(store) as database:
        content = gather(database, [store.location], [RACE], 0.03)
    file = tmp_path / "report.html"
    file.write_text(as_html(payload(content)))
    browser.open(file)
    row = "[...document.querySelectorAll('#job-answer tbody tr')].map((row) => [...row.cells].map((cell) => cell.textContent))"
    assert browser.evaluate(row) == [
        ["vgg_256_56", "benchmark=true or benchmark=true deterministic=true", "101 s", "3 min 21 s"]
    ]


def test_a_name_that_attacks_is_shown_and_does_nothing(page: Browser) -> None:
    assert page.evaluate("window.pwned === undefined && !document.querySelector('img')")
    assert HOSTILE in page.text("#cell-table tbody")
    assert HOSTILE[:12] in page.text("#chart-effect")
    page.click("#cell-table tbody tr:nth-child(2) button")
    assert HOSTILE in page.text("#trial-table caption")


def test_the_policy_stops_a_script_that_is_put_in(browser: Browser, report: Path) -> None:
    browser.open(report)
    browser.evaluate(
        "document.body.append(Object.assign(document.createElement('script'), {text: 'pwned = 1'}))"
    )
    assert browser.evaluate("window.pwned === undefined")
    assert "Content Security Policy" in browser.complaints[0]


def test_filters_narrow_table_and_charts(page: Browser) -> None:
    _choose(page, "precision", "fp32")
    assert page.count(LINES) == 1
    assert page.text("#shown") == "1 of 4 cells shown"
    assert page.evaluate("document.querySelectorAll('#cell-table tbody tr').length") == 1
    _choose(page, "precision", "")
    assert page.text("#shown") == "4 of 4 cells shown"


def test_search_finds_cells_by_words_of_their_names(page: Browser) -> None:
    page.evaluate(
        "{const box = document.querySelector('#filter-search'); box.value = ' CYCLE ';"
        "box.dispatchEvent(new Event('input'))}"
    )
    page.wait(f"document.querySelectorAll('{LINES}').length === 1")
    assert "cycle" in page.text(LINES)


def test_an_interval_lies_in_order_and_names_itself(page: Browser) -> None:
    """1.2 lies right of the band, 0.4 left of it; the axis ends at the largest ratio."""
    assert page.text(f"{LINES}:nth-child(3) .results") == "0.400 (0.400 to 0.400) ◀ helps"
    places = page.evaluate(
        "[...document.querySelectorAll('#chart-effect .line:not(.axis)')].map((line) => "
        "['.band', 'text'].map((part) => parseFloat(line.querySelector(part).getAttribute('x'))))"
    )
    assert isinstance(places, list)
    (band, first), *_, (_, last) = places
    assert first == 3 < band < last == 97


@pytest.mark.parametrize(
    ("steps", "start"),
    [
        (2000, "container"),
        pytest.param(2000, "warm", marks=pytest.mark.long),
        pytest.param(20_000, "container", marks=pytest.mark.long),
        pytest.param(20_000, "warm", marks=pytest.mark.long),
        pytest.param(31_000, "container", marks=pytest.mark.long),
        pytest.param(31_000, "warm", marks=pytest.mark.long),
    ],
)
def test_a_job_has_the_times_and_advice_of_the_question(
    page: Browser, stored: Store, steps: int, start: str
) -> None:
    """31,000 steps lie between two answers: there the interval is nearly the question's."""
    shown = page.evaluate(
        f"tables.jobs.filter((row) => row.start === '{start}').map((row) => jobAt(row, {steps}))"
    )
    assert isinstance(shown, list)
    with open_database(stored) as database:
        asked = database.ask("advice", steps=steps, state=start, **BENCHMARK.values()).to_pylist()
    rows = {row["cell_id"]: row for row in asked if row["asked"] and row["start_blocks"]}
    assert shown and len(shown) == len(rows)
    near = 1e-5 if steps != 31_000 else 2e-3
    for job in shown:
        row = rows[page.evaluate(f"cells[{job['cell']}].cell_id")]
        assert job["advice"] == row["advice"]
        pairs = [("baseline_s", 1e-5), ("candidate_s", 1e-5), ("job_ratio", 1e-5)]
        for name, tolerance in [*pairs, ("job_low", near), ("job_high", near)]:
            other = {
                "job_ratio": "ratio",
                "job_low": "mean_ratio_low",
                "job_high": "mean_ratio_high",
            }
            assert job[name] == pytest.approx(row[other.get(name, name)], rel=tolerance), name


def test_the_page_answers_for_the_steps_that_a_reader_types(page: Browser) -> None:
    def type_in(steps: int) -> str:
        page.evaluate(
            f"{{const box = document.querySelector('#job-steps'); box.value = '{steps}';"
            "box.dispatchEvent(new Event('input'))}"
        )
        return page.text("#job-answer .tiles")

    few, many = type_in(100), type_in(1_000_000)
    assert few != many and "2 on" in many
    assert "--steps 1000000 --state container" in page.text("#job-query code")


def test_another_contrast_has_its_own_answer(page: Browser) -> None:
    _choose(page, "contrast", "1")
    assert page.text(".headline").startswith("twin: 0 → 1: 1 of 1 cell decided")
    assert "false alarm" in page.text("#words")


def test_a_name_in_the_first_chart_leads_to_its_trials(page: Browser) -> None:
    page.evaluate(
        "[...document.querySelectorAll('#chart-effect button.cell')]"
        ".find((each) => each.textContent.includes('cycle')).click()"
    )
    assert "cycle" in page.text("#trial-table caption")
    assert page.evaluate("document.querySelectorAll('#trial-table tbody tr').length") == 8
    assert "where cell_id = 'loss'" in page.text("#trial-table code")


def test_a_column_sorts_both_ways(page: Browser) -> None:
    assert _ratios(page) == ["0.400", "0.800", "1.000", "1.200"]
    _sort(page, "ratio")
    assert _ratios(page) == ["1.200", "1.000", "0.800", "0.400"]
    assert page.evaluate("document.activeElement.textContent") == "ratio"
    assert page.evaluate("document.querySelectorAll('[aria-sort=descending]').length") == 1


def test_the_keyboard_reaches_filters_table_and_trials(page: Browser) -> None:
    page.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.press("Tab")
    assert page.evaluate("document.activeElement.id") == "filter-contrast"
    page.evaluate("document.querySelector('#cell-table button.cell').focus()")
    page.press("Enter")
    assert page.evaluate("document.activeElement.id") == "trials"


def test_what_a_reader_needs_is_in_the_markup(page: Browser) -> None:
    assert page.evaluate("document.documentElement.lang") == "en"
    assert page.evaluate(
        "[...document.querySelectorAll('select')].every((each) => each.labels.length)"
    )
    assert page.evaluate("[...document.querySelectorAll('table')].every((each) => each.caption)")
    assert page.evaluate("document.querySelectorAll('h1').length") == 1


def test_sweeps_of_two_versions_share_a_line_for_each_cell(
    browser: Browser, tmp_path: Path
) -> None:
    store = open_store(str(tmp_path / "results"))
    newer = {"torch": "2.12.0", "software_hash": "b" * 16, "sweep_id": "after"}
    for cell, ratios in {"alike": (0.5, 0.5), "turned": (0.8, 1.1)}.items():
        for ratio, version in zip(ratios, ({}, newer), strict=True):
            changes = {"precision": "fp16" if cell == "alike" else "fp32", **version}
            for block in range(4):
                for record in make_pair(block, 10.0, 10.0 * ratio + block / 1000, **changes):
                    store.write(in_cell(record, cell))
    with open_database(store) as database:
        content = gather(database, [store.location], [BENCHMARK], 0.03)
    file = tmp_path / "report.html"
    file.write_text(as_html(payload(content)))
    browser.open(file)
    assert browser.text("#chart-effect .comparison") == (
        "torch 2.11.0 · torch 2.12.0: 1 of 2 cells differ (≠: their intervals do not overlap)."
    )
    assert browser.evaluate(
        f"[...document.querySelectorAll('{LINES} button.cell')].map((each) => each.textContent)"
    ) == ["vgg_256_56 fp16", "≠ vgg_256_56 fp32"]
    turned = browser.evaluate(
        f"[...document.querySelectorAll('{LINES}:last-child .results span')].map((each) => each.textContent)"
    )
    assert isinstance(turned, list)
    assert [text.split(" (")[0] for text in turned] == [
        "torch 2.11.0: 0.800",
        "torch 2.12.0: 1.100",
    ]
    assert browser.count(f"{LINES}:last-child .join") == 1


def test_a_narrow_screen_scrolls_down_alone(browser: Browser, report: Path) -> None:
    browser.open(report, width=420)
    assert browser.evaluate("document.documentElement.scrollWidth") == 420


def _choose(page: Browser, name: str, value: str) -> None:
    page.evaluate(
        f"{{const select = document.querySelector('#filter-{name}'); select.value = '{value}';"
        "select.dispatchEvent(new Event('change'))}"
    )


def _ratios(page: Browser) -> object:
    return page.evaluate(
        "[...document.querySelectorAll('#cell-table tbody tr')].map((row) => row.cells[3].textContent)"
    )


def _sort(page: Browser, title: str) -> None:
    page.evaluate(
        "[...document.querySelectorAll('#cell-table .sort')]"
        f".find((each) => each.textContent === '{title}').click()"
    )
