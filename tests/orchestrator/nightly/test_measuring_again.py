"""How long a night measures its candidates again, and what it compares with, of a place that is made up."""

from collections.abc import Sequence
from contextlib import nullcontext
from datetime import date
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from cudnn_sweep.analysis.nights.detect import LOOKS
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.exit_codes import ExitCode
from cudnn_sweep.orchestrator.nightly import night as nights
from cudnn_sweep.orchestrator.nightly import request as requests
from cudnn_sweep.orchestrator.nightly.night import (
    _measure,
    _stopped_telling,
    compare,
    measure_again,
    run_night,
)
from cudnn_sweep.orchestrator.nightly.request import (
    MOST_NAMED,
    NightRequest,
    accept_change,
    pin_baseline,
)
from cudnn_sweep.orchestrator.planning.options import NightOptions
from cudnn_sweep.orchestrator.planning.plan import LAST_GOOD, OWN_SOFTWARE
from tests.made_up_night import key_of

KEYS = [key_of(cell_id=name) for name in ("a", "b")]


class Again:
    """A night whose blocks take `block_s`, and whose candidates are settled after so many blocks."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        settled_after: Sequence[int],
        *,
        block_s: float = 1.0,
        hashes: tuple[str, str] | None = ("good", "own"),
        stored: Sequence[str] = (),
    ) -> None:
        """`hashes`: of the last good software and of the night's own; None: there is no last good one."""
        self.now_s, self._block_s = 1000.0, block_s
        self.runs: list[tuple[int, float]] = []
        self.softwares: Sequence[str] = ()
        self.judged: list[tuple[int, bool]] = []
        self._settled = dict(zip(KEYS, settled_after, strict=True))
        self._looked = 0
        own = SimpleNamespace(software_hash=hashes and hashes[1])
        self.place: Any = SimpleNamespace(
            last_good=lambda _: SimpleNamespace(software_hash=hashes and hashes[0]),
            opened=lambda *_: nullcontext(self._run),
        )
        store = SimpleNamespace(stored_trials=lambda _: dict.fromkeys(stored))
        whole = SimpleNamespace(suite="night")
        planned = SimpleNamespace(whole=whole, machine=SimpleNamespace(environment=own), preload=())
        for name, value in {
            "plan_sweep": lambda *_: planned,
            "suite_again": lambda _, __, most: most,
            "suspects_of": lambda *_: [],
            "asdict": lambda _: {},
            "differences": lambda *_: ("torch",),
            "confirmation_plan": self._plan,
            "cell_labels": lambda _: {"cell": "its label"},
            "say": lambda *_: None,
            "session_of": lambda *_: None,
            "replace": lambda _, **changes: changes["plan"],
            "scratch_folder": lambda _: "/no/such/folder",
            "tell_stopped": lambda *_: None,
            "monotonic": lambda: self.now_s,
            "read_fresh": lambda *_: SimpleNamespace(judge_all=self._judge),
        }.items():
            monkeypatch.setattr(nights, name, value)
        last_good = None if hashes is None else "python"
        self.night: Any = SimpleNamespace(
            request=None,
            suite=None,
            minutes=2.0,
            keys=SimpleNamespace(last_good=last_good),
            name=SimpleNamespace(launch="lab", confirm_id="confirm"),
            contrasts=(),
            store=lambda: store,
        )

    def _plan(self, name: str, suite: Any, suspects: Any, *, blocks: int, softwares: Any) -> Any:
        self.softwares, self._looked = list(softwares), blocks

        def trials(without: set[str]) -> Any:
            left = [
                SimpleNamespace(
                    trial_id=f"{key.cell_id}{block}", cell=SimpleNamespace(cell_id=key.cell_id)
                )
                for key in KEYS
                for block in range(blocks)
            ]
            kept = [trial for trial in left if trial.trial_id not in without]
            for trial in kept:
                trial.cell = SimpleNamespace(cell_id=trial.trial_id[0])
            return SimpleNamespace(trials=kept, without=trials)

        return trials(set())

    def _run(self, plan: Any, left_s: float) -> None:
        self.runs.append((len(plan.trials), left_s))
        self.now_s += self._block_s * len(plan.trials)

    def _judge(self, waiting: Sequence[Any], of_two: Any, *, is_cut: bool) -> Any:
        self.judged.append((len(waiting), is_cut))
        return {
            candidate.key: SimpleNamespace(
                confirmation=SimpleNamespace(
                    more_blocks=self._looked < self._settled[candidate.key]
                )
            )
            for candidate in waiting
        }

    def measure(self) -> Any:
        candidates: Any = [SimpleNamespace(key=key) for key in KEYS]
        return _measure(self.night, self.place, candidates, Mock())


@pytest.mark.parametrize(
    ("settled_after", "trials"),
    [
        ((6, 6), [12]),
        ((6, 12), [12, 12]),
        ((12, 12), [12, 24]),
        ((48, 48), [12, 24, 48, 96]),
    ],
)
def test_only_unsettled_candidates_go_on_to_the_next_look(
    monkeypatch: pytest.MonkeyPatch, settled_after: tuple[int, int], trials: list[int]
) -> None:
    again = Again(monkeypatch, settled_after, block_s=0.01)
    assert set(again.measure()) == set(KEYS)
    assert [count for count, _ in again.runs] == trials
    waiting = [2] * len(trials) if settled_after[0] == settled_after[1] else [2, 1]
    assert again.judged == [(count, False) for count in waiting]
    assert max(LOOKS) == 48


def test_the_second_half_of_the_nights_time_limits_what_is_measured_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of two minutes a night has one more for fresh trials."""
    again = Again(monkeypatch, (48, 48), block_s=3.0)
    again.measure()
    assert again.runs == [(12, 60.0), (24, 24.0)]
    assert [is_cut for _, is_cut in again.judged] == [False, True, True]


@pytest.mark.parametrize(
    ("hashes", "softwares", "looks"),
    [
        (("good", "own"), [OWN_SOFTWARE, LAST_GOOD], 4),
        (("own", "own"), [OWN_SOFTWARE], 1),
        (None, [OWN_SOFTWARE], 1),
    ],
)
def test_two_softwares_take_turns_if_the_last_good_one_is_another(
    monkeypatch: pytest.MonkeyPatch,
    hashes: tuple[str, str] | None,
    softwares: list[str],
    looks: int,
) -> None:
    again = Again(monkeypatch, (48, 48), block_s=0.01, hashes=hashes)
    again.measure()
    assert again.softwares == softwares
    assert len(again.runs) == looks


def test_trials_that_are_stored_are_not_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = [f"{key.cell_id}{block}" for key in KEYS for block in range(6)]
    again = Again(monkeypatch, (6, 6), stored=stored)
    again.measure()
    assert again.runs == []
    assert len(again.judged) == 1


@pytest.mark.parametrize(("has_place", "measured"), [(True, True), (False, False)])
def test_without_a_place_stored_fresh_trials_are_judged(
    monkeypatch: pytest.MonkeyPatch, has_place: bool, measured: bool
) -> None:
    fresh = SimpleNamespace(differences=lambda: None, judge_all=lambda *_, is_cut: f"cut {is_cut}")
    monkeypatch.setattr(nights, "read_fresh", lambda *_: fresh)
    monkeypatch.setattr(nights, "_measure", lambda *_: "measured")
    name = SimpleNamespace(launch="lab", confirm_id="confirm")
    night: Any = SimpleNamespace(
        place="place" if has_place else None, store=lambda: None, name=name, contrasts=()
    )
    found: Any = measure_again(night, [], Mock())
    assert found == ("measured" if measured else "cut True")


@pytest.mark.parametrize(
    ("before", "now", "stopped"),
    [
        ("fine", "could_not_tell", True),
        ("could_not_tell", "could_not_tell", False),
        (None, "could_not_tell", True),
        ("fine", "learning", True),
        ("regression", "learning", True),
        ("could_not_tell", "learning", False),
        (None, "learning", False),
        ("fine", "regression", False),
        (None, "fine", False),
    ],
)
def test_it_is_news_that_nights_stop_telling(before: str | None, now: str, stopped: bool) -> None:
    earlier: Any = None if before is None else SimpleNamespace(state=before)
    outcome: Any = SimpleNamespace(state=now)
    assert _stopped_telling(earlier, outcome) is stopped


@pytest.mark.parametrize("of_job", [False, True])
def test_a_night_before_the_pinned_one_is_compared_with_nothing(
    monkeypatch: pytest.MonkeyPatch, of_job: bool
) -> None:
    """The outcome of a cluster's job stays what it is."""
    diary = SimpleNamespace(
        baseline=lambda: date(2026, 3, 2), before=lambda _: None, accepted=lambda: ()
    )
    blank = SimpleNamespace(reasons=())
    monkeypatch.setattr(nights, "not_measured", lambda *_: blank)
    monkeypatch.setattr(nights, "replace", lambda of, **changes: SimpleNamespace(**changes))
    monkeypatch.setattr(nights, "read_history", lambda *_, **__: None)

    def compared(day: int) -> Any:
        name = SimpleNamespace(date=date(2026, 3, day), launch="lab", sweep_id="night")
        night: Any = SimpleNamespace(
            diary=lambda: diary, name=name, store=lambda: None, contrasts=()
        )
        outcome: Any = SimpleNamespace(reasons=("job",)) if of_job else None
        return compare(night, Mock(), {}, outcome)[0]

    assert compared(1).reasons == (
        ("job",)
        if of_job
        else (
            "2026-03-01 is before the pinned night 2026-03-02; use --unpin, or --pin an earlier night",
        )
    )
    assert compared(2).reasons == (("job",) if of_job else ())


def test_a_dry_run_says_how_long_a_night_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    night = SimpleNamespace(
        fault=None, webhook=None, destination=Mock(), request=None, minutes=80.0
    )
    monkeypatch.setattr(nights, "read_night", lambda *_: night)
    monkeypatch.setattr(nights, "say", lambda _, text: said.append(text))
    options: Any = SimpleNamespace(dry_run=True)
    assert run_night(options, {}, Mock()) == ExitCode.FINE
    assert said == [
        "A night takes at most about 2 hours on each GPU: 80 minutes for the suite, 40 for fresh trials."
    ]


@pytest.mark.parametrize(("typed", "minutes"), [(None, 90.0), (5.0, 5.0)])
def test_a_nights_minutes_are_those_typed_or_of_the_launch_file(
    typed: float | None, minutes: float
) -> None:
    night: Any = SimpleNamespace(
        request=SimpleNamespace(budget_minutes=typed), keys=SimpleNamespace(minutes=90.0)
    )
    assert NightRequest.minutes.fget(night) == minutes  # type: ignore[attr-defined]


OPTIONS = NightOptions()


@pytest.mark.parametrize("alerts", [1, MOST_NAMED, MOST_NAMED + 2])
def test_an_accepted_change_names_a_few_of_its_series(
    monkeypatch: pytest.MonkeyPatch, alerts: int
) -> None:
    findings = [
        SimpleNamespace(is_alert=True, key=key_of(cell=f"conv {number}"), shared=None)
        for number in range(alerts)
    ]
    last = SimpleNamespace(
        findings=findings, members=(), alerts=findings, night="night", date=date(2026, 3, 2)
    )
    accepted: list[Any] = []
    diary = SimpleNamespace(launch="lab", last=lambda: last, accept=accepted.extend)
    monkeypatch.setattr(requests, "_diary", lambda _: diary)
    monkeypatch.setattr(requests, "meaning", lambda _: "wall time")
    line = accept_change(OPTIONS, "steady_wall", "2026-03-02", "new driver")
    assert len(accepted) == alerts
    assert line.count("wall time") == min(alerts, MOST_NAMED)
    assert ("and 2 more" in line) == (alerts == MOST_NAMED + 2)
    with pytest.raises(SpecError, match="is after the last night, 2026-03-02"):
        accept_change(OPTIONS, "steady_wall", "2026-03-03", "new driver")
    for first, reason in ((None, "why"), ("2026-03-02", None), ("2026-03-02", " ")):
        with pytest.raises(SpecError, match="needs --from DATE"):
            accept_change(OPTIONS, "steady_wall", first, reason)


@pytest.mark.parametrize(
    ("days", "last"), [([], "none"), (list(range(1, 8)), "night-2026-03-03-lab")]
)
def test_a_night_that_is_pinned_must_be_there(
    monkeypatch: pytest.MonkeyPatch, days: list[int], last: str
) -> None:
    ids = [f"night-2026-03-0{day}-lab" for day in days]
    pinned: list[Any] = []
    store = SimpleNamespace(sweep_ids=lambda: [*ids, "night-2026-03-09-other"])
    diary = SimpleNamespace(
        launch="lab", store=store, pin=pinned.append, unpin=lambda: pinned.append(None)
    )
    monkeypatch.setattr(requests, "_diary", lambda _: diary)
    with pytest.raises(SpecError, match=f"the last nights: {last}") as raised:
        pin_baseline(OPTIONS, date(2026, 3, 9))
    assert str(raised.value).count("-lab") == (6 if days else 1)
    for day in days[:1]:
        assert "begins on 2026-03-01" in pin_baseline(OPTIONS, date(2026, 3, day))
        assert "the month before them" in pin_baseline(OPTIONS, None)
        assert pinned == [date(2026, 3, day), None]
