"""`sweep compare A B`: what changed between two sweeps, versions, GPUs or dates."""

from typing import TYPE_CHECKING, Annotated

import typer

from cudnn_sweep.analysis.answering.min_effect import MIN_EFFECT
from cudnn_sweep.orchestrator.cli.launch_file_results import ResultsOption, asking, open_results
from cudnn_sweep.orchestrator.cli.query import Format, deliver

if TYPE_CHECKING:
    from cudnn_sweep.analysis.comparing.comparison import Comparison

FOR_PEOPLE = (Format.TABLE, Format.MARKDOWN)  # the others' output holds the rows and nothing else


def compare(
    a: Annotated[str, typer.Argument(help="The baseline, such as 2.11.0, H200 or 2026-11-20.")],
    b: Annotated[str, typer.Argument(help="The side to compare with it.")],
    results: ResultsOption = None,
    format: Annotated[Format, typer.Option(help="Format of the rows.")] = Format.TABLE,
    json: Annotated[bool, typer.Option("--json", help="Short for --format json.")] = False,
    min_effect: Annotated[
        float, typer.Option(help="The smallest relative difference that counts.")
    ] = MIN_EFFECT,
    candidates: Annotated[
        str | None, typer.Option(help="Versions that you could try next, such as 2.9.1,2.10.0.")
    ] = None,
) -> None:
    """Compare two sides of the results, and suggest which version to try next.

    A side is a sweep_id, a version (of torch, cuDNN, the driver or this program), a software_hash, a
    GPU's model or UUID, or a date (UTC). If that is ambiguous, write KIND=NAME, such as torch=2.11.0. Trials of
    one block are compared in pairs, others by Welch's t test. Wall and device time each have a verdict.
    """
    from cudnn_sweep.analysis.comparing.bisection import read_candidates
    from cudnn_sweep.analysis.comparing.comparison import compare as compare_sides
    from cudnn_sweep.analysis.errors import QueryError

    format = Format.JSON if json else format
    if format is Format.PARQUET:
        raise QueryError("--format: found parquet, allowed are table, csv, json, markdown")
    named = read_candidates(candidates or "")
    with asking(open_results(results)) as database:
        found = compare_sides(database, a, b, min_effect)
    to_stderr = format not in FOR_PEOPLE
    typer.echo("\n".join(_head(found)) + "\n", err=to_stderr)
    deliver(found.rows, format, None)
    typer.echo("\n" + "\n".join(_end(found, named)), err=to_stderr)


def _head(found: "Comparison") -> list[str]:
    differing = [str(each) for each in found.differences]
    differing += [f"the code of {name}" for name in found.edited]
    return [
        f"A is {found.a}, B is {found.b}. A ratio over 1: B is slower. They differ in",
        *(f"- {each}" for each in differing or ["no part of the environment"]),
    ]


def _end(found: "Comparison", candidates: list[str]) -> list[str]:
    from cudnn_sweep.analysis.comparing.comparison import suggestion

    if not found.rows.num_rows:
        return ["No cell and config was measured on both sides."]
    line = suggestion(found, candidates)
    lines = [f"{found.rows.num_rows} cells and configs: {_counted(found.counts)}."]
    if found.device_counts:
        lines.append(f"By device time: {_counted(found.device_counts)}.")
    return [*lines, *([line] if line else [])]


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{verdict} {count}" for verdict, count in counts.items())
