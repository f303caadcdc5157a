"""The question `race`, and contrasts of the best config with the others, on rows of an H200."""

from collections.abc import Iterator
from math import isclose
from pathlib import Path

import pytest

from cudnn_sweep.analysis.engine.database import Database, open_database
from cudnn_sweep.analysis.engine.queries import load_query
from cudnn_sweep.analysis.results.contrast import RACE, Contrast
from cudnn_sweep.analysis.store.store import open_store

ROWS = Path(__file__).parents[3] / "docs/results/h200-2026-11-28/executions"


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    with open_database(open_store(str(ROWS)), "executions") as opened:
        yield opened


def test_the_best_config_of_each_cell_is_the_fastest(database: Database) -> None:
    question = load_query("race")
    rows = database.query(question.sql, question.values({"sweep_id": "executions"})).to_pylist()
    best = {(row["workload"], row["direction"]): row["best"] for row in rows}
    assert best["torchvision.models:resnet50", "training"] == "benchmark=false execution=cuda_graph"
    assert best["nets.unet:UNet", "training"] == "benchmark=true execution=compile"
    assert all(row["best"] != row["other"] for row in rows)
    slower = [row for row in rows if row["ratio"] < 1]
    assert all(row["state"] != "raced_out" for row in slower)


def test_each_config_is_compared_with_its_own_pair_alone(database: Database) -> None:
    """The best config's trial stands in as many pairs as there are others, in either direction."""
    question = load_query("helps_or_hurts")
    backwards = Contrast(field=RACE.field, baseline=RACE.candidate, candidate=RACE.baseline)

    def rows(contrast: Contrast) -> dict[tuple[str, str], tuple[int, float]]:
        values = question.values({"sweep_id": "executions", **contrast.values()})
        return {
            (row["cell_id"], row["other_settings"]): (row["blocks"], row["ratio"])
            for row in database.query(question.sql, values).to_pylist()
        }

    forth, back = rows(RACE), rows(backwards)
    assert forth.keys() == back.keys() and len(forth) > 10
    for key, (blocks, ratio) in forth.items():
        assert back[key][0] == blocks <= 3
        assert isclose(back[key][1], 1 / ratio, rel_tol=1e-9)
