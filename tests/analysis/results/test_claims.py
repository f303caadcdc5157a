"""What people say meets planted figures: each claim holds where they say so, and does not where they do not."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from cudnn_sweep.analysis.engine.database import open_database
from cudnn_sweep.analysis.engine.queries import load_query, part_names
from cudnn_sweep.analysis.results.min_effect import MIN_EFFECT
from cudnn_sweep.analysis.store.schema import RunRecord
from cudnn_sweep.analysis.store.store import Store
from cudnn_sweep.workloads.records.measured import Kernel
from tests.analysis import one_macro
from tests.analysis.conftest import COLD, CONVOLUTION, Ask, make_record

BLOCKS = 5
CLAIMS = [name for name in part_names() if name.startswith("claims/")]
NAMES = {int(name.removeprefix("claims/")[:2]): name for name in CLAIMS}
VERDICTS = {"holds", "holds only when", "does not hold", "undecided", "not measured"}
Columns = dict[str, Any]
Claim = Callable[[int, list[RunRecord]], list[Columns]]


def test_there_are_seventeen_claims_each_with_a_question_and_the_usual_parameters() -> None:
    assert sorted(NAMES) == list(range(1, 18))
    for name in CLAIMS:
        question = load_query(name)
        assert question.question.endswith("?") and question.notes and question.terminal, name
        defaults = {each.name: each.default for each in question.parameters}
        assert {"min_effect": MIN_EFFECT} | defaults == {
            "min_effect": MIN_EFFECT,
            "sweep_id": None,
        }, name


@pytest.mark.long
def test_claims_have_the_same_columns_and_say_over_an_empty_store_what_measures_them(
    store: Store,
) -> None:
    columns = set()
    with open_database(store) as empty:
        for number, name in sorted(NAMES.items()):
            question = load_query(name)
            table = empty.query(question.sql, question.values({}))
            columns.add(str(table.schema))
            (row,) = table.to_pylist()
            assert (row["claim"], row["verdict"]) == (number, "not measured")
            assert row["said"].endswith(".") and row["measured_by"].startswith("sweep launch ")
            assert row["value"] is None and row["gpu"] is None
    assert len(columns) == 1


@pytest.mark.long
def test_a_claim_has_one_verdict_for_each_gpu_and_software(kept_store: Store) -> None:
    with open_database(kept_store) as small:
        for name in NAMES.values():
            question = load_query(name)
            rows = small.query(question.sql, question.values({})).to_pylist()
            assert {row["verdict"] for row in rows} <= VERDICTS
            verdicts = {(row["gpu"], row["torch"], row["cudnn"]): row["verdict"] for row in rows}
            assert {(*place, verdict) for place, verdict in verdicts.items()} == {
                (row["gpu"], row["torch"], row["cudnn"], row["verdict"]) for row in rows
            }, name
            assert all(row["gpu"] is None or row["measure"] for row in rows), name


def contrast(
    cell: str, field: str, before: Columns, after: Columns, **columns: Any
) -> list[RunRecord]:
    """Blocks of a cell under two values of a setting, whose times scatter by a thousandth."""
    return [
        record
        for block in range(BLOCKS)
        for side, changes in (("before", before), ("after", after))
        for record in [trial_of(cell, field, side, block, columns | changes)]
    ]


def trial_of(cell: str, field: str, side: str, block: int, told: Columns) -> RunRecord:
    ms = told.pop("ms", 10.0) * (1 + block / 1000)
    cold_ms = told.pop("cold_ms", 30.0) * (1 + block / 1000)
    value = told.pop("value", (side == "after") != (field == "enabled"))
    prints = told.pop("fingerprints", ("same",))
    key = f"{cell}-{field}-{side}-{block}"
    found: Columns = {
        "trial_id": key,
        "attempt_id": key,
        "cell_id": cell,
        "block": block,
        "replicate": block,
        "steady_wall_ms": ms,
        "steady_device_ms": told.pop("device_ms", 0.9 * ms),
        "kernels_hash": f"kernels-{side}",
        "logged_searches": None,
        "logged_choices": None,
        "fingerprint": prints[block % len(prints)],
        "cold": [replace(COLD, first_ms=cold_ms)],
        field: value,
    }
    return make_record(**found | told)


@pytest.fixture
def claim(ask: Ask) -> Claim:
    return lambda number, records: ask(NAMES[number], records)


def on_gpu(gpu: str, records: list[RunRecord]) -> list[RunRecord]:
    """There, so that many cases are answered by asking once."""
    return [
        replace(
            each,
            gpu=gpu,
            env_hash=f"env-{gpu}",
            cell_id=f"{each.cell_id}-{gpu}",
            trial_id=f"{each.trial_id}-{gpu}",
            attempt_id=f"{each.attempt_id}-{gpu}",
        )
        for each in records
    ]


RGB256 = {
    "problem": "tutorials/rgb256",
    "input_shape": [64, 3, 256, 256],
    "direction": "forward",
    "precision": "tf32",
}
RESNET = {"workload": "torchvision.models:resnet50", "problem": None, "direction": "training"}
AMP = RESNET | {"precision": "amp_bf16", "benchmark": True}
EAGER: Columns = {"execution": None}
WAITS: Columns = {"device_ms": 4.0}
GRAPH: Columns = {"execution": "cuda_graph", "steady_device_source": "own_graph", "device_ms": 4.0}
CONTIGUOUS: Columns = {"config_layout": None, "ms": 10}
CHANNELS_LAST: Columns = {"config_layout": "channels_last"}
TOGGLED = {"state": "benchmark_toggled", "bitwise_repeatable": True}
OTHER_BITS = {"ms": 7, "bitwise_repeatable": False}
FRESH = {"regime": "fresh", "loop_kind": "open", "steady_iterations": 8}


# the number of a claim, the setting that differs, columns of all, before and after, and the verdict
MEETINGS: list[tuple[int, str, Columns, Columns, Columns, str]] = [
    (1, "benchmark", RGB256, {"ms": 10}, {"ms": 7}, "holds"),
    (1, "benchmark", RGB256, {"ms": 10}, {"ms": 10}, "does not hold"),
    (1, "benchmark", RGB256, {"ms": 10}, {"ms": 13}, "does not hold"),
    (1, "benchmark", RGB256 | {"deterministic": True}, {"ms": 10}, {"ms": 7}, "not measured"),
    (1, "benchmark", RGB256 | {"device": "cpu"}, {"ms": 10}, {"ms": 7}, "not measured"),
    (3, "benchmark", RESNET, {"ms": 10}, {"ms": 7}, "holds"),
    (3, "benchmark", RESNET, {"ms": 10}, {"ms": 10}, "does not hold"),
    (3, "benchmark", RESNET | {"direction": "inference"}, {}, {"ms": 7}, "not measured"),
    (15, "config_layout", AMP, CONTIGUOUS, CHANNELS_LAST | {"ms": 9}, "holds"),
    (15, "config_layout", AMP, CONTIGUOUS, CHANNELS_LAST | {"ms": 9.5}, "does not hold"),
    (15, "config_layout", AMP, CONTIGUOUS, CHANNELS_LAST | {"ms": 12}, "does not hold"),
    (15, "config_layout", RESNET, CONTIGUOUS, CHANNELS_LAST | {"ms": 7}, "not measured"),
    (15, "config_layout", AMP, CONTIGUOUS, {"config_layout": "weights", "ms": 7}, "not measured"),
    (16, "execution", RESNET, EAGER, {"execution": "compile", "ms": 8}, "holds"),
    (16, "execution", RESNET, EAGER, {"execution": "compile", "ms": 10}, "does not hold"),
    (16, "execution", RESNET, EAGER, {"execution": "compile", "status": "error"}, "does not hold"),
    (16, "execution", RESNET, EAGER, {"execution": "cuda_graph", "ms": 8}, "not measured"),
    (17, "execution", RESNET, EAGER | WAITS, GRAPH | {"ms": 4.1}, "holds"),
    (17, "execution", RESNET, EAGER | WAITS, GRAPH | {"ms": 10}, "does not hold"),
    (17, "execution", RESNET, EAGER | {"device_ms": 9.5}, GRAPH | {"ms": 4.1}, "not measured"),
    (4, "benchmark", FRESH, {"ms": 10}, {"ms": 90}, "holds"),
    (4, "benchmark", FRESH, {"ms": 10}, {"ms": 10}, "does not hold"),
    (5, "benchmark", {}, {"cold_ms": 30}, {"cold_ms": 500}, "holds"),
    (5, "benchmark", {}, {"cold_ms": 30}, {"cold_ms": 20}, "does not hold"),
    (7, "deterministic", {}, {"fingerprints": "ab"}, {"ms": 14}, "holds"),
    (7, "deterministic", {}, {}, {"fingerprints": "ab"}, "does not hold"),
    (7, "deterministic", {}, {"fingerprints": "ab"}, {"ms": 10}, "holds only when"),
    (8, "enabled", {}, {"ms": 10}, {"ms": 20}, "holds"),
    (8, "enabled", {}, {"ms": 10}, {"ms": 5}, "does not hold"),
    (8, "enabled", {"workload": "relu"}, {"ms": 10}, {"ms": 20}, "not measured"),
    (9, "benchmark", {"deterministic": True}, {"ms": 10}, {"ms": 7}, "holds"),
    (9, "benchmark", {"deterministic": True}, {"ms": 10}, {"ms": 10}, "does not hold"),
    (9, "deterministic", {"benchmark": True}, {"ms": 10}, {"ms": 10}, "holds"),
    (9, "deterministic", {"benchmark": True}, {"ms": 10}, {"ms": 20}, "does not hold"),
    (9, "deterministic", {"benchmark": True}, {}, {"status": "crash"}, "does not hold"),
    (10, "enabled", {"workload": "batch_norm"}, {"ms": 10}, {"ms": 20}, "holds"),
    (10, "enabled", {"workload": "batch_norm"}, {"ms": 10}, {"ms": 10}, "does not hold"),
    (10, "enabled", {}, {"ms": 10}, {"ms": 20}, "not measured"),
    (13, "benchmark", TOGGLED, {"ms": 10}, {"ms": 7}, "does not hold"),
    (13, "benchmark", TOGGLED, {"ms": 10}, {"ms": 7, "fingerprints": "ab"}, "does not hold"),
    (13, "benchmark", TOGGLED, {"ms": 10}, {"ms": 400}, "holds only when"),
    (13, "benchmark", TOGGLED, {"ms": 10}, OTHER_BITS, "holds only when"),
    (13, "benchmark", {}, {"ms": 10}, {"ms": 400}, "not measured"),
]


MET = [
    pytest.param(number, marks=[] if number % 3 == 1 else pytest.mark.long)
    for number in sorted({case[0] for case in MEETINGS})
]


@pytest.mark.slow
@pytest.mark.parametrize("number", MET)
def test_claim_meets_cells_each_on_a_gpu_of_its_own(claim: Claim, number: int) -> None:
    cases = {f"GPU-{at}": case[1:] for at, case in enumerate(MEETINGS) if case[0] == number}
    rows = claim(
        number,
        [
            record
            for gpu, (field, columns, before, after, _) in cases.items()
            for record in on_gpu(gpu, contrast("cell", field, before, after, **columns))
        ],
    )
    for gpu, (*_, after, verdict) in cases.items():
        here = [row for row in rows if row["gpu"] == gpu]
        assert {row["verdict"] for row in here} == {verdict} - {"not measured"}, gpu
        compared = 0 if "status" in after else 2 * BLOCKS
        assert {row["trials"] for row in here if row["outcome"]} <= {compared}, gpu


@pytest.mark.slow
def test_claim_most_of_whose_figures_are_undecided_is_undecided(claim: Claim) -> None:
    decided = contrast("a", "benchmark", {"ms": 10}, {"ms": 7}, **RGB256)
    wide = [
        replace(record, steady_wall_ms=10.0 * (1.5 if record.block % 2 == record.benchmark else 1))
        for cell in ("b", "c")
        for record in contrast(cell, "benchmark", {}, {}, **RGB256, layout=f"layout-{cell}")
    ]
    rows = claim(1, decided + wide)
    assert {row["verdict"] for row in rows} == {"undecided"}
    assert {row["holds_in"] for row in rows} == {"forward, tf32: 1 of 1, 2 undecided"}
    assert {row["holds_here"] for row in rows} == {"1 of 1, 2 undecided"}


@pytest.mark.slow
def test_process_that_does_not_repeat_its_bits_is_seen(claim: Claim) -> None:
    after = {"bitwise_repeatable": False}
    before = {"bitwise_repeatable": True}
    rows = claim(6, contrast("cell", "benchmark", before, after))
    within = next(row for row in rows if row["condition"] == "within a process")
    assert within["outcome"] == "holds"


STANDING = {
    "contrast_verdicts(flag, from_value, to_value, min_effect, of_sweep, of_cells)": "verdicts_here",
    "configured(flag, of_sweep)": "trials_here",
    "cell_labels()": "cells_here",
    "software_labels()": "software_here",
}
PLACE = {"env_hash": "e", "software_hash": "s", "workload_hash": "w", "other_settings": ""}
PLACE_OF = f"place_of(cell_id, {', '.join(PLACE)})"
MEASURED = [
    f"{of}{name}"
    for of, names in {
        "": "ratio ratio_low ratio_high wall_verdict reproducibility no_effect_reason",
        "device_": "ratio ratio_low ratio_high verdict",
        "memory_": "ratio ratio_low ratio_high verdict",
        "baseline_": "ms device_ms peak_reserved_bytes",
        "candidate_": "ms device_ms peak_reserved_bytes",
    }.items()
    for name in names.split()
]


def test_results_of_a_cell_are_those_of_its_own_processes_under_each_setting() -> None:
    """In one cell, second runs differ without the setting; in the other, processes differ under it."""
    results = {("a", "false"): "11", ("a", "true"): "11", ("b", "false"): "11", ("b", "true"): "12"}
    trials: one_macro.Rows = [
        PLACE
        | {"cell_id": cell, "setting": setting, "status": "ok"}
        | {"fingerprint": result, "bitwise_repeatable": (cell, setting) != ("a", "false")}
        for (cell, setting), of_processes in results.items()
        for result in of_processes
    ]
    with one_macro.macros(STANDING) as connection:
        one_macro.fill(connection, "trials_here", trials)
        one_macro.fill(connection, "cells_here", [{"cell_id": c, "cell_order": c} for c in "ab"])
        one_macro.fill(connection, "software_here", [{"software_hash": "s", "torch": "2.11"}])
        cells = one_macro.ask(
            connection, f"select distinct cell_id, {PLACE_OF} as place from trials_here"
        )
        verdicts = [dict.fromkeys(MEASURED) | PLACE | {"blocks": 2} | cell for cell in cells]
        one_macro.fill(connection, "verdicts_here", verdicts)
        figures = one_macro.ask(
            connection, "from contrast_figures('benchmark', 'false', 'true', 0.03, null)"
        )
    found = sorted(
        (row["cell_id"], row["measure"], row["baseline_value"], row["candidate_value"])
        for row in figures
        if row["measure"] != "wall time, ms"
    )
    assert found == [
        ("a", "different results among processes", 1, 1),
        ("a", "second run differed (1: yes)", 1, 0),
        ("b", "different results among processes", 1, 2),
        ("b", "second run differed (1: yes)", 0, 0),
    ]
    assert {(row["cell_id"], row["reproducibility"]) for row in figures} == {
        ("a", "gained"),
        ("b", "lost"),
    }


IEEE = [replace(CONVOLUTION, name="sm80_xmma_fprop_implicit_gemm_f32f32_f32f32_f32_nchwkcrs_nchw")]
TF32 = [replace(CONVOLUTION, name="_ZN7cutlass7Kernel2I50cutlass_80_tensorop_s1688gemm_64x64")]
COPIED = [replace(TF32[0], kind="other"), *IEEE]


# a precision, the kernels with benchmark off and on, and what is told of each
PRECISIONS: list[tuple[str, list[Kernel], list[Kernel], Columns]] = [
    ("tf32", TF32, TF32, {"off": "holds", "on": "holds"}),
    ("tf32", TF32, COPIED, {"off": "holds", "on": "does not hold"}),
    ("fp32", IEEE, IEEE, {"off": "holds", "on": "holds"}),
    ("fp32", TF32, IEEE, {"off": "does not hold", "on": "holds"}),
    ("bf16", TF32, IEEE, {}),
]


def _of_kernels(off: list[Kernel], on: list[Kernel], precision: str) -> list[RunRecord]:
    columns = {"workload": "conv", "precision": precision}
    return contrast("cell", "benchmark", {"kernels": off}, {"kernels": on}, **columns)


def test_precision_is_told_by_the_kernels_that_ran(claim: Claim) -> None:
    """Each case on a GPU of its own."""
    cases = {f"GPU-{at}": case for at, case in enumerate(PRECISIONS)}
    rows = claim(
        14,
        [
            record
            for gpu, (asked, off, on, _) in cases.items()
            for record in on_gpu(gpu, _of_kernels(off, on, asked))
        ],
    )
    for gpu, (*_, outcomes) in cases.items():
        told = [row for row in rows if row["gpu"] == gpu]
        judged = [row for row in told if row["outcome"]]
        assert {row["condition"].split()[-1]: row["outcome"] for row in judged} == outcomes, gpu
        assert all(row["trials"] == BLOCKS for row in judged)
        beside = [row["measure"] for row in told if not row["outcome"]]
        assert beside == ["relative error against float64"] * len(outcomes)


def test_search_that_draws_a_precision_holds_in_none_of_its_cells(claim: Claim) -> None:
    records = _of_kernels(TF32, TF32, "tf32")
    drawn = [
        replace(each, kernels=IEEE) if each.benchmark and not each.block else each
        for each in records
    ]
    (on,) = (row for row in claim(14, drawn) if row["outcome"] == "does not hold")
    assert (on["condition"], on["value"]) == ("TF32 allowed, benchmark on", 0.8)
