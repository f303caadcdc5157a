from collections.abc import Iterator

import duckdb
import numpy as np
import pytest
from scipy import stats

from cudnn_sweep.analysis.prelude import prelude_sql
from cudnn_sweep.analysis.store import Store


@pytest.fixture
def connection(store: Store) -> Iterator[duckdb.DuckDBPyConnection]:
    """Plain DuckDB with the macros."""
    with duckdb.connect() as connection:
        connection.execute(prelude_sql(store))
        yield connection


@pytest.mark.parametrize("df", [*range(1, 61), 200])
def test_t_distribution_agrees_with_scipy(connection: duckdb.DuckDBPyConnection, df: int) -> None:
    t = np.concatenate([-np.logspace(-3, 3, 40), [0.0], np.logspace(-3, 3, 40)])
    found = _each(connection, f"t_above(x, {df})", t)
    np.testing.assert_allclose(found, stats.t.sf(t, df), rtol=0, atol=1e-12)


@pytest.mark.parametrize(("macro", "below"), [("t_90", 0.95), ("t_95", 0.975)])
def test_t_quantiles_agree_with_scipy(
    connection: duckdb.DuckDBPyConnection, macro: str, below: float
) -> None:
    df = np.concatenate([np.arange(1, 200), [1000, 100_000]])
    found = _each(connection, f"{macro}(x::bigint)", df)
    np.testing.assert_allclose(found, stats.t.ppf(below, df), rtol=0, atol=1e-6)


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
    connection: duckdb.DuckDBPyConnection, mean: float, se: float, expected: float
) -> None:
    found = connection.execute("select p_of_effect(?, ?, 4, 0.03)", [mean, se]).fetchall()
    assert found == [(pytest.approx(expected, abs=1e-12),)]


def test_one_block_has_no_p_and_no_standard_error(connection: duckdb.DuckDBPyConnection) -> None:
    sql = "select standard_error(x), p_of_effect(avg(x), standard_error(x), count(x) - 1, 0.03)"
    assert connection.execute(f"{sql} from (select 0.5 as x)").fetchall() == [(None, None)]


def _each(
    connection: duckdb.DuckDBPyConnection,
    expression: str,
    values: "np.ndarray[tuple[int], np.dtype[np.float64]]",
) -> list[float]:
    sql = f"select list_transform(?::double[], lambda x: {expression})"
    ((found,),) = connection.execute(sql, [values.tolist()]).fetchall()
    return list(found)
