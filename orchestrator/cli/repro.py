"""`sweep repro`: a script that reproduces a reported case, or a stored trial, with torch alone."""

import re
from typing import TYPE_CHECKING, Annotated

import typer

from cudnn_sweep.orchestrator.cli.launch_file_results import ResultsOption, asking, open_results
from cudnn_sweep.orchestrator.errors import ReproError

if TYPE_CHECKING:
    from cudnn_sweep.analysis.asking.database import Database

CASE_ID = re.compile(r"[A-Z]\w*")  # a trial's is of small letters


def repro(
    name: Annotated[
        str,
        typer.Argument(
            metavar="CASE|TRIAL", help="A reported case, such as N012, or the trial_id of a trial."
        ),
    ],
    results: ResultsOption = None,
    issue: Annotated[
        bool, "Print the body of an issue instead: versions, route and the script."
    ] = False,
) -> None:
    """Print a Python script of at most 40 lines that times it with torch alone, five processes a setting.

    Without CUDA its times are CPU times. What is known of a case's versions and routes today comes
    from the stored results, if there are any.
    """
    from cudnn_sweep.orchestrator.reproducing.reproduced import reproduced
    from cudnn_sweep.orchestrator.reproducing.script import issue as issue_text
    from cudnn_sweep.orchestrator.reproducing.script import script
    from cudnn_sweep.workloads.cells.field_case import find_field_case, load_field_cases

    is_case = name in load_field_cases()
    if not is_case and CASE_ID.fullmatch(name):
        find_field_case(name)  # which lists those like it
    if is_case and (results is None or not issue):
        case = reproduced(name, None)
        typer.echo(issue_text(case, _this_machine()) if issue else script(case), nl=False)
        return
    with asking(open_results(results)) as database:
        case = reproduced(name, database)
        if not issue:
            typer.echo(script(case), nl=False)
            return
        known = _measured(name, database) if is_case else {}
    typer.echo(issue_text(case, known), nl=False)


def _this_machine() -> dict[str, str | None]:
    from cudnn_sweep.workloads.hardware.environment import capture_environment

    found = capture_environment()
    return {"torch": found.torch, "cuDNN": _text(found.cudnn), "GPU": found.gpu}


def _measured(name: str, database: "Database") -> dict[str, str | None]:
    from cudnn_sweep.analysis.words import number

    rows = database.ask("field_cases").to_pylist()
    mine = [row for row in rows if row["case_id"] == name and row["gpu"]]
    if not mine:
        raise ReproError(f"case {name} was not measured in these results; leave --results out")
    row = mine[0]
    value = None if row["value"] is None else f"{row['measure']} {number(row['value'])}"
    return {
        "torch": row["torch"],
        "cuDNN": _text(row["cudnn"]),
        "driver": row["driver"],
        "GPU": row["gpu"],
        "compared": row["contrast"],
        "routes": " → ".join(
            each for each in (row["baseline_routes"], row["candidate_routes"]) if each
        ),
        "measured": value,
        "outcome": row["outcome"],
        "cause": row["cause"],
    }


def _text(value: int | None) -> str | None:
    return None if value is None else str(value)
