"""Whoever looks at a sweep after each block, and stops at the first answer, errs no more than who waits for its end."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from tests.studies.parts.made_rows import in_turns, made_rows, open_rows
from tests.studies.parts.noise import Array

LOOKS = [2, 3, 5, 8]
CELLS, MOST, ROUNDS = 160, 6, 5
AT_THE_MARGIN, SCATTER = np.log(1.03), 0.003
ANSWERS = ("helps", "hurts", "equivalent")


def after(blocks: int, logs: Array) -> pa.Table:
    """The rows of sweeps of a cell each, after so many blocks; none of their launches has ended."""
    times_ms = np.exp(np.stack([np.zeros_like(logs[:, :blocks]), logs[:, :blocks]], axis=-1))
    rows = made_rows(times_ms, np.ones_like(times_ms))
    rows = in_turns(rows, np.repeat(times_ms[..., None], ROUNDS, axis=-1), launch_bound=False)
    count = len(rows)
    named = {
        "sweep_id": [f"{blocks} {cell}" for cell in rows["cell_id"].to_pylist()],
        "trial_id": [f"{blocks} {number}" for number in range(count)],
        "looks": [LOOKS] * count,
        "ends_launch": [False] * count,
    }
    kept = {name: rows[name] for name in rows.column_names if name not in named}
    return pa.table(kept | named | {"cell_id": named["sweep_id"]})


@pytest.mark.slow
def test_who_looks_after_each_block_and_stops_at_an_answer_errs_as_little_as_promised() -> None:
    """Every ratio is just the minimum effect: no answer is true."""
    generator = np.random.default_rng(1)
    logs = AT_THE_MARGIN + generator.normal(0, SCATTER, (CELLS, MOST))
    shares = {}
    rows = pa.concat_tables([after(blocks, logs) for blocks in range(2, MOST + 1)])
    with open_rows(rows) as database:
        for is_over in (None, True):
            found = database.ask("helps_or_hurts", is_over=is_over).to_pylist()
            first: dict[str, str] = {}
            for row in sorted(found, key=lambda row: int(row["cell_id"].split()[0])):
                if row["wall_verdict"] in ANSWERS:
                    first.setdefault(row["cell_id"].split()[1], row["wall_verdict"])
            counts = Counter(first.values())
            shares[is_over] = {name: counts[name] / CELLS for name in ANSWERS}
    assert shares[None]["hurts"] <= 0.025 and shares[None]["equivalent"] <= 0.05
    assert sum(shares[True].values()) > 2 * sum(shares[None].values()), "as if the sweep were over"
