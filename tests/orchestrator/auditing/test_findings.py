"""What an audit finds in a script."""

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.orchestrator.auditing.audited import CONVOLUTIONS_OF_STATES, SCRIPTS, audit, findings_of

pytestmark = pytest.mark.usefixtures("here")


@pytest.mark.slow
def test_each_kind_of_write_is_found_with_its_line(here: Path) -> None:
    found = findings_of(audit(SCRIPTS["writes"]))
    written = {
        (each.at.function, each.name, str(each.after)): each.at.line
        for each in found.writes
        if each.before != each.after
    }
    function, expected = "", {}
    for number, line in enumerate((here / "script.py").read_text().splitlines(), start=1):
        if line.startswith("def "):
            function = line[4:].partition("(")[0]
        if "  # " in line:
            name, after = line.rpartition("# ")[2].split()
            expected[function, name, after] = number
    assert len(expected) == 16
    assert written.items() >= expected.items()
    assert {each.at.file for each in found.writes} == {str(here / "script.py")}
    assert "UNRELATED" not in {each.name for each in found.writes}
    assert found.flags_at_end["use_deterministic_algorithms"] is False


@pytest.mark.long
def test_what_torch_sets_for_itself_and_back_is_left_out() -> None:
    found = findings_of(audit(SCRIPTS["set by torch"]))
    assert [(each.name, each.at.line) for each in found.writes] == [
        ("benchmark", 4),
        ("deterministic", 6),
    ]


@pytest.mark.long
def test_convolutions_are_counted_as_a_trace_lists_them(here: Path) -> None:
    found = findings_of(audit(SCRIPTS["convolutions"]))
    sizes = ("stride", "padding", "dilation", "groups", "output_padding", "dtype")
    traced: Counter[str] = Counter()
    for each, times in json.loads((here / "trace.json").read_text()):
        shapes = each["input_shape"], each["weight_shape"], each["transposed"]
        traced[json.dumps([*shapes, *(each[name] for name in sizes)])] += times
    counted = {
        json.dumps(
            [each.input, each.weight, "transpose" in each.operation]
            + [getattr(each, name) for name in sizes]
        ): each.calls
        for each in found.convolutions
    }
    assert len(counted) == 10
    assert counted == traced
    assert found.calls == traced.total()
    assert found.arrivals[0] == (1, 1)
    assert found.arrivals[-1] == (found.calls, 10)


@pytest.mark.long
def test_what_the_plan_depends_on_tells_convolutions_apart_and_benchmark_does_not() -> None:
    found = findings_of(audit(SCRIPTS["states"])).convolutions
    told = [
        (each.input[0], each.memory_format, each.dtype, each.deterministic, each.allow_tf32)
        for each in found
    ]
    assert told == CONVOLUTIONS_OF_STATES
    assert [each.calls for each in found] == [2, 2, 1, 1, 2, 1, 1]
    assert [each.calls_with_benchmark for each in found] == [1, 0, 0, 1, 2, 1, 1]
    assert [each.benchmark_at_first for each in found] == [False] * 3 + [True] * 4
    assert [each.autocast_at_first for each in found] == [False, False, True, *[False] * 4]


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_compiled_code_is_not_seen_and_its_model_is() -> None:
    found = findings_of(audit(SCRIPTS["unseen"]))
    assert found.calls == 1, "the eager call of this process"
    nets = [(each.calls, each.unseen) for each in found.models if each.name == "Net"]
    assert sorted(nets) == [(1, "compiled"), (2, "compiled"), (3, "compiled")], "of three lines"


@pytest.mark.slow
def test_only_the_outermost_model_is_one_and_a_loss_is_none() -> None:
    part, whole, alone = findings_of(audit(SCRIPTS["models"])).models
    assert (whole.name, whole.calls, whole.convolutions) == ("Whole", 4, 4)
    assert whole.made is not None and whole.made.arguments == {"width": 4}
    counts = {each.shape: (each.training, each.inference) for each in whole.shapes}
    assert counts == {(2, 3, 8, 8): (2, 0), (2, 3, 9, 9): (1, 1)}
    for each, calls in ((part, 20), (alone, 1)):
        assert (each.name, each.calls, each.convolutions) == ("Part", calls, calls), (
            "of another line"
        )
        assert [told.shape for told in each.shapes] == [(5, 3, 7, 7)]


@pytest.mark.gpu
def test_on_a_gpu_the_library_is_named() -> None:
    found = findings_of(audit(SCRIPTS["on a gpu"]))
    assert found.gpu is not None and found.cudnn is not None
    on_cpu, early, searched, cast = found.convolutions
    assert (on_cpu.device, early.device) == ("cpu", "cuda:0")
    assert not early.benchmark_at_first and early.calls_with_benchmark == 3
    assert searched.benchmark_at_first
    assert (cast.dtype, cast.autocast_at_first) == ("bfloat16", True)
