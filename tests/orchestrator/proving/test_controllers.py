"""How busy drivers keep their slots, told from when trials ran."""

from datetime import UTC, datetime, timedelta

import pytest

from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.proving.controllers import Row, busy_of, measure_controllers

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


def row(slot: str, began_s: float, ended_s: float) -> Row:
    began, ended = (BEGAN + timedelta(seconds=seconds) for seconds in (began_s, ended_s))
    return {"slot": slot, "started_at": began, "ended_at": ended}


def test_share_is_of_the_time_from_all_slots_up_until_the_last_trial_begins() -> None:
    rows = [row("a", 0, 1), row("a", 1, 2), row("a", 2, 3), row("b", 1, 2), row("b", 3, 4)]
    busy = busy_of(rows, 2)
    assert (busy.trials, busy.slots, busy.window_s) == (5, 2, 2.0)
    assert busy.share == pytest.approx(3 / 4), "a all the time, b half of it"
    assert busy.trials_per_s == 1.5
    assert busy.quarters == [4.0, 0.0, 2.0, 0.0]


def test_a_slot_that_ran_nothing_counts_as_idle() -> None:
    assert busy_of([row("a", 0, 1), row("a", 1, 2)], 2).share == pytest.approx(1 / 2)


@pytest.mark.parametrize(("trials", "slots", "shards"), [(100, 64, 1), (1000, 10, 4)])
def test_a_load_that_would_tell_nothing_is_refused(trials: int, slots: int, shards: int) -> None:
    with pytest.raises(SpecError, match=f"{trials} trials on {slots} slots in {shards} shards"):
        measure_controllers("unused", trials=trials, slots=slots, sleep_s=1.0, shards=shards)
