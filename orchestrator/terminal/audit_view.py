"""Formats the findings of an audit as sections."""

import os
from collections.abc import Iterator
from pathlib import Path

from cudnn_sweep.analysis.answers.answer import Section
from cudnn_sweep.analysis.words import number, percent
from cudnn_sweep.workloads.auditing.findings import Findings, Model, SourceLine, Write
from cudnn_sweep.workloads.problem import sizes_text

PACKAGES = f"{os.sep}site-packages{os.sep}"
SHOWN_AT_END = ("enabled", "benchmark", "benchmark_limit", "deterministic", "allow_tf32")
NOT_SEEN = (
    "An audit does not see: backward passes; convolutions in compiled code, TorchScript, CUDA graphs, "
    "torch.func.vmap, C++ extensions and torch.ops; flags that C++ code sets; other processes, such as workers."
)
ALL = 0.97  # If the share of the loop is at least this, the rest is not explained.
NO_MODEL = "No call of a torch.nn.Module with a convolution was seen."
NO_CONVOLUTION = (
    "No convolution ran in this process, so `benchmark` had no effect in it. "
    "See below for what an audit does not see."
)


def sections_of(findings: Findings) -> list[Section]:
    flags = findings.flags_at_end
    at_end = [f"{name} {flags[name]}" for name in SHOWN_AT_END if flags.get(name) is not None]
    before = " ".join(f"{name}={value}" for name, value in findings.variables_at_start.items())
    noted = {"At the end": ", ".join(at_end), "Environment variables at the start": before}
    set_by = Section(
        title="What was set, and by which line",
        notes=[(f"{what}: {text}",) for what, text in noted.items() if text],
        head=("set", "from", "to", "by", "called from", "times", "after calls"),
        rows=[_write_row(write) for write in sorted(findings.writes, key=_changes, reverse=True)],
    )
    failed = (f"The audit itself failed, so calls may be missing: {e}" for e in findings.own_errors)
    unseen = Section(notes=[(text,) for text in (NOT_SEEN, *failed)])
    if findings.torch is None:
        return [Section(notes=[("The script did not import torch.",)]), unseen]
    calls, distinct = zip(*findings.arrivals, strict=True) if findings.arrivals else ((), ())
    models = [_model_text(model) for model in findings.models]
    gpu = findings.gpu or "the script did not use CUDA"
    cudnn = f", cuDNN {findings.cudnn}" if findings.cudnn else ""
    shown = [
        set_by,
        Section(
            title="Convolutions",
            notes=[(line,) for line in _convolution_lines(findings)],
            head=("calls", *(f"{count:,}" for count in calls)),
            rows=[("distinct", *(f"{count:,}" for count in distinct))] * bool(calls),
        ),
        Section(title="Models and their inputs", items=[(text,) for text in models or [NO_MODEL]]),
        Section(
            title="Software",
            notes=[(f"torch {findings.torch}, Python {findings.python}, {gpu}{cudnn}",)],
        ),
        unseen,
    ]
    return [section for section in shown if not section.is_empty]


def loop_text(findings: Findings) -> str | None:
    """Describe the model's share of the loop's GPU time. Return None if it was not measured."""
    loop = findings.gpu_loop
    if loop is None:
        return None
    share = loop.work_ms / loop.loop_ms
    steps = f"{loop.steps:,} steps of {number(loop.loop_ms / loop.steps)} ms"
    rest = " The rest goes to data loading, copies, `.item()` or other Python."
    return (
        f"Model, backward pass and optimiser take at most {percent(share)} of the loop's time, "
        f"measured on the GPU ({steps}).{rest * (share < ALL)}"
    )


def who_turned_it(findings: Findings) -> str:
    """Name the lines that turned benchmark on or off, or say that no line did."""
    turned = [write for write in findings.writes if write.name == "benchmark" and _changes(write)]
    if turned:
        return "\n".join(map(_turned_text, turned))
    if not findings.writes and findings.torch is not None:
        nothing = "No line of Python set a cuDNN flag or a related environment variable"
        return f"{nothing}. `benchmark` is {findings.flags_at_end.get('benchmark')}."
    return "No line of Python changed `benchmark`."


def _turned_text(write: Write) -> str:
    how = "on" if write.after else "off"
    by = f", called from {place_text(write.called_from)}" if write.called_from else ""
    often = f", {write.times:,} times" if write.times > 1 else ""
    late = f", after {write.at_call:,} convolutions" if write.at_call else ""
    return f"benchmark was turned {how} by {place_text(write.at)}{by}{often}{late}."


def _changes(write: Write) -> bool:
    return write.before != write.after


def _write_row(write: Write) -> tuple[str, ...]:
    values = ("not set" if value is None else str(value) for value in (write.before, write.after))
    by = place_text(write.called_from) if write.called_from else ""
    return (write.name, *values, place_text(write.at), by, f"{write.times:,}", f"{write.at_call:,}")


def _convolution_lines(findings: Findings) -> Iterator[str]:
    found = findings.convolutions
    if not findings.calls:
        is_compiled = any(model.unseen for model in findings.models)
        yield "No call of a convolution was seen." if is_compiled else NO_CONVOLUTION
        return
    if findings.not_told_apart:
        yield f"The sizes of {findings.not_told_apart:,} calls were not noted."
    if findings.new_in_last_tenth:
        new = f"{findings.new_in_last_tenth:,} in the last tenth of the calls"
        yield f"New convolutions were still arriving: {new}."
    else:
        yield "No new convolution arrived in the last tenth of the calls."
    with_benchmark = sum(each.calls_with_benchmark for each in found)
    told_apart = findings.calls - findings.not_told_apart
    yield f"benchmark was on in {with_benchmark:,} of {told_apart:,} calls."
    early = [each for each in found if each.calls_with_benchmark and not each.benchmark_at_first]
    if early:
        yield (
            f"{len(early):,} distinct convolutions were first called with benchmark off and "
            "later with it on. PyTorch keeps the plan of their first call and does not search."
        )
    if not any(each.device.startswith("cuda") for each in found):
        yield "No convolution ran on a GPU, so cuDNN's flags had no effect."


def _model_text(model: Model) -> str:
    wrapped = f" in {model.wrapped_in}" if model.wrapped_in else ""
    made = f", made at {at}" if (at := made_at(model)) else ""
    calls = f"{model.calls:,} calls, {model.convolutions:,} convolutions"
    if model.unseen:
        calls += f", not counting those in {model.unseen} code"
    text = f"{model.name}{wrapped}{made}: {calls}"
    if model.shapes:
        usual = max(model.shapes, key=lambda each: each.training + each.inference)
        times = usual.training + usual.inference
        text += f"; {len(model.shapes):,} distinct inputs, most often {sizes_text(usual.shape)} ({times:,} times)"
    if model.without_shape:
        text += f"; {model.without_shape:,} calls without a number tensor of 2 or more dimensions"
    return text


def made_at(model: Model) -> str | None:
    return None if model.made is None else place_text(model.made.at).rpartition(" (")[0]


def place_text(place: SourceLine) -> str:
    """Return the place as `FILE:LINE (FUNCTION)`, with a relative path if possible."""
    file = place.file
    if PACKAGES in file:
        file = file.rpartition(PACKAGES)[2]
    elif Path(file).is_relative_to(Path.cwd()):
        file = os.path.relpath(file)
    return f"{file}:{place.line} ({place.function})"
