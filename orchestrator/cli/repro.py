"""`sweep repro`: a script that reproduces a reported case, or a stored trial, with torch alone."""

import re
from typing import Annotated

import typer

from cudnn_sweep.orchestrator.cli.launch_file_results import ResultsOption, asking, open_results

CASE_ID = re.compile(r"[A-Z]\w*")  # a trial's is of small letters


def repro(
    name: Annotated[
        str,
        typer.Argument(
            metavar="CASE|TRIAL", help="A reported case, such as N012, or the trial_id of a trial."
        ),
    ],
    results: ResultsOption = None,
) -> None:
    """Print a Python script of at most 40 lines that times it with torch alone, five processes a setting.

    Without CUDA its times are CPU times.
    """
    from cudnn_sweep.orchestrator.reproducing.script import of_case, script, stored_trial
    from cudnn_sweep.workloads.cells.field_case import find_field_case

    if CASE_ID.fullmatch(name):
        case = of_case(find_field_case(name))
    else:
        with asking(open_results(results)) as database:
            case = stored_trial(name, database)
    typer.echo(script(case), nl=False)
