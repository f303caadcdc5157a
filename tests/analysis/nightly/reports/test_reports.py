"""A night's reports: what they say, that programs read them, and that no name becomes markup."""

import json
import re
import resource
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from xml.etree import ElementTree

import pytest
import xmlschema
from markdown_it import MarkdownIt

from cudnn_sweep.analysis.errors import ReportError, StoreError
from cudnn_sweep.analysis.nightly.reports import as_json, markdown
from cudnn_sweep.analysis.nightly.reports.as_json import as_row, from_json, to_json
from cudnn_sweep.analysis.nightly.reports.grouped import headline, one_by_one
from cudnn_sweep.analysis.nightly.reports.junit import to_junit
from cudnn_sweep.analysis.nightly.reports.markdown import to_markdown
from cudnn_sweep.analysis.nightly.reports.page import to_html
from cudnn_sweep.analysis.nightly.reports.words import finding_texts
from cudnn_sweep.analysis.nightly.reports.write import night_reports, write_reports
from cudnn_sweep.analysis.nightly.series import Change
from tests.made_up_night import Night, hidden_from_wall

SCHEMA = Path(__file__).parents[1] / "data" / "junit-10.xsd"
DOCUMENT = Path(__file__).parents[4] / "docs" / "nightly.md"
TEXTS: dict[str, Callable[[Night], str]] = {
    "markdown": lambda night: to_markdown(*night),
    "junit": lambda night: to_junit(*night),
}
TAGS = set(
    re.findall("[a-z0-9]+", "page h2 h3 p table thead tbody tr th td code pre br strong ul li")
)
TAGS |= {"details", "summary"}
RESULTS = ("failures", "skipped", "errors")
WHY = "2 nights compare and 7 are needed: wait"


@pytest.fixture
def untold(night: Night) -> Night:
    """A night that could not tell."""
    outcome, series = night
    changed = {"state": "could_not_tell", "reasons": (WHY,), "findings": ()}
    untold = [replace(one, is_judged=False) for one in series]
    return replace(outcome, insufficient_series=6, fine_series=0, **changed), untold  # type: ignore[arg-type]


@pytest.mark.parametrize("form", TEXTS)
def test_a_finding_is_told_in_full(form: str, night: Night) -> None:
    text = TEXTS[form](night)
    for fact in (
        "conv 8x64",
        "benchmark=true",
        "wall time of an iteration",
        "10.0% more (95% interval 8.00 to 12.0%)",
        "against 26 nights, since 2026-02-28",
        "confirmed by 12 fresh pairs",
        "software: torch 2.9.0 → 2.10.0",
        "sweep launch cluster.yaml --only cell_id=conv",
        "driver",
        "waits for further nights",
        "H200, GPU-1, on node-1, EPYC 9654, 30 trials; of what is usual: matrix product 0.970",
    ):
        assert fact in text, fact


@pytest.mark.parametrize(
    ("metric", "blocks", "told"),
    [
        ("steady_wall", 6, "confirmed by 6 fresh pairs"),
        ("failure", 6, "confirmed by 6 fresh trials"),
        ("sign", 1, "confirmed by 1 fresh verdict;"),
    ],
)
def test_what_confirmed_a_word_is_called_what_it_is(
    night: Night, metric: str, blocks: int, told: str
) -> None:
    outcome = night[0]
    finding = outcome.findings[0]
    found = replace(finding, key=replace(finding.key, metric=metric), blocks=blocks)
    assert told in to_junit(replace(outcome, findings=(found,)), [])


def test_our_own_version_is_told_as_ours(night: Night) -> None:
    ours = (Change(part="version", before="0.1.0", now="0.2.0"),)
    outcome = replace(night[0], findings=(replace(night[0].findings[0], moved=ours),), changes=ours)
    for text in (to_markdown(outcome), to_junit(outcome, [])):
        assert "cudnn-sweep 0.1.0 → 0.2.0" in text
    assert "| cudnn-sweep |" in to_markdown(outcome)


def test_what_could_not_show_the_least_effect_is_counted_apart_and_named(night: Night) -> None:
    outcome, series = night
    quiet = replace(outcome, state="fine", findings=(), fine_series=4, blunt_series=1)
    assert headline(quiet).endswith(
        "no regression; 4 series are as they were; 1 too noisy to see the least effect"
    )
    assert "16.0%, the least effect is 10.0%" in to_markdown(outcome, series)
    assert (
        'message="too noisy to see the least effect; the smallest step that it could show: 16.0%'
        in (to_junit(outcome, series))
    )
    (row,) = (row for row in json.loads(to_json(*night))["series"] if not row["could_show"])
    assert (row["metric"], row["smallest_step"]) == ("cold_empty", 0.16)


def test_json_reads_back(night: Night, untold: Night) -> None:
    for outcome, _ in (night, untold):
        assert from_json(to_json(outcome)) == outcome


def test_what_is_no_night_is_refused() -> None:
    for text in ("", "[]", "{}", '{"schema_version": 1, "findings": [{}]}'):
        with pytest.raises(ReportError, match="no night's JSON"):
            from_json(text)
    with pytest.raises(ReportError, match="of version 99: 3 is read here"):
        from_json('{"schema_version": 99, "findings": []}')


def test_every_key_of_the_json_is_documented(night: Night) -> None:
    row = as_row(night[0])
    findings = row["findings"]
    assert isinstance(findings, list)
    documented = set(re.findall(r"`(\w+)`", DOCUMENT.read_text()))
    assert set(row) | set(findings[0]) <= documented


def test_junit_is_as_its_schema_asks(night: Night, untold: Night) -> None:
    schema = xmlschema.XMLSchema(str(SCHEMA))
    for each in (night, untold):
        schema.validate(to_junit(*each))


def test_junit_has_a_case_a_series(night: Night, untold: Night) -> None:
    suite = ElementTree.fromstring(to_junit(*night)).find("testsuite")
    assert suite is not None
    assert suite.attrib["tests"] == "7", "six series and the night"
    assert [suite.attrib[name] for name in RESULTS] == ["2", "3", "0"]
    other = ElementTree.fromstring(to_junit(*untold)).find("testsuite")
    assert other is not None
    assert [other.attrib[name] for name in RESULTS] == ["0", "6", "1"]
    names = [{(case.get("classname"), case.get("name")) for case in one} for one in (suite, other)]
    assert names[0] == names[1], "a series keeps its name"


def test_no_name_becomes_markup_in_markdown(night: Night) -> None:
    outcome, _ = night
    html = MarkdownIt("commonmark", {"html": True}).enable("table").render(to_markdown(outcome))
    hostile = " ".join(outcome.findings[1].key.cell.replace("\x1b", "\ufffd").split())
    page = ElementTree.fromstring(f"<page>{html.replace('<br>', '<br/>')}</page>")
    assert {each.tag for each in page.iter()} <= TAGS
    codes = [each.text for each in page.iter("code")]
    assert any(hostile in str(code) for code in codes)
    for table in page.iter("table"):
        assert len({len(row) for row in table.iter("tr")}) == 1


def test_a_night_that_could_not_tell_says_why(untold: Night) -> None:
    assert headline(untold[0]) == "lab on node-1 (H200), 2026-03-02: could not tell"
    assert f"### Could not tell\n\n- {WHY}" in to_markdown(untold[0])
    assert f'<error type="could_not_tell" message="{WHY}"' in to_junit(*untold)
    learning = replace(untold[0], state="learning")
    assert (learning.exit_code, headline(learning)) == (
        0,
        "lab on node-1 (H200), 2026-03-02: still learning",
    )
    assert f"### Still learning\n\n- {WHY}" in to_markdown(learning)
    assert f'<skipped message="{WHY}"' in to_junit(learning, [])


def test_reports_are_written_and_the_step_is_summed_up(
    night: Night, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports = [as_json.REPORT, markdown.REPORT]
    monkeypatch.setattr("cudnn_sweep.analysis.nightly.reports.write.night_reports", lambda: reports)
    summary = tmp_path / "summary"
    summary.write_text("before\n")
    written = write_reports(*night, tmp_path / "new" / "reports", step_summary=summary)
    assert [file.name for file in written] == ["night.json", "night.md"]
    assert from_json(written[0].read_text()) == night[0]
    assert summary.read_text() == "before\n" + written[1].read_text()
    with pytest.raises(StoreError, match="cannot write .*summary"):
        write_reports(*night, summary)


def test_a_report_is_written_whole_or_not_at_all_and_is_named(
    night: Night, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports = [markdown.REPORT]
    monkeypatch.setattr("cudnn_sweep.analysis.nightly.reports.write.night_reports", lambda: reports)
    outcome, series = night
    (file,) = write_reports(outcome, series, tmp_path)
    whole = file.read_text()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))  # as a disk on which no more has room
    try:
        with pytest.raises(StoreError, match=f"cannot write {file}: "):
            write_reports(replace(outcome, suite="another"), series, tmp_path)
        with pytest.raises(StoreError, match="cannot write .*summary: File too large"):
            reports.clear()
            write_reports(outcome, series, tmp_path, step_summary=tmp_path / "summary")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert file.read_text() == whole
    assert list(file.parent.iterdir()) == [file]


def test_reports_of_each_date_stay_and_latest_leads_to_the_last_date(
    night: Night, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports = [as_json.REPORT]
    monkeypatch.setattr("cudnn_sweep.analysis.nightly.reports.write.night_reports", lambda: reports)
    outcome, series = night
    for day in (2, 4, 3):  # the last one compared anew
        write_reports(replace(outcome, date=date(2026, 3, day)), series, tmp_path)
    written = {
        file.name: from_json((file / "night.json").read_text()) for file in tmp_path.iterdir()
    }
    assert {name: each.date.day for name, each in written.items()} == {
        "2026-03-02": 2,
        "2026-03-03": 3,
        "2026-03-04": 4,
        "latest": 4,
    }


def test_values_that_are_no_numbers_are_reported_on(night: Night, tmp_path: Path) -> None:
    outcome, (one, *others) = night
    values = (float("nan"), float("inf"), *[1e-4] * (len(one.points) - 2))
    points = tuple(
        replace(point, value=value) for point, value in zip(one.points, values, strict=True)
    )
    odd = replace(one, key=replace(one.key, metric="error"), points=points)
    written = write_reports(outcome, [odd, *others], tmp_path)
    assert {"junit.xml", "night.html", "night.json", "night.md"} <= {file.name for file in written}
    assert set((tmp_path / "2026-03-02").iterdir()) == set(written)


def test_every_report_has_a_file_of_its_own_and_takes_any_night(
    night: Night, untold: Night
) -> None:
    reports = night_reports()
    assert len({report.file for report in reports}) == len(reports)
    for report in reports:
        assert all(report.render(*each).strip() for each in (night, untold)), report.file


@pytest.fixture
def hidden(night: Night) -> Night:
    """Device time of a cell got slower, and its wall time did not: the loop waits for the CPU."""
    outcome, series = night
    (slower, *_) = outcome.findings
    return replace(outcome, findings=(hidden_from_wall(slower, 1.01, 1.004, 1.02),)), series


BOTH = "GPU work 12% more (11–13%); the loop waits for the CPU: wall 1% more (0–2%)"


@pytest.mark.parametrize("file", ["junit.xml", "night.html", "night.json", "night.md"])
def test_device_time_that_wall_time_hides_is_told_with_both_intervals(
    file: str, hidden: Night
) -> None:
    (text,) = [each.render(*hidden) for each in night_reports() if each.file == file]
    if file == "night.json":
        assert json.loads(text)["findings"][0]["wall_ratio_high"] == 1.02
    else:
        assert BOTH in text or json.dumps(BOTH)[1:-1] in text
    assert BOTH in headline(hidden[0])


def test_what_wall_time_shows_leads_and_what_it_hides_is_a_change_of_its_own(
    night: Night, hidden: Night
) -> None:
    (slower, *_), (of_device,) = night[0].findings, hidden[0].findings
    others = [replace(of_device, key=replace(of_device.key, cell_id=name)) for name in ("b", "c")]
    changes = one_by_one(finding_texts(replace(night[0], findings=(of_device, *others, slower))))
    assert [change.size for change in changes] == [
        "wall time of an iteration: 10.0% more",
        "GPU work 12.0% more; the loop waits for the CPU: wall 1.00% more",
    ]


def test_a_finding_of_a_whole_gpu_is_told_in_words_and_its_page_has_its_series(
    night: Night,
) -> None:
    outcome, series = night
    (slower, *_) = outcome.findings
    key = replace(slower.key, metric="shared", cell="GPU-1 on node-1", settings="most series worse")
    gpu = replace(slower, key=key, before="none", now="8 of 10 times", moved=(), cause="hardware")
    member = replace(slower, shared=key.series_id)
    told = "8 of 10 times on node-1 are slower, typically by 10%, since 2026-02-28, "
    told += "nothing known has changed"
    found = replace(outcome, findings=(gpu,), members=(member,))
    assert headline(found).endswith(told)
    assert told in to_markdown(found)
    html = to_html(found, series)
    (data,) = re.findall('<script type="application/json" id="report">(.*?)</script>', html)
    (change,) = json.loads(data)["findings"]
    (one,) = change["series"]
    assert one["name"] == "conv 8x64 · benchmark=true, wall time of an iteration"
    assert json.loads(data)["series"][one["place"]]["cell"] == "conv 8x64"
