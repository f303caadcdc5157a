"""`sweep audit`."""

import json as json_format
import os
import shlex
from dataclasses import asdict
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cudnn_sweep.orchestrator.errors import OutputError, SpecError
from cudnn_sweep.orchestrator.planning.options import AuditRequest
from cudnn_sweep.orchestrator.planning.spelling import program
from cudnn_sweep.orchestrator.terminal.write_whole import write_whole

if TYPE_CHECKING:
    from rich.console import Console

    from cudnn_sweep.orchestrator.auditing.audit import Audited, Inputs

SCRIPT_SETTINGS = {"allow_interspersed_args": False}  # options after the script are its own
SHAPES = Path("shapes.csv")
PLAIN_WIDTH = 120  # columns of a file


def audit(
    request: AuditRequest,
    shapes: Annotated[Path, "FILE.csv", "Where the shapes of the model's inputs go."] = SHAPES,
    model: Annotated[
        str | None,
        "CLASS",
        "Model whose inputs are written, or FILE.py:LINE that makes it. Default: the model that "
        "runs most convolutions.",
    ] = None,
    format: Annotated[Literal["text", "json"], "Format of the report."] = "text",
    json: Annotated[bool, "Short for --format json."] = False,
    output: Annotated[
        Path | None, "FILE", "Where the report goes. Default: standard error."
    ] = None,
) -> None:
    """Run your own script and report who sets cuDNN's flags, and which convolutions and shapes it has.

    The script runs as python SCRIPT ARGUMENTS would, and its results stay the same. The exit code is the
    script's own; 0 if --seconds or --steps ended it.
    """
    from rich.console import Console

    from cudnn_sweep.orchestrator.auditing.audit import audit_script, check_may_write, model_inputs
    from cudnn_sweep.orchestrator.terminal.say import console_here

    if shapes.suffix != ".csv":
        raise SpecError(f"--shapes {shapes}: the name of a file of shapes ends in .csv")
    shapes = _of_rank(shapes)
    output = output and _of_rank(output)
    for file in (shapes, _suite_file(shapes)):
        check_may_write(file)
    if output is not None:
        write_whole(output, "")  # before the script runs, which may take long
    audited = audit_script(request)
    inputs = None if audited.findings is None else model_inputs(audited.findings, model)
    written, mistake = [], None
    try:
        written = _write_shapes(audited, inputs, shapes)
    except OutputError as error:  # the report comes first
        mistake = error
    text = StringIO()
    console = console_here(stderr=True, plain_width=PLAIN_WIDTH)
    if output is not None:
        console = Console(file=text, width=PLAIN_WIDTH, markup=False)
    if json or format == "json":
        report = {**asdict(audited), "written": [str(file) for file in written]}
        console.out(json_format.dumps(report, indent=2), highlight=False)
    else:
        _print(console, audited, _next_lines(audited, inputs, written))
    if output is not None:
        write_whole(output, text.getvalue().lstrip())
    if mistake is not None:
        raise mistake
    raise typer.Exit(audited.exit_code)


def _of_rank(file: Path) -> Path:
    """Return the name for this rank: each rank of a launcher writes its own files."""
    rank = os.environ.get("RANK")
    return file.with_stem(f"{file.stem}-rank{rank}") if rank and rank.isdigit() else file


def _suite_file(shapes: Path) -> Path:
    return shapes.with_suffix(".yaml")


def _write_shapes(audited: "Audited", inputs: "Inputs | None", shapes: Path) -> list[Path]:
    from cudnn_sweep.orchestrator.auditing.audit import shapes_text, suite_text

    if inputs is None or audited.findings is None:
        return []
    texts = {
        shapes: shapes_text(inputs, audited.request.script),
        _suite_file(shapes): suite_text(inputs, audited.findings, shapes),
    }
    written = {file: text for file, text in texts.items() if text is not None}
    for file, text in written.items():
        write_whole(file, text)
    return list(written)


def _print(console: "Console", audited: "Audited", next_lines: list[str]) -> None:
    from cudnn_sweep.orchestrator.terminal.audit_view import print_audit
    from cudnn_sweep.orchestrator.terminal.say import say

    rank = f" of rank {os.environ['RANK']}" if "RANK" in os.environ else ""
    say(console, f"\nAudit{rank}: {_ending(audited)}", "bold")
    if audited.findings is not None:
        print_audit(console, audited.findings, audited.unseen)
    for line in next_lines:
        say(console, line)


def _ending(audited: "Audited") -> str:
    from cudnn_sweep.analysis.words import clock

    name, findings = audited.request.script, audited.findings
    code = f"exit code {audited.exit_code}"
    if findings is None:
        return f"{name} left no findings: it was killed, or was replaced by another program; {code}"
    took = f"after {clock(findings.wall_s)}"
    if audited.ended == "limit":
        return f"{name} was ended at its limit {took}"
    error = f" with {findings.error}" if findings.error else ""
    ways = {"interrupt": "was interrupted", "signal": "ended by a signal"}
    return f"{name} {ways.get(audited.ended, f'ended{error}')} {took}; {code}"


def _next_lines(audited: "Audited", inputs: "Inputs | None", written: list[Path]) -> list[str]:
    from cudnn_sweep.orchestrator.auditing import audit as of

    if audited.findings is None:
        return []
    if inputs is None:
        models = audited.findings.models
        names = ", ".join(each.name for each in models) or "none"
        without = [each for each in models if not each.shapes]
        lines = [line for each in without for line in of.what_it_takes(each, each.in_a_call[0][0])]
        return [f"\nNo shapes were written. Models: {names}.", *(f"{line}." for line in lines)]
    if not written:
        return []
    counted = f"{sum(count for _, count in inputs.counts):,} calls of {inputs.model.name}"
    lines = [f"\nWrote {' and '.join(map(str, written))}: the inputs in {counted}."]
    if inputs.left_out:
        lines.append(
            f"Left out: {inputs.left_out:,} calls with other channels, dimensions or no size."
        )
    if len(written) < 2:
        lines.append(
            f"{of.why_no_suite(inputs.model)}, with `regime: {{listed: {{file: {written[0].name}}}}}`."
        )
        return lines
    if lacking := of.what_to_add(inputs):
        return [*lines, *(f"Before a launch of {written[1]}: {each}." for each in lacking)]
    lines.append(f"Next: {shlex.join([program(), 'launch', str(written[1])])}")
    return lines
