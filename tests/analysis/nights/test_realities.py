"""Few of the made-up nights of tests/studies: changes are found, false alerts are rare, targets are met."""

import numpy as np
import pytest
from scipy import stats

from cudnn_sweep.analysis.nights.detect import NO_CANDIDATE
from tests.studies.parts.detection import (
    Known,
    ScreenedHistories,
    by_nights,
    by_pairs,
    screened,
)
from tests.studies.parts.detection_figures import histories
from tests.studies.parts.night_words import WORDS, WordNights, try_words
from tests.studies.parts.realities import GROUP, REALITIES, findings_of, real_histories, try_reality
from tests.studies.parts.simulated_nights import HELD_TO_TARGETS, OTHERS

SERIES, NIGHTS = 200, 60
CHANCE = 1e-3  # of a failure where all is as promised
NOISES = {noise.name: noise for noise in HELD_TO_TARGETS + OTHERS}


@pytest.fixture
def generator() -> np.random.Generator:
    return np.random.default_rng(0)


def tried(name: str, step: float) -> ScreenedHistories:
    return screened(histories(NOISES[name], step, SERIES, NIGHTS, seed=1))


@pytest.mark.parametrize("name", [*(noise.name for noise in HELD_TO_TARGETS), "other_choices_0.5%"])
def test_changes_of_software_are_found_and_others_are_not(
    name: str, generator: np.random.Generator
) -> None:
    false = by_pairs(tried(name, 0.0), generator)
    assert false.raised.sum() <= stats.poisson.isf(CHANCE, 0.002 * SERIES)
    stepped = tried(name, 0.05)
    found = by_pairs(stepped, generator).found_within(3, stepped.histories.changed_at)
    assert found >= stats.binom.ppf(CHANCE, SERIES, 0.9)


def test_drifting_hardware_is_no_change_of_software(generator: np.random.Generator) -> None:
    drifting = tried("drift", 0.0)
    alerts = by_pairs(drifting, generator)
    assert alerts.raised.sum() <= stats.poisson.isf(CHANCE, 0.002 * SERIES)
    assert alerts.candidates > 2 * (tried("2%", 0.0).since != NO_CANDIDATE).sum()
    waited = by_nights(drifting)
    assert waited.found_within(30, drifting.histories.changed_at) > SERIES / 2


NAMED = {each.name: each for each in REALITIES}


@pytest.mark.slow
@pytest.mark.parametrize("reality", REALITIES, ids=lambda each: each.name)
def test_every_target_is_met(reality: object) -> None:
    found = try_reality(reality, 300, seed=1)  # type: ignore[arg-type]
    assert found.missed() == []


def test_a_bad_node_is_many_alerts_in_one_finding() -> None:
    histories = real_histories(NAMED["bad_node"], 300, seed=1)
    alerts = by_nights(
        ScreenedHistories(histories=histories, since=np.zeros(histories.values.shape, int))
    )
    assert alerts.known is not None
    alerting = (alerts.known == Known.CONFIRMED).reshape(3, GROUP, -1).sum(axis=1)
    assert alerting.max() > GROUP / 2
    for place in range(3):
        told = np.array(findings_of(alerts, slice(place * GROUP, (place + 1) * GROUP)))
        assert (told[alerting[place] > GROUP / 2] == 1).all()
        assert (told[alerting[place] == 0] == 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("words", WORDS, ids=lambda each: each.meaning)
def test_words_that_chance_draws_are_hardly_alerted_and_changes_are(words: WordNights) -> None:
    found = try_words(words, 60, NIGHTS, np.random.default_rng(0))
    assert not found.is_missed
    assert found.found is None or found.found >= 0.9


def test_kernels_that_a_search_draws_are_no_alerts() -> None:
    six = next(each for each in WORDS if "50 / 20" in each.meaning)
    assert try_words(six, 30, 40, np.random.default_rng(0)).alerts == 0
