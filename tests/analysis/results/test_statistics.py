from collections.abc import Iterator

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from duckdb import DuckDBPyConnection as Connection
from numpy.typing import NDArray
from scipy import stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.weightstats import DescrStatsW

from cudnn_sweep.analysis.engine.prelude import prelude_sql
from cudnn_sweep.analysis.engine.queries import load_query
from cudnn_sweep.analysis.store.store import open_store
from tests.studies.parts.made_rows import made_rows, open_rows

LEAST = np.log1p(0.03)


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    """Plain DuckDB with the macros."""
    with duckdb.connect() as connection:
        connection.execute(prelude_sql(open_store(str(tmp_path_factory.mktemp("empty")))))
        yield connection


@pytest.mark.parametrize("df", [*range(1, 61), 200])
def test_t_distribution_agrees_with_scipy(connection: Connection, df: int) -> None:
    t = np.concatenate([-np.logspace(-3, 3, 40), [0.0], np.logspace(-3, 3, 40)])
    found = _each(connection, f"t_above(x, {df})", t)
    np.testing.assert_allclose(found, stats.t.sf(t, df), rtol=0, atol=1e-12)


@pytest.mark.parametrize(("macro", "below"), [("t_90", 0.95), ("t_95", 0.975)])
def test_t_quantiles_agree_with_scipy(connection: Connection, macro: str, below: float) -> None:
    df = np.concatenate([np.arange(1, 200), [1000, 100_000]])
    found = _each(connection, f"{macro}(x::bigint)", df)
    np.testing.assert_allclose(found, stats.t.ppf(below, df), rtol=0, atol=1e-6)


def test_normal_quantiles_agree_with_scipy(connection: Connection) -> None:
    above = np.logspace(-7, np.log10(0.5), 50)
    found = _each(connection, "normal_above(x)", above)
    np.testing.assert_allclose(found, stats.norm.isf(above), rtol=0, atol=5e-4)


def test_failures_are_compared_as_by_fisher(connection: Connection) -> None:
    every = [(a, b, n) for n in (1, 3, 20) for a in range(n + 1) for b in range(a)]
    found = connection.execute(
        "select p_of_failures(v[1], v[2], v[3]) from (select unnest(?) as v)", [every]
    )
    expected = [
        stats.fisher_exact([[a, b], [n - a, n - b]], alternative="greater").pvalue
        for a, b, n in every
    ]
    np.testing.assert_allclose(found.fetchnumpy().popitem()[1], expected, rtol=1e-9)


@pytest.mark.parametrize(
    ("b", "c", "otherwise"),
    [
        (["k1"], ["k2"], True),
        (["k1"], ["k1"], False),
        (["k1", "k2"], ["k2"], False),  # by the most common choice another in many A/A pairs
        (["k1", "k2"], ["k3"], None),
        (None, ["k1"], None),
    ],
)
def test_sides_chose_otherwise_where_each_has_a_choice_of_its_own(
    connection: duckdb.DuckDBPyConnection,
    b: list[str] | None,
    c: list[str],
    otherwise: bool | None,
) -> None:
    sides = {"b": b, "c": c}
    found = connection.execute("select chose_otherwise($b::text[], $c::text[])", sides).fetchall()
    assert found == [(otherwise,)]


@pytest.mark.parametrize(
    ("mean", "se", "expected"),
    [
        (0.05, 0.01, stats.t.sf(2, 4) + stats.t.sf(8, 4)),
        (-0.05, 0.01, stats.t.sf(2, 4) + stats.t.sf(8, 4)),
        (0.0, 0.01, 1.0),
        (0.05, 0.0, 0.0),
        (0.01, 0.0, 1.0),
    ],
)
def test_p_is_that_of_an_effect_beyond_the_least_one(
    connection: Connection, mean: float, se: float, expected: float
) -> None:
    found = connection.execute("select p_of_effect(?, ?, 4, 0.03)", [mean, se]).fetchall()
    assert found == [(pytest.approx(expected, abs=1e-12),)]


def test_one_block_has_no_p_and_no_standard_error(connection: Connection) -> None:
    sql = "select standard_error(x), p_of_effect(avg(x), standard_error(x), count(x) - 1, 0.03)"
    assert connection.execute(f"{sql} from (select 0.5 as x)").fetchall() == [(None, None)]
    alone = connection.execute("select verdict(0.0, 0.01, 0.01, 0, null, 0.03, 1)").fetchall()
    assert alone == [("inconclusive",)]


@pytest.mark.parametrize("df", [1, 2, 4, 19, 200])
@pytest.mark.parametrize("p", [0.05, 0.005, 1e-9])
def test_what_t_exceeds_agrees_with_scipy(connection: Connection, df: int, p: float) -> None:
    ((found,),) = connection.sql(f"select t_exceeded({p}, {df})").fetchall()
    assert found == pytest.approx(stats.t.isf(p, df), rel=1e-6)


@pytest.mark.slow
def test_equivalent_is_what_two_one_sided_tests_call_so(connection: Connection) -> None:
    seen = []
    for logs in np.random.default_rng(11).normal(0, 0.025, (60, 5)):
        p, _, _ = DescrStatsW(logs).ttost_mean(-LEAST, LEAST)
        seen.append(_of_blocks(connection, f"verdict(mean, se, se, df, 1.0, {LEAST}, 1)", logs))
        assert seen[-1] == ("equivalent" if p < 0.05 else "inconclusive")
    assert min(seen.count("equivalent"), seen.count("inconclusive")) > 10


def test_beta_quantiles_agree_with_scipy(connection: Connection) -> None:
    p, a, b = (
        axis.ravel() for axis in np.meshgrid([0.0025, 0.025, 0.975], [1, 2.5, 9, 90], [1, 3, 40.5])
    )
    connection.register("asked_of", pa.table({"p": p, "a": a, "b": b}))
    rows = connection.execute("select p, a, b, quantile from beta_quantiles('asked_of')")
    found = np.array(rows.fetchall())
    assert len(found) == p.size
    np.testing.assert_allclose(found[:, 3], stats.beta.ppf(*found[:, :3].T), rtol=0, atol=2e-4)


def test_two_choices_have_the_interval_of_clopper_and_pearson() -> None:
    """Where nothing but the choice scatters."""
    logs, other = np.zeros((3, 8)), np.zeros((3, 8), bool)
    for cell, slower in enumerate([1, 3, 7]):
        other[cell, :slower] = True
    logs[other] = 0.2
    found = _intervals(logs, other)
    shares = [stats.binomtest(n, 8).proportion_ci(method="exact") for n in (1, 3, 7)]
    expected = [(0.2 * share.low, 0.2 * share.high) for share in shares]
    np.testing.assert_allclose(found, expected, atol=1e-4)


@pytest.mark.slow
def test_one_choice_reaches_as_far_as_the_strays_of_its_settings() -> None:
    logs, other = np.zeros((12, 5)), np.zeros((12, 5), bool)
    other[:4, 2] = True
    logs[other] = 0.2
    rare = 0.2 * (1 - 0.025 ** (1 / 5))
    found = _intervals(logs, other)[4:]
    np.testing.assert_allclose(found, [(0, rare)] * 8, atol=1e-6)
    without = _intervals(np.zeros((12, 5)), np.zeros((12, 5), bool))
    np.testing.assert_allclose(without, 0, atol=1e-12)


@pytest.mark.parametrize("cells", [1, 2, 40])
def test_benjamini_and_hochberg_agree_with_statsmodels_and_scipy(cells: int) -> None:
    generator = np.random.default_rng(cells)
    logs = generator.normal(np.linspace(-0.1, 0.1, cells)[:, None], 0.03, (cells, 5))
    logs[cells // 2 :] = logs[: cells - cells // 2]  # equal p values, too
    found = np.array(_asked("wall_verdict", logs)["wall_verdict"].to_pylist())
    p = _p(logs)
    rejected, adjusted, _, _ = multipletests(p, 0.05, "fdr_bh")
    np.testing.assert_allclose(adjusted, stats.false_discovery_control(p))
    assert cells < 40 or 0 < rejected.sum() < (p <= 0.05).sum(), "the adjustment has to matter"
    np.testing.assert_array_equal(np.isin(found, ["helps", "hurts"]), rejected)
    np.testing.assert_array_equal(found[rejected] == "helps", logs.mean(1)[rejected] < 0)


def _p(logs: NDArray[np.float64]) -> NDArray[np.float64]:
    mean, se = abs(logs.mean(1)), stats.sem(logs, axis=1)
    p: NDArray[np.float64] = stats.t.sf((mean - LEAST) / se, 4) + stats.t.sf((mean + LEAST) / se, 4)
    return p


def _asked(
    columns: str, logs: NDArray[np.float64], other: NDArray[np.bool_] | None = None
) -> pa.Table:
    """What `helps_or_hurts` says of these log ratios, a row a cell."""
    times_ms = np.exp(np.stack([np.zeros_like(logs), logs], axis=-1))
    question = load_query("helps_or_hurts")
    with open_rows(made_rows(times_ms, times_ms, other)) as database:
        sql = f"select {columns} from ({question.sql}) order by cell_id::bigint"
        return database.query(sql, question.values({}))


def _intervals(logs: NDArray[np.float64], other: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The ends of the wall ratios' intervals, as logarithms, a row a cell."""
    answer = _asked("ratio_low, ratio_high", logs, other)
    ends: NDArray[np.float64] = np.log([answer[name].to_numpy() for name in answer.column_names]).T
    return ends


def _of_blocks(connection: Connection, expression: str, logs: NDArray[np.float64]) -> object:
    connection.register("blocks", pa.table({"x": logs}))
    moments = "select avg(x) as mean, standard_error(x) as se, count(x) - 1 as df from blocks"
    ((found,),) = connection.execute(f"select {expression} from ({moments})").fetchall()
    return found


def _each(connection: Connection, expression: str, values: NDArray[np.float64]) -> list[float]:
    sql = f"select list_transform(?::double[], lambda x: {expression})"
    ((found,),) = connection.execute(sql, [values.tolist()]).fetchall()
    return list(found)
