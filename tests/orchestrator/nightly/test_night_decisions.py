"""When a night measures, what is news and which alerts count as sent, of a diary and a place that are made up."""

import socket
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from datetime import date
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from cudnn_sweep.cluster.errors import ClusterError
from cudnn_sweep.orchestrator.errors import (
    NeedsGpuError,
    SpecError,
    UnfinishedError,
    WebhookError,
)
from cudnn_sweep.orchestrator.exit_codes import ExitCode
from cudnn_sweep.orchestrator.nightly import night as nights
from cudnn_sweep.orchestrator.nightly.night import (
    _compared,
    _is_measured,
    _night,
    measured_and_compared,
    post_news,
    run_night,
    why_unfit,
)
from cudnn_sweep.orchestrator.nightly.request import SentAlert

DAY = date(2026, 6, 1)
OLD: SentAlert = ("old", DAY)


def finding(name: str, *, alert: bool = False, news: bool = False) -> Any:
    key = SimpleNamespace(series_id=name)
    return SimpleNamespace(key=key, since=DAY, is_alert=alert, is_news=news)


def told(**of: Any) -> Any:
    usual = {"findings": (), "recorded_trials": 9, "new_baseline": None, "skipped": {}}
    return SimpleNamespace(**usual | {"state": "fine", "reasons": (), "kept_by": None} | of)


class Post:
    """The posts of a night, and the alerts that count as sent after it."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        outcome: Any,
        *,
        before: Any = None,
        measured: Any = None,
        sent: Sequence[SentAlert] = (),
        is_last: bool = True,
        webhook: Any = "hook",
        fails: bool = False,
        report_url: str | None = None,
    ) -> None:
        self.posts: list[list[str]] = []
        self.pages: list[str] = []
        self.sent: list[SentAlert] | None = None
        self.warnings: list[str] = []

        def tell(_: object, news: Any) -> None:
            if fails:
                raise WebhookError("no route")
            fresh, where = news
            self.posts.append([each.key.series_id for each in fresh])
            self.pages.append(where.page)

        monkeypatch.setattr(nights, "news_of", lambda _, fresh, where: (fresh, where))
        monkeypatch.setattr(nights, "tell", tell)
        monkeypatch.setattr(nights, "warn", lambda _, text: self.warnings.append(text))
        monkeypatch.setattr(socket, "gethostname", lambda: "host")
        diary = SimpleNamespace(
            is_last=lambda _: is_last,
            sent_alerts=lambda: list(sent),
            before=lambda _, *, measured=True, kept=(before, measured): kept[measured],
            write_sent_alerts=lambda alerts: setattr(self, "sent", alerts),
        )
        reports = SimpleNamespace(absolute=lambda: "/reports/")
        night: Any = SimpleNamespace(
            diary=lambda: diary,
            name=SimpleNamespace(date=DAY),
            webhook=webhook,
            keys=SimpleNamespace(report_url=report_url),
            reports=reports,
            options=SimpleNamespace(program="sweep"),
            request=SimpleNamespace(results="results"),
        )
        post_news(night, outcome, Mock())


A, B, NEWS_ONLY = finding("a", alert=True), finding("b", alert=True), finding("n", news=True)
FINE, UNTOLD = told(), told(state="could_not_tell", recorded_trials=0)


@pytest.mark.parametrize(
    ("outcome", "of", "posts", "sent"),
    [
        (FINE, {}, [], []),
        (told(findings=(finding("quiet"),)), {}, [], []),
        (told(findings=(A,)), {}, [["a"]], ["a"]),
        (told(findings=(NEWS_ONLY,)), {}, [["n"]], ["n"]),
        (told(findings=(A, finding("quiet"), B)), {}, [["a", "b"]], ["a", "b"]),
        (told(findings=(A,)), {"sent": [("a", DAY)]}, [], ["a"]),
        (told(findings=(A,)), {"sent": [("a", date(2026, 5, 1))]}, [["a"]], ["a"]),
        (told(findings=(A, B)), {"sent": [("a", DAY), OLD]}, [["b"]], ["a", "b"]),
        (FINE, {"sent": [OLD]}, [], []),
        (told(recorded_trials=0), {"sent": [OLD]}, [], ["old"]),
        (told(new_baseline="other hardware"), {}, [[]], []),
        (UNTOLD, {}, [[]], []),
        (UNTOLD, {"before": UNTOLD}, [], []),
        (UNTOLD, {"before": FINE}, [[]], []),
        (told(state="learning"), {"before": FINE}, [[]], []),
        (told(state="learning"), {}, [], []),
        (told(skipped={"net": "gone"}), {}, [[]], []),
        (told(skipped={"net": "gone"}), {"measured": FINE}, [[]], []),
        (told(skipped={"net": "gone"}), {"measured": told(skipped={"net": "why"})}, [], []),
        (told(findings=(A,)), {"is_last": False, "sent": [OLD]}, [], None),
        (told(findings=(A,)), {"webhook": None, "sent": [OLD]}, [], ["a"]),
    ],
)
def test_each_fact_is_posted_once(
    monkeypatch: pytest.MonkeyPatch,
    outcome: Any,
    of: dict[str, Any],
    posts: list[list[str]],
    sent: list[str] | None,
) -> None:
    post = Post(monkeypatch, outcome, **of)
    assert post.posts == posts
    names = None if post.sent is None else [name for name, _ in post.sent]
    assert names == sent
    assert post.warnings == []


@pytest.mark.parametrize("of", [{"fails": True}, {"webhook": SpecError("no such file")}])
def test_an_alert_that_is_not_delivered_is_posted_the_next_night(
    monkeypatch: pytest.MonkeyPatch, of: dict[str, Any]
) -> None:
    post = Post(monkeypatch, told(findings=(A, B)), sent=[("b", DAY)], **of)
    assert (post.posts, post.sent) == ([], [("b", DAY)])
    (warning,) = post.warnings
    assert warning.startswith("warning: no notification was sent: no ")


@pytest.mark.parametrize(
    ("url", "page"),
    [
        (None, "host:/reports/2026-06-01/night.html"),
        ("https://ci.example/nights/", "https://ci.example/nights/2026-06-01/night.html"),
    ],
)
def test_news_name_the_page_where_it_can_be_opened(
    monkeypatch: pytest.MonkeyPatch, url: str | None, page: str
) -> None:
    assert Post(monkeypatch, told(findings=(A,)), report_url=url).pages == [page]


def check(name: str, state: str) -> Any:
    return SimpleNamespace(name=name, state=state, found="found", advice="do this")


@pytest.mark.parametrize(
    ("checks", "needs_cuda", "reasons"),
    [
        ([("CUDA", "ok"), ("NVML", "warning")], True, []),
        ([("CUDA", "warning")], False, []),
        ([("CUDA", "problem"), ("results", "problem")], False, ["CUDA", "results"]),
        ([("CUDA", "problem")], True, ["CUDA"]),
        ([("results", "problem"), ("CUDA", "warning")], False, ["results"]),
    ],
)
def test_a_place_with_a_problem_is_unfit(
    checks: list[tuple[str, str]], needs_cuda: bool, reasons: list[str]
) -> None:
    place: Any = SimpleNamespace(checks=lambda _: iter([check(*each) for each in checks]))
    night: Any = SimpleNamespace(
        request=SimpleNamespace(results="r"), suite=SimpleNamespace(needs_cuda=needs_cuda)
    )
    assert why_unfit(night, place) == tuple(f"{name}: found; do this" for name in reasons)


def test_a_suite_that_needs_cuda_needs_a_gpu_and_every_reason_is_named() -> None:
    checks = [check("results", "problem"), check("NVML", "warning"), check("CUDA", "warning")]
    place: Any = SimpleNamespace(checks=lambda _: iter(checks))
    night: Any = SimpleNamespace(request=Mock(), suite=SimpleNamespace(needs_cuda=True))
    with pytest.raises(NeedsGpuError, match="^results: found; do this\nCUDA: found; do this$"):
        why_unfit(night, place)


@pytest.mark.parametrize(
    ("states", "is_measured"),
    [
        ([], False),
        ([(True, [])], True),
        ([(True, [False, False])], True),
        ([(True, [False, True])], False),
        ([(False, [])], False),
        ([(False, [False])], False),
        ([(False, []), (True, [])], True),
    ],
)
def test_a_night_is_measured_once_it_is_finished_and_no_block_waits(
    monkeypatch: pytest.MonkeyPatch, states: list[tuple[bool, list[bool]]], is_measured: bool
) -> None:
    found = [
        SimpleNamespace(
            finished=finished,
            blocks=SimpleNamespace(split=[SimpleNamespace(waits=each) for each in waits]),
        )
        for finished, waits in states
    ]
    monkeypatch.setattr(nights, "sweep_states", lambda _: found)
    assert _is_measured(Mock()) is is_measured


@pytest.fixture
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """An outcome that could not be told is its reasons, and a compared one has series."""
    monkeypatch.setattr(
        nights,
        "not_measured",
        lambda _, reasons, kept_by=None: told(reasons=tuple(reasons), kept_by=kept_by),
    )
    monkeypatch.setattr(nights, "replace", lambda of, **to: type(of)(**vars(of) | to))


def night_of(**of: Any) -> Any:
    diary = SimpleNamespace(of=lambda _: of.get("earlier"), keep="keep")
    usual = {"diary": lambda: diary, "name": "tonight", "fault": None, "place": None}
    options = SimpleNamespace(measure=of.pop("measure", True))
    return SimpleNamespace(**usual | {"request": Mock(), "options": options, "job": Mock()} | of)


def raising(error: Exception) -> Callable[..., Any]:
    def fail(*_: object, **__: object) -> Any:
        raise error

    return fail


@pytest.mark.usefixtures("_plain")
@pytest.mark.parametrize(
    ("of", "unfit", "is_measured", "run", "runs", "skipped", "kept_by", "reasons"),
    [
        ({}, (), False, None, 0, "earlier", None, ("odd",)),
        ({"place": "here"}, (), False, None, 1, "tonight", None, ("odd",)),
        ({"place": "here"}, (), False, "full", 1, "tonight", ExitCode.UNFINISHED, ("odd",)),
        ({"place": "here"}, (), True, None, 0, "earlier", None, ("odd",)),
        ({"place": "here"}, ("bad",), False, None, 0, None, None, ("bad",)),
        ({"fault": SpecError("a\nb")}, (), False, None, 0, None, None, ("a", "b")),
        ({"fault": SpecError("a"), "place": "here"}, (), False, None, 0, None, None, ("a",)),
        ({"place": "here"}, (), False, SpecError("c\nd"), 1, None, None, ("c", "d")),
        (
            {"place": "here"},
            (),
            False,
            UnfinishedError("later"),
            1,
            None,
            ExitCode.UNFINISHED,
            ("later",),
        ),
        (
            {"place": "here"},
            (),
            False,
            NeedsGpuError("none"),
            1,
            None,
            ExitCode.NEEDS_GPU,
            ("none",),
        ),
    ],
)
def test_a_night_measures_where_it_is_fit_and_compares_unless_there_is_a_reason(
    monkeypatch: pytest.MonkeyPatch,
    of: dict[str, Any],
    unfit: tuple[str, ...],
    is_measured: bool,
    run: Any,
    runs: int,
    skipped: str | None,
    kept_by: ExitCode | None,
    reasons: tuple[str, ...],
) -> None:
    """`skipped`: by which launch models were left out; None: nothing is compared."""
    ran: list[Any] = []

    def sweep(*_: object) -> Any:
        ran.append(run)
        if isinstance(run, Exception):
            raise run
        return SimpleNamespace(progress=SimpleNamespace(stopped=run))

    for name, value in {
        "why_unfit": lambda *_: unfit,
        "_is_measured": lambda _: is_measured,
        "plan_sweep": lambda *_: SimpleNamespace(skipped={"by": "tonight"}),
        "run_sweep": sweep,
        "compare": lambda _, __, left: (told(reasons=("odd",), skipped=left), ["series"]),
    }.items():
        monkeypatch.setattr(nights, name, value)
    earlier = told(skipped={"by": "earlier"})
    outcome, series = measured_and_compared(night_of(earlier=earlier, **of), Mock())
    assert (len(ran), outcome.kept_by, outcome.reasons) == (runs, kept_by, reasons)
    assert outcome.skipped.get("by") == skipped
    assert [*map(str, series)] == ["series"] * (skipped is not None)
    monkeypatch.setattr(nights, "compare", lambda *_: (told(), ["series"]))
    fine, _ = measured_and_compared(night_of(**of), Mock())
    if skipped is not None:
        assert fine.kept_by is None, "a night that was compared is told as what it found"


@pytest.mark.usefixtures("_plain")
@pytest.mark.parametrize(
    ("of", "place", "earlier", "found"),
    [
        ({}, "cluster", None, "measured at cluster"),
        ({}, None, told(skipped={"by": "job"}), "of the job"),
        ({}, None, None, "measured at None"),
        ({}, "cluster", told(), "measured at cluster"),
        ({"place": "here"}, None, told(), "measured at here"),
        ({"fault": SpecError("a")}, "cluster", told(), "measured at None"),
        ({"measure": False}, "cluster", told(), "measured at None"),
        ({}, ClusterError("down"), told(), "down"),
        ({}, SpecError("typed"), told(), "typed"),
    ],
)
def test_a_night_of_a_job_is_the_jobs_and_any_other_is_measured_by_this_process(
    monkeypatch: pytest.MonkeyPatch, of: dict[str, Any], place: Any, earlier: Any, found: str
) -> None:
    def begin(*_: object) -> Any:
        if isinstance(place, Exception):
            raise place
        return place

    def measured(night: Any, _: object) -> Any:
        return told(reasons=(f"measured at {night.place}",)), ()

    def compare(_: object, __: object, skipped: Any, outcome: Any) -> Any:
        assert skipped == outcome.skipped == {"by": "job"}
        return told(reasons=("of the job",)), ()

    monkeypatch.setattr(nights, "measured_and_compared", measured)
    monkeypatch.setattr(nights, "compare", compare)
    destination = SimpleNamespace(night=begin)
    outcome, _ = _compared(night_of(destination=destination, earlier=earlier, **of), Mock())
    assert outcome.reasons == (found,)


@pytest.mark.parametrize(
    ("fault", "dry", "has_outcome", "error", "ended"),
    [
        (None, False, True, None, 3),
        (None, True, False, None, 0),
        (SpecError("typo"), False, False, None, SpecError),
        (SpecError("typo"), False, True, None, SpecError),
        (SpecError("typo"), True, False, None, SpecError),
        (None, False, False, SpecError("held"), ExitCode.CANNOT_TELL),
        (None, False, False, NeedsGpuError("none"), ExitCode.NEEDS_GPU),
        (None, False, False, UnfinishedError("cut"), ExitCode.UNFINISHED),
        (None, False, False, ClusterError("down"), ExitCode.CANNOT_TELL),
    ],
)
def test_a_night_ends_with_its_exit_code_or_its_mistake(
    monkeypatch: pytest.MonkeyPatch,
    fault: SpecError | None,
    dry: bool,
    has_outcome: bool,
    error: Exception | None,
    ended: Any,
) -> None:
    """A mistake is kept in the first outcome, and raised at once where there is one or nothing is run."""
    ran: list[str] = []
    night = night_of(
        fault=fault,
        webhook="hook",
        minutes=60.0,
        destination=SimpleNamespace(show=lambda *_: ran.append("shown")),
        earlier=told() if has_outcome else None,
    )
    night.name = SimpleNamespace(launch="lab")

    def go(*_: object) -> int:
        ran.append("night")
        if error is not None:
            raise error
        return 3

    monkeypatch.setattr(nights, "read_night", lambda *_: night)
    monkeypatch.setattr(nights, "night_lock", lambda *_: nullcontext())
    monkeypatch.setattr(nights, "_night", go)
    options: Any = SimpleNamespace(dry_run=dry)
    if isinstance(ended, type):
        with pytest.raises(ended, match="typo"):
            run_night(options, {}, Mock())
        assert ran == ["night"] * (not dry and not has_outcome)
    else:
        assert run_night(options, {}, Mock()) == ended
        assert ran == (["shown"] if dry else ["night"])


@pytest.mark.parametrize(
    ("variable", "has_summary"),
    [({}, False), ({"GITHUB_STEP_SUMMARY": ""}, False), ({"GITHUB_STEP_SUMMARY": "s"}, True)],
)
@pytest.mark.parametrize("form", ["text", "json"])
def test_a_night_is_printed_in_its_form_and_a_step_has_its_summary(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    variable: dict[str, str],
    has_summary: bool,
    form: str,
) -> None:
    did: list[Any] = []
    outcome = told(exit_code=1)
    diary = SimpleNamespace(unreadable=lambda _: ["broken"], write=did.append)
    options = SimpleNamespace(format=form, results=None)
    night: Any = SimpleNamespace(diary=lambda: diary, name="n", reports="r", options=options)
    for name, value in {
        "_compared": lambda *_: (outcome, ()),
        "write_reports": lambda *_, step_summary: did.append(step_summary is not None),
        "to_json": lambda _: "{}",
        "print_outcome": lambda *_: did.append("printed"),
        "post_news": lambda *_: did.append("posted"),
        "warn": lambda _, text: did.append(text),
    }.items():
        monkeypatch.setattr(nights, name, value)
    assert _night(night, variable, Mock()) == 1
    assert did[0].endswith("an unreadable file: broken")
    assert did[1:] == [outcome, has_summary, *["printed"] * (form == "text"), "posted"]
    assert capsys.readouterr().out == "{}" * (form == "json")
