"""Nights as they come: the targets are met. That alerts are the judge's is tested in test_memory.py."""

import numpy as np
import pytest

from cudnn_sweep.analysis.nightly.memory import Known
from tests.studies.parts.detection import ScreenedHistories, by_waiting
from tests.studies.parts.realities import (
    GROUP,
    REALITIES,
    findings_of,
    real_histories,
    try_reality,
)

NAMED = {each.name: each for each in REALITIES}


@pytest.mark.parametrize("reality", REALITIES, ids=lambda each: each.name)
def test_every_target_is_met(reality: object) -> None:
    found = try_reality(reality, 300, seed=1)  # type: ignore[arg-type]
    assert found.missed() == []


def test_without_memory_the_targets_would_be_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What nights did before: those of an alert are compared with as any other."""
    keeping = "tests.studies.parts.detection._Following._remember"
    monkeypatch.setattr(keeping, lambda self, tonight: None)
    assert "alerts that stay" in try_reality(NAMED["never_mended_1%"], GROUP, seed=1).missed()
    assert "a second alert" in try_reality(NAMED["again"], GROUP, seed=1).missed()


def test_a_bad_node_is_many_alerts_in_one_finding() -> None:
    histories = real_histories(NAMED["bad_node"], 300, seed=1)
    alerts = by_waiting(
        ScreenedHistories(histories=histories, since=np.zeros(histories.values.shape, int))
    )
    assert alerts.known is not None
    alerting = (alerts.known == Known.ALERTS).reshape(3, GROUP, -1).sum(axis=1)
    assert alerting.max() > GROUP / 2
    for place in range(3):
        told = np.array(findings_of(alerts, slice(place * GROUP, (place + 1) * GROUP)))
        assert (told[alerting[place] > GROUP / 2] == 1).all()
        assert (told[alerting[place] == 0] == 0).all()
