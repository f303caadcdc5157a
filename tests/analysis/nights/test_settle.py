"""From the nights of one series to a finding: what stays, what waits, and which cause is named."""

from dataclasses import replace
from datetime import date, timedelta

import pytest

from cudnn_sweep.analysis.nights.candidates import (
    Candidate,
    FreshTrials,
    Remeasured,
    screen_all,
)
from cudnn_sweep.analysis.nights.detect import confirm, confirm_by_nights, screen
from cudnn_sweep.analysis.nights.findings import Memory
from cudnn_sweep.analysis.nights.history import History
from cudnn_sweep.analysis.nights.outcome import Finding
from cudnn_sweep.analysis.nights.series import (
    STEADY_DEVICE,
    STEADY_WALL,
    Change,
    Confirmation,
    Screening,
)
from cudnn_sweep.analysis.nights.settle import _kernels, settle, settle_all
from tests.made_up_night import finding_of, history_of, key_of

FIRST = date(2026, 11, 1)
KEY = key_of()
STEADY: list[float | None] = [10.0, 10.1, 9.9, 10.05, 9.95, 10.0, 10.1, 9.9]
SLOWER: list[float | None] = [11.0, 11.1]
TORCH = (Change(part="torch", before="2.11", now="2.12"),)


def history(
    values: list[float | None],
    new_torch_at: int | None = None,
    workloads: list[str | None] | None = None,
) -> History:
    made = history_of(KEY, values, FIRST, new_torch_at)
    known = zip(made.nights, workloads or (), strict=workloads is not None)
    codes = {(night.sweep_id, "lab", "cell"): code for night, code in known if code}
    return replace(made, workloads=codes)


def pairs(state: str, low: float = 0.99) -> Remeasured:
    said = Confirmation(state=state, ratio=1.01, low=low, high=1.02, blocks=6, more_blocks=0)  # type: ignore[arg-type]
    return Remeasured(confirmation=said, of_two=TORCH)


def judged(
    nights: History, earlier: Finding | None = None, fresh: Remeasured | None = None
) -> Finding | None:
    found = screen_all(nights, Memory(findings=(earlier,) if earlier else ()))
    if not found.candidates:
        return None
    return settle(found.candidates[0], fresh, nights, command="sweep launch")


CODE = Change(part="workload", before="old", now="new")
GPU = Change(part="gpu_uuid", before="GPU-a", now="GPU-b")
HOST = Change(part="host", before="one", now="two")
EDITED: list[str | None] = [*["old"] * 7, None, "new", "new"]  # one night does not know


@pytest.mark.parametrize(
    ("torch", "code", "machine", "fresh", "cause", "moved"),
    [
        (True, None, {}, None, "software", TORCH),
        (False, None, {}, None, "hardware", ()),
        (True, None, {}, pairs("confirmed"), "software", TORCH),
        (True, None, {}, pairs("undecided"), "unknown", TORCH),
        (True, None, {}, pairs("refuted"), "hardware", ()),
        (True, None, {}, pairs("refuted", low=1.005), "unknown", TORCH),  # some of it
        (False, EDITED, {}, None, "software", (CODE,)),
        (True, EDITED, {}, None, "software", (*TORCH, CODE)),
        (True, EDITED, {}, pairs("refuted"), "software", (CODE,)),
        (False, ["old"] * 10, {}, None, "hardware", ()),
        (False, [*["old"] * 8, None, None], {}, None, "unknown", ()),  # it failed to import
        (False, None, {"gpu_uuid": "GPU-b"}, None, "hardware", (GPU,)),
        (True, None, {"gpu_uuid": "GPU-b"}, None, "unknown", (*TORCH, GPU)),
        (True, None, {"host": "two"}, None, "software", (*TORCH, HOST)),  # a new container
        (False, None, {"cpu_model": "EPYC"}, None, "hardware", ()),  # older rows do not know it
    ],
)
def test_the_cause_is_what_pairs_or_the_night_that_shows_it_say(
    torch: bool,
    code: list[str | None] | None,
    machine: dict[str, str],
    fresh: Remeasured | None,
    cause: str,
    moved: tuple[Change, ...],
) -> None:
    nights = history([*STEADY[:7], None, *SLOWER], 8 if torch else None, code)
    (series,) = nights.series
    old: dict[str, str | None] = {"gpu_uuid": "GPU-a", "host": "one", "cpu_model": None}
    parts = [old] * 7 + [{}] + [{**old, **machine}] * 2
    points = [replace(one, **part) for one, part in zip(series.points, parts, strict=True)]  # type: ignore[arg-type]
    found = judged(replace(nights, series=(replace(series, points=tuple(points)),)), fresh=fresh)
    assert found is not None
    assert (found.cause, found.moved, found.since) == (cause, moved, FIRST + timedelta(days=8))


def test_what_was_confirmed_stays_through_a_night_that_cannot_tell() -> None:
    found = judged(history([*STEADY, *SLOWER], new_torch_at=8), fresh=pairs("confirmed"))
    assert found is not None
    after = judged(history([*STEADY, *SLOWER, None], new_torch_at=8), found)
    assert after is not None and after.is_alert
    assert after == found
    assert judged(history([*STEADY, *SLOWER, None, *STEADY], new_torch_at=8), found) is None


def test_what_was_refuted_is_measured_again_only_with_other_software() -> None:
    found = judged(history([*STEADY, *SLOWER]))
    assert found is not None
    nights, moved = [*STEADY, *SLOWER, 11.0], len(STEADY) + len(SLOWER)
    known = [replace(found, state="refuted")]
    again = screen_all(history(nights), Memory(findings=tuple(known))).candidates
    anew = screen_all(history(nights, new_torch_at=moved), Memory(findings=tuple(known))).candidates
    edited = history(nights, workloads=[*["old"] * moved, "new"])
    of_new_code = screen_all(edited, Memory(findings=tuple(known))).candidates
    assert [each.is_new for each in (*again, *anew, *of_new_code)] == [False, True, True]


def test_one_odd_night_is_no_candidate() -> None:
    assert judged(history([*STEADY, 13.0, 10.0])) is None


def test_one_odd_night_of_new_software_that_fresh_pairs_do_not_show_waits() -> None:
    values = [*STEADY, 13.0]
    nights = history(list(values), new_torch_at=len(STEADY))
    screening = screen(values, STEADY_WALL, is_new=True)
    assert screening.state == "worse"
    candidate = Candidate(
        series=nights.series[0],
        direction="worse",
        since=len(STEADY),
        screening=screening,
        is_seen=True,
        earlier=None,
        left_out=frozenset(),
    )
    alone = settle(candidate, None, nights, command="again")
    refuted = settle(candidate, pairs("refuted"), nights, command="again")
    assert alone is not None and refuted is not None
    assert (alone.state, refuted.state) == ("confirmed", "waiting")


def test_what_was_found_on_other_hardware_is_left_alone() -> None:
    found = judged(history([*STEADY, *SLOWER]))
    assert found is not None
    elsewhere = replace(found, state="refuted", key=replace(KEY, env_hash="elsewhere"))
    again = screen_all(history([*STEADY, *SLOWER]), Memory(findings=(elsewhere,)))
    assert [each.is_new for each in again.candidates] == [True]


@pytest.mark.parametrize(
    ("suspect", "since", "cause"), [(10.3, 10, "software"), (11.0, 8, "hardware")]
)
def test_a_new_software_begins_a_suspicion_anew_unless_it_was_there_before(
    suspect: float, since: int, cause: str
) -> None:
    """Two nights are suspect before the new torch; those since are 10% slower."""
    waits = judged(history([*STEADY, suspect, suspect]))
    assert waits is not None
    waits = replace(waits, state="waiting")
    nights = history([*STEADY, suspect, suspect, 11.0, 11.05], new_torch_at=10)
    for earlier in (waits, None):
        found = judged(nights, earlier)
        assert found is not None
        assert (found.since, found.cause) == (FIRST + timedelta(days=since), cause)
        assert isinstance(found.now, float) and isinstance(found.before, float)
        assert found.now / found.before == pytest.approx(found.ratio)
    first_night = history([*STEADY, suspect, suspect, 11.0], new_torch_at=10)
    anew = screen_all(first_night, Memory(findings=(waits,))).candidates
    assert [each.is_new for each in anew] == [True], "it is measured again"


# --- Words ---

KERNELS = key_of("engine", settings="benchmark=true")


def judged_words(nights: str, fresh: str, earlier: Finding | None = None) -> Finding | None:
    """A letter is the word of a night, or of a fresh trial."""
    made = history_of(KERNELS, list(nights), FIRST)
    screened = screen_all(made, Memory(findings=(earlier,) if earlier else ()))
    named = {"cell_id": "cell", "settings": "benchmark=true", "software": None}
    trials = FreshTrials(
        processes=[{**named, "block": at, "engine": word} for at, word in enumerate(fresh)],
        signs=[],
        pairs=[],
        softwares={},
    )
    new = [each for each in screened.candidates if each.is_new]
    remeasured = trials.judge_all(new, None, is_cut=not fresh)
    findings = settle_all(screened, screened, remeasured, made, lambda _: "again")
    return findings[0] if findings else None


def test_kernels_that_most_fresh_trials_do_not_show_are_refuted() -> None:
    assert judged_words("aaaabab", "baaaaa") is None, "too few nights to know a search by"
    for fresh, state in (("baaaaa", "refuted"), ("bbbaaa", "refuted"), ("bbbbaa", "confirmed")):
        found = judged_words("aaaaaaaaaabab", fresh)
        assert found is not None
        assert found.state == state
    assert judged_words("aaaaaaaabaabab", "bbbbbb") is None, "two words of one software before"


def test_a_word_that_no_fresh_trial_judged_is_measured_again_the_next_night() -> None:
    usual = "aaaaaaaaaa"
    assert judged_words(usual + "bb", "bbbbbb") is None, "nine nights before the last three"
    first = judged_words(usual + "abb", "")
    assert first is not None
    again = judged_words(usual + "abbbb", "", first)
    assert again is not None
    assert [each.state for each in (first, again)] == ["waiting", "waiting"]
    for fresh, state in (("bbbbbb", "confirmed"), ("ababaa", "refuted")):
        found = judged_words(usual + "abbbbb", fresh, again)
        assert found is not None
        assert (found.state, found.since) == (state, first.since)


def fresh_words(metric: str, *rows: tuple[str, str | None, str | None]) -> Remeasured:
    """The judgement of a word by fresh trials: of each its cell, its software and its word."""
    processes = [
        {"cell_id": cell, "settings": "benchmark=false", "software": software, "block": block}
        | {"engine": word, "software_hash": software or "own"}
        for block, (cell, software, word) in enumerate(rows)
    ]
    before = {"missing": "present"}.get(metric, "a")
    trials = FreshTrials(processes=processes, signs=[], pairs=[], softwares={})
    candidate = Candidate(
        series=history_of(key_of(metric), ["a", "b"], FIRST).series[0],
        direction="worse",
        since=1,
        screening=Screening(state="worse", nights=10, before=before, now="b"),
        is_seen=True,
        earlier=None,
        left_out=frozenset(),
    )
    (judged,) = trials.judge_all([candidate], TORCH, is_cut=False).values()
    return judged


def test_a_missing_cell_is_confirmed_if_fresh_trials_lack_it_too() -> None:
    for rows, state in (
        ([], "confirmed"),
        ([("other", None, "a")], "confirmed"),
        ([("cell", None, "a")], "refuted"),
        ([("cell", "last_good", "a")], "confirmed"),
    ):
        assert fresh_words("missing", *rows).confirmation.state == state, rows


def test_a_word_is_the_softwares_if_the_last_good_one_has_the_word_before() -> None:
    own = [("cell", None, "b")] * 3
    nobody = fresh_words("engine")
    assert (nobody.confirmation.state, nobody.of_two) == ("undecided", None)
    for good, of_two in (("a", TORCH), ("b", None), (None, None)):
        found = fresh_words("engine", *own, ("cell", "last_good", good), ("other", None, "a"))
        assert (found.confirmation.state, found.confirmation.blocks) == ("confirmed", 3)
        assert found.of_two == of_two
    refuted = fresh_words("engine", *own, *[("cell", None, "a")] * 3, ("cell", "last_good", "a"))
    assert (refuted.confirmation.state, refuted.of_two) == ("refuted", None)


@pytest.mark.parametrize(
    ("words", "since", "changed"),
    [
        ("aaaabb", 4, ("a", "b")),
        ("aaaaaa", 4, None),
        ("aabaca", 4, ("a", "c")),
        ("aaabca", 4, ("b", "c")),
        ("abaab-", 4, None),
        ("----bb", 4, None),
        ("aaaa-b", 4, ("a", "b")),
        ("caaabb", 6, None),
    ],
)
def test_kernels_changed_with_a_finding_if_the_nights_before_had_others(
    words: str, since: int, changed: tuple[str, str] | None
) -> None:
    engine = history_of(
        key_of("engine"), [None if word == "-" else word for word in words], FIRST
    ).series[0]
    finding = finding_of(key_of(), FIRST + timedelta(days=since), before=1.0, now=2.0)
    found = _kernels(finding, {engine.key: engine})
    assert (found and (found.before, found.now)) == changed
    assert _kernels(replace(finding, state="waiting"), {engine.key: engine}) is None
    assert _kernels(finding, {}) is None
    assert _kernels(replace(finding, key=key_of("bits")), {engine.key: engine}) is None


# --- Wall time, where device time changed ---

DEVICE_KEY = key_of("steady_device")
WALL: list[float | None] = [20.0, 20.2, 19.8, 20.1, 19.9, 20.0, 20.2, 19.8, 20.1, 20.3]
DEVICE: list[float | None] = [10.0, 10.1, 9.9, 10.05, 9.95, 10.0, 10.1, 9.9, 11.5, 11.6]
SINCE = 8


def settled(
    wall: list[float | None],
    device: list[float | None] = DEVICE,
    fresh: Remeasured | None = None,
    earlier: Finding | None = None,
) -> dict[str, Finding]:
    """By metric."""
    nights = history_of(DEVICE_KEY, device, FIRST)
    other = history_of(DEVICE_KEY.of(STEADY_WALL), wall, FIRST)
    nights = replace(nights, series=nights.series + other.series)
    screened = screen_all(nights, Memory(findings=(earlier,) if earlier else ()))
    remeasured = {DEVICE_KEY: fresh} if fresh else {}
    findings = settle_all(screened, screened, remeasured, nights, lambda _: "again")
    return {each.key.metric: each for each in findings}


def test_wall_time_of_the_same_nights_stands_beside_device_time() -> None:
    for first in (DEVICE[0], None):
        device, wall = [first, *DEVICE[1:]], [first and WALL[0], *WALL[1:]]
        found = settled(WALL, device)["steady_device"]
        of_wall = confirm_by_nights(wall, SINCE, STEADY_WALL)
        assert (found.wall_ratio, found.wall_ratio_low) == (of_wall.ratio, of_wall.low)
        assert found.ratio == confirm_by_nights(device, SINCE, STEADY_DEVICE).ratio
        assert of_wall.low is not None and of_wall.high is not None
        assert of_wall.low < 1 < of_wall.high


def test_hosts_are_told_apart_if_the_loop_waits_for_the_cpu() -> None:
    """Six nights on each of two hosts in turn, which are 4% apart."""
    hosts = [("one", "two")[place // 6 % 2] for place in range(30)]
    level = [1.04 if host == "two" else 1.0 for host in hosts]
    noise = [1.0 + (place * 7 % 5 - 2) / 1000 for place in range(30)]

    def candidates(device_ms: float, last: int) -> list[str]:
        walls = [20.0 * one * other for one, other in zip(level, noise, strict=True)]
        walls = [*walls[: last - 2], *(1.05 * each for each in walls[last - 2 : last])]
        devices = [device_ms * each for each in noise[:last]]
        wall = history_of(DEVICE_KEY.of(STEADY_WALL), walls, FIRST)
        history = history_of(DEVICE_KEY, devices, FIRST)
        series = [
            replace(
                one,
                points=tuple(
                    replace(point, host=host, gpu_uuid=f"GPU-{host}")
                    for point, host in zip(one.points, hosts[:last], strict=True)
                ),
            )
            for one in (*history.series, *wall.series)
        ]
        screened = screen_all(replace(history, series=tuple(series)), Memory())
        return [each.key.metric for each in screened.candidates]

    assert candidates(10.0, 30) == ["steady_wall"], "5% more than on this host before"
    assert candidates(10.0, 8) == [], "two nights of a new host: nothing compares"


def test_wall_time_of_the_same_pairs_stands_beside_device_time() -> None:
    wall = confirm([0.01, -0.01, 0.0, 0.005, 0.01, 0.0], STEADY_WALL.min_effect)
    pairs = confirm([0.14, 0.15, 0.14, 0.15, 0.14, 0.15], STEADY_DEVICE.min_effect)
    fresh = Remeasured(confirmation=pairs, of_two=(), wall=wall)
    found = settled(WALL, fresh=fresh)["steady_device"]
    assert (found.wall_ratio, found.wall_ratio_high) == (wall.ratio, wall.high)
    later = settled(WALL, earlier=found)["steady_device"]
    assert later == replace(found, now=later.now), "an alert that lasts keeps what its pairs said"


def test_nothing_stands_beside_it_where_the_loop_waits_for_the_gpu_or_wall_time_changed() -> None:
    waits_for_gpu = settled([value and 0.6 * value for value in WALL])
    assert waits_for_gpu["steady_device"].wall_ratio is None
    changed = settled([value and 2 * value for value in DEVICE])
    assert changed["steady_wall"].state == changed["steady_device"].state == "confirmed"
    assert changed["steady_device"].wall_ratio is None


def test_wall_time_is_of_the_pairs_of_the_same_kernels_where_they_alone_confirm() -> None:
    """In two of seven pairs one process took a slow kernel, which costs more than the new software."""
    own, good = (["a", "b", "slow", "a", "a", "a", "a"], ["a", "b", "a", "a", "slow", "a", "a"])
    device, wall = (
        [1.05, 1.06, 1.15, 1.055, 0.95, 1.052, 1.058],
        [1.0, 1.01, 1.4, 1.0, 0.7, 1.01, 1.0],
    )
    named = {"cell_id": "cell", "settings": "benchmark=false"}
    pairs = [
        {**named, "metric": metric, "block": block, "candidate": 10 * ratio, "baseline": 10.0}
        for metric, ratios in (("steady_device", device), ("steady_wall", wall))
        for block, ratio in enumerate(ratios)
    ]
    processes = [
        {**named, "block": block, "software": software, "engine": kernel}
        for software, kernels in ((None, own), ("last_good", good))
        for block, kernel in enumerate(kernels)
    ]
    fresh = FreshTrials(processes=processes, signs=[], pairs=pairs, softwares={})
    (candidate,) = screen_all(history_of(DEVICE_KEY, DEVICE, FIRST), Memory()).candidates
    judged = fresh.judge_all([candidate], TORCH, is_cut=False)[DEVICE_KEY]
    assert judged.wall is not None
    assert (judged.confirmation.state, judged.confirmation.blocks) == ("confirmed", 5)
    assert judged.wall.blocks == 5
    assert judged.wall.ratio == pytest.approx(1.004, abs=1e-3)
    alone = replace(fresh, processes=[{**row, "engine": None} for row in processes])
    undecided = alone.judge_all([candidate], TORCH, is_cut=False)[DEVICE_KEY]
    assert (undecided.confirmation.state, undecided.confirmation.blocks) == ("undecided", 7)


def test_what_shows_no_more_after_fresh_trials_is_refuted_or_what_they_say() -> None:
    nights = history([*STEADY, *SLOWER], new_torch_at=len(STEADY))
    suspected = screen_all(nights, Memory())
    screened = replace(suspected, candidates=())
    (candidate,) = suspected.candidates
    (gone,) = settle_all(suspected, screened, {}, nights, lambda _: "again")
    assert gone.state == "refuted"
    fresh = {candidate.key: pairs("confirmed")}
    (found,) = settle_all(suspected, screened, fresh, nights, lambda _: "again")
    assert found.state == "confirmed"
    old = replace(suspected, candidates=(replace(candidate, is_seen=False),))
    assert settle_all(old, screened, {}, nights, lambda _: "again") == []
