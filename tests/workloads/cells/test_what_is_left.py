"""What of a suite runs on a machine that lacks an extra or a compiler, and what a user's own rule needs."""

import json
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import pytest

from cudnn_sweep.workloads.cells import errata
from cudnn_sweep.workloads.cells.config import Config
from cudnn_sweep.workloads.cells.errata import PYTORCHS, pytorchs_own
from cudnn_sweep.workloads.cells.expand import WorkloadFacts, _own_rule, without_missing
from cudnn_sweep.workloads.cells.listed_shapes import MOST_BYTES, MOST_ROWS, read_rows
from cudnn_sweep.workloads.cells.suite import CellAxes, SuiteSpec, WithoutGpu, workload_names
from cudnn_sweep.workloads.errors import WorkloadError

NOOP = WorkloadFacts(directions=("forward",), varies=("batch",), input_shape=(1, 1))
MISSING = WorkloadFacts(directions=(), varies=(), input_shape=None, fault="no torchvision here")
EXTRA = "torchvision.models:resnet50"
COMPILED, EAGER = Config(execution="compile"), Config()


def suite(*cells: dict[str, Any], **changes: Any) -> SuiteSpec:
    axes = [CellAxes.model_validate(cell) for cell in cells or [{"workload": "noop"}]]
    usual: dict[str, Any] = {"configs": [EAGER, COMPILED]}
    return SuiteSpec(cells=axes, **usual | changes)


def left(of: SuiteSpec, compiler: str | None = "g++") -> tuple[list[Any], list[Config], list[str]]:
    every = {"noop": NOOP, EXTRA: MISSING, "other": MISSING}
    facts = {name: every[name] for name in workload_names(of)}
    found, faults = without_missing(of, facts, compiler)
    return [axes.workload for axes in found.cells], found.configs, sorted(faults)


def test_models_of_an_extra_that_is_not_there_are_left_out_with_the_reason() -> None:
    both = suite({"workload": ["noop", EXTRA]}, {"workload": EXTRA})
    assert left(both)[::2] == ([["noop"]], [EXTRA])
    assert left(suite({"workload": "other"}))[::2] == ([["other"]], []), "no extra's: a mistake"
    assert left(suite({"workload": EXTRA}))[::2] == ([EXTRA], []), "nothing would be left"


@pytest.mark.parametrize(
    ("compiler", "configs", "faults"),
    [("g++", [EAGER, COMPILED], []), (None, [EAGER], ["execution compile"])],
)
def test_compiled_configs_need_a_compiler(
    compiler: str | None, configs: list[Config], faults: list[str]
) -> None:
    assert left(suite(), compiler)[1:] == (configs, faults)


def test_cells_whose_own_configs_all_compile_are_left_out_without_a_compiler() -> None:
    cells = ({"workload": "noop", "configs": [COMPILED]}, {"workload": "noop"})
    assert len(left(suite(*cells))[0]) == 2
    assert len(left(suite(*cells), None)[0]) == 1
    only = suite(configs=[COMPILED])
    assert left(only, None)[1:] == ([COMPILED], []), "nothing would be left"


def test_a_suites_configs_without_a_gpu_are_left_out_likewise() -> None:
    of = suite(without_gpu=WithoutGpu(configs=[COMPILED, EAGER]))
    found, _ = without_missing(of, {"noop": NOOP}, None)
    assert found.without_gpu.configs == [EAGER]
    none = suite(without_gpu=WithoutGpu(configs=[COMPILED]))
    found, _ = without_missing(none, {"noop": NOOP}, None)
    assert found.without_gpu.configs is None
    found, _ = without_missing(suite(), {"noop": NOOP}, None)
    assert found.without_gpu.configs is None


def own(given: dict[str, float], wanted: dict[str, float | None] | None) -> dict[str, float]:
    traits = WorkloadFacts(varies=("space",), regime_parameters=wanted)
    rule = _own_rule("own.py:Growing", given, traits)
    assert rule.varies == {"space"}
    return dict(rule.parameters)


def test_a_rule_of_the_users_own_needs_each_parameter_without_a_default() -> None:
    assert own({"by": 2.0}, {"by": None, "steps": 3}) == {"by": 2.0, "steps": 3.0}
    assert own({"steps": 4}, {"steps": 3}) == {"steps": 4.0}
    with pytest.raises(WorkloadError, match="own.py:Growing needs a value for by$"):
        own({}, {"by": None, "steps": 3})
    with pytest.raises(WorkloadError, match="is a workload: write it under `workload`"):
        own({}, None)


def test_pytorchs_own_rules_are_read_from_its_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found(content: bytes | None) -> list[dict[str, Any]]:
        library = tmp_path / "lib" / "libtorch_cuda.so"
        library.parent.mkdir(exist_ok=True)
        library.unlink(missing_ok=True)
        if content is not None:
            library.write_bytes(content)
        spec = ModuleSpec("torch", None, origin=str(tmp_path / "__init__.py"))
        monkeypatch.setattr(errata, "find_spec", lambda _: spec)
        return pytorchs_own.__wrapped__()

    rules = json.dumps({"rules": [{"rule_id": "ConvFwd_eng1", "engine": 1}]}).encode()
    expected = [{"rule_id": f"{PYTORCHS}ConvFwd_eng1", "engine": 1}]
    assert found(b"ELF\0" + rules + b"\0more\0") == expected
    assert found(rules + b"\0") == expected, "at the file's beginning"
    assert found(b"ELF\0nothing\0") == []
    assert found(None) == []


@pytest.mark.parametrize(
    ("rows", "message"),
    [(0, "found 0 shapes"), (1, None), (MOST_ROWS, None), (MOST_ROWS + 1, "found 10,001 shapes")],
)
def test_a_file_has_one_shape_to_ten_thousand(
    tmp_path: Path, rows: int, message: str | None
) -> None:
    text = "batch,count\n" + "".join(f"{1 + row},1\n" for row in range(rows))
    (tmp_path / "shapes.csv").write_text(text)
    if message is None:
        assert len(read_rows(tmp_path, "shapes.csv")) == rows
        return
    with pytest.raises(ValueError, match=message):
        read_rows(tmp_path, "shapes.csv")


@pytest.mark.parametrize(("more", "is_too_long"), [(0, False), (1, True)])
def test_a_file_has_at_most_a_mebibyte(tmp_path: Path, more: int, is_too_long: bool) -> None:
    text = "batch,count\n1,1\n#"
    (tmp_path / "shapes.csv").write_text(text + "x" * (MOST_BYTES - len(text) + more))
    if not is_too_long:
        assert len(read_rows(tmp_path, "shapes.csv")) == 1
        return
    with pytest.raises(ValueError, match="the file is larger than the 1,048,576 bytes allowed"):
        read_rows(tmp_path, "shapes.csv")
