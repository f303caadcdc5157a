"""Where a setting cannot have mattered, found from what ran in the trials of a contrast."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from cudnn_sweep.analysis.database import Database, open_database
from cudnn_sweep.analysis.schema import RunRecord
from cudnn_sweep.analysis.store import Store
from cudnn_sweep.analysis.verdicts import break_evens, verdicts

MakeRecord = Callable[..., RunRecord]
MakePair = Callable[..., list[RunRecord]]
Ran = dict[str, object]
Reasons = Callable[..., dict[str, str]]

CUDNN: Ran = {"convolutions": 1, "routes": ["Cudnn"], "cudnn_operations": []}
PARTLY: Ran = {**CUDNN, "routes": ["CudaDepthwise2d", "CudnnTranspose"]}
ELSEWHERE: Ran = {**CUDNN, "routes": ["CudaDepthwise2d", "Slow2d"]}
NOTHING: Ran = {"convolutions": 0, "routes": [], "cudnn_operations": []}
RECURRENT: Ran = {**NOTHING, "cudnn_operations": ["_cudnn_rnn"]}
NORMALISED: Ran = {**ELSEWHERE, "cudnn_operations": ["cudnn_batch_norm"]}
FUSED: Ran = {**NOTHING, "cudnn_operations": ["cudnn_convolution_relu"]}
UNKNOWN: Ran = {"convolutions": None, "routes": None, "cudnn_operations": None}

VALUES = {
    "enabled": (True, False),
    "benchmark": (False, True),
    "benchmark_limit": (10, 0),
    "deterministic": (False, True),
    "heuristic_mode_b": (False, True),
    "plan_cache_limit": (None, 1),
}
SEARCH = ("benchmark", "benchmark_limit")
OF_CONVOLUTIONS = (*SEARCH, "heuristic_mode_b", "plan_cache_limit")

REASON = """
select distinct no_effect_reason
from block_pairs($field, $baseline, $candidate, null)
where present = 'both'
"""


@pytest.fixture
def reasons(store: Store, make_record: MakeRecord) -> Reasons:
    """The reasons that contrasts of each field have whose trials ran this.

    `searches`: what the logs of trials with benchmark on show; None: no log was taken.
    """

    def found(ran: Ran, searches: int | None = None, **settings: object) -> dict[str, str]:
        for field, values in VALUES.items():
            own = {"cell_id": field, "benchmark": field == "benchmark_limit"} | settings
            for value in values:
                runs = ran if (field, value) != ("enabled", False) else _natively(ran)
                trial_id = f"{field}-{value}"
                trial = make_record(**own | runs | {"trial_id": trial_id, field: value})
                store.write(_logged(trial, searches))
        with open_database(store) as database:
            every = {field: _reason(database, field) for field in VALUES}
        return {field: reason for field, reason in every.items() if reason is not None}

    return found


@pytest.mark.parametrize(
    ("ran", "expected"),
    [
        (CUDNN, {}),
        (PARTLY, {}),
        (FUSED, {}),
        (ELSEWHERE, dict.fromkeys(VALUES, "not_cudnn")),
        (NOTHING, dict.fromkeys(VALUES, "not_cudnn")),
        (RECURRENT, dict.fromkeys(OF_CONVOLUTIONS, "flag_not_consulted")),
        (NORMALISED, dict.fromkeys(OF_CONVOLUTIONS, "flag_not_consulted")),
        (UNKNOWN, {}),
    ],
)
def test_a_reason_follows_from_what_ran(reasons: Reasons, ran: Ran, expected: object) -> None:
    assert reasons(ran) == expected


@pytest.mark.parametrize(
    ("ran", "expected"),
    [
        (CUDNN, {}),
        (ELSEWHERE, {field: "not_cudnn" for field in VALUES if field != "enabled"}),
        (NOTHING, dict.fromkeys(SEARCH, "flag_not_consulted")),
    ],
)
def test_what_records_of_schema_1_lack_is_no_reason(
    reasons: Reasons, ran: Ran, expected: object
) -> None:
    assert reasons(ran | {"cudnn_operations": None}) == expected


@pytest.mark.parametrize("ran", [CUDNN, FUSED])
def test_a_log_without_a_search_says_that_benchmark_was_not_consulted(
    reasons: Reasons, ran: Ran
) -> None:
    assert reasons(ran, searches=0) == dict.fromkeys(SEARCH, "flag_not_consulted")


def test_a_search_in_the_log_outweighs_the_routes(reasons: Reasons) -> None:
    assert set(VALUES) - set(reasons(ELSEWHERE, searches=1)) == set(SEARCH)


def test_without_benchmark_its_limit_is_not_consulted(reasons: Reasons) -> None:
    assert reasons(CUDNN, benchmark=False) == {"benchmark_limit": "flag_not_consulted"}


def test_with_benchmark_heuristic_mode_b_is_not_consulted(reasons: Reasons) -> None:
    assert reasons(CUDNN, 1, benchmark=True) == {"heuristic_mode_b": "flag_not_consulted"}


def test_without_cuda_no_setting_matters(reasons: Reasons) -> None:
    assert reasons(CUDNN, device="cpu") == dict.fromkeys(VALUES, "no_cuda")


@pytest.mark.parametrize("ran", [NOTHING, RECURRENT, ELSEWHERE])
def test_whatever_is_compiled_may_use_the_compute_cache(
    store: Store, make_record: MakeRecord, ran: Ran
) -> None:
    _all_written(store, [make_record(trial_id="on", **ran)])
    _all_written(store, [make_record(trial_id="off", compute_cache_disabled=True, **ran)])
    contrast = {"field": "compute_cache_disabled", "baseline": "false", "candidate": "true"}
    assert verdicts(store, **contrast)[0].no_effect_reason is None


def test_the_log_of_one_block_speaks_for_all(store: Store, make_pair: MakePair) -> None:
    logged = make_pair(0, 10.0, 12.0, logged_searches=0)
    unlogged = make_pair(1, 10.0, 12.0, logged_choices=None, logged_searches=None)
    _all_written(store, [*logged, *unlogged])
    with open_database(store) as database:
        assert _reason(database, "benchmark") == "flag_not_consulted"


def test_a_log_that_says_nothing_is_no_reason(store: Store, make_pair: MakePair) -> None:
    _all_written(store, make_pair(0, 10.0, 12.0, logged_choices=[], logged_searches=0))
    with open_database(store) as database:
        assert _reason(database, "benchmark") is None


def test_a_failed_trial_does_not_tell_that_cudnn_would_have_run_nothing(
    store: Store, make_record: MakeRecord
) -> None:
    failed = make_record(trial_id="on", status="crash", **UNKNOWN)
    _all_written(store, [failed, make_record(trial_id="off", enabled=False, **ELSEWHERE)])
    with open_database(store) as database:
        assert _reason(database, "enabled") is None


def test_verdicts_and_break_evens_show_the_reason(store: Store, make_pair: MakePair) -> None:
    _all_written(store, make_pair(0, 10.0, 12.0, **ELSEWHERE, logged_choices=None))
    (verdict,), (row,) = verdicts(store), break_evens(store)
    assert verdict.no_effect_reason == row.no_effect_reason == "not_cudnn"
    assert verdict.wall_verdict == row.outcome == "no_effect"


def _all_written(store: Store, records: list[RunRecord]) -> None:
    for record in records:
        store.write(record)


def _reason(database: Database, field: str) -> str | None:
    baseline, candidate = ("null" if each is None else str(each).lower() for each in VALUES[field])
    contrast = {"field": field, "baseline": baseline, "candidate": candidate}
    (row,) = database.query(REASON, contrast).to_pylist()
    reason: str | None = row["no_effect_reason"]
    return reason


def _natively(ran: Ran) -> Ran:
    """What runs in cuDNN's stead where it is not enabled."""
    routes, operations = ran["routes"], ran["cudnn_operations"]
    return {**ran, "routes": routes and ["SlowNd"], "cudnn_operations": operations and []}


def _logged(trial: RunRecord, searches: int | None) -> RunRecord:
    if searches is None:
        return replace(trial, logged_choices=None, logged_searches=None)
    return replace(trial, logged_searches=searches if trial.benchmark else 0)


def test_log_of_many_plans_in_which_no_search_is_seen_says_nothing(
    store: Store, make_pair: MakePair, make_record: Callable[..., RunRecord]
) -> None:
    """Perhaps another release words a search otherwise."""
    (usual,) = make_record().logged_choices or []
    built = [replace(usual, plans_built=30)]
    _all_written(store, make_pair(0, 10.0, 12.0, logged_choices=built, logged_searches=0))
    with open_database(store) as database:
        assert _reason(database, "benchmark") is None
