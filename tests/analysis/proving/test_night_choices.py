from dataclasses import replace

import numpy as np
import pytest

from cudnn_sweep.analysis.nightly.confirmation import judge_pairs
from cudnn_sweep.analysis.proving.detection import MIN_EFFECT
from cudnn_sweep.analysis.proving.night_choices import (
    CHANGES,
    Change,
    make_nights,
    pairs_apart,
    share_alerts,
    told_apart,
    try_change,
)

SERIES, NIGHTS = 200, 60
STILL = Change(meaning="still", in_all=0.02, slower=0.1, share=0.2, share_after=0.2)


@pytest.fixture
def dice() -> np.random.Generator:
    return np.random.default_rng(1)


def test_told_apart_a_night_is_what_it_was_without_the_slower_kernel(
    dice: np.random.Generator,
) -> None:
    """But for how far apart the kernels are, which is learned from a month."""
    nights = make_nights(replace(STILL, in_all=0.001), SERIES, NIGHTS, dice)
    late = slice(30, None)
    assert nights.histories.values[:, late].std() > 0.02, (
        "slow kernels in most processes of a night"
    )
    assert told_apart(nights).values[:, late].std() < 0.002


def test_pairs_of_one_kernel_judge_as_pairs_do_where_no_process_chooses(
    dice: np.random.Generator,
) -> None:
    ratios = np.log(1.05) + 0.03 * dice.normal(size=(SERIES, 24))
    is_slower, _ = pairs_apart(ratios, np.zeros((SERIES, 24, 2), bool), 24)
    assert is_slower.tolist() == judge_pairs(ratios, MIN_EFFECT).is_confirmed.tolist()
    assert 0 < is_slower.sum() < SERIES


@pytest.mark.parametrize(
    ("before", "after", "grows"), [(4, 20, True), (4, 4, False), (20, 4, False), (4, 10, False)]
)
def test_a_share_of_24_processes_has_grown_where_it_is_beyond_a_fifth_more(
    before: int, after: int, grows: bool
) -> None:
    slow = np.stack([np.arange(24) < before, np.arange(24) < after], axis=-1)[None]
    is_confirmed, _ = pairs_apart(np.zeros((1, 24)), slow, 24)
    assert is_confirmed.tolist() == [grows]


def test_a_share_that_stays_alerts_nowhere_and_one_that_grows_in_almost_every_series(
    dice: np.random.Generator,
) -> None:
    assert not share_alerts(make_nights(STILL, SERIES, NIGHTS, dice)).any()
    grown = make_nights(replace(STILL, share_after=0.9), SERIES, NIGHTS, dice)
    since = np.arange(NIGHTS) - grown.histories.changed_at[:, None]
    alerts = share_alerts(grown)
    assert not (alerts & (since < 0)).any()
    assert alerts.any(axis=1).mean() > 0.95


def test_told_apart_more_steps_are_found_with_no_more_false_alerts(
    dice: np.random.Generator,
) -> None:
    step = next(
        each for each in CHANGES if each.step and each.slower == 0.1 and each.in_all == 0.02
    )
    figures = try_change(make_nights(step, SERIES, NIGHTS, dice), dice)
    assert figures.pairs_apart.found > figures.pairs.found + 0.1 * SERIES
    assert figures.pairs_alone.found > figures.pairs.found + 0.1 * SERIES
    assert figures.waiting_apart.found > figures.waiting.found
    assert not any(
        each.false_alerts for each in (figures.pairs, figures.pairs_alone, figures.pairs_apart)
    )
