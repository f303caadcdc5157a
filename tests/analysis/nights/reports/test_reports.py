"""A night's reports: what they say is as kept in the goldens, programs read them, and no name becomes markup."""

import resource
from dataclasses import replace
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import xmlschema

from cudnn_sweep.analysis import answers
from cudnn_sweep.analysis.errors import ReportError, StoreError
from cudnn_sweep.analysis.nights.reports.report import (
    answer_of,
    from_json,
    texts_of,
    to_json,
    write_reports,
)
from cudnn_sweep.analysis.nights.reports.sections import headline, one_by_one
from cudnn_sweep.analysis.nights.reports.words import finding_texts, history
from cudnn_sweep.analysis.nights.series import Change
from tests.goldens import kept
from tests.made_up_night import Night, files_of, nights_like_it

SCHEMA = Path(__file__).parents[1] / "data" / "junit-10.xsd"
KEPT = "reports/nights.json.xz"


def test_every_report_says_of_each_made_up_night_what_is_kept() -> None:
    before = kept.read(KEPT)
    for name, night in nights_like_it().items():
        files = {file: text for file, text in files_of(night).items() if file in before[name]}
        of_files = {file: before[name][file] for file in files}
        assert {"night.json", "night.md", "night.html"} < files.keys()
        assert kept.differences_from(of_files, KEPT, files) == [], f"{name}: see make goldens"


def test_json_reads_back() -> None:
    for outcome, _ in nights_like_it().values():
        assert from_json(to_json(outcome)) == outcome


def test_what_is_no_night_is_refused() -> None:
    for text in ("", "[]", "{}", '{"schema_version": 1, "findings": [{}]}'):
        with pytest.raises(ReportError, match="not the JSON of a night"):
            from_json(text)
    with pytest.raises(ReportError, match="version 99, allowed is 3 or lower"):
        from_json('{"schema_version": 99, "findings": []}')


def test_kernels_that_changed_are_told_once_for_all_their_cells(night: Night) -> None:
    slower, *_ = night[0].findings
    of_cells = [
        replace(
            slower,
            key=replace(slower.key, cell=cell, cell_id=cell),
            kernels=Change(part="kernels", before=f"{cell}, engine 5", now=f"{cell}, engine 0"),
        )
        for cell in ("one", "two")
    ]
    (change,) = one_by_one(finding_texts(replace(night[0], findings=tuple(of_cells))))
    assert "kernels changed in 2 cells: engine 5 → engine 0" in change.details


def test_each_bundled_report_says_what_the_night_cost(night: Night) -> None:
    outcome, series = night
    said = dict.fromkeys(("junit.xml", "night.html", "night.md"), "GPU hours") | {
        "night.json": '"gpu_hours": 1.25,',
        "night.prom": 'gpu_seconds{nightly="lab"} 4500.0',
    }
    costs, free = (texts_of(replace(outcome, gpu_hours=hours), series) for hours in (1.25, None))
    for file, words in said.items():
        assert words in costs[file], file
        assert words not in free[file], file


def test_junit_is_as_its_schema_asks() -> None:
    schema = xmlschema.XMLSchema(str(SCHEMA))
    for each in nights_like_it().values():
        schema.validate(texts_of(*each)["junit.xml"])


@pytest.mark.parametrize(
    "reader", ["prometheus_client.openmetrics.parser", "prometheus_client.parser"]
)
def test_prometheus_reads_a_night_and_its_older_text_format_does(reader: str) -> None:
    read = pytest.importorskip(reader).text_string_to_metric_families
    for outcome, series in nights_like_it().values():
        text = texts_of(outcome, series)["night.prom"]
        families = {each.name: each.samples for each in read(text)}
        (code,) = families["cudnn_sweep_night_exit_code"]
        assert (code.labels, code.value) == ({"nightly": "lab"}, outcome.exit_code)
        alerts = {each.labels["series"] for each in families["cudnn_sweep_night_alert"]}
        assert alerts == {each.key.series_id for each in outcome.alerts}
        walls = families["cudnn_sweep_night_steady_wall_seconds"]
        tonight = {
            (one.key.cell, one.key.settings): one.numbers[-1]
            for one in series
            if one.key.metric == "steady_wall" and one.points[-1].date == outcome.date
        }
        assert {
            (each.labels["cell"], each.labels["settings"]): pytest.approx(1e3 * each.value)
            for each in walls
        } == {key: value for key, value in tonight.items() if value is not None}


def test_reports_are_written_and_the_step_is_summed_up(night: Night, tmp_path: Path) -> None:
    summary = tmp_path / "summary"
    summary.write_text("before\n")
    written = write_reports(*night, tmp_path / "new" / "reports", step_summary=summary)
    files = {file.name: file for file in written}
    assert list(files) == list(texts_of(*night))
    assert from_json(files["night.json"].read_text()).machines == night[0].machines
    assert summary.read_text() == "before\n" + files["night.md"].read_text()
    with pytest.raises(StoreError, match="cannot write .*summary"):
        write_reports(*night, summary)


def test_a_report_is_written_whole_or_not_at_all_and_is_named(night: Night, tmp_path: Path) -> None:
    outcome, series = night
    file, *others = write_reports(outcome, series, tmp_path)
    whole = file.read_text()
    (tmp_path / "summary").write_text("before" * 20)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))  # as a disk on which no more has room
    try:
        with pytest.raises(StoreError, match=f"cannot write {file}: "):
            write_reports(replace(outcome, suite="another"), series, tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert file.read_text() == whole
    assert {*file.parent.iterdir()} == {file, *others}


def test_a_new_format_is_one_new_file(
    night: Night, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "made_up_format.py").write_text(
        "from cudnn_sweep.analysis.answers.answer import AnswerFormat\n"
        "FORMAT = AnswerFormat(suffix='.made', render=lambda answer: answer.headline)\n"
    )
    monkeypatch.setattr(answers, "__path__", [*answers.__path__, str(tmp_path)])
    assert texts_of(*night)["night.made"] == answer_of(*night).headline


def test_reports_of_each_date_stay_and_latest_leads_to_the_last_date(
    night: Night, tmp_path: Path
) -> None:
    outcome, series = night
    for day in (2, 4, 3):  # the last one compared anew
        write_reports(replace(outcome, date=date(2026, 3, day)), series, tmp_path)
    days = {
        each.name: from_json((each / "night.json").read_text()).date.day
        for each in tmp_path.iterdir()
    }
    assert days == {"2026-03-02": 2, "2026-03-03": 3, "2026-03-04": 4, "latest": 4}


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


def test_every_format_takes_any_night() -> None:
    for each in nights_like_it().values():
        assert all(text.strip() for text in texts_of(*each).values())


def test_a_series_of_words_ends_with_tonights() -> None:
    series: Any = SimpleNamespace(words=["ok", None, "fail", "ok"])
    assert history(series) == "▁·█▁ ok to ok"


@pytest.mark.parametrize(("host", "where"), [("lab-7", "gpu on lab-7, "), (None, "gpu, ")])
def test_a_night_that_measured_nothing_names_the_host_it_was_started_on(
    night: Night, host: str | None, where: str
) -> None:
    outcome = replace(night[0], night=f"night-{night[0].date}-gpu", machines=(), host=host)
    assert headline(outcome).startswith(f"{where}{outcome.date}: ")
