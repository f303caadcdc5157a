from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from cudnn_sweep.analysis.nightly.gate import FEWEST_NIGHTS, NO_CANDIDATE, screen
from cudnn_sweep.analysis.nightly.metric import STEADY_WALL
from tests.studies.parts.detection import (
    ScreenedHistories,
    all_knowing,
    by_pairs,
    by_waiting,
    over_last_month,
    over_last_night,
    pair_ratios,
    screened,
)
from tests.studies.parts.detection_figures import Rate, histories, save_histories
from tests.studies.parts.realities import REALITIES
from tests.studies.parts.simulated_nights import (
    HELD_TO_TARGETS,
    OTHER_CHOICE,
    OTHERS,
    NightNoise,
    make_histories,
)

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
    waited = by_waiting(drifting)
    assert waited.found_within(30, drifting.histories.changed_at) > SERIES / 2


def test_a_night_is_slow_where_most_of_its_processes_choose_the_slow_kernel() -> None:
    values = tried("other_choices_0.5%", 0.0).histories.values
    of_three = stats.binom(3, 0.2).sf(1)
    low, high = stats.binom(values.size, of_three).interval(1 - CHANCE)
    assert low <= (values > OTHER_CHOICE / 2).sum() <= high


def test_waiting_finds_more_each_night_and_a_laxer_rule_more_and_more_that_is_nothing() -> None:
    still, stepped = tried("2%_common", 0.0), tried("2%_common", 0.05)
    found = {
        z: [
            by_waiting(stepped, z).found_within(n, stepped.histories.changed_at) for n in (3, 7, 14)
        ]
        for z in (3.0, 4.5)
    }
    assert found[3.0] > found[4.5]
    assert all(found[z] == sorted(found[z]) for z in found)
    assert found[4.5][-1] >= stats.binom.ppf(CHANCE, SERIES, 0.9)
    assert by_waiting(still, 4.5).raised.sum() <= 4 < by_waiting(still, 3.0).raised.sum()
    ideal = all_knowing(stepped, 3.5).found_within(3, stepped.histories.changed_at)
    assert ideal > by_waiting(stepped, 3.0).found_within(3, stepped.histories.changed_at)


def test_the_fixed_rule_is_wrong_as_often_as_the_noise_says() -> None:
    still = tried("2%_common", 0.0)
    chance = stats.norm.sf(np.log(1.07), scale=0.02 * 2**0.5)
    nights = SERIES * (NIGHTS - FEWEST_NIGHTS + 1)
    low, high = stats.binom.ppf([CHANCE, 1 - CHANCE], nights, chance)
    assert low <= over_last_night(still).raised.sum() <= high
    assert over_last_month(still).raised.sum() < low


def test_candidates_are_those_of_the_screen_of_one_series() -> None:
    many = tried("4%", 0.05)
    for series in range(20):
        for night in (FEWEST_NIGHTS - 2, 20, 40, 59):
            values = np.exp(many.histories.values[series, : night + 1])
            found = screen(list(values), STEADY_WALL)
            since = found.first_bad_night_index if found.state == "worse" else None
            assert many.since[series, night] == (NO_CANDIDATE if since is None else since)


@pytest.mark.parametrize("name", [noise.name for noise in HELD_TO_TARGETS])
def test_noise_is_as_large_as_stated_in_each_of_its_parts(
    name: str, generator: np.random.Generator
) -> None:
    noise = NOISES[name]
    made = make_histories(noise, 0.0, 2000, 20, generator)
    assert made.values.std() == pytest.approx(0.02, rel=0.02)
    assert noise.common**2 + 0.4487 * noise.process**2 == pytest.approx(0.02**2, rel=1e-3)
    ratios = pair_ratios(noise, np.zeros(2000), 10, generator)
    assert ratios.std() == pytest.approx(noise.process * 2**0.5, rel=0.02)


def test_steps_drifts_and_spikes_are_where_they_are_said_to_be(
    generator: np.random.Generator,
) -> None:
    quiet = NightNoise(name="quiet", meaning="", in_all=1e-6)
    stepped = make_histories(quiet, 0.05, 50, 60, generator)
    assert np.allclose(stepped.values, stepped.effect, atol=1e-4)
    first = (stepped.effect > 0).argmax(axis=1)
    assert (first == stepped.changed_at).all()
    drifting = make_histories(replace(quiet, is_drifting=True), 0.0, 50, 60, generator)
    assert not drifting.effect.any()
    assert np.allclose(np.ptp(drifting.values, axis=1).max(), np.log(1.05), atol=1e-4)
    spiked = make_histories(replace(quiet, spike_share=0.02), 0.0, 500, 60, generator)
    low, high = stats.binom.ppf([CHANCE, 1 - CHANCE], 500 * 60, 0.02)
    assert low <= (spiked.values > 0.09).sum() <= high


def test_an_alert_that_lasts_is_counted_once_and_a_rate_has_an_error() -> None:
    lasting = tried("1%", 0.1)
    assert over_last_month(lasting).raised.sum() < 3 * SERIES
    assert Rate(alerts=0, series=2000).error > 0


def test_saved_histories_are_those_that_were_tried(tmp_path: Path) -> None:
    save_histories(tmp_path / "nights.npz", 20, 30, seed=1)
    with np.load(tmp_path / "nights.npz") as saved:
        parts = {f"{name}/{part}" for name in NOISES for part in ("still", "stepped", "changed_at")}
        assert set(saved) == parts | {f"reality/{each.name}" for each in REALITIES}
        same = histories(NOISES["spikes"], 0.05, 20, 30, seed=1)
        np.testing.assert_array_equal(saved["spikes/stepped"], np.exp(same.values))
