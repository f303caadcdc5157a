"""How much of each attack is run: a short part with a fixed seed, or the whole.

make attacks                                     # the whole, hours on two cores
SWEEP_ATTACKS_SEED=7 make attacks                # other moments, flips and mutants
SWEEP_ATTACKS=0.1 pytest tests/attacks           # a tenth of the whole
"""

import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

WHOLE = os.environ.get("SWEEP_ATTACKS")
SEED = int(os.environ.get("SWEEP_ATTACKS_SEED", "21"))
MEASURED = Path(__file__).parents[2] / "docs/results/h200-2026-11-21/quick"
LIMIT_S = 14_400  # of a test, where the whole is run


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if WHOLE and item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.timeout(LIMIT_S))


@pytest.fixture(scope="session")
def attempts() -> Callable[[int, int], int]:
    """How many, of so many in the short part and so many in the whole."""
    return lambda short, whole: round(whole * float(WHOLE)) if WHOLE else short


@pytest.fixture(scope="session")
def seed() -> int:
    return SEED


@pytest.fixture(scope="session")
def measured() -> pa.Table:
    """Some rows that a GPU once gave, of one sweep."""
    (file,) = MEASURED.glob("sweep=*/part-*.parquet")
    rows = pq.read_table(file)
    return rows.filter(pa.compute.less(rows["block"], 6))
