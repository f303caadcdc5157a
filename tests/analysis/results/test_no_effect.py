"""Where a setting cannot have mattered, found from what ran in the trials of a contrast."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest

from cudnn_sweep.analysis.engine.database import Database, open_database
from cudnn_sweep.analysis.engine.queries import Value
from cudnn_sweep.analysis.results.verdicts import BreakEven, Verdict
from cudnn_sweep.analysis.store.schema import RunRecord, settings, to_table
from cudnn_sweep.analysis.store.store import Store, open_store
from tests.analysis.conftest import make_pair, make_record

Ran = dict[str, object]

CUDNN: Ran = {"convolutions": 1, "routes": ["Cudnn"], "cudnn_operations": []}
PARTLY: Ran = {**CUDNN, "routes": ["CudaDepthwise2d", "CudnnTranspose"]}
ELSEWHERE: Ran = {**CUDNN, "routes": ["CudaDepthwise2d", "Slow2d"]}
NOTHING: Ran = {"convolutions": 0, "routes": [], "cudnn_operations": []}
RECURRENT: Ran = {**NOTHING, "cudnn_operations": ["_cudnn_rnn"]}
NORMALISED: Ran = {**ELSEWHERE, "cudnn_operations": ["cudnn_batch_norm"]}
FUSED: Ran = {**NOTHING, "cudnn_operations": ["cudnn_convolution_relu"]}
UNKNOWN: Ran = {"convolutions": None, "routes": None, "cudnn_operations": None}
SCHEMA_1: Ran = {"cudnn_operations": None}

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

REASONS = """
select distinct cell_id, no_effect_reason
from block_pairs($field, $baseline, $candidate, null)
where present = 'both' and no_effect_reason is not null
"""


@dataclass(frozen=True, kw_only=True)
class Case:
    """What ran in the trials of a contrast of each field, and the reasons that this gives."""

    ran: Ran
    reasons: dict[str, str]
    searches: int | None = None
    """What the logs of trials with benchmark on show; none: no log was taken."""
    settings: dict[str, object] = field(default_factory=dict)


CASES = {
    "cudnn": Case(ran=CUDNN, reasons={}),
    "partly cudnn": Case(ran=PARTLY, reasons={}),
    "fused": Case(ran=FUSED, reasons={}),
    "elsewhere": Case(ran=ELSEWHERE, reasons=dict.fromkeys(VALUES, "not_cudnn")),
    "nothing": Case(ran=NOTHING, reasons=dict.fromkeys(VALUES, "not_cudnn")),
    "recurrent": Case(ran=RECURRENT, reasons=dict.fromkeys(OF_CONVOLUTIONS, "flag_not_consulted")),
    "normalised": Case(
        ran=NORMALISED, reasons=dict.fromkeys(OF_CONVOLUTIONS, "flag_not_consulted")
    ),
    "unknown": Case(ran=UNKNOWN, reasons={}),
    # what records of schema 1 lack is no reason
    "cudnn, schema 1": Case(ran=CUDNN | SCHEMA_1, reasons={}),
    "elsewhere, schema 1": Case(
        ran=ELSEWHERE | SCHEMA_1, reasons=dict.fromkeys({*VALUES} - {"enabled"}, "not_cudnn")
    ),
    "nothing, schema 1": Case(
        ran=NOTHING | SCHEMA_1, reasons=dict.fromkeys(SEARCH, "flag_not_consulted")
    ),
    "a log without a search": Case(
        ran=CUDNN, searches=0, reasons=dict.fromkeys(SEARCH, "flag_not_consulted")
    ),
    "a log without a search, fused": Case(
        ran=FUSED, searches=0, reasons=dict.fromkeys(SEARCH, "flag_not_consulted")
    ),
    "a search outweighs the routes": Case(
        ran=ELSEWHERE, searches=1, reasons=dict.fromkeys({*VALUES} - {*SEARCH}, "not_cudnn")
    ),
    "a limit without benchmark": Case(
        ran=CUDNN, settings={"benchmark": False}, reasons={"benchmark_limit": "flag_not_consulted"}
    ),
    "heuristic mode b with benchmark": Case(
        ran=CUDNN,
        searches=1,
        settings={"benchmark": True},
        reasons={"heuristic_mode_b": "flag_not_consulted"},
    ),
    # on ROCm the flags are MIOpen's
    "miopen": Case(
        ran=NOTHING | {"convolutions": 1, "routes": ["Miopen"]},
        reasons=dict.fromkeys(VALUES, "miopen"),
    ),
    "no CUDA": Case(
        ran=CUDNN, settings={"device": "cpu"}, reasons=dict.fromkeys(VALUES, "no_cuda")
    ),
}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """The reasons of each case by field. One store holds them all, a cell a case and field."""
    store = open_store(str(tmp_path_factory.mktemp("reasons")))
    trials = [each for name, case in CASES.items() for each in _trials(name, case)]
    store.write_part("night-1", to_table(trials))
    reasons: dict[str, dict[str, str]] = {name: {} for name in CASES}
    with open_database(store) as database:
        for of in VALUES:
            for row in database.query(REASONS, _contrast(of)).to_pylist():
                case, _, its_field = row["cell_id"].partition(" / ")
                if its_field == of:
                    reasons[case][of] = row["no_effect_reason"]
    return reasons


@pytest.mark.parametrize("case", CASES)
def test_a_reason_follows_from_what_ran(found: dict[str, dict[str, str]], case: str) -> None:
    assert found[case] == CASES[case].reasons


@pytest.mark.slow
@pytest.mark.parametrize("setting", ["compute_cache_disabled", "backward_in_caller"])
@pytest.mark.parametrize("ran", [NOTHING, RECURRENT, ELSEWHERE])
def test_what_does_not_depend_on_cudnn_may_matter_without_it(
    store: Store, ran: Ran, setting: str
) -> None:
    assert settings()[setting].read_by != "cudnn"
    store.write(make_record(trial_id="off", **ran))
    store.write(make_record(trial_id="on", **{setting: True}, **ran))
    contrast = {"field": setting, "baseline": "false", "candidate": "true"}
    assert Verdict.of(store, **contrast)[0].no_effect_reason is None


@pytest.mark.slow
@pytest.mark.parametrize("field", [pytest.param("layout", marks=pytest.mark.long), "precision"])
def test_a_layout_and_a_precision_matter_on_a_cpu_too(store: Store, field: str) -> None:
    value = {"layout": "channels_last", "precision": "bf16"}[field]
    plain, changed = {"relative_l2_error": 1e-7}, {"relative_l2_error": 2e-3, "fingerprint": "b"}
    for block in range(3):
        at = {"block": block, "replicate": block, "device": "cpu"}
        store.write(make_record(trial_id=f"own-{block}", fingerprint="a", **at, **plain))
        changes = {f"config_{field}": value, **changed}
        store.write(make_record(trial_id=f"other-{block}", **at, **changes))
    (row,) = Verdict.of(store, field=field, baseline="null", candidate=value)
    assert row.no_effect_reason is None
    assert (row.baseline_relative_l2_error, row.candidate_relative_l2_error) == (1e-7, 2e-3)
    beside = "error 1.0e-07 → 2.0e-03, same bits in 0 of 3 blocks"
    assert row.errors == (beside if field == "precision" else None)


(USUAL,) = make_record().logged_choices or []
LOGGED = make_pair(0, 10.0, 12.0, logged_searches=0)
UNLOGGED = make_pair(1, 10.0, 12.0, logged_choices=None, logged_searches=None)
# perhaps another release words a search otherwise
PLANS = [replace(each, logged_choices=[replace(USUAL, plans_built=30)]) for each in LOGGED]


@pytest.mark.parametrize(
    ("trials", "reason"),
    [
        ([*LOGGED, *UNLOGGED], "flag_not_consulted"),
        ([replace(each, logged_choices=[]) for each in LOGGED], None),
        (PLANS, None),
    ],
    ids=["the log of one block speaks for all", "nothing is logged", "many plans, and no search"],
)
def test_a_log_may_be_a_reason(store: Store, trials: list[RunRecord], reason: str | None) -> None:
    store.write(*trials)
    with open_database(store) as database:
        assert _reason(database, "benchmark") == reason


def test_a_failed_trial_does_not_tell_that_cudnn_would_have_run_nothing(store: Store) -> None:
    failed = make_record(trial_id="on", status="crash", **UNKNOWN)
    store.write(failed, make_record(trial_id="off", enabled=False, **ELSEWHERE))
    with open_database(store) as database:
        assert _reason(database, "enabled") is None


@pytest.mark.slow
def test_verdicts_and_break_evens_show_the_reason(store: Store) -> None:
    store.write(*make_pair(0, 10.0, 12.0, **ELSEWHERE, logged_choices=None))
    (verdict,), (row,) = Verdict.of(store), BreakEven.of(store)
    assert verdict.no_effect_reason == row.no_effect_reason == "not_cudnn"
    assert verdict.wall_verdict == row.outcome == "no_effect"


def _reason(database: Database, of: str) -> str | None:
    reasons = [
        row["no_effect_reason"] for row in database.query(REASONS, _contrast(of)).to_pylist()
    ]
    return reasons[0] if reasons else None


def _contrast(of: str) -> dict[str, Value]:
    baseline, candidate = ("null" if each is None else str(each).lower() for each in VALUES[of])
    return {"field": of, "baseline": baseline, "candidate": candidate}


def _trials(name: str, case: Case) -> Iterator[RunRecord]:
    """The two of a contrast of each field."""
    for of, values in VALUES.items():
        own = {"cell_id": f"{name} / {of}", "benchmark": of == "benchmark_limit"} | case.settings
        for value in values:
            runs = case.ran if (of, value) != ("enabled", False) else _natively(case.ran)
            trial_id = f"{name} {of} {value}"
            trial = make_record(**own | runs | {"trial_id": trial_id, of: value})
            yield _logged(trial, case.searches)


def _natively(ran: Ran) -> Ran:
    """What runs in cuDNN's stead where it is not enabled."""
    routes, operations = ran["routes"], ran["cudnn_operations"]
    return {**ran, "routes": routes and ["SlowNd"], "cudnn_operations": operations and []}


def _logged(trial: RunRecord, searches: int | None) -> RunRecord:
    if searches is None:
        return replace(trial, logged_choices=None, logged_searches=None)
    return replace(trial, logged_searches=searches if trial.benchmark else 0)
