"""The command `sweep report`."""

import gc
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cudnn_sweep.analysis.results.min_effect import MIN_EFFECT
from cudnn_sweep.analysis.words import printable
from cudnn_sweep.orchestrator.cli.commands import echo
from cudnn_sweep.orchestrator.cli.launch_file_results import (
    ReferenceOption,
    ResultsOption,
    asking,
    check_sweep,
    open_results,
    results_asked,
)
from cudnn_sweep.orchestrator.planning.spelling import AtLeast
from cudnn_sweep.orchestrator.terminal.write_whole import write_whole

if TYPE_CHECKING:
    from rich.status import Status

    from cudnn_sweep.analysis.results.contrast import Contrast

WATCH_S = 60  # from one page to the next
ReportFormat = Literal["html", "markdown", "json"]


def report(
    results: ResultsOption = None,
    reference: ReferenceOption = False,
    sweep_id: Annotated[
        str | None, "Sweep to report, or a pattern such as night-*. Default: all sweeps."
    ] = None,
    min_effect: Annotated[
        float, AtLeast(0), "Relative difference below which two times are called equivalent."
    ] = MIN_EFFECT,
    output: Annotated[Path | None, "File to write. Default for HTML: report.html."] = None,
    format: Annotated[ReportFormat, "Format of the report."] = "html",
    json: Annotated[bool, "Short for --format json."] = False,
    watch: Annotated[bool, "Write the page again each minute until all sweeps have ended."] = False,
    page: Annotated[
        str | None,
        "Write another page instead: claims (common claims about these settings), field_cases "
        "(reported cases), or transfers (results compared between GPU models or versions).",
    ] = None,
) -> None:
    """Write a report of the stored results as HTML, Markdown or JSON.

    The charts of the HTML report need an extra: pip install 'cudnn-sweep[report]'.
    """
    asked = results_asked(results, reference=reference)
    kind: ReportFormat = "json" if json else format
    target = output or Path(f"{page or 'report'}.html")
    if watch and (page or kind != "html"):
        found = f"--page {page}" if page else f"--format {kind}"
        raise typer.BadParameter(f"found {found}, allowed: the HTML report", param_hint="--watch")
    while True:
        gc.disable()  # garbage collection would take 5% of a large report's time
        try:
            if page is None:
                text, answer, is_over = _report(asked, sweep_id, min_effect, kind)
            else:
                text, answer, is_over = *_page(page, asked, sweep_id, kind), True
        finally:
            gc.enable()
        if output is None and kind != "html":
            typer.echo(text, nl=False)
            return
        write_whole(target, text)
        echo(f"{target}: {answer}")
        if is_over or not watch:
            return
        sleep(WATCH_S)


def _report(
    results: list[str], sweep_id: str | None, min_effect: float, kind: ReportFormat
) -> tuple[str, str, bool]:
    """Return the report, its headline, and whether all sweeps have ended."""
    from cudnn_sweep.analysis.report import delivery
    from cudnn_sweep.analysis.report.content import asked, gather
    from cudnn_sweep.analysis.report.payload import payload
    from cudnn_sweep.analysis.results.contrast import RACE, is_race, stored_contrasts
    from cudnn_sweep.orchestrator.terminal.say import console_here

    status = console_here(stderr=True).status("Report: reading the results")
    with asking(open_results(results), sweep_id) as database, status:
        database.hold_rows(asked())
        stored = stored_contrasts(database)
        contrasts = [each for each in stored if not each.is_twins] or stored
        if is_race(database):
            contrasts = [RACE, *contrasts]
        made = payload(gather(database, results, _followed(contrasts, status), min_effect))
    ended = [row["has_ended"] for row in made.tables["sweeps"].answered] or [False]
    headline = made.nothing or made.contrasts[0].headline
    return getattr(delivery, f"as_{kind}")(made), headline, all(ended)


def _followed(contrasts: "Sequence[Contrast]", status: "Status") -> "Iterator[Contrast]":
    from rich.text import Text

    for number, contrast in enumerate(contrasts, 1):
        text = f"Report: comparing {contrast}, {number} of {len(contrasts)}"
        status.update(Text(printable(text)))
        yield contrast


def _page(
    name: str, results: list[str], sweep_id: str | None, kind: ReportFormat
) -> tuple[str, str]:
    from cudnn_sweep.analysis.report.pages import formats
    from cudnn_sweep.analysis.report.pages.page import find_page, show

    page, store = find_page(name), open_results(results)
    check_sweep(store, sweep_id)
    with asking(store) as database:
        shown = show(page, database, results, sweep_id)
    return getattr(formats, f"as_{kind}")(shown), shown.headline()
