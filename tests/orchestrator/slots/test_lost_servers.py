"""When a block that loses its fork server ends, and when a process counts as short of memory, of made-up slots."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from cudnn_sweep.orchestrator.errors import ServerError
from cudnn_sweep.orchestrator.planning.plan import Trial
from cudnn_sweep.orchestrator.process.protocol import Outcome
from cudnn_sweep.orchestrator.slots.block import (
    LOSSES,
    LOST,
    MEMORY,
    Block,
    Running,
    _crowded,
    _dropped,
)
from tests.makers import MakePlan

BEGAN = datetime.now(UTC) - timedelta(seconds=30)


class Slot:
    """A slot that runs trials one after another, and whose server dies with the first trial."""

    def __init__(self) -> None:
        self.measuring = SimpleNamespace(in_turns=False)
        self.recorded: list[tuple[str, Outcome, str]] = []
        self.renewed: list[str] = []

    def start(self, trial: Trial, attempt: int, **_: bool) -> Running:
        server: Any = SimpleNamespace(hear=lambda _: self._hear(trial))
        return Running(
            trial=trial,
            attempt=attempt,
            server=server,
            number=0,
            follows=False,
            new_cache=False,
            started_at=BEGAN,
        )

    def _hear(self, trial: Trial) -> Outcome:
        if not self.renewed:
            raise ServerError("the fork server died")
        return Outcome(started_at=BEGAN, ended_at=BEGAN, process_s=1.0)

    def renew(self, trials: list[Trial]) -> None:
        self.renewed += [trial.trial_id for trial in trials]

    def record(self, running: Running, *, alone_reason: str) -> None:
        assert running.outcome is not None
        self.recorded.append((running.trial.trial_id, running.outcome, alone_reason))


@pytest.mark.parametrize("attempt", [1, LOSSES, LOSSES + 1])
def test_only_a_trial_that_was_lost_twice_before_is_recorded_as_what_killed_its_server(
    plan_of: MakePlan, attempt: int
) -> None:
    trials, slot = plan_of("noop").trials[:2], Slot()
    any_slot: Any = slot
    records = Block(any_slot, trials, lambda _: attempt).measure()
    if attempt <= LOSSES:
        with pytest.raises(ServerError, match="the fork server died"):
            list(records)
        return
    list(records)
    (first, crash, why), (second, ok, _) = slot.recorded
    assert [first, second] == [trial.trial_id for trial in trials]
    assert slot.renewed == [first]
    assert (crash.status, ok.status, why) == ("crash", "ok", LOST)
    assert crash.message is not None
    assert crash.message.endswith("while this trial ran alone after 2 lost attempts")
    assert crash.process_s == (crash.ended_at - BEGAN).total_seconds()


def test_a_server_that_dies_before_the_first_trial_begins_is_an_error(plan_of: MakePlan) -> None:
    def dead(trial: Trial) -> int:
        raise ServerError("the fork server died")

    slot: Any = Slot()
    with pytest.raises(ServerError):
        list(Block(slot, plan_of("noop").trials, dead).measure())


@pytest.mark.parametrize(
    ("free", "total", "alone"),
    [(49, 100, MEMORY), (50, 100, None), (None, 100, None), (49, None, None)],
)
def test_a_process_runs_alone_if_less_than_half_of_the_memory_is_free(
    free: int | None, total: int | None, alone: str | None
) -> None:
    report: Any = SimpleNamespace(free_bytes=free, total_bytes=total)
    assert _crowded(report) == alone


@pytest.mark.parametrize(
    ("free", "workspaces", "dropped"),
    [
        ((10, 20), (0, 11), True),
        ((10, 20), (0, 20), True),
        ((10, 20), (0, 10), False),
        ((10, 20), (0, 21), False),
        ((None, 20), (None, 15), False),
        ((None, None), (5, 5), False),
    ],
)
def test_a_plan_may_be_dropped_if_its_workspace_fits_only_into_the_most_free_memory(
    free: tuple[int | None, ...], workspaces: tuple[int | None, ...], dropped: bool
) -> None:
    records: Any = [
        SimpleNamespace(cold_free_bytes=bytes_free, logged_largest_workspace_bytes=workspace)
        for bytes_free, workspace in zip(free, workspaces, strict=True)
    ]
    assert _dropped(records) is dropped
