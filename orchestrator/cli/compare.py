"""The commands `sweep compare` and `sweep repro`."""

import re
import shlex
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cudnn_sweep.analysis.results.min_effect import MIN_EFFECT
from cudnn_sweep.orchestrator.cli.commands import echo
from cudnn_sweep.orchestrator.cli.launch_file_results import (
    ReferenceOption,
    ResultsOption,
    asking,
    open_results,
)
from cudnn_sweep.orchestrator.cli.query import Format, deliver
from cudnn_sweep.orchestrator.planning.spelling import POSITIONAL, program
from cudnn_sweep.orchestrator.steps.step_options import WRITE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cudnn_sweep.analysis.answers.answer import Answer
    from cudnn_sweep.analysis.compare.comparison import Comparison
    from cudnn_sweep.analysis.results.marked import MarkedColumn

OF_AN_ENVIRONMENT = {"torch", "cuda", "cudnn", "python", "version"}


def compare(
    a: Annotated[str, POSITIONAL, "The baseline, such as 2.11.0, H200 or 2026-11-20."],
    b: Annotated[str, POSITIONAL, "The side to compare with A."],
    results: ResultsOption = None,
    reference: ReferenceOption = False,
    format: Annotated[Format, "Format of the rows."] = "table",
    json: Annotated[bool, "Short for --format json."] = False,
    min_effect: Annotated[
        float, "Relative difference below which two times are equivalent."
    ] = MIN_EFFECT,
    sweep_id: Annotated[str | None, "Sweep to read, or a pattern such as night-*."] = None,
    where: Annotated[
        list[str] | None, "COLUMN=VALUE", "Read only records with this value. May be repeated."
    ] = None,
    fail_on: Annotated[
        Literal["hurts", "helps", "equivalent", "inconclusive"] | None,
        "Exit with code 1 if a cell has this verdict, and with 3 if no cell is on both sides.",
    ] = None,
    write: Annotated[list[str] | None, "FILE", WRITE] = None,
) -> None:
    """Compare two parts of the results, such as two versions of torch.

    A and B can be sweep ids, software hashes, GPU models or UUIDs, UTC dates, or versions of torch,
    cuDNN, the driver or this program. Write KIND=NAME, such as torch=2.11.0, if a name is
    ambiguous. Trials of the same block are compared in pairs, and others by Welch's t test.
    """
    from cudnn_sweep.analysis.compare.comparison import compare as compare_sides
    from cudnn_sweep.analysis.errors import QueryError
    from cudnn_sweep.analysis.results.marked import marked_columns
    from cudnn_sweep.orchestrator.steps.sequence import reported, shown_and_written
    from cudnn_sweep.orchestrator.terminal.say import console_here

    format = "json" if json else format
    if format == "parquet":
        raise QueryError("--format: found parquet, allowed are table, csv, json, markdown")
    files = write or ()
    with (
        reported(files, "compare", f"{a} → {b}"),
        asking(open_results(results, reference=reference), sweep_id) as database,
    ):
        found = compare_sides(database, a, b, min_effect, where or ())
        marked = marked_columns(database, found.marked, found.rows)
    answer = _answer(found, marked, fail_on)
    is_for_program = format not in ("table", "markdown")  # then only rows on stdout

    def show() -> None:
        differing, _, notes = answer.sections
        lines = [differing.title, *(f"- {text}" for (text,) in differing.items)]
        echo("\n".join(lines) + "\n", err=is_for_program)
        deliver(found.rows, format, None, marked)
        end = [f"{purpose}: {command}" for purpose, command in answer.commands]
        lines = [answer.headline, *(text for (text,) in notes.notes), *end]
        echo("\n" + "\n".join(lines), err=is_for_program)

    if code := shown_and_written(show, answer, files, console_here(stderr=True)):
        raise typer.Exit(code)


def _answer(found: "Comparison", marked: "Sequence[MarkedColumn]", fail_on: str | None) -> "Answer":
    from cudnn_sweep.analysis.answers.answer import Answer, Section

    differing = [*found.differences.values(), *(f"the code of {name}" for name in found.edited)]
    headline = "No cell was measured with the same config on both sides."
    notes = [
        f"One side has several versions of {part}, which have separate rows. To compare two, add "
        + " ".join(f"--where {part}={version}" for version in versions)
        for part, versions in found.mixed.items()
    ]
    if found.cells:
        what = "cell and config" if found.cells == 1 else "cells and configs"
        in_rows = f", in {found.rows.num_rows} rows" if found.rows.num_rows > found.cells else ""
        headline = f"{found.cells} {what}{in_rows}: {_counted(found.counts())}."
    if device := found.counts("device_verdict"):
        notes.append(f"By device time: {_counted(device)}.")
    is_worse = fail_on in found.counts() | device
    return Answer(
        kind="compare",
        subject=f"{found.a} → {found.b}",
        state="worse" if is_worse else "fine" if found.cells or not fail_on else "cannot tell",
        headline=headline,
        sections=[
            Section(
                title=f"A is {found.a}, B is {found.b}. A ratio over 1 means that B is slower. "
                "A and B differ in",
                items=[[text] for text in differing or ["no part of the environment"]],
            ),
            Section.of(marked),
            Section(notes=[[text] for text in notes if found.cells]),
        ],
        commands=[("To find the first slower version", command) for command in _bisect(found)],
        values={"rows": found.rows.to_pylist()},
        labels={"a": str(found.a), "b": str(found.b)},
    )


def _bisect(found: "Comparison") -> "Iterator[str]":
    from cudnn_sweep.orchestrator.planning.spec import is_path, suite_names

    if found.slowest and OF_AN_ENVIRONMENT & found.differences.keys():
        suite, cell_id, is_on = found.slowest
        if is_path(suite) or suite in suite_names():
            words = [program(), "bisect", suite, "--only", f"cell_id={cell_id}"]
            yield f"{shlex.join([*words, *['--benchmark'] * is_on])} --pythons OLD,...,NEW"


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{verdict} {count}" for verdict, count in counts.items())


def repro(
    name: Annotated[
        str, POSITIONAL, "CASE|TRIAL", "Id of a reported case, such as N012, or of a trial."
    ],
    results: ResultsOption = None,
) -> None:
    """Print a script of at most 40 lines that times CASE or TRIAL with torch alone.

    The script measures each setting in five processes. Without CUDA, it times steps on the CPU.
    """
    from cudnn_sweep.orchestrator.repro.script import of_case, script, stored_trial
    from cudnn_sweep.workloads.cells.field_case import find_field_case

    if re.fullmatch(r"[A-Z]\w*", name):  # ids of trials are in lower case
        case = of_case(find_field_case(name))
    else:
        with asking(open_results(results)) as database:
            case = stored_trial(name, database)
    typer.echo(script(case), nl=False)
