"""`recommend` and `shapes_that_pay`: what to do, for so many iterations, and where that is not told."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from cudnn_sweep.analysis.asking.queries import load_query
from cudnn_sweep.analysis.errors import QueryError
from cudnn_sweep.analysis.storing.schema import ColdShape, RunRecord
from tests.analysis.conftest import Ask, make_pair
from tests.studies.parts.made_rows import made_rows, open_rows

SLOWER_AND_FASTER = ((10.0, 7.9), (10.1, 8.1), (9.9, 8.0), (10.0, 8.05))
ALIKE = ((10.0, 10.01), (10.1, 10.09), (9.9, 9.9), (10.0, 10.0))


def _blocks(times: tuple[tuple[float, float], ...], **changes: object) -> list[RunRecord]:
    return [
        record
        for block, (baseline_ms, candidate_ms) in enumerate(times)
        for record in make_pair(block, baseline_ms, candidate_ms, **changes)
    ]


def _only(rows: list[dict[str, object]]) -> dict[str, object]:
    (row,) = rows
    return row


def test_scatter_decides_nothing_and_says_how_many_blocks_would(ask: Ask) -> None:
    times = ((10.0, 9.0), (10.0, 10.5), (10.0, 9.6), (10.0, 8.4))
    row = _only(ask("recommend", _blocks(times)))
    assert row["advice"] == "not decided"
    assert str(row["why"]).endswith(f"about {row['blocks_needed']} more blocks would decide")


def test_one_block_of_a_state_of_the_cache_decides_nothing(ask: Ask) -> None:
    records = _blocks(SLOWER_AND_FASTER)
    records[:2] = [replace(record, compute_cache="empty") for record in records[:2]]
    row = _only(ask("recommend", records, compute_cache="empty"))
    assert (row["advice"], row["cold_blocks"], row["saved_s_low"]) == ("not decided", 1, None)
    assert row["why"] == "needs a second block with an empty cache"


@pytest.mark.parametrize(
    ("benchmark", "advice", "why"),
    [
        (True, "fails", "on fails in 4 of 4 blocks, off in 0"),
        (False, "not decided", "off fails in 4 of 4 blocks, on in 0: see what failed"),
    ],
)
def test_a_side_that_fails_is_not_judged_by_its_times(
    ask: Ask, benchmark: bool, advice: str, why: str
) -> None:
    records = [
        replace(record, status="out_of_memory") if record.benchmark == benchmark else record
        for record in _blocks(SLOWER_AND_FASTER)
    ]
    row = _only(ask("recommend", records))
    assert (row["advice"], row["why"]) == (advice, why)


def test_a_workload_is_the_sum_of_its_shapes_and_no_answer_where_one_is_missing(ask: Ask) -> None:
    def shape(batch: int, times: tuple[tuple[float, float], ...]) -> list[RunRecord]:
        return [
            replace(
                record,
                cell_id=f"cell-{batch}",
                trial_id=f"{batch}-{record.trial_id}",
                input_shape=[batch, 256, 56, 56],
            )
            for record in _blocks(times)
        ]

    records = [*shape(8, SLOWER_AND_FASTER), *shape(64, ALIKE)]
    each = ask("recommend", records)
    assert {row["input_shape"]: row["advice"] for row in each} == {
        "8x256x56x56": "on",
        "64x256x56x56": "no matter",
    }
    whole = _only(ask("recommend", [], per="workload"))
    assert (whole["shapes"], whole["advice"]) == (2, "on")
    assert whole["baseline_s"] == pytest.approx(sum(float(str(row["baseline_s"])) for row in each))
    lone = _only(ask("recommend", shape(128, ALIKE[:1]), per="workload"))
    assert (lone["shapes"], lone["advice"], lone["saved_s_low"]) == (3, "not decided", None)
    with pytest.raises(QueryError, match="per: found shape, allowed are cell and workload"):
        ask("recommend", [], per="shape")


def test_the_interval_of_the_whole_time_holds_the_truth_as_often_as_it_says() -> None:
    """Cold costs of four of five blocks that scatter by a third, times by 2%."""
    generator = np.random.default_rng(7)
    cells, iterations = 1500, 2000
    gain = np.resize([0.0, 0.2, 0.5], cells)
    truth_ms = np.stack([np.ones(cells), 1 - gain], axis=1)
    times_ms = truth_ms[:, None] * np.exp(0.02 * generator.standard_normal((cells, 5, 2)))
    scatter = np.exp(0.33 * generator.standard_normal((cells, 5, 2)) - 0.33**2 / 2)
    rows = made_rows(times_ms, np.array([30.0, 500.0]) * scatter)
    caches = np.where(np.array(rows["block"]) % 5, "warm", "empty")
    place = rows.column_names.index("compute_cache")
    question = load_query("recommend")
    with open_rows(rows.set_column(place, "compute_cache", pa.array(caches))) as database:
        found = database.query(
            f"select ratio_low, ratio_high from ({question.sql}) order by cell_id::bigint",
            question.values({"iterations": iterations}),
        )
    whole_ms = np.array([30.0, 500.0]) + iterations * truth_ms
    truth = whole_ms[:, 1] / whole_ms[:, 0]
    low, high = (found[name].to_numpy() for name in ("ratio_low", "ratio_high"))
    assert 0.93 < np.mean((low <= truth) & (truth <= high)) < 0.985


def _of_three_shapes(records: list[RunRecord], scatter_ms: float = 1.0) -> list[RunRecord]:
    """The candidate's search takes 100 ms more at the first shape, and 40 at each further one."""
    return [
        replace(
            record,
            cold=[
                ColdShape(
                    shape=[8 * (place + 1), 3, 32, 32],
                    first_ms=20.0 + record.benchmark * (extra_ms + scatter_ms * record.block),
                    first_forward_ms=None,
                    first_backward_ms=None,
                    second_ms=9.0,
                    second_forward_ms=None,
                    second_backward_ms=None,
                )
                for place, extra_ms in enumerate((100.0, 40.0, 40.0))
            ],
        )
        for record in records
    ]


def test_shapes_pay_as_long_as_the_iterations_save_what_they_cost(ask: Ask) -> None:
    records = _of_three_shapes(_blocks(SLOWER_AND_FASTER))
    row = _only(ask("shapes_that_pay", records, iterations=1000))
    gains = np.array([a - b for a, b in SLOWER_AND_FASTER])
    extras = np.arange(4.0)
    gain_margin, extra_margin = (stats.t.ppf(0.975, 3) * stats.sem(x) for x in (gains, extras))
    first, later = 100 + extras.mean(), 40 + extras.mean()

    def pays(sign: int) -> int:
        saved = 1000 * (gains.mean() + sign * gain_margin)
        return int(1 + (saved - first + sign * extra_margin) / (later - sign * extra_margin))

    assert (row["outcome"], row["shapes_met"]) == ("up to", 3)
    assert (row["shapes_low"], row["shapes_that_pay"], row["shapes_high"]) == (
        pays(-1),
        pays(0),
        pays(1),
    )
    assert pays(-1) < pays(0) < pays(1)
    one = _only(ask("shapes_that_pay", [], iterations=10))
    assert (one["outcome"], one["shapes_that_pay"]) == ("not one", None)


def test_of_one_shape_nobody_knows_what_others_cost(ask: Ask) -> None:
    row = _only(ask("shapes_that_pay", _blocks(SLOWER_AND_FASTER), iterations=1000))
    assert (row["outcome"], row["shapes_that_pay"]) == ("up to", 4), "each as much as the first"
    assert row["shapes_low"] == 3 and row["shapes_high"] is None


@pytest.mark.parametrize(
    ("times", "changes", "outcome"),
    [
        (tuple((b, a) for a, b in SLOWER_AND_FASTER), {}, "never"),
        (ALIKE, {}, "inconclusive"),
        (SLOWER_AND_FASTER[:1], {}, "inconclusive"),
        (SLOWER_AND_FASTER, {"loop_kind": "open"}, "open loop"),
        (SLOWER_AND_FASTER, {"device": "cpu"}, "no_effect"),
    ],
)
def test_no_number_of_shapes_is_told_where_none_is_known(
    ask: Ask,
    times: tuple[tuple[float, float], ...],
    changes: dict[str, object],
    outcome: str,
) -> None:
    row = _only(ask("shapes_that_pay", _blocks(times, **changes)))
    assert (row["outcome"], row["shapes_that_pay"], row["shapes_high"]) == (outcome, None, None)


@pytest.mark.parametrize(("iterations", "advice"), [(10, "off"), (10_000, "on")])
def test_a_search_is_advised_where_the_iterations_pay_for_it(
    ask: Ask, iterations: int, advice: str
) -> None:
    """It costs 470 ms and saves 2 ms an iteration."""
    row = _only(ask("recommend", _blocks(SLOWER_AND_FASTER), iterations=iterations))
    assert (row["advice"], row["cold_blocks"]) == (advice, 4)
    baseline_ms, candidate_ms = (
        stats.gmean([block[side] for block in SLOWER_AND_FASTER]) for side in (0, 1)
    )
    assert row["baseline_s"] == pytest.approx(0.03 + iterations * baseline_ms / 1000)
    assert row["candidate_s"] == pytest.approx(0.5 + iterations * candidate_ms / 1000)
    assert str(row["why"]).startswith("on takes " if advice == "off" else "saves 19.")


def test_where_time_does_not_matter_memory_decides(ask: Ask) -> None:
    records = [
        replace(record, cold_peak_reserved_bytes=2**30 * (20 if record.benchmark else 1))
        for record in _blocks(ALIKE)
    ]
    row = _only(ask("recommend", records))
    assert row["advice"] == "off"
    assert row["why"] == "no difference in time, on takes 19.0 GiB of memory"


def test_a_setting_that_cannot_matter_does_not(ask: Ask) -> None:
    row = _only(ask("recommend", _blocks(SLOWER_AND_FASTER, device="cpu")))
    assert (row["advice"], row["why"]) == ("no matter", "there is no GPU")
