"""Which contrasts a store has."""

from dataclasses import replace
from pathlib import Path

from cudnn_sweep.analysis.engine.database import open_database
from cudnn_sweep.analysis.results.contrast import FROZEN, TWINS, Contrast, stored_contrasts
from cudnn_sweep.analysis.store.store import Store, open_store
from tests.analysis.conftest import in_cell, make_pair

DOCS = Path(__file__).parents[3] / "docs"
BENCHMARK = Contrast(field="benchmark", baseline="false", candidate="true")


def contrasts(store: Store) -> list[Contrast]:
    with open_database(store) as database:
        return stored_contrasts(database)


def test_configs_that_share_no_cell_of_a_sweep_are_no_contrast(store: Store) -> None:
    for name, limit in (("few", 5), ("many", 20)):
        for record in make_pair(0, 10.0, 9.0, benchmark_limit=limit):
            store.write(in_cell(record, name, cell_id=f"cell-{name}"))
    assert contrasts(store) == [BENCHMARK]
    for record in make_pair(0, 10.0, 9.0, benchmark_limit=20):
        store.write(in_cell(record, "few-too", cell_id="cell-few"))
    assert {each.field for each in contrasts(store)} == {"benchmark", "benchmark_limit"}


def test_freezes_against_none_are_one_contrast(store: Store) -> None:
    for number in range(3):
        off, searching = make_pair(0, 10.0, 9.0)
        kept = replace(off, errata=f"ConvFwd:{number}:k2=1@91900", trial_id=f"kept-{number}")
        for record in (off, searching, kept):
            store.write(in_cell(record, f"{number}", cell_id=f"cell-{number}"))
    assert contrasts(store) == [BENCHMARK, FROZEN]


def test_a_store_of_47_freezes_has_three_contrasts() -> None:
    store = open_store(str(DOCS / "results/h100-2026-11-24/freeze"))
    assert contrasts(store) == [BENCHMARK, FROZEN, TWINS], "not 1,130"
