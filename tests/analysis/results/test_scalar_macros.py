"""Decisions that one expression of SQL makes: their edges, and the words for each case."""

from collections.abc import Iterator
from typing import Any

import duckdb
import pytest
from duckdb import DuckDBPyConnection as Connection
from scipy import stats

from cudnn_sweep.analysis.engine.prelude import each_macro


@pytest.fixture(scope="module")
def connection() -> Iterator[Connection]:
    """Plain DuckDB with the macros that are no tables: to make the others takes seconds."""
    with duckdb.connect() as connection:
        for statement in each_macro().values():
            if " as table" not in statement:
                connection.execute(statement)
        yield connection


def check(connection: Connection, cases: dict[str, Any]) -> None:
    """Each expression has this value."""
    found = connection.execute(f"select {', '.join(cases)}").fetchone()
    assert found is not None
    wrong = {
        case: value
        for (case, expected), value in zip(cases.items(), found, strict=True)
        if value != (pytest.approx(expected, rel=1e-3) if isinstance(expected, float) else expected)
    }
    assert wrong == {}


def test_equal_blocks_are_judged_by_their_value_alone(connection: Connection) -> None:
    """A scatter of zero, as that of bytes, leaves no doubt on either side of the least effect."""
    check(
        connection,
        {
            "p_of_effect(0.03, 0, 5, 0.03)": 1.0,
            "p_of_effect(-0.031, 0, 5, 0.03)": 0.0,
            "p_of_effect(0.1, 0.01, 0, 0.03)": None,
            "p_of_effect(0.1, 0.01, 1, 0.03)": float(stats.t.sf(7, 1) + stats.t.sf(13, 1)),
            "p_of_effect(0.1, null, 5, 0.03)": None,
            "p_of_effect(0.1, 0.01, null, 0.03)": None,
            "p_of_effect(0.1, 0, 0, 0.03)": None,
            "p_of_gap(0, 0, 5)": 1.0,
            "p_of_gap(0.001, 0, 5)": 0.0,
            "verdict(0.0, 0, 0, 5, 1, 0.03, 1)": "equivalent",
            "verdict(0.03, 0, 0, 5, 1, 0.03, 1)": "inconclusive",
            "verdict(-0.03, 0, 0, 5, 1, 0.03, 1)": "inconclusive",
            "verdict(0.0, 0, 0, 0, 1, 0.03, 1)": "inconclusive",
            "verdict(0.0, 0, 0, null, 1, 0.03, 1)": "inconclusive",
            "verdict(0.01, 0.001, 0.1, 5, 1, 0.03, 1)": "inconclusive",
            "verdict(0.01, 0.1, 0.001, 5, 1, 0.03, 1)": "inconclusive",
            "verdict(0.01, 0.001, 0.001, 5, 1, 0.03, 1)": "equivalent",
            "verdict(-0.1, 0.01, 0.01, 5, 0.05, 0.03, 1)": "helps",
            "verdict(0.1, 0.01, 0.01, 5, 0.05, 0.03, 1)": "hurts",
            "verdict(0.1, 0.01, 0.01, 5, 0.051, 0.03, 1)": "inconclusive",
        },
    )


def test_blocks_that_would_decide_are_counted_from_the_nearer_limit(connection: Connection) -> None:
    needed = "blocks_to_decide({}, 5, 6, 1.6449, 0.03)".format
    check(
        connection,
        {
            needed("0.05, 0.02, 0.9, 0, 0"): 33,
            needed("-0.05, 0.9, 0.02, 0, 0"): 33,
            needed("0.02, 0.02, 0.02, 0, 0"): 144,
            needed("-0.02, 0.02, 0.02, 0, 0"): 144,
            needed("0.05, 0.02, 0.02, 0.01, 0"): 39,
            needed("0.05, 0.02, 0.02, null, 0.9"): 33,
            needed("0.0301, 0.1, 0.1, 0, 0"): None,
            needed("0.03, 0.02, 0.02, 0, 0"): None,
            needed("0.05, 0, 0, 0, 0"): None,
            needed("0.05, 1e-9, 1e-9, 0, 0"): 1,
            "blocks_to_decide(0.05, 0.02, 0.02, 0, 0, 2, 3, 1.6449, 0.03)": 17,
            "blocks_to_decide(0.05, 0.02, 0.02, 0, 0, 1, 2, 1.6449, 0.03)": None,
        },
    )


def test_a_side_fails_if_counts_or_a_test_show_it(connection: Connection) -> None:
    check(
        connection,
        {
            "surely_fails(1, 1, 5, 0, 1)": False,
            "surely_fails(1, 0, 5, 0, 1)": True,
            "surely_fails(1, 0, 5, 3, 1)": False,
            "surely_fails(5, 0, 5, 3, 1)": True,
            "surely_fails(5, 0, 5, 3, 0.05)": False,
            "surely_fails(0, 5, 5, 3, 1)": False,
        },
    )


def test_intervals_read_in_percent_and_by_choice(connection: Connection) -> None:
    check(
        connection,
        {
            "in_percent(0.88, 0.87, 0.89)": "12% less (11–13%)",
            "in_percent(1.01, 0.98, 1.04)": "1% more (-2 to 4%)",
            "in_percent(1.05, 1.03, 1.07)": "5% more (3–7%)",
            "in_percent(0.99, 0.97, 1.01)": "1% less (-1 to 3%)",
            "in_percent(1.0, 0.98, 1.04)": "0% more (-2 to 4%)",
            "in_percent(1.02, 1.0, 1.04)": "2% more (0–4%)",
            "in_percent(0.98, 0.96, 1.0)": "2% less (0–4%)",
            "in_choices(1, 6, 6, 0.0, []::double[], 0.03)": None,
            "in_choices(2, 6, 5, 0.0, [ln(1.2)], 0.03)": ("usually 1.00; in 1 of 6 processes 1.20"),
            "in_choices(2, 6, 3, 0.0, [ln(1.2)], 0.03)": (
                "in one half 1.00; in 3 of 6 processes 1.20"
            ),
            "in_choices(3, 7, 3, 0.0, [ln(1.2), ln(0.9)], 0.03)": None,
            "in_choices(3, 7, 4, 0.0, [ln(1.2), ln(0.9)], 0.03)": (
                "usually 1.00; in 3 of 7 processes 0.90 to 1.20"
            ),
            "in_choices(2, 6, 5, 0.0, [0.03], 0.03)": "usually 1.00; in 1 of 6 processes 1.03",
            "in_choices(2, 6, 5, 0.0, [-0.02], 0.03)": None,
            "in_unseen(4, 0.25, 0.0, 0.01)": (
                "all 4 processes chose the same kernels; up to 25% may choose others, 4% slower"
            ),
            "in_unseen(4, 0.25, 0.05, 0.01)": (
                "all 4 processes chose the same kernels; up to 25% may choose others, 22% faster"
            ),
            "in_unseen(4, 0.25, 0.01, 0.01)": (
                "all 4 processes chose the same kernels; up to 25% may choose others, 4% slower"
            ),
            "in_unseen(4, 0.25, 0.009, 0.0)": None,
        },
    )


def cell(**columns: Any) -> str:
    """A row of contrast_verdicts, as SQL."""
    usual: dict[str, Any] = dict.fromkeys(
        ("unpaired_blocks", "doubtful_blocks", "baseline_failed", "candidate_failed"), 0
    ) | {
        "blocks": 3,
        "baseline_throttled": 0,
        "candidate_throttled": 0,
        "no_effect_reason": None,
        "surely": None,
        "ratio": 0.98,
    }
    return _struct(usual | columns)


def _struct(columns: dict[str, Any]) -> str:
    def text(value: Any) -> str:
        return "null" if value is None else f"'{value}'" if isinstance(value, str) else str(value)

    return "{" + ", ".join(f"'{name}': {text(value)}" for name, value in columns.items()) + "}"


def test_verdicts_read_with_what_a_reader_has_to_know(connection: Connection) -> None:
    words = "in_words('{}', {})".format
    check(
        connection,
        {
            words("helps", cell(surely="faster")): "helps",
            words("equivalent", cell(surely="faster")): "equivalent (2% faster)",
            words("inconclusive", cell(surely="faster")): "inconclusive (2% faster)",
            words("equivalent", cell()): "equivalent",
            words("so_far_faster", cell(blocks=1)): "so far faster (1 block)",
            words("undecided", cell(blocks=2)): "not decided yet (2 blocks)",
            words("not_measured", cell(candidate_failed=1)): "not measured: failed",
            words("not_measured", cell(baseline_failed=1)): "not measured: failed",
            words("not_measured", cell()): "not measured: no complete block",
            words("not_measured", cell(doubtful_blocks=1)): "not measured: shared GPU",
            words("not_measured", cell(doubtful_blocks=1, candidate_failed=1)): (
                "not measured: shared GPU"
            ),
            words("not_measured", cell(doubtful_blocks=1, candidate_throttled=1)): (
                "not measured: throttled"
            ),
            words("no_effect", cell(no_effect_reason="no_cuda")): "no_effect (no_cuda)",
            words("fails", cell(candidate_failed=2, unpaired_blocks=2)): "fails (2 of 5)",
            words("hurts", cell(candidate_failed=1, unpaired_blocks=2)): "hurts (failed 1 of 5)",
            "shown('no_cuda', 'hurts')": "no_effect",
            "shown(null, 'hurts')": "hurts",
            "shown('no_cuda', null)": None,
            "shown_unless_it_fails(null, true, 'hurts')": "fails",
            "shown_unless_it_fails(null, false, 'hurts')": "hurts",
            "shown_unless_it_fails('no_cuda', true, 'hurts')": "no_effect",
            "shown_unless_it_fails(null, true, null)": None,
            "so_far('inconclusive', false)": "undecided",
            "so_far('inconclusive', true)": "inconclusive",
            "so_far('helps', false)": "helps",
            "not_slower(2, 1.0299, 0.03)": True,
            "not_slower(2, 1.03, 0.03)": False,
            "not_slower(1, 1.0, 0.03)": False,
        },
    )


@pytest.mark.parametrize(
    ("flag", "known", "reason"),
    [
        ("twin", {"device": "cpu"}, None),
        ("benchmark", {"device": "cpu"}, "no_cuda"),
        ("compute_cache_disabled", {}, None),
        ("benchmark", {"miopen": True}, "miopen"),
        ("benchmark_limit", {"benchmark": False}, "flag_not_consulted"),
        ("benchmark_limit", {"benchmark": True, "searched": True}, None),
        ("heuristic_mode_b", {"benchmark": True}, "flag_not_consulted"),
        ("heuristic_mode_b", {"benchmark": False, "convolved": True}, None),
        ("benchmark", {"searched": True, "convolved": False}, None),
        ("benchmark", {"searched": False, "convolved": True}, "flag_not_consulted"),
        ("benchmark", {"searched": False, "convolved": False, "others": False}, "not_cudnn"),
        ("deterministic", {"searched": False, "convolved": True}, None),
        ("benchmark", {"convolved": None}, None),
        ("benchmark", {"convolved": False, "others": True}, "flag_not_consulted"),
        ("deterministic", {"convolved": False, "others": True}, None),
        ("enabled", {"convolved": False, "others": True}, None),
        ("enabled", {"convolved": False, "others": None, "convolutions": 3}, None),
        ("deterministic", {"convolved": False, "others": None, "convolutions": 1}, "not_cudnn"),
        (
            "benchmark",
            {"convolved": False, "others": None, "convolutions": 0},
            "flag_not_consulted",
        ),
        ("deterministic", {"convolved": False, "others": None, "convolutions": 0}, None),
    ],
)
def test_a_setting_that_nothing_read_cannot_have_mattered(
    connection: Connection, flag: str, known: dict[str, Any], reason: str | None
) -> None:
    names = ("device", "benchmark", "convolutions", "convolved", "others", "searched", "miopen")
    values = {"device": "cuda"} | known
    arguments = ", ".join("?" for _ in names)
    found = connection.execute(
        f"select no_effect_reason('{flag}', {arguments})", [values.get(name) for name in names]
    ).fetchone()
    assert found == (reason,)


def job(**columns: Any) -> str:
    """A job's row, as SQL; its candidate is advised, with steps 10% shorter."""
    usual: dict[str, Any] = {
        "advice": "on",
        "to_candidate": "on",
        "to_baseline": "off",
        "no_effect_reason": None,
        "both_over_limit": False,
        "over_limit": False,
        "candidate_first_bytes": 3 * 2**30,
        "baseline_first_bytes": 2**30,
        "gpu_memory_bytes": 80 * 2**30,
        "baseline_out_of_memory": 0,
        "candidate_out_of_memory": 2,
        "candidate_failed": 2,
        "baseline_failed": 1,
        "planned": 4,
        "loop_kind": "closed",
        "blocks": 3,
        "start_blocks": 2,
        "start": "warm",
        "own_low": 0.9,
        "lacking": 1,
        "least": 0.03,
        "step_log": -0.10536,
        "extra_start_ms": 2500.0,
        "others": 100.0,
        "baseline_ms": 10.0,
        "job_steps": 101,
    }
    return _struct(usual | columns)


def test_advice_has_its_reason(connection: Connection) -> None:
    why = "why_advised({}, 0.03)".format
    near = {"advice": "no difference"}
    check(
        connection,
        {
            why(job()): "steps take 10.0% less",
            why(job(step_log=0.0953)): "101 steps do not pay for the longer start",
            why(job(advice="off")): "101 steps do not pay for the longer start",
            why(job(advice="off", step_log=0.0953)): "starting takes 2.5 s longer",
            why(job(advice="off", step_log=0.0953, extra_start_ms=95.0)): "steps take 10.0% more",
            why(job(advice="off", step_log=-0.02, extra_start_ms=95.0)): (
                "starting takes 0.095 s longer"
            ),
            why(job(advice="off", step_log=0.05, extra_start_ms=95.0)): (
                "starting takes 0.095 s longer"
            ),
            why(job(advice="on", step_log=0.05, extra_start_ms=95.0)): (
                "101 steps do not pay for the longer start"
            ),
            why(job(advice="on", step_log=0.0)): "101 steps do not pay for the longer start",
            why(job(advice="off", step_log=0.0, least=0.0, extra_start_ms=0.0)): (
                "steps take 0.0% more"
            ),
            why(job(loop_kind="open", blocks=0)): "no block has both settings",
            why(job(advice="does not fit", no_effect_reason="miopen")): (
                "on ROCm it is a setting of MIOpen, which is not judged"
            ),
            why(job(advice="off", step_log=0.029, extra_start_ms=1.0)): (
                "starting takes 0.001 s longer"
            ),
            why(
                job(advice="off", step_log=0.7, extra_start_ms=1.0)
            ): "steps take 2.01 times as long",
            why(job(advice="off", step_log=0.69, extra_start_ms=1.0)): "steps take 99.4% more",
            why(job(no_effect_reason="no_cuda")): "there is no GPU",
            why(job(no_effect_reason="not_cudnn")): "the job runs nothing in cuDNN",
            why(job(no_effect_reason="other")): "no operation of the job reads this setting",
            why(job(both_over_limit=True)): "both need more memory than the limit",
            why(job(over_limit=True)): "on needs 3.00 GiB at its first steps, off 1.00 GiB",
            why(job(advice="does not fit")): "on runs out of memory in 2 of 4 blocks",
            why(job(advice="does not fit", baseline_out_of_memory=1)): "both run out of memory",
            why(job(advice="fails")): "on fails in 2 of 4 blocks, off in 1",
            why(job(loop_kind="mixed")): "one loop was open, the other closed",
            why(job(blocks=0)): "no block has both settings",
            why(job(blocks=1)): "steps take 10.0% less",
            why(job(start_blocks=0)): "no process started in this state: warm",
            why(job(start_blocks=1)): "steps take 10.0% less",
            why(job(own_low=None)): "too few starts to estimate their scatter",
            why(job(**near)): "the difference is below 3%",
            why(job(**near, gpu_memory_bytes=40 * 2**30)): (
                "no difference in time, on takes 2.0 GiB more memory"
            ),
            why(job(**near, candidate_first_bytes=2**30 + 2**31, gpu_memory_bytes=5 * 2**33)): (
                "no difference in time, on takes 2.0 GiB more memory"
            ),
            why(job(**near, gpu_memory_bytes=5 * 2**33 + 2**20)): "the difference is below 3%",
            why(job(**near, candidate_first_bytes=0, gpu_memory_bytes=2**34)): (
                "no difference in time, on takes 1.0 GiB less memory"
            ),
            why(job(advice="undecided")): "about 1 more block would decide",
            why(job(advice="undecided", lacking=2)): "about 2 more blocks would decide",
            why(
                job(advice="undecided", lacking=None)
            ): "too few blocks, or a difference too close to 3%",
        },
    )


def test_choices_nights_and_claims_are_told_apart(connection: Connection) -> None:
    night, later = "'night-2026-11-02-lab'", "'confirm-2026-11-03-lab'"
    check(
        connection,
        {
            "chose_otherwise(['a'], ['b'])": True,
            "chose_otherwise(['a', 'c'], ['b'])": None,
            "chose_otherwise(['a'], ['b', 'c'])": None,
            "chose_otherwise(['a', 'b'], ['b'])": False,
            "only_in(['a', 'b'], ['b', 'c'])::text": "[a]",
            "only_in(['a'], null)": None,
            "replaced(['a', 'b', 'c'], ['a', 'x', 'y'])::text": "[b → x, c → y]",
            "replaced(['a'], ['a', 'b'])": None,
            f"is_night_of({night}, 'lab', '2026-11-02')": True,
            f"is_night_of({later}, 'lab', '2026-11-02')": False,
            f"is_night_of({night}, 'other', '2026-11-02')": False,
            f"is_night_of({night}, null, null)": True,
            f"is_night_of({night}, 'other', null)": False,
            f"is_confirmation({night})": False,
            f"is_confirmation({later})": True,
            "is_ban('ConvFwd:5')": True,
            "is_ban('ConvFwd:5:k2=1')": False,
            "claim_outcome('device time, ms', 'helps', true)": None,
            "claim_outcome('wall time, ms', 'inconclusive', true)": "undecided",
            "claim_outcome('wall time, ms', null, true)": "undecided",
            "claim_outcome('wall time, ms', 'helps', true)": "holds",
            "claim_outcome('wall time, ms', 'helps', false)": "does not hold",
            "claim_outcome('peak of reserved memory, MB', 'inconclusive', true)": "undecided",
            "claim_outcome('results', null, true)": "holds",
            "claim_outcome('results', null, null)": None,
            "is_doubtful(['throttled'])": True,
            "is_doubtful(['shared_gpu', 'power_capped'])": True,
            "is_doubtful(['power_capped'])": False,
            "is_doubtful(null)": False,
        },
    )


def test_shares_of_the_error_and_variances_have_their_edges(connection: Connection) -> None:
    check(
        connection,
        {
            "spent(1, 4)": 0.4,
            "spent(2, 4)": 0.6,
            "spent(3, 4)": 0.8,
            "spent(4, 4)": 1.0,
            "spent(5, 4)": 1.0,
            "spent(1, 1)": 1.0,
            "half_width(3.0, 2.0, 4.0)": 5.0,
            "moderated(0.2, 4, 0.08)": (0.08 / 4 + 3 * 0.04) / 4,
            "moderated(null, 1, 0.08)": 0.08,
            "t_95(60)": float(stats.t.ppf(0.975, 60)),
            "t_90(60)": float(stats.t.ppf(0.95, 60)),
            "t_90(61)": float(stats.t.ppf(0.95, 61)),
            "of_one_clock('graph', 'graph')": True,
            "of_one_clock('captured graph', 'graph')": True,
            "of_one_clock('graph', 'events')": False,
            "of_one_clock('events', 'graph')": False,
            "of_one_clock(null, null)": True,
            "block_variance(true)": 1e-4,
            "block_variance(false)": 9e-6,
            "moderated(0.2, 0, 0.08)": None,
            "welch_df(1.0, 2, 1.0, 2)": 2,
            "welch_df(1.0, 1, 1.0, 5)": None,
            "welch_df(0.0, 3, 0.0, 5)": 6,
            "welch_df(1.0, 3, 4.0, 5)": 5,
            "log_of(0)": None,
            "log_of(1)": 0.0,
            "log_ratio(0, 1)": None,
            "log_ratio(1, 0)": None,
            "in_rounds(2.0, 8.0, null)": 2.0,
            "in_rounds(2.0, 8.0, ln(4))": 8.0,
            "median_variance([0.1])": None,
            "median_variance([0.0, 1.0, 2.0])": 3.14159265 / 2 * 1.4826**2 / 3,
            "round_logs([1.0, 2.0, 4.0], [0, 1, 2], [1.0, 1.0, 1.0], [0, 5, 2])::text": (
                "[0.0, 1.3862943611198906]"
            ),
        },
    )
