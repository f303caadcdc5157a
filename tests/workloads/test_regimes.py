"""Every shape regime, at a size that it can vary."""

from itertools import islice

import pytest

from cudnn_sweep.workloads.errors import WorkloadError
from cudnn_sweep.workloads.regime import make_regime, regime_types

BASE = (8, 3, 96, 128)


@pytest.mark.parametrize("name", sorted(regime_types()))
def test_regime_changes_only_what_it_says(name: str) -> None:
    rule = make_regime(name, {})
    for shape in islice(rule.stream(BASE), 100):
        changed = {
            "batch": shape[0] != BASE[0],
            "channels": shape[1] != BASE[1],
            "space": shape[2:] != BASE[2:],
        }
        assert all(part == rule.varies for part, differs in changed.items() if differs)
        assert all(size >= 1 for size in shape)


@pytest.mark.parametrize("name", sorted(regime_types()))
def test_regime_gives_the_same_shapes_again(name: str) -> None:
    first, second = (list(islice(make_regime(name, {}).stream(BASE), 50)) for _ in range(2))
    assert first == second


@pytest.mark.parametrize("name", sorted(regime_types()))
def test_closed_regime_repeats_its_period(name: str) -> None:
    rule = make_regime(name, {})
    period = rule.period(BASE)
    if period is None:
        shapes = list(islice(rule.stream(BASE), 500))
        assert len(set(shapes)) == 500, "an open regime never repeats a shape"
    else:
        assert tuple(islice(rule.stream(BASE), 2 * len(period))) == period * 2


def test_cycle_goes_through_so_many_sizes() -> None:
    period = make_regime("cycle", {"sizes": 3, "step": 16}).period(BASE)
    assert period == ((8, 3, 96, 128), (8, 3, 80, 112), (8, 3, 64, 96))


def test_last_batch_of_an_epoch_is_smaller() -> None:
    period = make_regime("last_partial_batch", {"full_batches": 2, "last": 0.5}).period(BASE)
    assert period == (BASE, BASE, (4, 3, 96, 128))


@pytest.mark.parametrize(
    ("name", "parameters", "base", "message"),
    [
        ("often", {}, BASE, "unknown regime 'often'; allowed: cycle, fixed, fresh"),
        ("fixed", {"sizes": 3}, BASE, "unknown parameter 'sizes'; allowed: it takes none"),
        ("cycle", {"sizes": 1}, BASE, "sizes must be at least 2, found 1"),
        ("cycle", {"sizes": 2.5}, BASE, "sizes must be a whole number, found 2.5"),
        ("cycle", {"sizes": 9, "step": 16}, BASE, "do not fit"),
        ("fresh", {"smallest": 1.5}, BASE, "below 1, found 1.5"),
        ("fresh", {}, (1, 1, 4, 4), "fewer than 1000 sizes"),
        ("last_partial_batch", {"last": 0.5}, (1, 3, 8, 8), "a batch of 1 has no smaller one"),
    ],
)
def test_mistake_is_named(
    name: str, parameters: dict[str, float], base: tuple[int, ...], message: str
) -> None:
    with pytest.raises(WorkloadError) as error:
        make_regime(name, parameters).period(base)
    assert message in str(error.value)
