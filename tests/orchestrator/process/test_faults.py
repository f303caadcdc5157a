"""Whose fault a failed process is."""

from datetime import UTC, datetime

from cudnn_sweep.orchestrator.errors import ModelError, SpecError
from cudnn_sweep.orchestrator.process.client import _fault_of
from cudnn_sweep.orchestrator.process.protocol import Outcome, Reply

NOW = datetime(2026, 11, 2, tzinfo=UTC)


def ended(reply: Reply | None) -> Outcome:
    return Outcome(reply=reply, started_at=NOW, ended_at=NOW, process_s=1.0)


def test_a_mistake_in_the_request_is_told_from_a_failure_of_the_model() -> None:
    assert _fault_of(ended(Reply(status="error", is_mistake=True))) is SpecError
    assert _fault_of(ended(Reply(status="error"))) is ModelError
    assert _fault_of(ended(None)) is ModelError
