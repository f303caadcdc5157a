"""A page of its own: a question's answer, a paragraph a row, in three formats."""

from __future__ import annotations

import json
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cudnn_sweep.analysis.asking.queries import part_names, query_names
from cudnn_sweep.analysis.errors import ReportError
from cudnn_sweep.analysis.report.pages.formats import as_html, as_json, as_markdown
from cudnn_sweep.analysis.report.pages.page import Entry, Shown, find_page, pages, show
from cudnn_sweep.analysis.storing.store import Store
from cudnn_sweep.analysis.storing.stored import open_stored

if TYPE_CHECKING:
    from tests.makers import MakeRecord

FIELD_CASES = find_page("field_cases")


@pytest.fixture
def shown(store: Store, make_record: MakeRecord) -> Shown:
    """N042 was measured, in one process; everything else was not."""
    cell = {
        "workload": "conv",
        "regime": "fixed",
        "problem": "field/N042",
        "direction": "forward",
        "input_shape": [3072, 128, 202],
    }
    store.write(make_record(**cell, precision="bf16", layout="contiguous", steady_device_ms=0.6))
    return show(FIELD_CASES, open_stored([store.location]), ["results"], None)


class Elements(HTMLParser):
    """What a browser would see."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.opened: list[str] = []
        self.targets: list[str] = []
        self.ids: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.opened.append(tag)
        found = dict(attrs)
        self.targets.append(found.get("href") or "")
        self.ids.append(found.get("id") or "")

    def handle_data(self, data: str) -> None:
        self.text += data


def test_every_page_asks_a_question_that_exists() -> None:
    asked = {question for page in pages().values() for question in page.questions}
    assert asked <= {*query_names(), *part_names()}
    assert all(page.name == name for name, page in pages().items())


def test_unknown_page_is_named_with_the_known_ones() -> None:
    with pytest.raises(ReportError, match="no page 'nope'; the pages: claims, field_cases"):
        find_page("nope")


def test_every_row_stands_in_one_group(shown: Shown) -> None:
    assert sum(shown.counts().values()) == len(shown.entries) == len(shown.rows) > 50
    (found,) = [entry for entry in shown.entries if entry.name == "N042"]
    assert found.group == "still there"
    assert found.facts["today"].startswith("0.6")
    assert found.facts["claim holds"] == "device time, ms above 0.47"
    assert found.command == "sweep repro N042"


def test_page_is_one_file_without_scripts_whose_links_lead_somewhere(shown: Shown) -> None:
    page = Elements(as_html(shown))
    assert "script" not in page.opened
    assert page.opened.count("article") == len(shown.entries)
    inner = [target[1:] for target in page.targets if target.startswith("#")]
    assert len(inner) == sum(map(bool, shown.counts().values()))
    assert set(inner) <= set(page.ids)
    assert shown.headline() in page.text


def test_nothing_from_a_store_becomes_markup(shown: Shown) -> None:
    entry = Entry(
        name="<b>x</b>",
        address='https://example.org/"><script>',
        said="<script>alert(1)</script>",
        group="gone",
        facts={"today": "a <i> & b"},
    )
    changed = replace(shown, entries=[entry], measured=["<u>GPU</u>"])
    page = Elements(as_html(changed))
    assert not {"b", "i", "u", "script"} & set(page.opened)
    assert "<script>alert(1)</script>" in page.text
    assert "<script>" not in as_markdown(changed)


def test_markdown_and_json_say_the_same(shown: Shown) -> None:
    text = as_markdown(shown)
    assert text.startswith("# What became of reported cases\n")
    for group, count in shown.counts().items():
        assert (f"\n## {group.capitalize()}\n" in text) == bool(count)
    told = json.loads(as_json(shown))
    assert told["counts"] == shown.counts()
    assert [row["case_id"] for row in told["rows"]] == [entry.name for entry in shown.entries]


def test_page_over_an_empty_store_says_so(store: Store) -> None:
    Path(store.location).mkdir()
    empty = show(FIELD_CASES, open_stored([store.location]), ["results"], None)
    assert empty.headline() == "No trial is stored here."
    assert "No trial is stored here." in as_html(empty)
