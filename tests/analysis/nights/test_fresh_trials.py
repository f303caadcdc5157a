"""Fresh trials of a night's candidates: which pairs and words they make, and what these decide."""

from collections.abc import Sequence
from datetime import date
from typing import Any

import pytest

from cudnn_sweep.analysis.nights.candidates import Candidate, FreshTrials, Remeasured
from cudnn_sweep.analysis.nights.detect import LOOKS
from cudnn_sweep.analysis.nights.history import SOFTWARE_AND_COMMIT
from cudnn_sweep.analysis.nights.series import Change, Screening, Series, SeriesKey
from tests.made_up_night import key_of, points_of

TORCH = (Change(part="torch", before="2.11", now="2.12"),)
NAME = "benchmark=false"


def fresh(
    metric: str, ratios: list[float], walls: list[float] | None = None, *, alike: int = 99
) -> FreshTrials:
    """A block for each ratio; kernels are alike in the first `alike` blocks. Another cell has its own."""
    measured = {metric: ratios} | ({} if walls is None else {"steady_wall": walls})
    pairs = [
        {
            "metric": name,
            "cell_id": cell_id,
            "settings": NAME,
            "block": block,
            "baseline": 10.0,
            "candidate": 10.0 * ratio * (1 if cell_id == "cell" else 2),
        }
        for name, values in measured.items()
        for block, ratio in enumerate(values)
        for cell_id in ("cell", "other")
    ]
    processes = [
        process(software, block=block, engine="a" if software or block < alike else "b")
        for block in range(len(ratios))
        for software in (None, "last_good")
    ]
    return FreshTrials(processes=processes, signs=[], pairs=pairs, softwares={})


def process(software: str | None, **columns: Any) -> dict[str, Any]:
    usual = {"cell_id": "cell", "settings": NAME, "software": software, "software_hash": software}
    return {**usual, "block": 0, "engine": None, "repeats": None, "failure": "ok"} | columns


def candidate(key: SeriesKey, before: float | str | None = 10.0) -> Candidate:
    return Candidate(
        series=Series(key=key, points=points_of([before, before], date(2026, 11, 1))),
        direction="worse",
        since=1,
        screening=Screening(state="worse", nights=8, before=before),
        is_seen=True,
        earlier=None,
        left_out=frozenset(),
    )


def judged(
    trials: FreshTrials,
    metric: str,
    before: float | str | None = 10.0,
    *,
    is_cut: bool = False,
    of_two: tuple[Change, ...] | None = TORCH,
) -> Remeasured | None:
    key = key_of(metric, settings=NAME)
    return trials.judge_all([candidate(key, before)], of_two, is_cut=is_cut).get(key)


SLOWER = [1.05, 1.051, 1.049, 1.05, 1.052, 1.048]


def test_pairs_of_a_cell_and_config_are_judged_from_the_first_look_on() -> None:
    found = judged(fresh("steady_wall", SLOWER), "steady_wall")
    assert found is not None and found.confirmation.state == "confirmed"
    assert found.confirmation.ratio == pytest.approx(1.05, rel=1e-3)
    assert (found.confirmation.blocks, found.of_two, found.wall) == (6, TORCH, None)
    early = judged(fresh("steady_wall", SLOWER[: min(LOOKS) - 1]), "steady_wall")
    assert early is not None and early.confirmation.state == "undecided"
    assert judged(fresh("steady_wall", SLOWER), "steady_wall", of_two=None) is None


def test_device_times_come_with_the_wall_times_of_the_same_pairs() -> None:
    walls = [1.0, 1.01, 0.99, 1.0, 1.01, 0.99]
    both = judged(fresh("steady_device", SLOWER, walls), "steady_device")
    assert both is not None and both.wall is not None
    assert (both.confirmation.state, both.wall.state) == ("confirmed", "refuted")
    fewer = judged(fresh("steady_device", SLOWER, walls[:5]), "steady_device")
    assert fewer is not None and fewer.wall is None
    odd = [*SLOWER[:5], 0.5, 0.5]
    of_alike = judged(fresh("steady_device", odd, [*walls, 9.0], alike=5), "steady_device")
    assert of_alike is not None and of_alike.wall is not None
    assert (of_alike.confirmation.blocks, of_alike.wall.blocks) == (5, 5)
    assert of_alike.wall.ratio == pytest.approx(1.002, abs=1e-3)
    alone = judged(fresh("steady_device", SLOWER), "steady_device")
    assert alone is not None and alone.wall is None


def words(metric: str, own: Sequence[str | None], good: Sequence[str | None]) -> FreshTrials:
    rows = [process(None, **{metric: word}) for word in own]
    rows += [process("last_good", **{metric: word}) for word in good]
    rows.append(process(None, cell_id="other", **{metric: "elsewhere"}))
    return FreshTrials(processes=rows, signs=[], pairs=[], softwares={})


@pytest.mark.parametrize(
    ("own", "good", "is_cut", "state", "is_software"),
    [
        (["b"] * 6, ["a"] * 6, False, "confirmed", True),
        (["b"] * 6, ["a", "b"], False, "confirmed", False),
        (["b"] * 6, [], False, "confirmed", False),
        (["b"] * 3 + ["a"] * 3, ["a"], False, "refuted", False),
        (["b"] * 4 + ["a"] * 2, ["a"], False, "confirmed", True),
        (["b"] * 5, ["a"], False, "confirmed", True),
        (["b"] * 5, ["a"], True, "undecided", False),
        (["b"] * 6, ["a"], True, "confirmed", True),
        ([None] * 6, ["a"], False, "undecided", False),
    ],
)
def test_most_fresh_words_decide_and_the_last_good_software_names_the_cause(
    own: list[str | None], good: list[str | None], is_cut: bool, state: str, is_software: bool
) -> None:
    found = judged(words("engine", own, good), "engine", "a", is_cut=is_cut)
    assert found is not None and found.confirmation.state == state
    assert found.of_two == (TORCH if is_software else None)


def test_one_process_whose_bits_differ_is_enough() -> None:
    bits = words("repeats", ["repeat"] * 5 + ["differ"], ["repeat"])
    found = judged(bits, "repeats", "repeat")
    assert found is not None and found.confirmation.state == "confirmed"
    engines = judged(words("engine", ["a"] * 5 + ["b"], ["a"]), "engine", "a")
    assert engines is not None and engines.confirmation.state == "refuted"


def test_what_was_not_measured_again_is_missing() -> None:
    """A process of any config shows that the cell can be measured."""
    none = FreshTrials(processes=[process("last_good")], signs=[], pairs=[], softwares={})
    found = judged(none, "missing", "present")
    assert found is not None and found.confirmation.state == "confirmed"
    assert found.of_two == TORCH
    cut = judged(none, "missing", "present", is_cut=True)
    assert cut is not None and cut.confirmation.state == "undecided"
    there = replace_processes(none, [process(None, settings="benchmark=true")] * 6)
    found = judged(there, "missing", "present")
    assert found is not None and found.confirmation.state == "refuted"


def replace_processes(trials: FreshTrials, rows: list[dict[str, Any]]) -> FreshTrials:
    return FreshTrials(processes=rows, signs=trials.signs, pairs=[], softwares={})


def test_signs_are_those_of_each_software() -> None:
    def sign(software: str, word: str, cell_id: str = "cell") -> dict[str, Any]:
        return {"software_hash": software, "word": word, "cell_id": cell_id, "settings": NAME}

    trials = FreshTrials(
        processes=[process(None, software_hash="own"), process("last_good", software_hash="good")],
        signs=[sign("own", "hurts"), sign("own", "helps", "other"), sign("good", "helps")],
        pairs=[],
        softwares={},
    )
    found = judged(trials, "sign", "helps", is_cut=True)
    assert found is not None and found.confirmation.state == "confirmed"
    assert found.of_two == TORCH
    undecided = FreshTrials(
        processes=trials.processes, signs=[sign("own", "inconclusive")], pairs=[], softwares={}
    )
    found = judged(undecided, "sign", "helps")
    assert found is not None and found.confirmation.state == "undecided"


def test_two_softwares_differ_in_what_only_one_has() -> None:
    same = dict.fromkeys(SOFTWARE_AND_COMMIT, "same")
    own, good = same | {"torch": "2.12"}, same | {"torch": "2.11"}

    def of(softwares: dict[str | None, Any]) -> tuple[Change, ...] | None:
        return FreshTrials(processes=[], signs=[], pairs=[], softwares=softwares).differences()

    assert of({None: own, "last_good": good}) == TORCH
    assert of({None: own}) is None
    assert of({"last_good": good}) is None
