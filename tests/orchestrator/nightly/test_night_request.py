"""What a night is asked to do: its names, its minutes and commands, and whose mistake is raised when."""

from dataclasses import replace
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cudnn_sweep.analysis.errors import ReportError
from cudnn_sweep.analysis.nights.reports.report import to_json
from cudnn_sweep.analysis.store.store import open_store
from cudnn_sweep.cluster.errors import ClusterError
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.nightly import request as requests
from cudnn_sweep.orchestrator.nightly.news import Webhook
from cudnn_sweep.orchestrator.nightly.request import Diary, accept_change, read_night
from cudnn_sweep.orchestrator.planning.options import NightOptions
from cudnn_sweep.orchestrator.planning.spec import NightName
from tests.made_up_night import finding_of, key_of, made_up_night

NIGHT = date(2026, 6, 10)
SUITE = "replicates: 3\ncells: [{workload: noop}]\n"
HERE: Any = SimpleNamespace()


def night(keys: str = "", suite: str = SUITE, environment: Any = None, **options: Any) -> Any:
    Path("suite.yaml").write_text(suite)
    text = f"metadata:\n  sweep:\n    nightly: {{suite: suite.yaml, {keys}}}\n"
    Path("lab one.yaml").write_text(text)
    place, typed = options.pop("place", HERE), options.pop("suite_typed", None)
    usual: dict[str, Any] = {"file": Path("lab one.yaml"), "night": NIGHT, "suite": typed}
    return read_night(NightOptions(**usual | options), environment or {}, place)


pytestmark = pytest.mark.usefixtures("here")


def test_a_night_is_named_after_its_date_and_its_launch_file() -> None:
    found = night()
    assert (found.name.sweep_id, found.name.confirm_id) == (
        "night-2026-06-10-lab-one",
        "confirm-2026-06-10-lab-one",
    )
    assert night("name: own").name.launch == "own"
    assert found.request.options.sweep_id == found.name.sweep_id
    assert found.request.may_skip
    assert night(night=None).name.date == date.today()


@pytest.mark.parametrize(
    ("keys", "typed", "minutes"),
    [("", None, 60.0), ("minutes: 5", None, 5.0), ("minutes: 5", 7.0, 7.0)],
)
def test_a_night_has_its_minutes(keys: str, typed: float | None, minutes: float) -> None:
    assert night(keys, minutes=typed).minutes == minutes


@pytest.mark.parametrize(
    ("options", "reports"),
    [
        ({}, "results/nightly/lab-one/reports"),
        ({"results": "else"}, "else/nightly/lab-one/reports"),
        ({"results": "s3://bucket/sweeps"}, "nightly-reports/lab-one/reports"),
        ({"reports": Path("pages")}, "pages"),
    ],
)
def test_reports_lie_beside_the_results_or_where_asked(
    here: Path, options: dict[str, Any], reports: str
) -> None:
    found = night(**options).reports
    assert found in (Path(reports), here / reports)


def test_a_cell_is_measured_again_by_the_command_of_the_night() -> None:
    plain, other = night(), night(results="else", program="sweep")
    words = "launch 'lab one.yaml' --suite suite.yaml"
    assert plain.again().endswith(f"{words} --new")
    assert plain.again("c1").endswith(f"{words} --new --only cell_id=c1")
    assert other.again("c1") == f"sweep {words} --results else --new --only cell_id=c1"


def test_a_clusters_job_gets_the_nights_since_the_pinned_one_or_a_hundred_days(
    here: Path,
) -> None:
    found = night()
    assert found.job().since == date(2026, 3, 2)
    found.diary().pin(date(2026, 6, 1))
    assert found.job().since == date(2026, 6, 1)


RACE = "replicates: {until: best}\nconfigs: [{benchmark: false}, {benchmark: true}]\ncells: [{workload: noop}]\n"


@pytest.mark.parametrize(
    ("keys", "suite", "options", "fault"),
    [
        ("", SUITE, {}, None),
        ("", "cells: [{workloa: noop}]", {}, "workloa: unknown key"),
        ("", RACE, {}, "found `until: best`; a night allows a number"),
        ("last_good: gone/python", SUITE, {"place": None}, "found no program gone/python"),
        ("last_good: gone/python", SUITE, {}, None),
        ("last_good: gone/python", SUITE, {"place": None, "measure": False}, None),
        ("last_good: sh", SUITE, {"place": None}, None),
    ],
)
def test_a_mistake_in_the_suite_is_the_nights_fault_and_a_typed_one_is_raised(
    keys: str, suite: str, options: dict[str, Any], fault: str | None
) -> None:
    found = night(keys, suite, **options)
    assert (found.fault is None) is (fault is None)
    if fault is not None:
        assert fault in str(found.fault)
        with pytest.raises((ClusterError, SpecError), match=fault.replace("?", ".")):
            night(keys, suite, **options | {"suite_typed": "suite.yaml"})
    is_placed = options.get("measure", True) and options.get("place", HERE) is not None
    assert (found.place is not None) is is_placed


def test_each_night_has_as_many_blocks() -> None:
    assert night(suite="cells: [{workload: noop}]").suite.replicates == 5
    assert night().suite.replicates == 3


@pytest.mark.parametrize(
    ("environment", "kind"),
    [({"HOOK": "https://hooks.example/x"}, Webhook), ({}, SpecError)],
)
def test_a_webhook_that_is_not_found_costs_no_night(
    environment: dict[str, str], kind: type
) -> None:
    keys = "webhook: {url_env: HOOK}"
    assert isinstance(night(keys, environment=environment).webhook, kind)
    assert night().webhook is None


def alert(name: str, **of: Any) -> Any:
    key = key_of(cell=name, cell_id=name, **of)
    return finding_of(key, date(2026, 6, 1), before=1.0, now=2.0)


@pytest.mark.parametrize(
    ("target", "accepted"),
    [
        ("a", ["a"]),
        ("b", ["b"]),
        ("steady_wall", ["a", "b"]),
        ("cold_warm", ["c"]),
        ("series of a", ["a"]),
        ("gone", None),
        ("waits", None),
    ],
)
def test_alerts_of_a_series_a_cell_or_a_metric_are_accepted(
    monkeypatch: pytest.MonkeyPatch, here: Path, target: str, accepted: list[str] | None
) -> None:
    outcome, _ = made_up_night()
    waits = replace(alert("waits"), state="waiting")
    last = replace(
        outcome,
        findings=(alert("a"), alert("b"), waits),
        members=(alert("c", metric="cold_warm"),),
    )
    diary = Diary(store=open_store(str(here / "results")), launch="lab")
    diary.write(last)
    monkeypatch.setattr(requests, "_diary", lambda _: diary)
    chosen = last.findings[0].key.series_id if target == "series of a" else target
    if accepted is None:
        with pytest.raises(SpecError, match=f"--accept {target}: no alert of {last.night}"):
            accept_change(NightOptions(), chosen, str(last.date), "why")
        assert diary.accepted() == []
        return
    line = accept_change(NightOptions(), chosen, str(last.date), " why ")
    found = diary.accepted()
    assert [each.key.cell for each in found] == accepted
    assert {(each.reason, each.told_on) for each in found} == {("why", last.date)}
    assert line.startswith(f"Accepted from {last.date} on: {accepted[0]}")
    accept_change(NightOptions(), chosen, str(last.date), "again")
    assert len(diary.accepted()) == 2 * len(accepted)


def test_the_outcomes_of_a_diary_are_read_in_order(here: Path) -> None:
    diary = Diary(store=open_store(str(here / "results")), launch="lab")
    outcome, _ = made_up_night()
    names = {day: NightName(date=date(2026, 6, day), launch="lab") for day in range(1, 6)}
    for day, trials in ((1, 9), (2, 9), (3, 0), (5, 0)):
        written = replace(
            outcome,
            night=names[day].sweep_id,
            date=names[day].date,
            recorded_trials=trials,
        )
        diary.write(written)

    def before(day: int, **of: bool) -> int | None:
        found = diary.before(names[day], **of)
        return None if found is None else found.date.day

    assert [before(day) for day in (1, 2, 3, 4, 5)] == [None, 1, 2, 2, 2]
    assert [before(day, measured=False) for day in (1, 2, 3, 4, 5)] == [None, 1, 2, 3, 3]
    assert [diary.is_last(names[day]) for day in (3, 4, 5)] == [False, False, True]
    last = diary.last()
    assert last is not None and last.date.day == 2
    assert diary.of(names[4]) is None
    with pytest.raises(ReportError, match="found the outcome of 'night-2026-06-01-lab'"):
        first = diary.of(names[1])
        assert first is not None
        diary.keep(names[2].sweep_id, to_json(first))
    broken = here / "results/nightly/lab/night-2026-06-03-lab.json"
    broken.write_text(broken.read_text()[:-30])
    assert [len(diary.unreadable(names[day])) for day in (2, 3, 5)] == [0, 1, 1]
    assert before(4, measured=False) is None and before(4) == 2
    with pytest.raises(SpecError, match="cannot be read"):
        diary.last()
