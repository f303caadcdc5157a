"""Most series of one GPU that move alike are one finding."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pytest

from cudnn_sweep.analysis.nights.findings import SHARED, _is_confirmed, share
from cudnn_sweep.analysis.nights.outcome import Finding
from cudnn_sweep.analysis.nights.series import Change, Series
from tests.made_up_night import finding_of, key_of, points_of

FIRST = date(2026, 11, 1)
NIGHTS = 10
OTHER_GPU = (Change(part="gpu_uuid", before="GPU-a", now="GPU-b"),)


def series(cell: int, config: str, slower: float = 1.0, *, fine_tonight: bool = False) -> Series:
    """Slower from the last but one night on, where GPU-b measured; tonight is GPU-a's where it is fine."""

    slow = [place == NIGHTS - 2 for place in range(NIGHTS - 1)] + [not fine_tonight]
    points = points_of([10.0 * (slower if each else 1.0) for each in slow], FIRST)
    key = key_of(cell=f"conv {cell}", cell_id=f"cell-{cell}", settings=config)
    return Series(
        key=key,
        points=tuple(
            replace(point, gpu_uuid="GPU-b" if each else "GPU-a", host="node")
            for point, each in zip(points, slow, strict=True)
        ),
    )


def finding(one: Series, ratio: float, direction: str = "worse") -> Finding:
    since = FIRST + timedelta(days=NIGHTS - 2)
    said: dict[str, Any] = {"before": 10.0, "now": 10.0 * ratio, "ratio": ratio}
    return finding_of(one.key, since, direction=direction, moved=OTHER_GPU, **said)


def cells(count: int, slower: float = 1.06, *, fine_tonight: bool = False) -> list[Series]:
    return [
        series(cell, config, slower, fine_tonight=fine_tonight)
        for cell in range(count)
        for config in ("off", "on")
    ]


def found_of(many: Sequence[Series], ratio: float = 1.06) -> list[Finding]:
    return [finding(one, ratio) for one in many]


@pytest.mark.parametrize("fine_tonight", [False, True])
def test_a_slow_gpu_is_one_finding_that_names_it(fine_tonight: bool) -> None:
    slow, usual = cells(4, fine_tonight=fine_tonight), [series(9, "off"), series(9, "on")]
    waits = replace(found_of(slow)[0], state="waiting")
    told = share([waits, *found_of(slow)[1:]], [*slow, *usual], "sweep launch")
    (one,) = told[0]
    assert one.is_alert
    assert one.key.metric == SHARED
    assert one.key.cell == "GPU-b on node", "also on the first night without it"
    assert one.now == "8 of 10 times"
    assert one.ratio == pytest.approx(1.06)
    assert (one.moved, one.command) == (OTHER_GPU, "sweep launch")
    assert {each.shared for each in told[1]} == {one.key.series_id}
    assert len(told[1]) == 8


def test_half_of_the_series_or_two_cells_are_findings_of_their_own() -> None:
    slow = cells(3)
    usual = [series(cell, "off") for cell in range(10, 16)]
    assert share(found_of(slow), [*slow, *usual], "")[1] == ()
    of_two = cells(2) + [series(1, config, 1.06) for config in ("third", "fourth")]
    assert share(found_of(of_two), of_two, "")[1] == ()


def test_what_moves_otherwise_stays_beside_it() -> None:
    slow = cells(5)
    findings = [
        *found_of(slow[:8]),
        finding(slow[8], 1.5),
        finding(slow[9], 0.9, direction="better"),
    ]
    told = share(findings, slow, "")
    assert [each.key.metric for each in told[0]] == [SHARED, "steady_wall", "steady_wall"]
    assert set(told[0][1:]) == set(findings[8:])


def test_what_was_refuted_is_no_part_of_it() -> None:
    slow = cells(4)
    refuted = [replace(each, state="refuted") for each in found_of(slow)]
    assert share(refuted, slow, "")[0] == tuple(refuted)


def test_one_that_lags_behind_ends_with_the_others_and_one_that_lasts_is_told() -> None:
    """The GPU is quick again since two nights, but for two series: one is, one night later."""
    mended = cells(4, slower=1.0)
    late, lasts = cells(4, fine_tonight=True)[0], cells(4)[1]
    known = [replace(each, shared="gpu") for each in found_of([late, lasts])]
    told = share(known, [late, lasts, *mended[2:]], "")
    assert [each.key.metric for each in told[0]] == [SHARED, "steady_wall"]
    assert [each.key for each in told[1]] == [late.key]
    assert told[0][1].key == lasts.key
    assert told[0][1].shared is None


def began(each: Finding, days_before: int, **changed: object) -> Finding:
    return replace(each, since=each.since - timedelta(days=days_before), **changed)  # type: ignore[arg-type]


def test_older_alerts_neither_join_nor_speak_for_what_began_now() -> None:
    slow = cells(5)
    torch = (Change(part="torch", before="2.11", now="2.12"),)
    old = [began(each, 6, cause="software", moved=torch) for each in found_of(slow[:2])]
    new = [replace(each, state="waiting", moved=()) for each in found_of(slow[2:])]
    told = share([*old, *new], slow, "", alerted={each.key.series_id for each in old})
    one, *others = told[0]
    assert (one.state, one.since, one.cause, one.moved) == ("waiting", new[0].since, "hardware", ())
    assert one.now == "8 of 10 times"
    assert others == old


@pytest.mark.parametrize("confirmed", [3, 5])
def test_it_is_confirmed_where_most_of_it_is(confirmed: int) -> None:
    """Until then an alert of the night before goes on, and what is confirmed tonight waits."""
    slow = cells(4)
    findings = found_of(slow)
    findings[confirmed:] = [replace(each, state="waiting") for each in findings[confirmed:]]
    told = share(findings, slow, "", alerted={findings[0].key.series_id})
    alerts = [each.key.metric for each in told[0] if each.is_alert]
    assert alerts == ([SHARED] if confirmed == 5 else ["steady_wall"])
    assert len(told[1]) == (8 if confirmed == 5 else 7)


def test_what_the_noise_lets_begin_some_nights_apart_is_one() -> None:
    slow = cells(4)
    apart = dict(zip(found_of(slow), [0, 0, 0, 1, 1, 2, 3, 5], strict=True))
    findings = [began(each, days, moved=()) for each, days in apart.items()]
    told = share(findings, slow, "")
    assert [each.key.metric for each in told[0]] == [SHARED]
    gone = [*findings[:-1], began(findings[-1], 4)]
    alone = share(gone, slow, "")[0]
    assert [each.key.metric for each in alone] == [SHARED, "steady_wall"], "nights lie between"


def test_what_was_told_stays_told_where_more_begins_that_waits() -> None:
    slow = cells(5)
    first = share(found_of(slow[:6]), slow, "")
    assert first[0][0].is_alert
    waits = [replace(each, state="waiting") for each in found_of(slow[3:])]
    alerted = {each.key.series_id for each in first[0]}
    again = share([*first[1][:3], *waits], slow, "", alerted)[0]
    assert [(each.now, each.is_alert) for each in again] == [("10 of 10 times", True)]
    assert not share([*found_of(slow[:3]), *waits], slow, "")[0][0].is_alert


def test_more_than_half_of_the_members_confirm_a_shared_finding() -> None:
    key = key_of()
    sure, waits = (
        finding_of(key, FIRST, state=state, before=10.0, now=11.0)
        for state in ("confirmed", "waiting")
    )
    assert _is_confirmed([sure, sure, waits], []) and not _is_confirmed([sure, waits], [])
    assert not _is_confirmed([], [])
    part = replace(sure, shared="id")
    assert _is_confirmed([part, waits, waits], ["id"])
    assert not _is_confirmed([part, waits, waits], ["other"])
    assert not _is_confirmed([replace(waits, shared="id"), waits], ["id"])
