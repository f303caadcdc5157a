"""`sweep compare`: what A and B mean, what changed between them, and what to try next."""

from collections.abc import Callable, Iterable

import pytest
from scipy import stats

from cudnn_sweep.analysis.compare.comparison import (
    Comparison,
    NamedSide,
    compare,
    find_side,
)
from cudnn_sweep.analysis.engine.database import open_database
from cudnn_sweep.analysis.store.store import Store
from tests.analysis.conftest import processes

Compare = Callable[..., Comparison]

TUESDAY = {"sweep_id": "tuesday"}


@pytest.fixture
def sides(store: Store) -> Compare:
    """What two sides show, of processes of one cell given as (times, columns)."""

    def made(a: str, b: str, *groups: tuple[Iterable[float], dict[str, object]]) -> Comparison:
        for number, (times_ms, changes) in enumerate(groups):
            store.write(*processes(str(number), times_ms, **changes))
        with open_database(store) as database:
            return compare(database, a, b, 0.03)

    return made


@pytest.mark.long
def test_a_users_own_code_that_differs_is_named(sides: Compare) -> None:
    mine = {"workload": "net.py:Net", "cell_id": "mine"}
    other = {"workload": "other.py:Net", "cell_id": "other"}
    old, new = {"torch": "2.10.0", "workload_hash": "old"}, {"workload_hash": "new"}
    found = sides(
        "2.10.0",
        "2.11.0",
        ([10.0, 10.1], mine | old),
        ([10.0, 10.1], mine | new),
        ([10.0, 10.1], other | old),
        ([10.0, 10.1], other | new | {"workload_hash": "old"}),
        ([10.0, 10.1], {"torch": "2.10.0"}),
        ([10.0, 10.1], {}),
    )
    assert found.edited == ("net.py:Net",)


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ("H200", NamedSide(kind="gpu", name="NVIDIA H200")),
        ("networks-h200-warm", NamedSide(kind="sweep", name="networks-h200-warm")),
        ("sweep=warm", NamedSide(kind="sweep", name="networks-h200-warm")),
    ],
)
def test_a_gpu_is_meant_rather_than_sweeps_named_after_it(asked: str, meant: NamedSide) -> None:
    sweeps = [NamedSide(kind="sweep", name=f"networks-h200-{start}") for start in ("fixed", "warm")]
    gpus = [NamedSide(kind="gpu", name=f"NVIDIA {model}") for model in ("H100", "H200")]
    assert find_side(asked, [*sweeps, *gpus]) == meant


@pytest.mark.slow
def test_sides_that_share_blocks_are_compared_in_pairs(sides: Compare) -> None:
    """The blocks differ by more than the softwares: only pairs can tell."""
    good = {"software": "last_good", "torch": "2.10.0", "software_hash": "old"}
    found = sides("2.10.0", "2.11.0", ([10.0, 20.0, 40.0], good), ([11.0, 22.1, 44.0], {}))
    (row,) = found.rows.to_pylist()
    assert (row["method"], row["verdict"]) == ("pairs", "hurts")
    assert row["ratio"] == pytest.approx((1.1 * 1.105 * 1.1) ** (1 / 3))
    assert list(found.differences.values()) == ["torch: 2.10.0 → 2.11.0"]
    assert found.slowest == ("quick", row["cell_id"], "benchmark=true" in row["settings"])


def test_sides_of_other_blocks_are_compared_by_welch(sides: Compare) -> None:
    first = {"sweep_id": "monday", "torch": "2.10.0", "software_hash": "old"}
    second = {"sweep_id": "tuesday"}
    times = [10.0, 20.0, 40.0]
    found = sides("monday", "tuesday", (times, first), ([1.1 * ms for ms in times], second))
    (row,) = found.rows.to_pylist()
    assert (row["method"], row["verdict"]) == ("welch", "inconclusive")
    assert row["ratio"] == pytest.approx(1.1)
    assert (row["a_processes"], row["b_processes"]) == (3, 3)


def test_device_time_has_a_verdict_of_its_own(sides: Compare) -> None:
    """Slower on the device alone: the wall time is the launches'."""
    old = {"sweep_id": "monday", "torch": "2.10.0", "software_hash": "old"}
    new = {"sweep_id": "tuesday"}
    times = [10.0, 10.1, 9.9]
    found = sides(
        "monday",
        "tuesday",
        (times, old | {"steady_device_ms": 8.0}),
        (times, new | {"steady_device_ms": 9.6}),
    )
    (row,) = found.rows.to_pylist()
    assert (row["verdict"], row["device_verdict"]) == ("equivalent", "hurts")
    assert row["device_ratio"] == pytest.approx(1.2)
    assert (found.counts(), found.counts("device_verdict")) == ({"equivalent": 1}, {"hurts": 1})


@pytest.mark.slow
def test_device_times_from_two_sources_do_not_compare(sides: Compare) -> None:
    """A profiler sums kernels; a graph's replay has the gaps between them too."""
    profiled = {"sweep_id": "monday", "steady_device_source": "profiler", "steady_device_ms": 5.0}
    found = sides("monday", "tuesday", ([10.0, 10.1], profiled), ([10.0, 10.1], TUESDAY))
    (row,) = found.rows.to_pylist()
    assert (row["verdict"], row["device_verdict"], row["device_ratio"]) == (
        "equivalent",
        None,
        None,
    )
    assert (row["a_device_ms"], row["b_device_ms"]) == (None, None)


@pytest.mark.slow
@pytest.mark.parametrize("in_blocks", [True, False])
def test_of_open_loops_only_the_steps_that_both_made_count(sides: Compare, in_blocks: bool) -> None:
    """B is as fast, but its budget let it come to larger shapes."""
    loop = {"loop_kind": "open", "steady_device_ms": None, "steady_device_source": None}
    short = loop | {"steady_iterations": 2, "steady_wall_samples_ms": [9.0, 11.0]}
    long = loop | {"steady_iterations": 4, "steady_wall_samples_ms": [9.0, 11.0, 20.0, 40.0]}
    old = short | {"software": "last_good", "torch": "2.10.0", "software_hash": "old"}
    new = long if in_blocks else long | TUESDAY
    found = sides("2.10.0", "2.11.0", ([10.0, 10.0], old), ([20.0, 20.0], new))
    (row,) = found.rows.to_pylist()
    assert row["method"] == ("pairs" if in_blocks else "welch")
    assert (row["verdict"], row["ratio"], row["b_ms"]) == ("equivalent", 1.0, pytest.approx(10))


@pytest.mark.slow
def test_a_time_of_zero_fails_no_comparison(sides: Compare) -> None:
    monday = {"sweep_id": "monday", "steady_device_ms": 0.0}
    found = sides("monday", "tuesday", ([10.0, 10.1], monday), ([10.0, 10.1], TUESDAY))
    (row,) = found.rows.to_pylist()
    assert (row["verdict"], row["device_verdict"]) == ("equivalent", None)


@pytest.mark.slow
def test_a_part_that_one_side_lacks_is_none(sides: Compare) -> None:
    """A CPU has no driver, a whole GPU no MIG profile."""
    slice_ = {"sweep_id": "monday", "mig_profile": "1g.18gb", "env_hash": "slice"}
    cpu = {"sweep_id": "tuesday", "gpu": "cpu", "env_hash": "cpu", "driver": None}
    some = {"sweep_id": "tuesday"}
    found = sides("monday", "tuesday", ([10.0], slice_), ([10.0], cpu), ([10.0], some))
    assert list(found.differences.values()) == [
        "gpu: NVIDIA H200 → NVIDIA H200, cpu",
        "mig_profile: 1g.18gb → none",
        "driver: 570.1 → 570.1, none",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("in_blocks", [True, False])
def test_what_the_processes_of_a_side_chose_is_told_apart(sides: Compare, in_blocks: bool) -> None:
    """One of five took a kernel that is half as fast: its share may be anything up to two thirds."""
    old = {"torch": "2.10.0", "software_hash": "old", "software": "last_good"}
    usual, other = {"kernels_hash": "usual"}, {"kernels_hash": "other", "block": 4}
    if not in_blocks:
        old |= {"sweep_id": "monday"}
    found = sides(
        "2.10.0",
        "2.11.0",
        ([10.0, 10.1, 10.0, 9.9, 10.0], old | usual),
        ([10.0, 9.9, 10.0, 10.1], usual),
        ([20.0], other),
    )
    (row,) = found.rows.to_pylist()
    side = "" if in_blocks else "B "
    assert row["by_choice"] == f"{side}usually 1.00; in 1 of 5 processes 2.00"
    assert row["method"] == ("pairs" if in_blocks else "welch")
    most = stats.binomtest(1, 5).proportion_ci(method="exact").high
    assert row["ratio_high"] == pytest.approx(2**most, rel=0.03)
    assert row["verdict"] == "inconclusive"
