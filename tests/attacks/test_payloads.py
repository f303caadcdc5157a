"""Names that attack, in every text column, on their way to a page, a file, a terminal and a webhook."""

import ast
import csv
import io
import json
import random
import re
from collections.abc import Callable, Collection
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from markdown_it import MarkdownIt
from rich.console import Console
from ruamel.yaml import YAML

from cudnn_sweep.analysis.answers.as_json import to_json
from cudnn_sweep.analysis.answers.text import to_text
from cudnn_sweep.analysis.nights.reports.report import write_reports
from cudnn_sweep.analysis.store.store import open_store
from cudnn_sweep.orchestrator.gating.answer import Gate
from cudnn_sweep.orchestrator.gating.bisect import Bisection, Installation
from cudnn_sweep.orchestrator.gating.sides import Side
from cudnn_sweep.orchestrator.nightly.news import WhereToLook, news_of, print_outcome, slack_body
from cudnn_sweep.orchestrator.planning.session import CodeLocation
from cudnn_sweep.orchestrator.terminal.say import say
from cudnn_sweep.workloads.hardware.environment import Environment, capture_environment
from tests.orchestrator.typed import invoke

if TYPE_CHECKING:
    from cudnn_sweep.analysis.nights.outcome import NightOutcome
    from cudnn_sweep.analysis.nights.series import Series

pytestmark = pytest.mark.slow

PAYLOADS = YAML(typ="safe", pure=True).load((Path(__file__).parent / "payloads.yaml").read_text())
OURS = ("sweep_id", "trial_id", "attempt_id", "status", "launch_id", "slot", "cell_id", "env_hash")
Attempts = Callable[[int, int], int]
SETTINGS = (
    "direction",
    "precision",
    "layout",
    "regime",
    "state",
    "errata",
)  # what a script goes by
MARKDOWN = MarkdownIt("commonmark", {"html": True}).enable("table")
STEERING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]"
)  # a terminal, or the end of a line
WHERE = WhereToLook(folder=Path("/srv"), program="sweep", results="results", page="page")


class Found(HTMLParser):
    """Elements and attributes that nobody of ours writes."""

    def __init__(self) -> None:
        super().__init__()
        self.strange: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = {name for name, _ in attrs}
        texts = " ".join(value or "" for _, value in attrs)
        if tag in ("img", "iframe", "object", "embed") or any(n.startswith("on") for n in names):
            self.strange.append(f"{tag} {attrs}")
        if "evil" in texts or "javascript:" in texts:
            self.strange.append(f"{tag} {attrs}")

    @classmethod
    def of(cls, page: str) -> list[str]:
        found = cls()
        found.feed(page)
        return found.strange


@pytest.fixture(scope="module")
def environment() -> Environment:
    return capture_environment()


def hostile(rows: pa.Table, payload: str, kept: Collection[str] = ()) -> pa.Table:
    """It stands in every text column that a user has a hand in."""
    for at, field in enumerate(rows.schema):
        if (
            field.type == pa.string()
            and field.name not in {*OURS, *kept}
            and not field.name.endswith("hash")
        ):
            rows = rows.set_column(at, field.name, pa.array([payload] * len(rows)))
    return rows


@pytest.mark.slow
def test_names_in_results_stay_text_wherever_they_are_shown(
    measured: pa.Table, tmp_path: Path, attempts: Attempts, seed: int
) -> None:
    every = random.Random(seed).sample(PAYLOADS, len(PAYLOADS))
    done = 0
    fixed = pc.and_(pc.is_valid(measured["out_channels"]), pc.equal(measured["regime"], "fixed"))
    trial = measured.filter(fixed)["trial_id"][0].as_py()
    for payload in every[: attempts(1, len(every))]:
        every_name, names = (tmp_path / f"{done}-{kind}" for kind in ("every name", "names"))
        for results, kept in ((every_name, ()), (names, SETTINGS)):
            store = open_store(str(results))
            store.write_part(measured["sweep_id"][0].as_py(), hostile(measured, payload, kept))
        say_all(every_name, payload)
        refused = invoke(["repro", trial, "--results", str(every_name)])
        assert refused.exit_code == 2 and "a script cannot reproduce" in refused.stderr, (
            refused.output
        )
        say_code(names, trial, payload)
        done += 1
    print(f"{done} payloads")


def say_code(results: Path, trial: str, payload: str) -> None:
    """What is pasted into a file of Python."""
    done = invoke(["repro", trial, "--results", str(results)])
    assert done.exit_code == 0, (payload, done.output, done.exception)
    code = done.stdout
    assert not re.search(r"import os$|pwned", ast.unparse(ast.parse(code)), re.MULTILINE), payload
    assert not STEERING.search(code), payload


def say_all(results: Path, payload: str) -> None:
    def sweep(*words: str) -> str:
        done = invoke([*words, "--results", str(results)])
        assert done.exit_code == 0, (payload, done.output, done.exception)
        return done.stdout

    page = results.with_name(f"{results.name}.html")
    sweep("report", "--output", str(page))
    assert not Found.of(page.read_text()), payload
    question = ("query", "select distinct problem, gpu, torch, message from records")
    for form in ("table", "markdown"):
        text = sweep(*question, "--format", form)
        assert "\x1b" not in text and "\x07" not in text
    for text in (sweep(*question, "--format", "markdown"), sweep("report", "--format", "markdown")):
        assert not Found.of(text.replace("<br>", "")), payload
        assert "![x](" not in text and "\n# heading" not in text
    read = list(csv.reader(io.StringIO(sweep(*question, "--format", "csv"))))
    assert not [cell for row in read for cell in row if cell.strip()[:1] in ("=", "+", "@")], read
    assert not STEERING.search(sweep(*question, "--format", "csv"))
    (row,) = json.loads(sweep(*question, "--format", "json"))
    assert row["problem"] == payload


@pytest.mark.parametrize("payload", PAYLOADS)
def test_names_in_a_night_stay_text(
    payload: str, night: "tuple[NightOutcome, list[Series]]", tmp_path: Path
) -> None:
    """A night whose names are hostile: tests/conftest.py; here its launch file and suite are too."""
    outcome = replace(night[0], launch_file=payload, suite=payload, reasons=(payload,))
    reports = write_reports(outcome, night[1], tmp_path)
    texts = {file.suffix: file.read_text() for file in reports}
    ElementTree.fromstring(texts[".xml"])
    assert not Found.of(texts[".html"])
    assert not Found.of(MARKDOWN.render(texts[".md"]))
    assert not STEERING.search(texts[".md"])
    words = re.sub("<code>.*?</code>", "", MARKDOWN.render(texts[".md"]))
    assert not re.search(r"(?<!-->)@|:(?=//)|www(?=\.)", words), words
    said = io.StringIO()
    print_outcome(outcome, reports, Console(file=said, width=120))
    assert "\x1b]" not in said.getvalue() and "\x07" not in said.getvalue()
    posted = json.loads(json.dumps(slack_body(news_of(outcome, list(outcome.alerts), WHERE))))
    assert not re.search("<[!h]", json.dumps(posted)), posted
    assert not STEERING.search(posted["text"])


@pytest.mark.parametrize("payload", PAYLOADS)
@pytest.mark.parametrize(
    "words",
    [
        ["query", "{}"],
        ["query", "sweeps", "--sweep-id", "{}"],
        ["compare", "torch={}", "gpu={}"],
        ["launch", "{}", "--dry-run"],
        ["report", "--page", "{}"],
    ],
    ids=" ".join,
)
def test_what_was_typed_stays_text_in_an_error(
    words: list[str], payload: str, tmp_path: Path
) -> None:
    results = ["--results", str(tmp_path)] if words[0] != "launch" else []
    ended = invoke([*(word.format(payload.replace("\0", "")) for word in words), *results])
    assert ended.exit_code == 2, ended.output
    assert not STEERING.search(ended.stderr), ended.stderr


@pytest.mark.parametrize("payload", PAYLOADS)
def test_what_is_stored_stays_text_in_what_compare_finds_instead(
    payload: str, measured: pa.Table, tmp_path: Path
) -> None:
    store = open_store(str(tmp_path))
    store.write_part(measured["sweep_id"][0].as_py(), hostile(measured, payload))
    ended = invoke(["compare", "torch=gone", "gpu=gone", "--results", str(tmp_path)])
    assert ended.exit_code == 2, ended.output
    assert "gone" in ended.stderr
    assert not STEERING.search(ended.stderr), ended.stderr


@pytest.mark.parametrize("payload", PAYLOADS)
def test_names_of_environments_and_packages_stay_text_in_a_bisection(
    payload: str, environment: Environment
) -> None:
    one, other = (
        Installation(
            side=Side(label=f"{payload}{number}", code=CodeLocation(folder=None)),
            software=replace(environment, torch=f"{payload}{number}"),
            packages={payload: f"{payload}{number}"},
        )
        for number in range(2)
    )
    gate = Gate(
        workload=payload,
        base=one.side.label,
        head=other.side.label,
        gpu=payload,
        sweep_id="s",
        threshold=0.01,
        state="broken",
        row=None,
    )
    found = Bisection(environments=(one, other), answers={1: gate}, good=0, first=1)
    out = Console(file=io.StringIO(), width=200, markup=False)
    answer = found.answer()
    say(out, to_text(answer))
    assert isinstance(out.file, io.StringIO)
    assert "is the first environment where the step does not run" in out.file.getvalue()
    assert not STEERING.search(out.file.getvalue()), out.file.getvalue()
    assert json.loads(to_json(answer))["changed"][payload] == [f"{payload}0", f"{payload}1"]
