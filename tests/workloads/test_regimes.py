"""Every shape regime, at a size that it can vary."""

from itertools import islice
from statistics import median

import pytest

from cudnn_sweep.workloads.errors import WorkloadError
from cudnn_sweep.workloads.find_regime import make_regime, regime_types
from cudnn_sweep.workloads.problem import Shape

BASE = (8, 3, 96, 128)
LARGE = (8, 3, 640, 1280)  # every regime has room with its defaults


@pytest.mark.parametrize("name", sorted(regime_types()))
def test_regime_changes_only_what_it_says(name: str) -> None:
    rule = make_regime(name, {})
    for shape in islice(rule.stream(LARGE), 100):
        changed = {
            "batch": shape[0] != LARGE[0],
            "channels": shape[1] != LARGE[1],
            "space": shape[2:] != LARGE[2:],
        }
        assert all(part == rule.varies for part, differs in changed.items() if differs)
        assert all(size >= 1 for size in shape)


@pytest.mark.parametrize("name", sorted(regime_types()))
def test_closed_regime_repeats_its_period(name: str) -> None:
    rule = make_regime(name, {})
    period = rule.period(LARGE)
    if period is None:
        shapes = list(islice(rule.stream(LARGE), 500))
        assert len(set(shapes)) == 500, "an open regime never repeats a shape"
    else:
        assert tuple(islice(rule.stream(LARGE), 2 * len(period))) == period * 2


def test_size_is_held_for_some_steps_of_multi_scale_training() -> None:
    period = make_regime("multi_scale", {}).period((4, 3, 608, 608))
    assert period is not None and len(period) == 100
    assert {shape[2] for shape in period} == set(range(320, 609, 32))
    assert all(len(set(period[start : start + 10])) == 1 for start in range(0, 100, 10))


@pytest.mark.parametrize(
    ("name", "parameters", "period"),
    [
        ("cycle", {"sizes": 3, "step": 16}, (BASE, (8, 3, 80, 112), (8, 3, 64, 96))),
        ("last_partial_batch", {"full_batches": 2, "last": 0.5}, (BASE, BASE, (4, 3, 96, 128))),
        (
            "train_and_eval",
            {"train_steps": 2, "eval_steps": 1, "eval_batch": 4.0},
            (BASE, BASE, (32, 3, 96, 128)),
        ),
    ],
)
def test_shapes_of_a_period_are_what_the_parameters_say(
    name: str, parameters: dict[str, float], period: tuple[Shape, ...]
) -> None:
    assert make_regime(name, parameters).period(BASE) == period


def test_lengths_are_short_mostly_and_padded_to_their_bucket() -> None:
    base = (1, 3, 10_000)
    shapes = islice(make_regime("lengths", {"median": 0.1, "spread": 0.5}).stream(base), 300)
    lengths = [shape[2] for shape in shapes]
    assert median(lengths) == pytest.approx(1000, rel=0.2)
    assert max(lengths) > 2500
    padded = make_regime("lengths", {"buckets": 4, "draws": 200}).period(base)
    assert padded is not None
    assert {shape[2] for shape in padded} == {2500, 5000, 7500, 10_000}


@pytest.mark.parametrize("name", ["cycle", "fresh", "lengths", "multi_scale"])
def test_sizes_are_multiples_where_a_network_needs_it(name: str) -> None:
    rule = make_regime(name, {"multiple": 32})
    sizes = {size for shape in islice(rule.stream((8, 3, 650, 40_000)), 300) for size in shape[2:]}
    varied = sizes - {650} if name == "lengths" else sizes
    assert len(varied) > 1 and not any(size % 32 for size in varied)
    assert rule.parameters()["multiple"] == 32
    assert "multiple" not in make_regime(name, {}).parameters(), "its cells keep their ids"


def test_few_multiples_come_again_and_again() -> None:
    period = make_regime("fresh", {"multiple": 32}).period((8, 3, 128, 96))
    assert period is not None
    assert sorted(shape[2:] for shape in period) == [
        (high, wide) for high in (64, 96, 128) for wide in (64, 96)
    ]


def test_an_open_loop_needs_a_thousand_sizes() -> None:
    lengths, fresh = make_regime("lengths", {}), make_regime("fresh", {})
    assert lengths.period((1, 1, 1053)) is None
    assert fresh.period((1, 1, 1998)) is None
    for rule, base in ((lengths, (1, 1, 1052)), (fresh, (1, 1, 1996))):
        with pytest.raises(WorkloadError, match="1000"):
            rule.period(base)


def test_a_single_multiple_is_no_loop_of_fresh_sizes() -> None:
    fresh = make_regime("fresh", {"multiple": 64})
    assert sorted(fresh.period((1, 1, 128)) or ()) == [(1, 1, 64), (1, 1, 128)]
    with pytest.raises(WorkloadError, match="that are multiples of 64: found 1"):
        fresh.period((1, 1, 64))
