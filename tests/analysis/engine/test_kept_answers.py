"""Questions that together pass through the macros answer of the made-up nights what the goldens keep."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from cudnn_sweep.analysis.engine.database import Database, open_database
from cudnn_sweep.analysis.engine.formats import to_json
from cudnn_sweep.analysis.engine.queries import load_query
from cudnn_sweep.analysis.store.stored import open_stored
from tests.goldens import kept

MADE_UP = Path(kept.__file__).parent / "made-up"


@pytest.fixture(scope="module")
def made_up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    folder = tmp_path_factory.mktemp("kept") / "made-up"
    shutil.copytree(MADE_UP, folder)
    with open_database(open_stored([str(folder)])) as database:
        yield database


@pytest.mark.parametrize(
    "question",
    [
        "slow_gpus",
        "computes",
        "coverage",
        "roofline",
        "choice_stability",
        "night_signs",
    ],
)
def test_answer_is_what_is_kept(made_up: Database, question: str) -> None:
    query = load_query(question)
    answer = json.loads(to_json(made_up.query(query.sql, query.values({}))))
    name = f"answers/{question}.json.xz"
    assert kept.differences(name, {"made-up": answer}) == [], "see make goldens"
