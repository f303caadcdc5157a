"""The command `sweep audit`."""

import os
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.planning.options import AuditRequest
from cudnn_sweep.orchestrator.planning.spelling import program
from cudnn_sweep.orchestrator.steps.step_options import WRITE
from cudnn_sweep.orchestrator.terminal.write_whole import write_whole

if TYPE_CHECKING:
    from cudnn_sweep.analysis.answers.answer import Answer
    from cudnn_sweep.orchestrator.auditing.audit import Audited, Inputs

SCRIPT_SETTINGS = {"allow_interspersed_args": False}  # options after SCRIPT belong to the script
SHAPES = Path("shapes.csv")


def audit(
    request: AuditRequest,
    shapes: Annotated[Path, "FILE.csv", "File for the shapes of the model's inputs."] = SHAPES,
    model: Annotated[
        str | None,
        "CLASS",
        "Class of the model whose inputs are written, or FILE.py:LINE where the model is created. "
        "Default: the model that runs the most convolutions.",
    ] = None,
    json: Annotated[bool, "Print the report as JSON."] = False,
    write: Annotated[list[str] | None, "FILE", WRITE] = None,
) -> None:
    """Run your script, and report its convolutions and the code that sets cuDNN's flags.

    The results of the script stay the same. The report is printed to standard error. The exit code
    is the script's exit code, or 0 if --seconds or --steps ended the script.
    """
    from cudnn_sweep.orchestrator.auditing.audit import audit_script, check_may_write, model_inputs
    from cudnn_sweep.orchestrator.steps.sequence import deliver, reported
    from cudnn_sweep.orchestrator.terminal.say import console_here

    if shapes.suffix != ".csv":
        raise SpecError(f"--shapes {shapes}: the file's name must end in .csv")
    shapes = _of_rank(shapes)
    for file in (shapes, shapes.with_suffix(".yaml")):
        check_may_write(file)
    files = [str(_of_rank(Path(file))) for file in write or ()]
    with reported(files, "audit", request.script):
        audited = audit_script(request)
        inputs = None if audited.findings is None else model_inputs(audited.findings, model)
    written: list[Path] = []
    try:
        written = _write_shapes(audited, inputs, shapes)
    finally:  # print the report even if the shapes cannot be written
        console = console_here(stderr=True)
        answer = _answer(audited, inputs, written)
        code = deliver(answer, files, console, console, is_json=json)
    raise typer.Exit(code)


def _of_rank(file: Path) -> Path:
    """Return the file name for this process. It includes the rank under torchrun."""
    rank = os.environ.get("RANK")
    return file.with_stem(f"{file.stem}-rank{rank}") if rank and rank.isdigit() else file


def _write_shapes(audited: "Audited", inputs: "Inputs | None", shapes: Path) -> list[Path]:
    from cudnn_sweep.orchestrator.auditing.audit import shapes_text, suite_text

    if inputs is None or audited.findings is None:
        return []
    texts = {
        shapes: shapes_text(inputs, audited.request.script),
        shapes.with_suffix(".yaml"): suite_text(inputs, audited.findings, shapes),
    }
    written = {file: text for file, text in texts.items() if text is not None}
    for file, text in written.items():
        write_whole(file, text)
    return list(written)


def _answer(audited: "Audited", inputs: "Inputs | None", written: list[Path]) -> "Answer":
    from cudnn_sweep.analysis.answers.answer import Answer, Section
    from cudnn_sweep.orchestrator.terminal.audit_view import loop_text, sections_of, who_turned_it

    rank = f" of rank {os.environ['RANK']}" if "RANK" in os.environ else ""
    ended, findings = f"Audit{rank}: {_ending(audited)}", audited.findings
    lines = [loop_text(findings), audited.unseen or who_turned_it(findings)] if findings else []
    return Answer(
        kind="audit",
        subject=audited.request.script,
        state="does not run" if audited.exit_code else "fine",
        ended=audited.exit_code,
        headline="\n".join(filter(None, [ended, *lines])),
        sections=[
            *(sections_of(findings) if findings is not None else ()),
            Section(notes=[(line,) for line in _next_lines(audited, inputs, written)]),
        ],
        values={**asdict(audited), "written": [str(file) for file in written]},
    )


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
    ways = {"interrupt": "was interrupted", "signal": "was ended by a signal"}
    return f"{name} {ways.get(audited.ended, f'ended{error}')} {took}; {code}"


def _next_lines(audited: "Audited", inputs: "Inputs | None", written: list[Path]) -> list[str]:
    from cudnn_sweep.orchestrator.auditing import audit as of

    if audited.findings is None:
        return []
    if inputs is None:
        models = audited.findings.models
        names = ", ".join(model.name for model in models) or "none"
        without = [model for model in models if not model.shapes]
        lines = [line for each in without for line in of.what_it_takes(each, each.in_a_call[0][0])]
        return [f"No shapes were written. Models: {names}.", *(f"{line}." for line in lines)]
    if not written:
        return []
    counted = f"{sum(count for _, count in inputs.counts):,} calls of {inputs.model.name}"
    lines = [f"Wrote the inputs of {counted} to {' and '.join(map(str, written))}."]
    if inputs.left_out:
        lines.append(
            f"Left out {inputs.left_out:,} calls with other channels or dimensions, a size of 0, "
            "or rare shapes."
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
