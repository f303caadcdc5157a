"""What stays known of a confirmed change, night after night, through the judge that real nights use."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from itertools import zip_longest
from pathlib import Path

import numpy as np
import pytest

from cudnn_sweep.analysis.nights.candidates import Candidate, Remeasured
from cudnn_sweep.analysis.nights.detect import confirm_words
from cudnn_sweep.analysis.nights.findings import remembered
from cudnn_sweep.analysis.nights.history import History
from cudnn_sweep.analysis.nights.outcome import Acceptance, Finding, LeftOut, NightOutcome
from cudnn_sweep.analysis.nights.reports.report import from_json
from cudnn_sweep.analysis.nights.series import METRIC_OF, Category, SeriesKey
from cudnn_sweep.analysis.nights.settle import compare_night
from tests.made_up_night import finding_of, history_of, key_of, made_up_night
from tests.studies.parts.detection import Known, ScreenedHistories, by_nights
from tests.studies.parts.realities import GROUP, REALITIES, real_histories

DOCS = Path(__file__).parents[3] / "docs"
FIRST = date(2026, 1, 1)
GOOD, SLOW = 10.0, 11.0
Value = float | str | None


def day(place: int) -> date:
    return FIRST + timedelta(days=place)


def history(values: Sequence[Value], metric: str, first: int = 0) -> History:
    whole = history_of(key_of(metric), values, FIRST)
    (series,) = whole.series
    return replace(
        whole,
        nights=whole.nights[first:],
        series=(replace(series, points=series.points[first:]),),
        is_pinned=bool(first),
    )


@dataclass
class Followed:
    """Nights compared one after another, each with what the last one left."""

    metric: str = "steady_wall"
    pinned: int = 0
    values: list[Value] = field(default_factory=list)
    accepted: list[Acceptance] = field(default_factory=list)
    outcomes: list[NightOutcome] = field(default_factory=list)

    def go_on(self, values: Sequence[Value], fresh: Sequence[Value] = ()) -> None:
        """`fresh`: what each night's value becomes where the night is measured again."""
        for value, again in zip_longest(values, fresh):
            self.values.append(value)
            self.outcomes.append(self._compared(again))

    def _compared(self, fresh: Value) -> NightOutcome:
        tonight = history(self.values, self.metric, self.pinned)
        before = self.outcomes[-1] if self.outcomes else None

        def read() -> History:
            self.values[-1] = self.values[-1] if fresh is None else fresh
            return history(self.values, self.metric, self.pinned)

        blank = replace(made_up_night()[0], night="tonight", date=tonight.tonight.date)
        memory = remembered(before, self.accepted, tonight)
        return compare_night(blank, tonight, memory, self._measure, read, lambda _: "again")[0]

    def _measure(self, candidates: Sequence[Candidate]) -> dict[SeriesKey, Remeasured]:
        """Six fresh trials have the night's word."""
        fresh, metric = [str(self.values[-1])] * 6, METRIC_OF[self.metric]
        return {
            each.key: Remeasured(
                confirmation=confirm_words(fresh, str(each.screening.before)), of_two=None
            )
            for each in candidates
            if isinstance(metric, Category)
        }

    @property
    def known(self) -> list[Known]:
        """Of what is worse, night by night."""
        worse = [
            [Known.of(each) for each in outcome.findings if each.direction == "worse"]
            for outcome in self.outcomes
        ]
        return [each[0] if each else Known.NONE for each in worse]

    @property
    def alerts(self) -> list[int]:
        """Nights with one."""
        return [place for place, outcome in enumerate(self.outcomes) if outcome.alerts]

    @property
    def alert(self) -> Finding:
        (found,) = self.outcomes[-1].alerts
        return found


def noisy(level: float, nights: int, seed: int = 0) -> list[Value]:
    noise = np.random.default_rng(seed).standard_normal(nights)
    return list(level * np.exp(0.005 * noise))


def test_a_regression_that_nobody_mends_alerts_every_night() -> None:
    followed = Followed()
    followed.go_on([*noisy(GOOD, 14), *noisy(SLOW, 76)])
    first = followed.alerts[0]
    assert first <= 16
    assert followed.alerts == list(range(first, 90))
    assert {outcome.alerts[0].since for outcome in followed.outcomes[first:]} == {day(14)}


def test_what_was_mended_and_comes_again_is_told_again() -> None:
    followed = Followed()
    slow, good = noisy(SLOW, 15, seed=1), noisy(GOOD, 6, seed=2)
    followed.go_on([*noisy(GOOD, 40), *slow, *good, *slow])
    again = [place for place in followed.alerts if place >= 61]
    assert again[0] <= 63
    assert followed.alert.since == day(61)
    assert followed.alert.before == pytest.approx(GOOD, rel=0.01)


def test_an_alert_ends_after_two_fine_nights_and_no_sooner() -> None:
    followed = Followed()
    followed.go_on([*noisy(GOOD, 14), *[SLOW] * 6, GOOD, SLOW, GOOD])
    assert followed.alert.since == day(14)
    followed.go_on([GOOD])
    assert not followed.outcomes[-1].alerts
    (span,) = followed.outcomes[-1].left_out
    assert (span.since, span.until) == (day(14), day(21))


def test_what_comes_and_goes_every_other_night_is_one_alert() -> None:
    followed = Followed()
    followed.go_on([*noisy(GOOD, 30), *[SLOW, GOOD] * 25])
    told = {alert.since for outcome in followed.outcomes for alert in outcome.alerts}
    assert len(told) == 1
    assert followed.alerts == list(range(followed.alerts[0], 80))


@pytest.mark.parametrize("noise", [0.005, 0.01])
def test_a_second_regression_on_an_open_alert_is_alerted_too(noise: float) -> None:
    nights = np.random.default_rng(0).standard_normal(50)
    level = GOOD * 1.05 ** ((np.arange(50) >= 30) * 1.0 + (np.arange(50) >= 36))
    followed = Followed()
    followed.go_on([*level * np.exp(noise * nights)])
    told = {
        outcome.alerts[0].since: place
        for place, outcome in enumerate(followed.outcomes)
        if outcome.alerts
    }
    first, second = sorted(told)
    assert first <= day(31)
    assert day(35) <= second <= day(37)
    assert followed.alerts == list(range(followed.alerts[0], 50))
    assert followed.alert.ratio == pytest.approx(1.1025, rel=2 * noise)
    (span,) = followed.outcomes[-1].left_out
    assert span.since == first, "its nights stay left out"


@pytest.mark.slow
def test_an_alert_that_stays_as_it_is_is_alerted_once() -> None:
    for seed in range(3):
        followed = Followed()
        followed.go_on([*noisy(GOOD, 20, seed=seed), *noisy(SLOW, 60, seed=seed + 50)])
        assert len({each.since for outcome in followed.outcomes for each in outcome.alerts}) == 1


def test_a_creep_is_found_before_five_percent_are_lost() -> None:
    """Each night 0.1% slower, at 0.5% noise: the last month moves along, the first does not."""
    lost = 1.001 ** np.maximum(np.arange(80) - 19, 0)
    for seed in range(2):
        followed = Followed()
        followed.go_on([*np.array(noisy(GOOD, 80, seed=seed)) * lost])
        assert lost[followed.alerts[0]] < 1.05
        assert followed.outcomes[followed.alerts[0]].alerts[0].before == pytest.approx(
            GOOD, rel=0.01
        )


def test_a_fix_and_a_gain_are_no_alerts() -> None:
    followed = Followed()
    followed.go_on([*noisy(SLOW, 20), *noisy(GOOD, 20)])
    assert followed.alerts == []


def test_a_pinned_baseline_leaves_confirmed_nights_out() -> None:
    followed = Followed()
    followed.go_on([*noisy(GOOD, 14), *noisy(SLOW, 30)])
    followed.pinned = 1
    followed.go_on(noisy(SLOW, 3))
    assert followed.alert.before == pytest.approx(GOOD, rel=0.01)
    followed.pinned = 20
    followed.go_on(noisy(SLOW, 3))
    assert followed.alert.since == day(14), "pinning nights of a regression does not accept it"


@pytest.mark.parametrize(
    ("metric", "good", "bad"), [("failure", "ok", "crash"), ("engine", "winograd", "gemm")]
)
def test_words_are_not_forgotten_either(metric: str, good: str, bad: str) -> None:
    followed = Followed(metric=metric)
    followed.go_on([*[good] * 10, *[bad] * 40])
    assert followed.alerts == list(range(followed.alerts[0], 50))
    followed.go_on([good, bad, good])
    assert followed.alert.since == day(10)
    followed.go_on([good])
    assert not followed.outcomes[-1].alerts


def test_an_accepted_change_is_compared_with_and_a_later_one_is_told() -> None:
    followed = Followed()
    followed.go_on([*noisy(GOOD, 20), *noisy(SLOW, 15)])
    accepted = Acceptance(
        key=followed.alert.key, first=day(20), reason="safer", told_on=followed.outcomes[-1].date
    )
    followed.accepted = [accepted]
    followed.go_on(noisy(SLOW, 10, seed=3))
    assert not [place for place in followed.alerts if place >= 35]
    assert followed.outcomes[-1].accepted == (accepted,)
    assert followed.outcomes[-1].left_out == ()
    followed.go_on(noisy(SLOW * 1.1, 5, seed=4))
    assert followed.alert.since == day(45)
    assert followed.alert.before == pytest.approx(SLOW, rel=0.01)


def test_an_acceptance_from_tonight_on_waits_for_nights_to_compare_with() -> None:
    followed = Followed()
    followed.go_on([*noisy(GOOD, 20), *noisy(SLOW, 5)])
    followed.accepted = [
        Acceptance(key=followed.alert.key, first=day(24), reason="safer", told_on=day(24))
    ]
    followed.go_on(noisy(SLOW, 5))
    assert followed.outcomes[-1].insufficient_series == 1
    followed.go_on(noisy(SLOW, 2))
    assert followed.outcomes[-1].fine_series == 1


def test_a_cell_that_is_called_otherwise_keeps_its_alert() -> None:
    followed = Followed()
    followed.go_on([*noisy(GOOD, 14), *noisy(SLOW, 5)])
    last = followed.outcomes[-1]
    renamed = replace(last.alerts[0], key=replace(last.alerts[0].key, cell="conv cell"))
    followed.outcomes[-1] = replace(last, findings=(renamed,))
    followed.go_on(noisy(SLOW, 1))
    assert (followed.alert.since, followed.alert.key) == (day(14), key_of())


def test_a_change_among_nights_that_were_measured_otherwise_ends_with_them() -> None:
    followed = Followed()
    followed.go_on([*noisy(GOOD, 14), *noisy(SLOW, 6)])
    before, nights = followed.outcomes[-1], history([*followed.values, SLOW], "steady_wall")
    in_turns = replace(nights.nights[-1], in_turns=True)
    tonight = replace(nights, nights=(*nights.nights[:-1], in_turns))
    memory = remembered(before, [], tonight)
    assert memory.findings == ()
    assert [(span.since, span.until) for span in memory.left_out] == [(day(14), day(19))]
    same = remembered(before, [], nights)
    assert (same.findings, same.left_out) == (before.findings, before.left_out)


@pytest.mark.parametrize(
    ("first", "told_on", "holds", "is_open"),
    [
        (9, 9, True, False),
        (10, 9, False, True),
        (3, 5, True, False),
        (3, 4, True, True),
        (3, 3, True, True),
    ],
)
def test_an_acceptance_holds_from_its_date_on_for_what_began_until_it_was_told(
    first: int, told_on: int, holds: bool, is_open: bool
) -> None:
    """Tonight is night 9; the finding began on night 5."""
    key, other = key_of(), key_of(cell="pool", cell_id="pool")
    findings = [finding_of(of, day(5), before=1.0, now=2.0) for of in (key, other)]
    spans = [LeftOut(key=of, since=day(5), until=None) for of in (key, other)]
    outcome, _ = made_up_night()
    before = replace(outcome, findings=tuple(findings), left_out=tuple(spans), members=())
    accepted = Acceptance(key=key, first=day(first), reason="meant", told_on=day(told_on))
    older = replace(accepted, first=day(1), told_on=day(1))
    memory = remembered(before, [older, accepted], history([GOOD] * 10, "steady_wall"))
    assert memory.accepted == (accepted if holds else older,)
    open_keys = [key, other] if is_open else [other]
    assert [finding.key for finding in memory.findings] == open_keys
    assert [span.key for span in memory.left_out] == open_keys
    assert memory.alerted == {key.series_id, other.series_id}
    alone = remembered(None, [accepted], history([GOOD] * 10, "steady_wall"))
    assert (alone.accepted, alone.findings) == ((accepted,) if holds else (), ())


def test_members_are_remembered_but_no_news_and_no_metric_of_another_version() -> None:
    outcome, _ = made_up_night()
    keys = {name: key_of(cell=name, cell_id=name) for name in ("found", "member", "news", "odd")}
    found = {name: finding_of(key, day(5), before=1.0, now=2.0) for name, key in keys.items()}
    news = replace(found["news"], is_news=True)
    odd = replace(found["odd"], key=replace(keys["odd"], metric="of_a_later_version"))
    findings = (found["found"], news, odd)
    before = replace(outcome, findings=findings, members=(found["member"],), left_out=())
    memory = remembered(before, [], history([GOOD] * 10, "steady_wall"))
    assert memory.findings == (found["found"], found["member"])


def test_what_could_not_show_the_least_effect_is_not_called_as_it_was() -> None:
    quiet, loud, drawn = Followed(), Followed(), Followed(metric="engine")
    noise = np.random.default_rng(3).standard_normal(40)
    quiet.go_on(noisy(GOOD, 40))
    loud.go_on([*GOOD * np.exp(0.146 * noise), GOOD])
    drawn.go_on([f"kernel {place}" for place in range(40)])
    counted = [
        (one.outcomes[-1].fine_series, one.outcomes[-1].blunt_series)
        for one in (quiet, loud, drawn)
    ]
    assert counted == [(1, 0), (0, 1), (0, 1)]


def test_nights_that_were_stored_while_suspicions_waited_are_read() -> None:
    (stored,) = DOCS.glob("results/h200-2026-11-22/nights/reports/2026-11-21/night.json")
    before = from_json(stored.read_text())
    waiting = [each for each in before.findings if each.state == "waiting"]
    (one, *_) = [each for each in waiting if each.key.metric == "cold_warm"]
    followed = Followed(metric="cold_warm")
    followed.go_on(noisy(GOOD, 14))
    known = replace(one, key=key_of("cold_warm"), since=day(12))
    followed.outcomes[-1] = replace(followed.outcomes[-1], findings=(known,))
    followed.go_on(noisy(GOOD, 1, seed=1))
    assert followed.outcomes[-1].findings == (), "its nights are as they were"
    followed.outcomes[-1] = replace(followed.outcomes[-1], findings=(known,))
    followed.go_on([1.5 * GOOD] * 3)
    assert followed.alert.since == day(15)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["again", "creep", "flapping", "bad_node", "small_in_noise"])
def test_what_studies_follow_is_what_the_judge_knows(name: str) -> None:
    """Night for night, with the fresh processes of each night that is in doubt."""
    reality = next(each for each in REALITIES if each.name == name)
    histories = real_histories(reality, GROUP, seed=1)
    alerts = by_nights(
        ScreenedHistories(histories=histories, since=np.zeros(histories.values.shape, int))
    )
    assert alerts.known is not None
    for series in range(3):
        followed = Followed()
        values, fresh = (np.exp(each[series]) for each in (histories.values, histories.with_fresh))
        followed.go_on(values.tolist(), fresh.tolist())
        assert followed.known == alerts.known[series].tolist()
