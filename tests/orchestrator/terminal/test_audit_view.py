"""What a person is shown of an audit."""

from dataclasses import replace

from cudnn_sweep.analysis.answers.text import lines_of
from cudnn_sweep.orchestrator.terminal.audit_view import (
    _model_text,
    loop_text,
    sections_of,
    who_turned_it,
)
from cudnn_sweep.workloads.auditing.findings import (
    Convolution,
    Findings,
    GpuLoop,
    InputShape,
    Model,
    SourceLine,
    Write,
)
from tests.orchestrator.auditing.test_input_shapes import FINDINGS
from tests.orchestrator.blank import blank

KIT = SourceLine(file="/venv/lib/python3.12/site-packages/kit/seed.py", line=7, function="seed")
WRITE = blank(
    Write, kind="flag", name="benchmark", before=False, after=True, at=KIT, times=2, at_call=1200
)
CONVOLUTION = blank(
    Convolution,
    operation="conv2d",
    input=(8, 3, 64, 64),
    weight=(4, 3, 3, 3),
    dtype="float32",
    device="cuda:0",
    calls=100,
    calls_with_benchmark=40,
    arrived_at=1,
)


def shown(findings: Findings) -> str:
    lines = (line for section in sections_of(findings) for line in lines_of(section))
    return "\n".join([who_turned_it(findings), *lines])


def test_headline_answers_who_turned_benchmark_on() -> None:
    text = shown(replace(FINDINGS, writes=(WRITE,)))
    first = "benchmark was turned on by kit/seed.py:7 (seed), 2 times, after 1,200 convolutions."
    assert text.splitlines()[0] == first
    same = replace(WRITE, before=True)
    assert shown(replace(FINDINGS, writes=(same,))).startswith("No line of Python changed")
    quiet = shown(replace(FINDINGS, flags_at_end={"benchmark": False}))
    assert quiet.startswith("No line of Python set a cuDNN flag")
    assert "`benchmark` is False." in quiet.splitlines()[0]


def test_share_of_the_loop_is_shown_if_it_was_timed() -> None:
    assert loop_text(FINDINGS) is None
    text = loop_text(replace(FINDINGS, gpu_loop=GpuLoop(steps=1200, work_ms=3.6e4, loop_ms=1.2e5)))
    assert text is not None
    assert (
        "take at most 30% of the loop's time, measured on the GPU (1,200 steps of 100 ms). "
        "The rest goes" in text
    )
    busy = loop_text(replace(FINDINGS, gpu_loop=GpuLoop(steps=600, work_ms=995.0, loop_ms=1e3)))
    assert busy and busy.endswith(
        "at most 100% of the loop's time, measured on the GPU (600 steps of 1.67 ms)."
    )


def test_plans_that_were_made_before_benchmark_was_on_are_counted() -> None:
    found = replace(
        FINDINGS, calls=100, arrivals=((1, 1), (100, 1)), convolutions=(CONVOLUTION,), gpu="H200"
    )
    text = shown(found)
    assert "benchmark was on in 40 of 100 calls." in text
    assert "1 distinct convolutions were first called with benchmark off" in text
    assert "cuDNN's flags had no effect" not in text
    assert "New convolutions were still arriving: 3" in shown(replace(found, new_in_last_tenth=3))


def test_what_is_not_seen_and_what_failed_is_said() -> None:
    text = shown(replace(FINDINGS, own_errors=("ValueError at line 1: a",)))
    assert "An audit does not see: backward passes;" in text
    assert "The audit itself failed, so calls may be missing: ValueError at line 1" in text


def test_without_a_convolution_benchmark_changed_nothing() -> None:
    silent = replace(FINDINGS, calls=0, writes=(WRITE,))
    assert "No convolution ran in this process, so `benchmark` had no effect in it." in shown(
        silent
    )
    compiled = blank(Model, name="Net", unseen="compiled")
    assert "No convolution ran" not in shown(replace(silent, models=(compiled,)))


def test_a_model_has_its_most_frequent_input() -> None:
    """By all of its calls, those that record gradients and others."""
    shapes = [
        InputShape(shape=(8, 3), training=2, inference=5),
        InputShape(shape=(4, 3), training=6, inference=0),
        InputShape(shape=(2, 3), training=0, inference=6),
    ]
    model = blank(Model, name="Net", calls=1200, convolutions=3, shapes=shapes, without_shape=4)
    assert _model_text(model) == (
        "Net: 1,200 calls, 3 convolutions; 3 distinct inputs, most often 8x3 (7 times); "
        "4 calls without a number tensor of 2 or more dimensions"
    )
    hidden = blank(Model, name="Net", unseen="compiled", wrapped_in="DDP")
    assert _model_text(hidden) == (
        "Net in DDP: 0 calls, 0 convolutions, not counting those in compiled code"
    )


def test_a_script_that_set_nothing_is_told_from_one_without_torch() -> None:
    quiet = replace(FINDINGS, writes=(), flags_at_end={"benchmark": True})
    assert who_turned_it(quiet).endswith("related environment variable. `benchmark` is True.")
    assert who_turned_it(replace(quiet, torch=None)) == "No line of Python changed `benchmark`."
    other = replace(WRITE, name="deterministic")
    assert who_turned_it(replace(quiet, writes=(other,))) == (
        "No line of Python changed `benchmark`."
    )
    twice = replace(quiet, writes=(WRITE, other, WRITE))
    assert len(who_turned_it(twice).splitlines()) == 2
