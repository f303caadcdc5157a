"""What pages say of stored measurements is what their rows say."""

import csv
from collections import defaultdict
from pathlib import Path
from runpy import run_path

import numpy as np
import pytest

from cudnn_sweep.analysis import open_results
from cudnn_sweep.analysis.store.location import REFERENCE

DOCS = Path(__file__).parents[2] / "docs"


def _words(page: str) -> str:
    return " ".join((DOCS / page).read_text(encoding="utf-8").split())


@pytest.mark.slow
def test_a_ban_that_looks_like_a_gain_has_its_word() -> None:
    rows = open_results(DOCS / "results/h100-2026-11-25/engines").query("bans").to_pylist()
    page = _words("bans.md")
    open_ones = [row for row in rows if row["wall_verdict"].startswith("so_far")]
    assert open_ones
    for row in open_ones:
        ends = f"{row['ratio']:.3f} ({row['ratio_low']:.3f} to {row['ratio_high']:.3f})"
        assert page.count(ends) == page.count(row["wall_in_words"]) == 2, "table and sentence"


@pytest.mark.slow
def test_scripts_of_reported_cases_agree_as_often_as_their_page_says() -> None:
    ask = run_path(str(DOCS / "field.py"))["agreement"]
    agrees = ask(DOCS / "field/repro.csv", str(REFERENCE), "field*")["agrees"].to_pylist()
    assert f"{sum(agrees)} of {len(agrees)} settings of 28 cases agree" in _words("field.md")


def test_gates_whose_rows_were_not_kept_are_not_counted() -> None:
    expected = {"none": "not slower", "+3%": "slower"}
    with (DOCS / "results/h100-2026-11-25/gates/gates.csv").open(encoding="utf-8") as file:
        full = [
            row
            for row in csv.DictReader(file)
            if row["cpu_bound"] == "False" and row["change"] in expected
        ]
    right = sum(row["answer"] == expected[row["change"]] for row in full)
    page = _words("gate.md")
    assert f"{right} of {len(full)} gates with a planted 3% or none were right" in page
    assert "Six earlier gates are not counted: their rows were not kept" in page


def test_the_list_of_networks_is_older_than_its_rows() -> None:
    sql = "select min(started_at) as began from records where sweep_id like 'networks-%'"
    (row,) = open_results(REFERENCE).sql(sql).to_pylist()
    page = _words("validation.md")
    assert f"began at {row['began']:%H:%M:%S}, and the suite has not changed since" in page
    assert f"on {row['began']:%-d %B %Y}, 23:32:25 UTC" in page


def test_first_calls_of_larger_sizes_cost_what_the_page_says() -> None:
    """The slope of log time over log size in each process, without its first size."""
    sql = "select workload, benchmark, cold from records where status = 'ok' and len(cold) > 2"
    slopes = defaultdict(list)
    for row in open_results(REFERENCE).sql(f"{sql} and device = 'cuda'").to_pylist():
        further = row["cold"][1:]
        sizes = [np.log(np.prod([float(each) for each in met["shape"]])) for met in further]
        if np.std(sizes) > 0.1:
            times = [np.log(met["first_ms"]) for met in further]
            slopes[row["workload"], row["benchmark"]].append(np.polyfit(sizes, times, 1)[0])
    page = _words("results/h200-2026-11-23/advice/README.md")
    for benchmark, said in ((True, "to the power of {} to {}"), (False, "with off of {} to {}")):
        medians = [np.median(each) for (_, is_on), each in slopes.items() if is_on == benchmark]
        assert len(medians) == 4
        assert said.format(f"{min(medians):.2f}", f"{max(medians):.2f}") in page
