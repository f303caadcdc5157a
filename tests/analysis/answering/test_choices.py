"""The questions `choice_stability`, `what_was_chosen` and `computes`."""

from dataclasses import replace
from math import nan
from typing import Any

import pytest

from cudnn_sweep.analysis.asking.database import open_database
from cudnn_sweep.analysis.storing.schema import RunRecord
from cudnn_sweep.analysis.storing.store import Store
from tests.analysis.conftest import Ask, make_pair, make_record


def test_a_choices_kernels_are_its_convolutions_in_order(ask: Ask) -> None:
    record = make_record()
    conversion, convolution = record.kernels or []
    kernels = [convolution, conversion, replace(convolution, name="dgrad"), conversion]
    (row,) = ask("choice_stability", [replace(record, kernels=kernels, layout_conversions=2)])
    assert row["kernels"] == [convolution.name, "dgrad"]
    assert row["layout_conversions"] == 2
    assert row["layout_conversion_ms"] == 0.9
    assert row["layout_conversion_share"] == pytest.approx(0.9 / 9.0)


def test_engines_are_those_of_logs_that_saw_the_most_common_choice(ask: Ask) -> None:
    usual = make_record(kernels_hash="usual")
    (logged,) = usual.logged_choices or []
    odd_log = [replace(logged, engine="another")]
    trials = [
        replace(usual, trial_id="unlogged", logged_choices=None, logged_kernels_agree=None),
        replace(usual, trial_id="agrees"),
        replace(usual, trial_id="differs", logged_choices=odd_log, logged_kernels_agree=False),
        replace(usual, trial_id="odd", kernels_hash="odd", logged_choices=odd_log),
    ]
    (row,) = ask("choice_stability", trials)
    assert row["logged_engines"] == [logged.engine]
    assert row["logged_workspace_bytes"] == 9216
    assert (row["logs_taken"], row["logs_that_agree"]) == (3, 2)


def test_kernels_of_the_profiler_are_not_compared_with_those_of_a_graph(ask: Ask) -> None:
    seen = make_record(trial_id="b", kernels_source="profiler", kernels_hash="without grids")
    rows = ask("choice_stability", [make_record(trial_id="a"), seen])
    assert [(row["kernels_source"], row["cell_choices"]) for row in rows] == [
        ("graph", 1),
        ("profiler", 1),
    ]


def test_entropy_is_that_of_the_choices_shares(ask: Ask) -> None:
    drawn = {"a": ("x", 4.0), "b": ("x", 6.0), "c": ("y", 10.0), "d": ("z", 20.0)}
    processes = [
        make_record(trial_id=trial, kernels_hash=choice, steady_device_ms=ms)
        for trial, (choice, ms) in drawn.items()
    ]
    (row,) = ask("choice_stability", processes)
    assert row["choice_share"] == 0.5
    assert row["entropy_bits"] == pytest.approx(0.5 * 1 + 2 * 0.25 * 2)
    assert row["slowest_choice_ratio"] == pytest.approx(20 / 5)


def test_other_kernels_are_counted_and_timed_apart(ask: Ask) -> None:
    pairs = [make_pair(block, 10.0, candidate) for block, candidate in enumerate([5.0, 5.0, 11.0])]
    baseline, candidate = pairs[2]
    same = [replace(candidate, kernels_hash=baseline.kernels_hash, kernels=baseline.kernels)]
    unknown = replace(make_pair(3, 10.0, 1.0)[1], kernels_hash=None)
    for _, found in pairs[:2]:
        same.append(_searched(found))
    trials = [pair[0] for pair in pairs] + same + [make_pair(3, 10.0, 1.0)[0], unknown]
    (row,) = ask("what_was_chosen", trials)
    assert (row["blocks"], row["blocks_with_other_kernels"]) == (3, 2)
    assert row["other_kernels_share"] == pytest.approx(2 / 3)
    assert row["other_kernels_device_ratio"] == pytest.approx(0.5)
    assert row["same_kernels_device_ratio"] == pytest.approx(1.1)
    assert row["baseline_kernels"] == ["sm90_xmma_fprop_implicit_gemm_bf16"]
    assert row["candidate_kernels"] == ["found by a search"]
    assert (row["contrast"], row["no_effect_reason"]) == ("benchmark: false → true", None)


def test_kernels_of_two_sources_are_not_called_other_ones(ask: Ask) -> None:
    baseline, candidate = make_pair(0, 10.0, 5.0)
    assert ask("what_was_chosen", [baseline, replace(candidate, kernels_source="profiler")]) == []


def test_a_twin_may_draw_other_kernels(ask: Ask) -> None:
    twin = _searched(make_record(trial_id="twin", twin=1, kernels_hash="another"))
    contrast = {"field": "twin", "baseline": "0", "candidate": "1"}
    (row,) = ask("what_was_chosen", [make_record(), twin], **contrast)
    assert row["blocks_with_other_kernels"] == 1


def test_what_an_unlimited_search_gains_stands_beside_the_contrast(ask: Ask) -> None:
    trials = []
    for block in range(2):
        default, searched = make_pair(block, 10.0, 5.0)
        unlimited = replace(searched, trial_id=f"unlimited-{block}", benchmark_limit=0)
        trials += [default, searched, replace(unlimited, steady_device_ms=0.9 * 4.0)]
    (row,) = ask("what_was_chosen", trials)
    assert (row["unlimited_blocks"], row["blocks"]) == (2, 2)
    assert row["unlimited_device_ratio"] == pytest.approx(4 / 5)
    contrast = {"field": "benchmark_limit", "baseline": "10", "candidate": "0"}
    (row,) = ask("what_was_chosen", [], **contrast)
    assert row["contrast"] == "benchmark_limit: 10 → 0"
    assert row["same_kernels_device_ratio"] == pytest.approx(4 / 5)


def _searched(record: RunRecord) -> RunRecord:
    conversion, convolution = record.kernels or []
    return replace(record, kernels=[conversion, replace(convolution, name="found by a search")])


@pytest.mark.parametrize(
    ("blocks", "words"),
    [
        (2, "in one half 0.93; in 1 of 2 processes 0.86"),
        (3, "usually 0.93; in 1 of 3 processes 0.86"),
    ],
)
def test_of_two_processes_neither_is_usual(kept_store: Store, blocks: int, words: str) -> None:
    asked = f"select in_choices(2, {blocks}, {blocks - 1}, ln(0.93), [ln(0.86)], 0.03) as said"
    with open_database(kept_store) as database:
        assert database.query(asked).to_pylist() == [{"said": words}]


def test_each_side_shows_its_most_common_choice(ask: Ask) -> None:
    pairs = [make_pair(block, 10.0, 5.0) for block in range(3)]
    engine = [replace(choice, engine="searched") for choice in pairs[0][0].logged_choices or []]
    usual = [
        replace(_searched(found), layout_conversions=0, layout_conversion_ms=0.0)
        for _, found in pairs[:2]
    ]
    usual[1] = replace(usual[1], logged_choices=engine)
    usual[0] = replace(usual[0], logged_kernels_agree=False)
    odd = replace(pairs[2][1], kernels_hash="another")
    (row,) = ask("what_was_chosen", [pair[0] for pair in pairs] + usual + [odd])
    assert (row["baseline_choice"], row["candidate_choice"]) == (
        "kernels-heuristic",
        "kernels-search",
    )
    assert row["baseline_choice_share"] == 1
    assert row["candidate_choice_share"] == pytest.approx(2 / 3)
    assert row["baseline_engines"] == ["ConvFwd_eng62_k2=0"]
    assert row["candidate_engines"] == ["searched"], "of a log that saw the same kernels"
    assert (row["baseline_layout_conversions"], row["candidate_layout_conversions"]) == (1, 0)
    assert row["baseline_layout_conversion_share"] == pytest.approx(0.9 / 9.0)
    assert row["candidate_layout_conversion_share"] == 0


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
