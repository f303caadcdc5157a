"""A page of its own: a question's answer, a paragraph a row, in three formats."""

from __future__ import annotations

import json
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from cudnn_sweep.analysis.engine.database import open_database
from cudnn_sweep.analysis.report.pages.formats import as_html, as_json, as_markdown
from cudnn_sweep.analysis.report.pages.page import Entry, Shown, find_page, show
from cudnn_sweep.analysis.store.location import REFERENCE
from cudnn_sweep.analysis.store.store import Store
from cudnn_sweep.analysis.store.stored import open_stored
from tests.analysis.conftest import in_cell, make_pair, make_record

FIELD_CASES = find_page("field_cases")
CACHES = ("empty", "warm")


@pytest.fixture
def shown(store: Store) -> Shown:
    """N042 was measured, in one process; everything else was not."""
    cell = {
        "workload": "conv",
        "regime": "fixed",
        "problem": "field/N042",
        "direction": "forward",
        "input_shape": [3072, 128, 202],
    }
    store.write(make_record(**cell, precision="bf16", layout="contiguous", steady_device_ms=0.6))
    with open_database(open_stored([store.location])) as database:
        return show(FIELD_CASES, database, ["results"], None)


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


def test_json_has_the_rows_and_paragraphs(shown: Shown) -> None:
    told = json.loads(as_json(shown))
    assert told["counts"] == shown.counts()
    names = [entry.name for entry in shown.entries]
    assert [row["case_id"] for row in told["rows"]] == names
    assert [entry["name"] for entry in told["entries"]] == names


@pytest.mark.slow
@pytest.mark.parametrize(
    ("locations", "sweep_id", "options"),
    [
        pytest.param([str(REFERENCE)], None, "--reference", marks=pytest.mark.long),
        ([str(REFERENCE)], "night-*", "--reference --sweep-id 'night-*'"),
        (["a b", "s3://c"], None, "--results 'a b' --results s3://c"),
    ],
)
def test_command_of_a_claim_asks_the_results_of_its_page(
    store: Store, locations: list[str], sweep_id: str | None, options: str
) -> None:
    store.write(*make_pair(0, 10.0, 10.0))
    page = replace(find_page("claims"), questions=("claims/08_disabled",))
    with open_database(open_stored([store.location])) as database:
        shown = show(page, database, locations, sweep_id)
    assert {entry.command for entry in shown.entries if entry.name == "claim 8"} == {
        f"sweep query claims/08_disabled {options}"
    }


@pytest.mark.slow
@pytest.mark.parametrize("between", ["gpu", pytest.param("driver", marks=pytest.mark.long)])
def test_transfers_page_counts_what_carries_over_and_names_what_turns(
    store: Store, between: str
) -> None:
    for problem, ratios in {"same": (0.8, 0.8), "turns": (0.8, 1.3)}.items():
        for place, ratio in zip("AB", ratios, strict=True):
            where = {between: place, "env_hash": place, "software_hash": place, "problem": problem}
            for block in range(4):
                ms = 10 + block / 1000
                pair = make_pair(block, ms, ratio * ms + block / 2000, **where)
                store.write(*(in_cell(each, f"{problem}-{place}") for each in pair))
    with open_database(open_stored([store.location])) as database:
        shown = show(find_page("transfers"), database, ["results"], None)
    said = {entry.name: entry.said for entry in shown.entries}
    assert said["verdict"] == "1 of 2 cells, 50% (1% to 99%)"
    (turned,) = shown.of("turned verdicts")
    assert "turns" in turned.name and turned.said == "helps (0.800) → hurts (1.300)"
    assert {entry.facts["between"] for entry in shown.entries} == {"A → B"}


def test_transfers_page_says_that_nothing_compares(store: Store) -> None:
    store.write(*make_pair(0, 10.0, 10.0))
    with open_database(open_stored([store.location])) as database:
        shown = show(find_page("transfers"), database, ["results"], None)
    assert shown.headline() == "No cell was measured on two GPU models or software versions."


def test_a_claim_counts_once_however_many_gpus_it_was_measured_on() -> None:
    def entry(name: str, group: str) -> Entry:
        return Entry(name=name, said="", group=group, facts={})

    told = [("claim 1", "hold"), ("claim 2", "hold"), ("claim 3", "hold in part")]
    entries = [entry(*each) for each in [*told, *told[:1], ("claim 2", "do not hold")]]
    page = find_page("claims")
    shown = Shown(page=page, location="", measured=(), entries=entries, rows=())
    assert shown.headline() == (
        "3 claims: 1 hold, 1 hold in part, 1 differ between GPUs or versions."
    )


def test_a_claim_of_two_gpus_is_one_paragraph_with_both_verdicts_open_and_the_rest_folded() -> None:
    figure = {
        **dict.fromkeys(("claim", "cell_id", "cell", "contrast", "outcome", "rests_on_few")),
        "claim": 5,
        "said": "It costs.",
        "verdict": "holds",
        "in_words": "holds",
        "torch": "2.11",
        "cudnn": 91900,
        "holds_here": "1 of 1",
        "measured_by": "sweep launch",
        "measure": "extra time, ms",
        "value": 5.0,
        "value_low": 4.0,
        "value_high": 6.0,
        **dict.fromkeys(("baseline_value", "candidate_value", "trials")),
    }
    rows = [{**figure, "gpu": gpu, "condition": state} for gpu in ("A", "B") for state in CACHES]
    page = find_page("claims")
    (entry,) = page.entries(rows, "--reference")
    shown = Shown(page=page, location="", measured=(), entries=[entry], rows=rows)
    assert shown.headline() == "1 claim: 1 hold."
    open_, _, folded = as_markdown(shown).partition("<details>")
    assert "verdict, A: holds; empty" in open_ and "verdict, B: holds; empty" in open_
    assert "- warm, A" in folded and "- warm, B" in folded and "- warm" not in open_
    assert as_html(shown).count("<dl>") == 2
    assert entry.command == "sweep query claims/05_start --reference"
