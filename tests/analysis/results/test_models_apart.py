"""GPU models are never mixed, and launches not as if alike."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from cudnn_sweep.analysis.engine.database import Database, open_database
from cudnn_sweep.analysis.engine.queries import load_query, query_names
from cudnn_sweep.analysis.results.verdicts import Verdict
from cudnn_sweep.analysis.store.schema import RunRecord, to_table
from cudnn_sweep.analysis.store.store import Store, open_store
from tests.analysis.conftest import in_cell, make_pair

ONE, OTHER = "NVIDIA H200", "NVIDIA H100 80GB HBM3"
OF_THE_SWEEP = ("sweep_planned", "sweep_recorded")
OF_A_SWEEP = ("nights", "sweeps")  # which is of one model


def stored(location: Path, records: list[RunRecord]) -> Store:
    store = open_store(str(location))
    for record in records:
        store.write(record)
    store.compact("night-1")
    return store


def of_model(database: Database, name: str, gpu: str) -> list[dict[str, object]]:
    """Numbers to 12 digits: in which order DuckDB's threads sum is left to them."""
    question = load_query(name)
    rows = database.query(question.sql, question.values({})).to_pylist()
    return [
        {
            column: float(f"{value:.12g}") if isinstance(value, float) else value
            for column, value in row.items()
            if column not in OF_THE_SWEEP
        }
        for row in rows
        if row.get("gpu") == gpu
    ]


@pytest.mark.long
def test_no_question_mixes_models(tmp_path: Path) -> None:
    """Both models' blocks have the same numbers, in one sweep; the setting helps one and hurts the other."""
    one = [
        row
        for block in range(4)
        for row in make_pair(block, 10.0 + block / 100, 7.0, gpu=ONE, roofline_share=0.5)
    ]
    other = [
        in_cell(
            row,
            "other",
            gpu=OTHER,
            env_hash="env-other",
            slot="GPU-other",
            gpu_uuid="GPU-other",
            host="node-other",
            steady_wall_ms=20.0 + row.block / 100 if row.benchmark else 12.0,
        )
        for row in one
    ]
    apart = stored(tmp_path / "apart", one)
    together = stored(tmp_path / "together", one + other)
    with open_database(apart) as alone, open_database(together) as mixed:
        told = {
            name: (of_model(mixed, name, ONE), of_model(alone, name, ONE))
            for name in query_names()
            if name not in OF_A_SWEEP
        }
        verdicts = [of_model(mixed, "helps_or_hurts", gpu)[0] for gpu in (ONE, OTHER)]
    assert [name for name, (beside, by_itself) in told.items() if beside != by_itself] == []
    assert sum(bool(by_itself) for _, by_itself in told.values()) > 10
    assert [verdict["wall_verdict"] for verdict in verdicts] == ["helps", "hurts"]


@pytest.mark.long
def test_launches_of_a_loop_that_waits_for_the_cpu_are_not_alike(tmp_path: Path) -> None:
    """Patch embedding, one evening and the next morning: the part between launches is in the interval."""
    ratios = np.array([0.670, 0.610, 0.625, 0.918, 0.889])
    logs, launch = np.log(ratios), np.array([0, 0, 0, 1, 1])
    found = {}
    for name, is_bound, numbers in (
        ("one launch", True, 0 * launch),
        ("two launches", True, launch),
        ("device-bound", False, launch),
    ):
        rows = [
            in_cell(replace(row, launch_bound=is_bound, launch_id=f"launch-{number}"), name)
            for block, (ratio, number) in enumerate(zip(ratios.tolist(), numbers, strict=True))
            for row in make_pair(block, 10.0, 10.0 * ratio)
        ]
        store = open_store(str(tmp_path / name))
        store.write_part("night-1", to_table(rows))
        (found[name],) = Verdict.of(store)
    groups = [logs[launch == each] for each in (0, 1)]
    within = sum(((each - each.mean()) ** 2).sum() for each in groups) / 3
    apart = sum(len(each) * (each.mean() - logs.mean()) ** 2 for each in groups)
    between = (max((apart - within) / (5 - 13 / 5), 0) + 0.008**2) / 2
    half = np.hypot(
        stats.t.ppf(0.975, 4) * stats.sem(logs), stats.t.ppf(0.975, 2) * np.sqrt(between * 13 / 25)
    )
    assert found["two launches"].ratio_low == pytest.approx(np.exp(logs.mean() - half), rel=1e-6)
    assert found["two launches"].ratio_high == pytest.approx(np.exp(logs.mean() + half), rel=1e-6)
    assert found["two launches"].wall_verdict == "inconclusive"
    assert found["two launches"].device_ratio_low == found["one launch"].device_ratio_low
    for name in ("one launch", "device-bound"):
        assert found[name].wall_verdict == "helps"
        low = stats.t.interval(0.95, 4, logs.mean(), stats.sem(logs))[0]
        assert found[name].ratio_low == pytest.approx(np.exp(low), rel=1e-6)
