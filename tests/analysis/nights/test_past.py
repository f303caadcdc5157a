"""What a night reads from those before it: changes, retired cells, starts of a change, of nights that are made up."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from cudnn_sweep.analysis.nights.candidates import (
    _grown_since,
    _of_this_machine,
    _with_new_software,
)
from cudnn_sweep.analysis.nights.history import (
    HARDWARE,
    MACHINE,
    History,
    _comparable,
    _point,
    _presence,
    _without_retired,
    differences,
)
from cudnn_sweep.analysis.nights.series import (
    FAILURE,
    LAUNCH_BOUND,
    STEADY_DEVICE,
    STEADY_WALL,
    Change,
    Confirmation,
    Series,
)
from cudnn_sweep.analysis.nights.settle import _by_nights, _news_apart, _walls
from tests.made_up_night import finding_of, history_of, key_of, points_of

FIRST = date(2026, 11, 1)
DAYS = [f"night-2026-11-{day:02}-lab" for day in range(1, 9)]


def history(nights: int = 8, new_torch_at: int | None = None) -> History:
    return history_of(key_of(), [1.0] * nights, FIRST, new_torch_at)


def edited(codes: Sequence[str | None]) -> History:
    """Return a history whose cell runs a user's own code, of these hashes by night."""
    made = history(len(codes))
    key = made.series[0].key
    pairs = zip(made.nights, codes, strict=True)
    known = {(night.sweep_id, "lab", key.cell_id): code for night, code in pairs if code}
    return replace(made, workloads=known)


@pytest.mark.parametrize(
    ("codes", "change"),
    [
        (["a", "b"], ("a", "b")),
        (["a", None, "b"], ("a", "b")),
        (["a", "a"], None),
        ([None, "b"], None),
        (["a", None], None),
    ],
)
def test_own_code_has_changed_if_both_hashes_are_known_and_differ(
    codes: Sequence[str | None], change: tuple[str, str] | None
) -> None:
    made = edited(codes)
    key = replace(made.series[0].key, env_hash="lab")
    expected = () if change is None else (Change(part="workload", before=change[0], now=change[1]),)
    assert made.edited(key, len(codes) - 1) == expected
    of_lab = replace(made, series=(Series(key=key, points=made.series[0].points),))
    assert of_lab.changes() == expected


def test_the_first_night_changes_nothing_and_new_software_is_a_version() -> None:
    assert history(1).changes() == ()
    made = history(6, new_torch_at=3)
    (version,) = made.versions()
    assert (version.date, version.software_hash) == (FIRST + timedelta(days=3), "2.12")
    assert version.changes == (Change(part="torch", before="2.11", now="2.12"),)
    key = replace(made.series[0].key, env_hash="lab")
    series = replace(made.series[0], key=key)
    assert made.moved(series, 3) == version.changes
    assert made.moved(series, 0) == made.moved(series, 4) == ()


def test_another_gpu_counts_from_the_last_night_that_measured_the_series() -> None:
    made = history(4)
    key = replace(made.series[0].key, env_hash="lab")
    points = list(points_of([1.0, 1.0, None, 1.0], FIRST))
    gpus = ["a", "a", "c", "b"]
    moved = [replace(point, gpu_uuid=gpu) for point, gpu in zip(points, gpus, strict=True)]
    series = Series(key=key, points=tuple(moved))
    assert made.moved(series, 3) == (Change(part="gpu_uuid", before="a", now="b"),)
    assert made.moved(series, 1) == ()


def test_unknown_parts_of_a_machine_are_no_difference() -> None:
    before, now = {"host": "", "torch": "1"}, {"host": "node", "torch": ""}
    assert [change.part for change in differences(before, now, ["host", "torch"])] == ["torch"]
    assert "host" in MACHINE


@pytest.mark.parametrize(
    ("hardware", "in_turns", "reason"),
    [
        (["a", "a"], [True, True], None),
        (["a", "b", "a"], [True, True, True], None),
        (["a"], [True], None),
        (["a", "a"], [True, False], "run one after another, unlike in the 1 nights before"),
        (["a", "a"], [False, True], "take turns, unlike in the 1 nights before"),
        (["a", "a", "b"], [True, True, True], "other hardware than in the 2 nights before"),
    ],
)
def test_other_hardware_or_another_method_starts_a_new_baseline(
    hardware: Sequence[str], in_turns: Sequence[bool], reason: str | None
) -> None:
    made = history(len(hardware))
    nights = [
        replace(night, softwares={where: "s"}, in_turns=turns, parts={**night.parts, "gpu": where})
        for night, where, turns in zip(made.nights, hardware, in_turns, strict=True)
    ]
    found = replace(made, nights=tuple(nights)).new_baseline()
    assert found is None if reason is None else (found is not None and reason in found)
    if reason and reason.startswith("other"):
        assert found is not None and found.endswith("gpu a → b")
        assert "gpu" in HARDWARE


def test_nights_of_the_same_hardware_and_method_are_comparable() -> None:
    nights = [
        replace(night, softwares={where: "s"}, in_turns=turns)
        for night, where, turns in zip(
            history(4).nights, "abaa", [True, True, False, True], strict=True
        )
    ]
    assert _comparable(nights, "a") == [nights[0], nights[3]]


def by_name(**series: Sequence[int]) -> Any:
    """Return rows of these series of failures, by name and by the days on which they have one."""
    return {
        (name[0], name[1:], "failure"): {DAYS[day]: {"word": "ok"} for day in days}
        for name, days in series.items()
    }


def nights(*, planned: int = 4, recorded: Sequence[int], reached: Sequence[int] = ()) -> Any:
    return [
        replace(
            night,
            sweep_id=DAYS[at],
            planned=planned,
            recorded=count,
            reached=(reached or [4] * 8)[at],
        )
        for at, (night, count) in enumerate(
            zip(history(len(recorded)).nights, recorded, strict=True)
        )
    ]


@pytest.mark.parametrize(
    ("recorded", "kept"),
    [
        ([4, 4, 4], {"ax", "cx"}),
        ([4, 4, 3], {"ax", "ay", "bx", "cx"}),
        ([3, 3, 3], {"ax", "ay", "bx", "cx"}),
        ([4, 3, 3], {"ax", "ay", "bx", "cx"}),
    ],
)
def test_what_a_whole_night_lacks_has_left_the_suite(
    recorded: Sequence[int], kept: set[str]
) -> None:
    """Config y of cell a ends on the second day, as cell b does."""
    rows = by_name(ax=[0, 1, 2], ay=[0, 1], bx=[0, 1], cx=[2])
    rows["a", "x", "steady_wall"] = {DAYS[0]: {"value": 1.0}}
    found = _without_retired(rows, nights(recorded=recorded))
    assert {cell + config for cell, config, metric in found if metric == "failure"} == kept
    assert ("a", "x", "steady_wall") in found, "an old time of a config that is still there"


@pytest.mark.parametrize(
    ("recorded", "reached", "missing"),
    [
        ([4, 3, 3], [4, 4, 4], [1, 2]),
        ([4, 4, 3], [4, 4, 4], [2]),
        ([4, 3, 3], [4, 3, 4], [2]),
        ([3, 3, 3], [4, 4, 4], [1, 2]),
    ],
)
def test_a_cell_is_missing_on_nights_that_reached_it_and_lost_trials(
    recorded: Sequence[int], reached: Sequence[int], missing: Sequence[int]
) -> None:
    rows = by_name(ax=[0])
    found = _presence(rows, nights(recorded=recorded, reached=reached))
    ((name, by_night),) = found.items()
    assert name[2] == "missing"
    assert by_night[DAYS[0]]["word"] == "present"
    words = {night for night, row in by_night.items() if row["word"] == "missing"}
    assert words == {DAYS[at] for at in missing}


def test_a_point_is_a_number_or_a_word() -> None:
    night = history(1).nights[0]
    assert _point(night, "lab", {"value": 0.0, "word": "ok"}).value == 0.0
    assert _point(night, "lab", {"word": "ok"}).value == "ok"
    assert _point(night, "lab", {}).value is None


def series_of(values: Sequence[float | None], new_at: int | None = None) -> Series:
    def software(at: int) -> str:
        return "new" if new_at is not None and at >= new_at else "old"

    return Series(key=key_of(), points=tuple(points_of(values, FIRST, software)))


@pytest.mark.parametrize(
    ("values", "new_at", "since", "start"),
    [
        ([1.0, 1.0, 1.05, 2.0, 2.0], 3, 2, 3),
        ([1.0, 1.0, 1.9, 2.0, 2.0], 3, 2, 2),
        ([1.0, 1.0, 1.05, 2.0, 2.0], None, 2, 2),
        ([1.0, 1.0, 1.05, 2.0, 2.0], 2, 2, 2),
        ([1.0, 1.05, 1.05, 1.05, 2.0], 4, 1, 4),
    ],
)
def test_a_change_begins_with_new_software_if_the_nights_before_are_nearer_to_usual(
    values: Sequence[float], new_at: int | None, since: int, start: int
) -> None:
    assert _with_new_software(series_of(values, new_at), 1.0, since) == start


@pytest.mark.parametrize(
    ("values", "high", "since"),
    [
        ([1.0] * 4 + [1.2] * 10 + [1.5] * 3, 1.25, 14),
        ([1.0] * 4 + [1.2] * 10 + [1.5] * 3, 1.6, None),
        ([1.0] * 4 + [1.2] * 13, 1.25, None),
        ([1.0] * 4 + [1.2] * 10 + [1.5] * 3, None, None),
    ],
)
def test_an_alert_that_grows_past_its_interval_begins_anew(
    values: Sequence[float], high: float | None, since: int | None
) -> None:
    series = series_of(values)
    alert = finding_of(series.key, FIRST, before=1.0, now=1.2, ratio=1.2, ratio_high=high)
    assert _grown_since(series, alert, 4) == since
    assert _grown_since(series, replace(alert, before=None), 4) is None
    word = replace(series, key=series.key.of(FAILURE))
    assert _grown_since(word, alert, 4) is None


@pytest.mark.parametrize(
    ("walls", "is_of_pairs", "pairs", "shown"),
    [
        (2.0, False, False, True),
        (LAUNCH_BOUND, False, False, False),
        (2.0, True, True, True),
        (2.0, True, False, False),
    ],
)
def test_wall_time_stands_beside_device_time_of_a_cpu_bound_loop(
    walls: float, is_of_pairs: bool, pairs: bool, shown: bool
) -> None:
    device = Series(
        key=key_of().of(STEADY_DEVICE), points=tuple(points_of([1.0] * 9 + [1.5] * 2, FIRST))
    )
    values = [walls * value for value in device.numbers if value is not None]
    wall = Series(key=key_of().of(STEADY_WALL), points=tuple(points_of(values, FIRST)))
    candidate: Any = SimpleNamespace(series=device, key=device.key, since=9, left_out=())
    of_pairs = Confirmation(state="confirmed", ratio=1.4, low=1.3, high=1.5)
    judged = Confirmation(state="confirmed", ratio=1.5)
    confirmation = judged if is_of_pairs else of_pairs
    fresh: Any = SimpleNamespace(confirmation=confirmation, wall=of_pairs if pairs else None)
    made = replace(history(11), series=(device, wall))
    found = _walls(candidate, judged, fresh, made)
    assert bool(found) is shown
    if shown:
        assert found["wall_ratio"] == pytest.approx(1.4 if is_of_pairs else 1.5)
    assert _walls(candidate, replace(judged, ratio=None), fresh, made) == {}
    assert _walls(candidate, judged, fresh, replace(made, series=(device,))) == {}


@pytest.mark.parametrize(
    ("walls", "devices", "shown"),
    [
        ([2.0, 1.0], [1.0, 1.0], False),
        ([1.0, 2.0], [1.0, 1.0], True),
        ([2.0, 2.0, None], [1.0, 1.0, 1.0], True),
        ([2.0, 1.0, None], [1.0, 1.0, 1.0], False),
        ([2.0, 2.0, 1.0], [1.0, 1.0, None], True),
        ([None, None], [1.0, 1.0], False),
    ],
)
def test_the_last_night_with_both_times_says_whether_a_loop_is_cpu_bound(
    walls: list[float | None], devices: list[float | None], shown: bool
) -> None:
    usual: list[float | None] = [1.0] * 9
    device = Series(key=key_of().of(STEADY_DEVICE), points=points_of([*usual, *devices], FIRST))
    wall = Series(key=key_of().of(STEADY_WALL), points=points_of([*usual, *walls], FIRST))
    candidate: Any = SimpleNamespace(series=device, key=device.key, since=9, left_out=())
    made = replace(history(len(usual) + len(walls)), series=(device, wall))
    judged = Confirmation(state="confirmed", ratio=1.5)
    assert bool(_walls(candidate, judged, None, made)) is shown


@pytest.mark.parametrize(
    ("wall", "gpu", "kept"),
    [
        (LAUNCH_BOUND * 10.0, 10.0, [1.0, 2.0, 3.0]),
        (LAUNCH_BOUND * 10.0 + 0.1, 10.0, [None, 2.0, 3.0]),
        (None, 10.0, [1.0, 2.0, 3.0]),
        (20.0, None, [1.0, 2.0, 3.0]),
    ],
)
def test_nights_of_another_machine_do_not_count_for_a_cpu_bound_loop(
    wall: float | None, gpu: float | None, kept: list[float | None]
) -> None:
    """Of the nights before, one is of another host and GPU, one of another host, one of no host."""
    places = [("b", "GPU-b"), ("b", "GPU-a"), (None, "GPU-b"), ("a", "GPU-a")]
    points = [
        replace(point, host=host, gpu_uuid=uuid)
        for point, (host, uuid) in zip(points_of([1.0, 2.0, 3.0, wall], FIRST), places, strict=True)
    ]
    series = Series(key=key_of().of(STEADY_WALL), points=tuple(points))
    device = Series(key=key_of().of(STEADY_DEVICE), points=points_of([gpu], FIRST))
    assert _of_this_machine(series, device).numbers == [*kept, wall]
    assert _of_this_machine(series, None) is series
    of_device = replace(series, key=device.key)
    assert _of_this_machine(of_device, device) is of_device


@pytest.mark.parametrize(
    ("values", "left_out", "direction", "ratio"),
    [
        ([10.0] * 9 + [12.0] * 2, (), "worse", 1.2),
        ([10.0] * 9 + [8.0] * 2, (), "better", 1.25),
        ([20.0] * 5 + [10.0] * 9 + [8.0] * 2, range(5), "better", 1.25),
        ([10.0] * 9 + [8.0, None, 8.0], (), "better", 1.25),
    ],
)
def test_a_gain_is_judged_as_a_loss_from_the_nights_that_count(
    values: list[float | None], left_out: Sequence[int], direction: str, ratio: float
) -> None:
    series = Series(key=key_of(), points=points_of(values, FIRST))
    since = next(at for at, value in enumerate(values) if value in (8.0, 12.0))
    of_series: Any = {"series": series, "key": series.key, "since": since}
    candidate: Any = SimpleNamespace(**of_series, direction=direction, left_out={*left_out})
    judged = _by_nights(candidate, False)
    assert judged.state == "confirmed"
    assert judged.ratio == pytest.approx(ratio)
    candidate.key = candidate.key.of(FAILURE)
    assert _by_nights(candidate, False) == Confirmation(state="undecided")


def test_news_of_a_cell_are_told_once() -> None:
    """Other kernels explain other bits; a change that came with other kernels names them itself."""
    kernels = Change(part="kernels", before="old", now="new")
    news = {
        (metric, cell): finding_of(
            key_of(metric, cell, cell_id=cell), FIRST, before="a", now="b", is_news=True
        )
        for metric in ("engine", "bits")
        for cell in "xy"
    }
    slower = finding_of(key_of(cell="x", cell_id="x"), FIRST, before=1.0, now=2.0, ratio=2.0)
    beside = replace(slower, kernels=kernels)
    bits = [news["bits", "x"], news["bits", "y"]]
    assert _news_apart(bits) == bits
    assert _news_apart([slower, *bits]) == [slower, *bits]
    assert _news_apart([news["engine", "x"], *bits]) == [news["engine", "x"], bits[1]]
    assert _news_apart([beside, *news.values()]) == [beside, news["engine", "y"]]
    alert = replace(news["engine", "x"], is_news=False)
    assert _news_apart([beside, alert]) == [beside, alert]
