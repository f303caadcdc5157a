"""Scripts that reproduce: short, complete, of torch alone, and they run."""

import ast
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.planning.session import session_of
from cudnn_sweep.orchestrator.repro.script import (
    MOST_LINES,
    Reproduced,
    _values,
    of_case,
    of_trial,
    script,
)
from cudnn_sweep.workloads.cells.config import Config
from cudnn_sweep.workloads.cells.field_case import CaseSide, load_field_cases
from cudnn_sweep.workloads.precision import PRECISIONS
from cudnn_sweep.workloads.problem import ConvProblem
from tests.makers import MakePlan, RecordOf
from tests.orchestrator.typed import python

STANDARD = {"concurrent", "itertools", "multiprocessing", "os", "statistics", "timeit", "torch"}
PROCESSES = 5
CPU = "CPU time, no CUDA"


def side(
    *,
    input_shape: tuple[int, ...] = (2, 4, 6, 6),
    transposed: bool = False,
    bias: bool = True,
    groups: int = 2,
    **others: Any,
) -> CaseSide:
    """Of a small convolution; `others` as a Side has them."""
    spatial = len(input_shape) - 2
    problem = ConvProblem(
        name="small",
        input_shape=input_shape,
        out_channels=6,
        kernel_size=(3,) * spatial,
        stride=(2,) * spatial,
        padding=(1,) * spatial,
        dilation=(1,) * spatial,
        groups=groups,
        bias=bias,
        transposed=transposed,
        output_padding=(1,) * spatial if transposed else (),
    )
    usual: dict[str, Any] = {"direction": "forward", "precision": "fp32", "layout": "contiguous"}
    usual |= {"workload": "conv", "regime": "fixed", "config": Config()}
    return CaseSide(problem=problem, input_shape=input_shape, **(usual | others))


def case(*sides: CaseSide) -> Reproduced:
    names = {f"setting {number}": each for number, each in enumerate(sides)}
    return Reproduced(title="T1: a claim", address="https://example.org/1", sides=names)


def measured(text: str, tmp_path: Path) -> list[list[str]]:
    """What a script prints, by line and column."""
    file = tmp_path / "repro.py"
    file.write_text(text)
    ran = python("-W", "ignore", str(file), here=tmp_path)
    assert ran.returncode == 0, ran.stderr
    return [line.split("\t") for line in ran.stdout.splitlines()]


def test_every_case_that_torch_alone_can_run_has_a_short_script() -> None:
    made = 0
    for each in load_field_cases().values():
        try:
            text = script(of_case(each))
        except SpecError as error:
            assert not each.is_tested or each.is_model or each.regime != "fixed"
            assert str(error).startswith(f"case {each.id} ")
            continue
        made += 1
        assert len(text.splitlines()) <= MOST_LINES
        tree = ast.parse(text)
        names = [a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names]
        assert {name.partition(".")[0] for name in names} <= STANDARD
        assert not [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert made >= 40


def test_longest_script_is_short_too() -> None:
    config = Config(
        enabled=False,
        benchmark=True,
        benchmark_limit=3,
        deterministic=True,
        heuristic_mode_b=True,
        plan_cache_limit=5,
        compute_cache_disabled=True,
        backward_in_caller=True,
        errata="ConvFwd:5, ConvBwdData:1:k2=3@91900",
        environment={"CUDNN_LOGLEVEL_DBG": "0"},
    )
    long = side(
        input_shape=(100, 1000, 100, 100, 100),
        transposed=True,
        direction="forward_backward",
        precision="amp_fp16",
        layout="channels_last",
        config=config,
    )
    text = script(case(long))
    assert len(text.splitlines()) <= MOST_LINES
    for word in (
        "CUDNN_LOGLEVEL_DBG",
        "CUDNN_ERRATA_JSON_FILE",
        "TORCH_CUDNN_USE_HEURISTIC_MODE_B",
        "LRU_CACHE_LIMIT",
        "CUDA_CACHE_DISABLE",
    ):
        assert word in text
    ast.parse(text)


def sides_of(kind: str) -> list[CaseSide]:
    return [
        side(input_shape=(2, 4, 9, 9, 9)[: 2 + number], transposed=transposed, direction=kind)
        for number, transposed in ((1, True), (2, False), (3, True))
    ]


@pytest.mark.slow
@pytest.mark.measuring
def test_script_prints_each_time_of_five_processes_a_setting(tmp_path: Path) -> None:
    config = Config(benchmark=True, errata="ConvFwd:5")
    sides = (side(), side(groups=1, config=config))
    rows = measured(script(case(*sides)), tmp_path)
    assert [row[:2] for row in rows] == [
        [f"setting {setting}", str(number)] for number in range(PROCESSES) for setting in (0, 1)
    ]
    assert all(float(row[2]) > 0 for row in rows)
    assert {row[3] for row in rows} == {CPU}


STEPS = [
    *(side(precision=precision) for precision in PRECISIONS),
    *sides_of("forward"),
    *sides_of("forward_backward"),
    *sides_of("backward_data"),
    *sides_of("backward_filter"),
    side(bias=False, direction="forward_backward", layout="channels_last", precision="amp_bf16"),
    side(input_shape=(1, 4, 5, 5, 5), layout="channels_last"),
    side(input_shape=(1, 4, 9), layout="channels_last"),
]


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS, ids=lambda each: f"{each.direction}-{each.precision}")
def test_step_of_a_script_computes_what_the_trial_computes(step: CaseSide) -> None:
    """The shapes of what it returns, by the script's own code."""
    head, _, _ = script(case(step)).partition("def measure")
    names: dict[str, Any] = {}
    exec(compile(head, "script", "exec"), names)  # noqa: S102
    settings = names["CELL"] | names["SETTINGS"]["setting 0"]
    found = names["step_of"](settings, "cpu")()
    problem = step.problem
    assert problem is not None
    if step.direction == "forward":
        assert tuple(found.shape) == problem.output_shape(step.input_shape)
        return
    gradients = [tuple(each.shape) for each in found if each is not None]
    both = [step.input_shape, problem.weight_shape]
    bias = [(problem.out_channels,)] if problem.bias else []
    assert (
        gradients
        == {
            "forward_backward": both + bias,
            "backward_data": both[:1],
            "backward_filter": both[1:],
        }[step.direction]
    )


@pytest.fixture
def row_of(plan_of: MakePlan, record_of: RecordOf, tmp_path: Path) -> Any:
    """A stored trial's columns."""

    def made(workload: str = "conv", config: Config | None = None, **axes: Any) -> Any:
        problem = {"problem": "tutorials/rgb224"} if workload == "conv" else {}
        configs = (config or Config(),)
        plan = plan_of(workload, configs=configs, **(problem | axes))
        record = record_of(session_of(plan, "june", tmp_path), plan.trials[0])
        return asdict(replace(record, routes=["Cudnn"], steady_device_ms=0.5))

    return made


@pytest.mark.parametrize(
    ("axes", "why"),
    [
        ({"workload": "mnist"}, "timed mnist; a script can time only convolutions"),
        ({"regime": "fresh"}, r"has several input sizes \(fresh\)"),
        ({"state": "checkpoint"}, "has state checkpoint, which a script cannot reproduce"),
    ],
)
def test_trial_that_torch_alone_cannot_reproduce_is_refused(
    row_of: Any, axes: dict[str, Any], why: str
) -> None:
    with pytest.raises(SpecError, match=why):
        of_trial(row_of(**axes))


@pytest.mark.parametrize(
    ("shape", "layout", "operation", "found"),
    [
        ((2, 4, 6), "channels_last", "conv1d", "contiguous_format"),
        ((2, 4, 6, 6), "channels_last", "conv2d", "channels_last"),
        ((2, 4, 6, 6, 6), "channels_last", "conv3d", "channels_last_3d"),
        ((2, 4, 6, 6, 6), "contiguous", "conv3d", "contiguous_format"),
    ],
)
def test_layout_is_that_of_as_many_axes(
    shape: tuple[int, ...], layout: str, operation: str, found: str
) -> None:
    values = _values(side(input_shape=shape, layout=layout), ["benchmark"])
    assert (values["operation"], values["layout"]) == (operation, found)
    assert values["flags"] == {"benchmark": False} and values["output"] is None
    assert list(values["sizes"]) == ["stride", "padding", "dilation", "groups"]


def test_a_transposed_convolution_has_its_output_padding_and_a_backward_step_its_output() -> None:
    values = _values(
        side(transposed=True, bias=False, groups=1, direction="backward_data"), ["benchmark"]
    )
    assert values["operation"] == "conv_transpose2d" and values["bias"] is None
    assert values["sizes"]["output_padding"] == (1, 1)
    assert values["output"] == (2, 6, 12, 12)
    assert _values(side(), ["benchmark"])["bias"] == (6,)
