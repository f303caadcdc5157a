"""What a suite's keys mean: their defaults, the values at the limits, and how many trials a plan may have."""

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from cudnn_sweep.workloads.cells.config import Config
from cudnn_sweep.workloads.cells.listed_shapes import ListedChoice
from cudnn_sweep.workloads.cells.measurement import MeasureSpec
from cudnn_sweep.workloads.cells.suite import (
    BLOCKS_WITHOUT_GPU,
    FIXED_BLOCKS,
    MOST_TRIALS,
    CellAxes,
    GpuChoice,
    ProblemSpec,
    RankCount,
    SuiteSpec,
    UntilDecided,
    most_replicates,
    too_many,
    too_many_trials,
    workload_names,
)
from cudnn_sweep.workloads.problem import ConvProblem

NOOP = {"workload": "noop"}


def suite(**keys: Any) -> SuiteSpec:
    return SuiteSpec.model_validate({"cells": [NOOP], **keys})


def axes(**keys: Any) -> CellAxes:
    return CellAxes.model_validate(NOOP | keys)


def test_a_problem_of_three_keys_is_a_plain_convolution() -> None:
    spec = ProblemSpec.model_validate({"input": "2x4x20x24", "out_channels": 8, "kernel": 3})
    assert spec.problem("stem") == ConvProblem(
        name="stem",
        input_shape=(2, 4, 20, 24),
        out_channels=8,
        kernel_size=(3, 3),
        stride=(1, 1),
        padding=(0, 0),
        dilation=(1, 1),
        groups=1,
        bias=False,
        transposed=False,
        output_padding=(0, 0),
        occurrences=1,
    )


@pytest.mark.parametrize(
    ("kernel", "dilation", "answer"),
    [
        (1, None, "`same` means 0 here"),
        (3, None, "`same` means 1 here"),
        ("3x5", None, "`same` means 1x2 here"),
        ("3x5x7", 2, "`same` means 2x4x6 here"),
        ("3x3", "1x2", "`same` means 1x2 here"),
        (2, None, "one zero more at the end"),
        ("3x4", None, "one zero more at the end"),
        (4, 2, "`same` means 3 here"),
    ],
)
def test_padding_same_is_answered_with_the_number_that_it_stands_for(
    kernel: object, dilation: object, answer: str
) -> None:
    keys = {"input": "1x3x9x9", "out_channels": 8, "kernel": kernel, "padding": "same"}
    more = {} if dilation is None else {"dilation": dilation}
    with pytest.raises(ValidationError, match=f"padding: found `same`, .*{answer}"):
        ProblemSpec.model_validate(keys | more)


@pytest.mark.parametrize("padding", [0, "1x2"])
def test_padding_may_be_zero_unlike_the_other_sizes(padding: object) -> None:
    keys: dict[str, Any] = {"input": "1x3x9x9", "out_channels": 8, "kernel": 3}
    assert ProblemSpec.model_validate(keys | {"padding": padding})
    for key in ("input", "kernel", "stride", "dilation"):
        with pytest.raises(ValidationError, match="expected sizes of 1 or more, found '0x3'"):
            ProblemSpec.model_validate(keys | {key: "0x3"})
    for key in ("out_channels", "groups", "occurrences"):
        assert getattr(ProblemSpec.model_validate(keys | {key: 1}), key) == 1
        with pytest.raises(ValidationError):
            ProblemSpec.model_validate(keys | {key: 0})


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ("8x3x224x224", None),
        ("2x1", None),
        ("8", "expected a batch size and other sizes"),
        (8, "expected a batch size and other sizes"),
        (True, "expected sizes such as 8x3x224x224, found True"),
        (8.0, "found 8.0"),
        ("8x0", "sizes of 1 or more"),
        (["2x3x8x8", "2x3x16x16"], None),
        (
            ["2x3x8x8", "2x16"],
            "found 2x3x8x8, 2x16, allowed: entries with the same number of sizes",
        ),
        (["2x3x8x8"], None),
    ],
)
def test_an_input_has_a_batch_and_sizes_and_a_list_has_one_kind_of_them(
    given: object, fault: str | None
) -> None:
    if fault is None:
        assert axes(input=given).input
    else:
        with pytest.raises(ValidationError, match=fault):
            axes(input=given)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (1, "1_rank"),
        ("1", "1_rank"),
        ("1_rank", "1_rank"),
        (2, "2_ranks"),
        ("2_ranks", "2_ranks"),
        (10, "10_ranks"),
        (99, "99_ranks"),
        *((wrong, None) for wrong in (0, 100, True, "ranks", "2 ranks", "02", -1)),
    ],
)
def test_ranks_are_a_number_of_two_digits_or_a_cells_own_word(
    given: object, name: str | None
) -> None:
    ranks: TypeAdapter[str] = TypeAdapter(RankCount)
    if name is not None:
        assert ranks.validate_python(given) == name
        return
    with pytest.raises(ValidationError, match="allowed: a number of GPUs from 1 to 99"):
        ranks.validate_python(given)


@pytest.mark.parametrize(
    ("make", "key", "allowed", "refused"),
    [
        (axes, "batch", [1, 2**31 - 1], [0, 2**31]),
        (suite, "twin_every", [1, 20], [0, 21]),
        (suite, "new_compute_caches", [1, 7], [0]),
        (suite, "replicates", [1, 500], [0]),
        (GpuChoice, "share", [1e-9, 1.0], [0.0, 1.001]),
        (GpuChoice, "models", ["H200", ["H200", "A100"]], ["", [], [""]]),
        (suite, "configs", [[Config()]], [[]]),
        (suite, "cells", [[NOOP]], [[]]),
        (suite, "decided_by", [["benchmark", "layout=weights"]], [["layouts"], ["a=benchmark"]]),
        (axes, "configs", [[Config()], None], [[]]),
        (suite, "without_gpu", [{"configs": [Config()]}], [{"configs": []}]),
    ],
)
def test_a_key_has_its_limits(make: Any, key: str, allowed: list[Any], refused: list[Any]) -> None:
    for value in allowed:
        assert make(**{key: value})
    for value in refused:
        with pytest.raises(ValidationError):
            make(**{key: value})


def test_a_suite_of_one_line_compares_benchmark_until_a_verdict() -> None:
    plain = suite()
    assert plain.configs == [Config(benchmark=False), Config(benchmark=True)]
    assert (plain.replicates, plain.looks, plain.is_race) == (None, (), False)
    assert (plain.new_compute_caches, plain.twin_every) == (1, 20)
    assert (plain.gpus.models, plain.gpus.share) == ("all", 1.0)
    assert (FIXED_BLOCKS, BLOCKS_WITHOUT_GPU, plain.on("cpu").replicates) == (5, 2, 2)
    assert plain.on("cuda") is plain
    (cells,) = plain.cells
    assert (cells.ranks, cells.model.loss, cells.model.optimiser) == (
        "1_rank",
        "mean_square",
        "sgd",
    )


def test_the_usual_measurement_is_what_stored_rows_were_measured_with() -> None:
    assert MeasureSpec().model_dump() == {
        "cold_budget_s": 150.0,
        "cold_shapes": 64,
        "open_cold_shapes": 4,
        "warmup_s": 0.4,
        "warmup_limit_s": 1.5,
        "steady_budget_s": 2.0,
        "device_budget_s": 0.5,
        "steady_error": 0.002,
        "in_turns": True,
        "start_together": False,
        "turn_cpus": 1,
        "open_steps": 64,
        "open_budget_s": 10.0,
        "calibrate": True,
        "reference_replicates": 1,
        "logged_replicates": 1,
        "telemetry": "nvml",
        "timeout_s": 300.0,
        "host_memory_limit_mib": None,
    }


@pytest.mark.parametrize(
    ("at_most", "looks"),
    [
        (3, (2, 3)),
        (4, (2, 3, 4)),
        (20, (2, 3, 5, 8, 12, 20)),
        (200, (2, 3, 5, 8, 12, 20, 30, 50, 80, 120, 200)),
        (2, None),
        (201, None),
    ],
)
def test_looks_are_at_most_eleven_and_a_number_of_blocks_has_none(
    at_most: int, looks: tuple[int, ...] | None
) -> None:
    for until in ("decided", "best"):
        replicates = {"until": until, "at_most": at_most}
        if looks is None:
            with pytest.raises(ValidationError):
                suite(replicates=replicates)
            continue
        made = suite(replicates=replicates)
        assert (made.looks, made.is_race) == (looks, until == "best")
        assert most_replicates(made.replicates) == at_most
    assert most_replicates(None) == 20 and most_replicates(7) == 7
    assert suite(replicates=7).looks == () and not suite(replicates=7).is_race


def test_only_a_race_takes_no_contrasts() -> None:
    by = ["benchmark"]
    assert suite(decided_by=by, replicates={"until": "decided"}).decided_by == by
    assert suite(decided_by=by, replicates=5).decided_by == by
    assert suite(replicates={"until": "best"}).is_race
    with pytest.raises(ValidationError, match="decided_by: contrasts are not allowed with"):
        suite(decided_by=by, replicates={"until": "best"})


def test_a_plan_has_a_million_trials_at_most() -> None:
    """Cells by the values of all axes, times the configs of each, times the most replicates."""
    assert too_many_trials(MOST_TRIALS) is None
    assert too_many_trials(MOST_TRIALS + 1) == (
        "found 1,000,001 trials (cells x configs x replicates), allowed: 1,000,000"
    )
    two, three = [Config(), Config(benchmark=True)], [Config()] * 3
    wide = axes(precision=["tf32", "bf16"], layout=["contiguous", "weights"], batch=[1, 2, 3, 4, 5])
    own = axes(configs=three, batch={"cuda": 1, "cpu": 2})
    # 20 cells of two configs, and one of three: 43 trials each replicate.
    assert too_many([wide, own], two, 23_255) is None
    assert too_many([wide, own], two, 23_256) == (
        "found 1,000,008 trials (cells x configs x replicates), allowed: 1,000,000"
    )
    until = UntilDecided(until="decided", at_most=200)
    assert too_many([own], two, until) is None
    assert too_many([own] * 1667, two, until) == (
        "found 1,000,200 trials (cells x configs x replicates), allowed: 1,000,000"
    )
    with pytest.raises(ValidationError, match="found 1,000,008 trials"):
        SuiteSpec(cells=[wide, own], configs=two, replicates=23_256)


def test_code_of_the_users_is_named_once_models_and_regimes_alike() -> None:
    listed = ListedChoice.model_construct()
    cells = [
        axes(workload=["noop", "nets.py:Net"], regime=["all", "own.py:Rule", listed]),
        axes(regime={"more.py:Rule": {"by": 2}}),
        axes(workload="nets.py:Net", regime={"cycle": {"sizes": 2}}),
    ]
    assert workload_names(SuiteSpec(cells=cells)) == [
        *("noop", "nets.py:Net", "own.py:Rule", "more.py:Rule")
    ]


def test_every_config_of_a_suite_stands_once_and_then_without_the_cells_axes() -> None:
    off, on, laid = Config(), Config(benchmark=True), Config(layout="weights", precision="bf16")
    made = suite(configs=[off, on], cells=[NOOP | {"configs": [laid, on]}, NOOP])
    assert made.every_config == [off, on, laid]
    made = suite(configs=[Config(layout="weights", benchmark=True, execution="eager")])
    assert made.every_config == [*made.configs, on]


@pytest.mark.parametrize(
    ("device", "batch", "precision"), [("cuda", [32], ["bf16"]), ("cpu", [2], ["fp32"])]
)
def test_a_value_for_each_device_is_one_value_on_it(
    device: str, batch: list[int], precision: list[str]
) -> None:
    given = axes(batch={"cuda": 32, "cpu": 2}, precision={"cuda": "bf16", "cpu": "fp32"})
    values = given.values_on(device)
    assert (values["batch"], values["precision"]) == (batch, precision)
    assert values.keys() == set(CellAxes.model_fields) - {"model", "configs"}
    assert all(len(value) == 1 for value in values.values())


def test_an_editor_shows_the_ranks_and_sizes_that_a_launch_takes() -> None:
    keys = CellAxes.model_json_schema()["properties"]
    assert keys["ranks"]["default"] == 1 and axes(ranks=1).ranks == axes().ranks
    sizes = ProblemSpec.model_json_schema()["properties"]["padding"]
    assert sizes["type"] == ["string", "integer"] and sizes["examples"] == ["8x3x224x224"]
