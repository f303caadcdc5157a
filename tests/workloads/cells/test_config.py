"""A config's further environment variables, and names that are refused with what is allowed."""

import json
from typing import Any, get_type_hints

import pytest
from pydantic import TypeAdapter, ValidationError

from cudnn_sweep.workloads.cells.config import (
    COMPUTE_CACHE_DISABLED,
    HEURISTIC_MODE_B,
    PLAN_CACHE_LIMIT,
    Config,
)
from cudnn_sweep.workloads.errors import MOST_NAMES, unknown
from cudnn_sweep.workloads.records.row import SCHEMA_VERSION, RunRecord, Setting
from tests.conftest import ROOT

CONFIG = TypeAdapter(Config)


def read(**keys: Any) -> Config:
    return CONFIG.validate_json(json.dumps(keys))


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("PYTHONPATH", "allowed: names that do not begin with PYTHON"),
        ("RAY_ADDRESS", "allowed: names that do not begin with PYTHON"),
        ("SWEEP_CODE", "allowed: names that do not begin with PYTHON"),
        ("NO NAME", "allowed: names that do not begin with PYTHON"),
        ("CUDA_CACHE_PATH", "is reserved for cudnn-sweep itself"),
        ("TRITON_CACHE_DIR", "is reserved for cudnn-sweep itself"),
        ("TORCH_CUDNN_USE_HEURISTIC_MODE_B", "is reserved for the setting heuristic_mode_b"),
        ("NVIDIA_TF32_OVERRIDE", "is reserved for precision"),
    ],
)
def test_variables_of_others_are_refused(name: str, fault: str) -> None:
    with pytest.raises(ValidationError, match=fault):
        read(environment={name: "1"})


def test_a_layout_or_precision_of_the_cell_itself_is_null_and_null_keeps_the_identity() -> None:
    given = read(layout="channels_last", precision="bf16", benchmark=True)
    assert given.beside("channels_last", "bf16") == Config(benchmark=True)
    assert given.beside("weights", "tf32") == given
    assert not {"layout", "precision"} & Config(benchmark=True).identity().keys()
    assert given.identity().keys() - Config().identity().keys() == {"layout", "precision"}
    assert {"config_layout", "config_precision"} < given.columns().keys()
    with pytest.raises(ValidationError, match="'contiguous', 'channels_last' or 'weights'"):
        read(layout="nhwc")


def test_eager_is_null_and_keeps_the_identity_and_an_unknown_execution_is_refused() -> None:
    assert read(execution="eager").beside("contiguous", "fp32") == Config()
    given = read(execution="cuda_graph")
    assert given.beside("contiguous", "fp32") == given
    assert given.identity().keys() - Config().identity().keys() == {"execution"}
    with pytest.raises(ValidationError, match="'eager', 'compile', .* or 'cuda_graph'"):
        read(execution="graph")


def test_variables_are_sorted_and_hold_no_null_byte() -> None:
    assert list(read(environment={"B": "1", "A": "2"}).environment) == ["A", "B"]
    with pytest.raises(ValidationError, match="found 'A'"):
        read(environment={"A": "1\0"})


def test_an_unknown_name_is_answered_with_all_names_or_with_those_like_it() -> None:
    names = [f"name{number:02}" for number in range(MOST_NAMES + 1)]
    assert str(unknown("thing", "other", names[1:])).endswith(", ".join(names[1:]))
    assert f"allowed: {MOST_NAMES + 1} names, like" in str(unknown("thing", "name1", names))


def test_pytorchs_own_values_are_those_of_the_columns() -> None:
    hints = get_type_hints(RunRecord, include_extras=True)
    settings = {
        name: mark.usual
        for name, kind in hints.items()
        for mark in getattr(kind, "__metadata__", ())
        if isinstance(mark, Setting)
    }
    assert settings == Config().columns()


def test_rows_have_the_version_of_the_newest_file_that_is_kept() -> None:
    kept = (ROOT / "tests" / "analysis" / "data").glob("schema-*.parquet")
    assert max(int(file.stem.partition("-")[2]) for file in kept) == SCHEMA_VERSION


@pytest.mark.parametrize(
    ("config", "variables", "at_import"),
    [
        (Config(), {}, {}),
        (Config(heuristic_mode_b=True), {HEURISTIC_MODE_B: "1"}, {}),
        (Config(plan_cache_limit=0), {PLAN_CACHE_LIMIT: "0"}, {}),
        (Config(plan_cache_limit=-1), {PLAN_CACHE_LIMIT: "-1"}, {}),
        (Config(compute_cache_disabled=True), {COMPUTE_CACHE_DISABLED: "1"}, {}),
        (Config(environment={"A": "1"}), {"A": "1"}, {}),
        (
            Config(environment={"PYTORCH_ALLOC_CONF": "x"}),
            {"PYTORCH_ALLOC_CONF": "x"},
            {"PYTORCH_ALLOC_CONF": "x"},
        ),
        (Config(code="head"), {}, {"SWEEP_CODE": "head"}),
    ],
)
def test_a_setting_is_a_variable_and_some_are_read_at_torchs_import(
    config: Config, variables: dict[str, str], at_import: dict[str, str]
) -> None:
    assert (config.variables, config.at_import) == (variables, at_import)


@pytest.mark.parametrize("limit", [0, 1, 10, -1])
def test_benchmark_times_all_plans_or_so_many(limit: int) -> None:
    if limit >= 0:
        assert read(benchmark_limit=limit).benchmark_limit == limit
        return
    with pytest.raises(ValidationError, match="greater than or equal to 0"):
        read(benchmark_limit=limit)


def test_tf32_is_no_setting_of_a_config() -> None:
    with pytest.raises(ValidationError, match="found allow_tf32; write `precision: tf32`"):
        read(allow_tf32=True)
