"""An audit for a person: who set what first, then the convolutions, and at the end what was not seen."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from cudnn_sweep.analysis.words import printable
from cudnn_sweep.orchestrator.showing.say import plain_table
from cudnn_sweep.workloads.auditing.findings import Findings, Model, Place, Value, Write
from cudnn_sweep.workloads.problem import sizes_text

PACKAGES = f"{os.sep}site-packages{os.sep}"
SHOWN_AT_END = ("enabled", "benchmark", "benchmark_limit", "deterministic", "allow_tf32")
NOT_SEEN = (
    "Not seen, if there are any: backward passes; convolutions in compiled code, TorchScript, CUDA graphs, "
    "torch.func.vmap, C++ extensions and torch.ops; flags that C++ code sets; other processes, such as workers."
)
NOTHING_SET = (
    "No line of Python set a flag of cuDNN, or a variable that belongs to it: "
    "`benchmark` is {benchmark}."
)


def audit_view(findings: Findings) -> RenderableType:
    return Group(*_parts(findings))


def _parts(findings: Findings) -> Iterator[RenderableType]:
    yield _headline(findings)
    if findings.torch is None:
        yield _line("The script did not import torch.")
    if findings.writes:
        yield _head("What was set, and by which line")
        yield _writes_table(findings.writes)
    if findings.flags_at_end:
        at_end = (
            f"{name} {value}"
            for name in SHOWN_AT_END
            if (value := findings.flags_at_end.get(name)) is not None
        )
        yield _line(f"At the end: {', '.join(at_end)}.")
    if findings.variables_at_start:
        set_before = (f"{name}={value}" for name, value in findings.variables_at_start.items())
        yield _line(f"Set before the script began: {' '.join(set_before)}")
    if findings.torch is not None:
        yield _head("Convolutions")
        yield from _convolutions(findings)
        yield _head("Models and their inputs")
        yield from map(_line, map(_model_text, findings.models))
        if not findings.models:
            yield _line("No call of a torch.nn.Module with a convolution was seen.")
        yield _head("Software")
        gpu = findings.gpu or "the script did not use CUDA"
        cudnn = f", cuDNN {findings.cudnn}" if findings.cudnn else ""
        yield _line(f"torch {findings.torch}, Python {findings.python}, {gpu}{cudnn}")
    yield _line(f"\n{NOT_SEEN}")
    for text in findings.own_errors:
        yield _line(f"warning: the audit itself failed, so calls may be missing: {text}", "yellow")


def _headline(findings: Findings) -> Text:
    """The answer to the question that most ask: who turns benchmark on?"""
    turned = [each for each in findings.writes if each.name == "benchmark" and _changes(each)]
    if turned:
        return _line("\n".join(map(_turned_text, turned)), "bold")
    if not findings.writes and findings.torch is not None:
        benchmark = findings.flags_at_end.get("benchmark")
        return _line(NOTHING_SET.format(benchmark=benchmark), "bold")
    return _line("No line of Python changed `benchmark`.", "bold")


def _turned_text(write: Write) -> str:
    how = "on" if write.after else "off"
    by = f", called from {_place_text(write.called_from)}" if write.called_from else ""
    often = f", {write.times:,} times" if write.times > 1 else ""
    late = f", after {write.at_call:,} convolutions" if write.at_call else ""
    return f"benchmark was turned {how} by {_place_text(write.at)}{by}{often}{late}."


def _changes(write: Write) -> bool:
    return write.before != write.after


def _writes_table(writes: Sequence[Write]) -> Table:
    columns = ("set", "from", "to", "by", "called from", "times", "after calls")
    rows = [
        (
            each.name,
            _value_text(each.before),
            _value_text(each.after),
            _place_text(each.at),
            _place_text(each.called_from) if each.called_from else "",
            f"{each.times:,}",
            f"{each.at_call:,}",
        )
        for each in sorted(writes, key=lambda write: not _changes(write))
    ]
    return plain_table(columns, rows, right=("times", "after calls"))


def _convolutions(findings: Findings) -> Iterator[RenderableType]:
    if not findings.calls:
        yield _line("No call was seen; see below for what an audit does not see.")
        return
    yield plain_table(
        ("calls", *(f"{calls:,}" for calls, _ in findings.arrivals)),
        [("distinct", *(f"{distinct:,}" for _, distinct in findings.arrivals))],
        right=tuple(f"{calls:,}" for calls, _ in findings.arrivals),
    )
    if findings.not_told_apart:
        yield _line(f"{findings.not_told_apart:,} calls were not told apart.")
    if findings.new_in_last_tenth:
        yield _line(
            f"New ones were still arriving: {findings.new_in_last_tenth:,} in the last tenth of the calls."
        )
    else:
        yield _line("No new one arrived in the last tenth of the calls.")
    yield from map(_line, _benchmark_lines(findings))


def _benchmark_lines(findings: Findings) -> Iterator[str]:
    found = findings.convolutions
    with_benchmark = sum(each.calls_with_benchmark for each in found)
    told_apart = findings.calls - findings.not_told_apart
    yield f"benchmark was on in {with_benchmark:,} of {told_apart:,} calls."
    early = [each for each in found if each.calls_with_benchmark and not each.benchmark_at_first]
    if early:
        yield (
            f"{len(early):,} of the distinct ones were first called with benchmark off and later with it on: "
            "PyTorch keeps the plan of the first call and does not search."
        )
    if not any(each.device.startswith("cuda") for each in found):
        yield "None of them ran on a GPU: cuDNN's flags changed nothing."


def _model_text(model: Model) -> str:
    wrapped = f" in {model.wrapped_in}" if model.wrapped_in else ""
    calls = f"{model.calls:,} calls, {model.convolutions:,} convolutions"
    if model.unseen:
        calls += f", others in {model.unseen} code not seen"
    text = f"{model.name}{wrapped}: {calls}"
    if model.shapes:
        usual = max(model.shapes, key=lambda each: each.training + each.inference)
        times = usual.training + usual.inference
        text += f"; {len(model.shapes):,} distinct inputs, most often {sizes_text(usual.shape)} ({times:,} times)"
    if model.without_shape:
        text += f"; {model.without_shape:,} calls without a tensor of floats among the arguments"
    return text


def _place_text(place: Place) -> str:
    return f"{_file_text(place.file)}:{place.line} ({place.function})"


def _file_text(file: str) -> str:
    """As it is found from here, or inside of its package."""
    if PACKAGES in file:
        return file.rpartition(PACKAGES)[2]
    here = Path.cwd()
    return os.path.relpath(file) if Path(file).is_relative_to(here) else file


def _value_text(value: Value) -> str:
    return "not set" if value is None else str(value)


def _head(text: str) -> Text:
    return Text(f"\n{text}", style="bold")


def _line(text: str, style: str = "") -> Text:
    return Text(printable(text), style=style)
