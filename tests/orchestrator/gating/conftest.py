"""What tests of gates and bisections share."""

from datetime import date

import pytest

from cudnn_sweep.orchestrator.gating import bisect, gate, repository
from tests.fake_machine import (
    FakeEffect,
    FakeMachine,
    FakeNoise,
    FakeScript,
)

STEP = """
import time, torch
from mine import work
def step(images: torch.Tensor) -> None:
    time.sleep(work.SECONDS)
"""


def made_up(*effects: FakeEffect, scatter: float = 0.003, seed: int = 0) -> FakeMachine:
    """`scatter`: of the time of a step, from process to process."""
    noise = FakeNoise(night=0.0, process=scatter)
    script = FakeScript(noise=noise, effects=list(effects), seed=seed)
    return FakeMachine(script=script, night=date(2026, 1, 1))


@pytest.fixture(autouse=True)
def _git_without_a_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function to call in the child makes Python fork, which takes 50 ms of a process as large as that of
    all tests. That git ends with its gate, a gate in a process of its own shows.
    """
    monkeypatch.setattr(repository, "die_with_parent", None)


@pytest.fixture
def briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Real processes measure a fifth of a second: one's step takes twice as long as the other's."""
    changes = {"warmup_s": 0.0, "warmup_limit_s": 0.0, "steady_budget_s": 0.2}
    for module in (gate, bisect):
        monkeypatch.setattr(module, "MEASURE", gate.MEASURE.model_copy(update=changes))
