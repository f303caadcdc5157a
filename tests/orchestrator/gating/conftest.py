"""What tests of gates and bisections share."""

from datetime import date

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
