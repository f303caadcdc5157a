"""The question `computes`."""

from dataclasses import replace
from math import nan
from typing import Any

import pytest

from tests.analysis.conftest import Ask, make_pair, make_record


def test_each_config_says_how_often_it_gave_the_default_configs_bits(ask: Ask) -> None:
    trials = [trial for block in range(3) for trial in make_pair(block, 10.0, 5.0)]
    trials[5] = replace(trials[5], fingerprint="other-bits")
    trials.append(replace(trials[5], trial_id="alone", block=9))
    default, searched = ask("computes", trials)
    assert (default["benchmark"], default["processes"]) == (False, 3)
    assert (default["default_pairs"], default["same_as_default"]) == (0, 0)
    assert default["distinct_fingerprints"] == 1
    assert (searched["benchmark"], searched["processes"]) == (True, 4)
    assert (searched["default_pairs"], searched["same_as_default"]) == (3, 2)
    assert searched["distinct_fingerprints"] == 2


def test_the_default_config_is_compared_with_its_twin(ask: Ask) -> None:
    twin = make_record(trial_id="twin", twin=1, fingerprint="other-bits")
    (row,) = ask("computes", [make_record(), twin])
    assert (row["processes"], row["default_pairs"], row["same_as_default"]) == (2, 1, 0)


def test_one_process_that_does_not_repeat_its_bits_is_enough(ask: Ask) -> None:
    repeats = [True, True, None]
    trials = [make_record(trial_id=str(n), bitwise_repeatable=r) for n, r in enumerate(repeats)]
    (row,) = ask("computes", trials)
    assert row["bitwise_repeatable"] is True
    (row,) = ask("computes", [make_record(trial_id="wavers", bitwise_repeatable=False)])
    assert row["bitwise_repeatable"] is False


def test_processes_with_the_same_bits_share_their_error(ask: Ask) -> None:
    default, searched = make_pair(0, 10.0, 5.0)
    alike = replace(searched, relative_l2_error=None, relative_max_error=None)
    unlike = replace(alike, trial_id="unlike", block=1, fingerprint="other-bits")
    rows = ask("computes", [default, alike, unlike])
    for row in rows:
        assert row["processes_with_error"] == 1
        assert row["relative_l2_error"] == pytest.approx(0.002)
        assert row["relative_max_error"] == pytest.approx(0.004)


def test_trials_without_a_fingerprint_are_left_out(ask: Ask) -> None:
    assert ask("computes", [make_record(fingerprint=None)]) == []
    assert ask("computes", [make_record(trial_id="failed", status="crash")]) == []


def test_losses_of_configs_are_compared_within_their_blocks(ask: Ask) -> None:
    losses = [(2.0, 2.001), (2.0, 1.99)]
    trials = [
        replace(trial, loss_first=loss, loss_last=0.1, fingerprint=None)
        for block, pair in enumerate(losses)
        for trial, loss in zip(make_pair(block, 10.0, 5.0), pair, strict=True)
    ]
    default, searched = ask("computes", trials)
    assert (default["loss"], default["loss_pairs"], default["loss_difference"]) == (2.0, 0, None)
    assert (searched["processes"], searched["loss_pairs"]) == (0, 2)
    assert searched["loss_difference"] == pytest.approx(0.005)
    assert default["finite_losses"] is searched["finite_losses"] is True


@pytest.mark.parametrize("broken", [{"loss_first": nan}, {"loss_last": nan}])
def test_a_loss_that_is_no_number_is_told(ask: Ask, broken: dict[str, Any]) -> None:
    default, searched = (
        replace(trial, loss_first=2.0, loss_last=1.0) for trial in make_pair(0, 10.0, 5.0)
    )
    rows = ask("computes", [default, replace(searched, **broken)])
    assert [row["finite_losses"] for row in rows] == [True, False]


def test_what_is_no_training_has_no_loss(ask: Ask) -> None:
    (row,) = ask("computes", [make_record(loss_first=None, loss_last=None)])
    assert (row["loss"], row["loss_pairs"], row["finite_losses"]) == (None, 0, None)
