"""Every shape regime, at a size that it can vary."""

from itertools import islice
from statistics import median
from typing import Any

import pytest

from cudnn_sweep.workloads.errors import WorkloadError
from cudnn_sweep.workloads.find_regime import make_regime, regime_types
from cudnn_sweep.workloads.problem import Shape
from cudnn_sweep.workloads.regimes import fresh as fresh_sizes
from cudnn_sweep.workloads.regimes import lengths as lengths_drawn

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
    with pytest.raises(WorkloadError, match="found 1 sizes up to .* that are multiples of 64"):
        fresh.period((1, 1, 64))


USUAL: dict[str, dict[str, float]] = {
    "fixed": {},
    "cycle": {"sizes": 4, "step": 16},
    "multi_scale": {"sizes": 10, "step": 32, "hold": 10, "seed": 0},
    "last_partial_batch": {"full_batches": 7, "last": 0.5},
    "train_and_eval": {"train_steps": 20, "eval_steps": 5, "eval_batch": 2.0},
    "fresh": {"smallest": 0.5, "seed": 0},
    "lengths": {
        "median": 0.2,
        "spread": 0.8,
        "shortest": 0.05,
        "buckets": 0,
        "draws": 100,
        "seed": 0,
    },
}


def test_usual_parameters_are_those_of_stored_cells() -> None:
    assert {name: make_regime(name, {}).parameters() for name in regime_types()} == USUAL


@pytest.mark.parametrize(
    ("name", "parameter", "allowed", "refused"),
    [
        *((name, "multiple", [1, 64], [0]) for name in ("cycle", "fresh", "lengths")),
        ("cycle", "sizes", [2], [1]),
        ("cycle", "step", [1], [0]),
        ("multi_scale", "sizes", [2], [1]),
        ("multi_scale", "step", [1], [0]),
        ("multi_scale", "hold", [1], [0]),
        ("last_partial_batch", "full_batches", [1, 10_000], [0, 10_001]),
        ("last_partial_batch", "last", [0.001, 0.999], [0, 1]),
        ("train_and_eval", "train_steps", [1, 10_000], [0, 10_001]),
        ("train_and_eval", "eval_steps", [1, 10_000], [0, 10_001]),
        ("train_and_eval", "eval_batch", [0.001], [0]),
        ("fresh", "smallest", [0.001, 0.999], [0, 1]),
        ("lengths", "median", [0.051, 0.999], [0, 0.05, 1]),
        ("lengths", "spread", [0.001], [0]),
        ("lengths", "shortest", [0, 0.199], [-0.001, 0.2]),
        ("lengths", "buckets", [0, 1], [-1]),
        ("lengths", "draws", [2], [1]),
    ],
)
def test_a_parameter_has_its_limits(
    name: str, parameter: str, allowed: list[float], refused: list[float]
) -> None:
    for value in allowed:
        assert make_regime(name, {parameter: value}).parameters().get(parameter, 1) == value
    for value in refused:
        with pytest.raises(WorkloadError, match=f"regime {name}.*{parameter}"):
            make_regime(name, {parameter: value})


@pytest.mark.parametrize(
    ("name", "parameters", "base", "sizes"),
    [
        ("cycle", {"sizes": 2, "step": 31}, (1, 3, 40, 32), [(40, 32), (9, 1)]),
        ("cycle", {"sizes": 2, "step": 32}, (1, 3, 40, 32), "2 sizes in steps of 32 do not fit below (40, 32)"),
        ("cycle", {"sizes": 3, "step": 5, "multiple": 4}, (1, 3, 23), [(20,), (12,), (4,)]),
        ("cycle", {"sizes": 3, "step": 5, "multiple": 4}, (1, 3, 19), "3 sizes in steps of 8 do not"),
        ("cycle", {"sizes": 2, "multiple": 8}, (1, 3, 6), "2 sizes in steps of 16"),
        ("cycle", {"sizes": 2, "step": 1, "multiple": 8}, (1, 3, 6), "2 sizes in steps of 8"),
        ("cycle", {"sizes": 2, "step": 1, "multiple": 8}, (1, 3, 16), [(16,), (8,)]),
        ("cycle", {}, (4, 3), "4 sizes in steps of 16 do not fit below ()"),
        (
            "multi_scale",
            {"sizes": 3, "step": 8, "hold": 2},
            (1, 3, 40, 64),
            [(40, 64), (40, 64), (24, 48), (24, 48), (32, 56), (32, 56)],
        ),
        ("fresh", {}, (8, 3, 96, 128), [(72, 117), (50, 97), (80, 126), (73, 102)]),
        ("fresh", {"seed": 1}, (1, 3, 2000), [(1137,), (1582,), (1867,), (1821,)]),
        ("fresh", {"multiple": 32, "smallest": 0.4}, (1, 3, 100, 70), [(96, 64), (64, 64), (96, 32), (64, 32)]),
        ("lengths", {}, (1, 3, 2000), [(345,), (411,), (700,), (370,), (1239,), (117,)]),
        ("lengths", {"seed": 1}, (1, 16, 3, 2000), [(3, 650), (3, 395), (3, 1071)]),
        ("lengths", {"buckets": 4}, (1, 3, 2000), [(500,), (500,), (1000,), (500,), (1500,)]),
        ("lengths", {"buckets": 3, "multiple": 32}, (1, 3, 1000), [(352,), (352,), (672,), (352,)]),
        ("lengths", {"multiple": 32}, (1, 3, 40_000), [(6912,), (8224,), (14016,), (7424,)]),
    ],
)  # fmt: skip
def test_sizes_come_in_the_order_in_which_stored_results_had_them(
    name: str, parameters: dict[str, float], base: Shape, sizes: list[Shape] | str
) -> None:
    rule = make_regime(name, parameters)
    if isinstance(sizes, str):
        with pytest.raises(WorkloadError) as found:
            rule.period(base)
        assert sizes in str(found.value)
        return
    shapes = list(islice(rule.stream(base), len(sizes)))
    assert shapes == [(*base[:2], *size) for size in sizes]


@pytest.mark.parametrize(
    ("name", "parameters", "batch", "batches"),
    [
        ("last_partial_batch", {"full_batches": 1}, 2, [2, 1]),
        ("last_partial_batch", {"full_batches": 1, "last": 0.1}, 3, [3, 1]),
        ("last_partial_batch", {"full_batches": 2, "last": 0.7}, 10, [10, 10, 7]),
        ("last_partial_batch", {}, 1, "last=0.5 must give a batch size below 1"),
        ("last_partial_batch", {"last": 0.99}, 8, "last=0.99 must give a batch size below 8"),
        ("train_and_eval", {"train_steps": 1, "eval_steps": 2}, 1, [1, 2, 2]),
        ("train_and_eval", {"train_steps": 1, "eval_steps": 1, "eval_batch": 0.01}, 8, [8, 1]),
        (
            "train_and_eval",
            {"eval_batch": 0.3},
            1,
            "eval_batch=0.3 must change the batch size of 1",
        ),
        (
            "train_and_eval",
            {"eval_batch": 1.01},
            8,
            "eval_batch=1.01 must change the batch size of 8",
        ),
    ],
)
def test_a_batch_of_another_size_is_at_least_one_and_really_another(
    name: str, parameters: dict[str, float], batch: int, batches: list[int] | str
) -> None:
    rule = make_regime(name, parameters)
    if isinstance(batches, str):
        with pytest.raises(WorkloadError, match=batches):
            rule.period((batch, 3, 8, 8))
        return
    assert rule.period((batch, 3, 8, 8)) == tuple((size, 3, 8, 8) for size in batches)


@pytest.mark.parametrize(
    ("name", "parameters", "longest", "lengths"),
    [
        ("fresh", {}, 10, range(5, 11)),
        ("fresh", {"smallest": 0.01}, 10, range(1, 11)),
        ("fresh", {"multiple": 4}, 21, [12, 16, 20]),
        ("lengths", {}, 10, range(1, 11)),
        ("lengths", {"shortest": 0.15}, 20, range(3, 21)),
        ("lengths", {"multiple": 4}, 14, [4, 8, 12]),
    ],
)
def test_an_open_loop_ends_after_each_size_has_come_once(
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    parameters: dict[str, float],
    longest: int,
    lengths: Any,
) -> None:
    """Where three sizes count as enough."""
    monkeypatch.setattr(fresh_sizes, "MIN_SIZES", 3)
    monkeypatch.setattr(lengths_drawn, "LEAST_LENGTHS", 2)
    rule = make_regime(name, parameters)
    base = (2, 3, longest)
    assert rule.period(base) is None
    shapes = list(rule.stream(base))
    assert sorted(shapes) == [(2, 3, length) for length in lengths]


def test_a_name_of_no_rule_and_a_file_s_without_its_table_are_named() -> None:
    with pytest.raises(
        WorkloadError,
        match="unknown regime 'cycles' .did you mean cycle..; allowed: FILE.py:NAME, ",
    ):
        make_regime("cycles", {})
    with pytest.raises(WorkloadError, match="regime fixed: unknown parameter 'by'; allowed: none"):
        make_regime("fixed", {"by": 1})
    with pytest.raises(
        WorkloadError, match="regime cycle: unknown parameter 'by'; allowed: multiple, si"
    ):
        make_regime("cycle", {"by": 1})
    for wrong, fault in ((1.5, "a whole number, found 1.5"), (float("inf"), "finite, found inf")):
        with pytest.raises(WorkloadError, match=f"regime cycle: sizes must be {fault}"):
            make_regime("cycle", {"sizes": wrong})
