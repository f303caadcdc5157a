"""Nights that measured otherwise are no baseline, and that is said once."""

from __future__ import annotations

from datetime import date, timedelta

from cudnn_sweep.analysis.nightly.history import HARDWARE, History, Measured, Night
from cudnn_sweep.orchestrator.nightly.compare import _new_baseline


def nights(*in_turns: bool) -> History:
    found = []
    for at, turns in enumerate(in_turns):
        day = date(2026, 11, 1) + timedelta(days=at)
        parts = dict.fromkeys(HARDWARE, "same")
        measured = Measured(env_hash="lab", software_hash="s", parts=parts, recorded=10)
        found.append(
            Night(
                sweep_id=f"night-{day}-lab",
                date=day,
                planned=10,
                reached=10,
                measured=(measured,),
                in_turns=turns,
            )
        )
    return History(nights=tuple(found), series=(), workloads={})


def test_first_night_in_turns_opens_a_new_baseline_and_the_next_one_says_nothing() -> None:
    first, second = nights(False, False, True), nights(False, False, True, True)
    assert _new_baseline(first) == (
        "processes of a block take turns, unlike in the 2 nights before"
    )
    assert len(first.comparable("lab")) == 1
    assert _new_baseline(second) is None
    assert len(second.comparable("lab")) == 2


def test_nights_that_all_measured_alike_are_one_baseline() -> None:
    for in_turns in (False, True):
        assert _new_baseline(nights(in_turns, in_turns)) is None
        assert len(nights(in_turns, in_turns).comparable("lab")) == 2
