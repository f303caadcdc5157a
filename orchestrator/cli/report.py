"""`sweep report`: one HTML file from the stored results, or its words for a terminal."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cudnn_sweep.analysis.answering.min_effect import MIN_EFFECT
from cudnn_sweep.orchestrator.cli.failing import writing
from cudnn_sweep.orchestrator.cli.launch_file_results import (
    ReferenceOption,
    ResultsOption,
    open_results,
    results_asked,
    warn_of,
)

if TYPE_CHECKING:
    from cudnn_sweep.analysis.report.payload import Payload

DEFAULT_OUTPUT = Path("report.html")


ReportFormat = Literal["html", "markdown", "json"]


def report(
    results: ResultsOption = None,
    reference: ReferenceOption = False,
    sweep_id: Annotated[
        str | None, "Only this sweep, or those that a pattern matches (night-*). Default: all."
    ] = None,
    field: Annotated[
        str | None, "Compare only this setting. Default: every stored contrast."
    ] = None,
    baseline: Annotated[str, "With --field: the value in the baseline."] = "false",
    candidate: Annotated[str, "With --field: the value in the candidate."] = "true",
    min_effect: Annotated[
        float, typer.Option(min=0, help="The smallest relative difference that counts.")
    ] = MIN_EFFECT,
    output: Annotated[Path | None, "File to write. Default for HTML: report.html."] = None,
    format: Annotated[ReportFormat, "Format of the report."] = "html",
    json: Annotated[bool, "Short for --format json."] = False,
    charts: Annotated[
        Path | None, "Also write each chart of the first contrast to this folder, as PNG and SVG."
    ] = None,
    page: Annotated[
        str | None,
        "Write this page instead: claims, what people say of these settings; field_cases, what became of cases that "
        "they reported; or transfers, what carries over from one GPU model or version to another.",
    ] = None,
) -> None:
    """Write a report of the stored results: one HTML file that needs no network.

    Charts need an extra: pip install 'cudnn-sweep[report]'. Markdown and JSON do not need it.
    """
    from cudnn_sweep.analysis.answering.contrast import Contrast, stored_contrasts
    from cudnn_sweep.analysis.report.content import gather
    from cudnn_sweep.analysis.report.delivery import export_charts
    from cudnn_sweep.analysis.report.payload import payload

    asked = results_asked(results, reference=reference)
    if page is not None:
        shape = "json" if json else format
        _write_page(page, asked, sweep_id, shape, output)
        return
    store = open_results(asked)
    stored = stored_contrasts(store, sweep_id)
    contrasts = (
        [Contrast(field=field, baseline=baseline, candidate=candidate)]
        if field
        else [each for each in stored if not each.is_twins] or stored
    )
    content = gather(store, asked, sweep_id, contrasts, min_effect)
    warn_of(content.torn_files)
    made = payload(content)
    if charts:
        written = export_charts(made, charts)
        typer.echo(f"{len(written)} pictures are in {charts}", err=True)
    _deliver(made, "json" if json else format, output)


def _deliver(made: "Payload", format: ReportFormat, output: Path | None) -> None:
    from cudnn_sweep.analysis.report import delivery

    text = getattr(delivery, f"as_{format}")(made)
    answer = made.nothing or made.contrasts[0].headline
    _put(text, answer, format, output or DEFAULT_OUTPUT, is_named=output is not None)


def _write_page(
    name: str,
    results: list[str],
    sweep_id: str | None,
    format: ReportFormat,
    output: Path | None,
) -> None:
    from cudnn_sweep.analysis.report.pages import formats
    from cudnn_sweep.analysis.report.pages.page import find_page, show

    page = find_page(name)
    shown = show(page, open_results(results), results, sweep_id)
    warn_of(shown.torn_files)
    target = output or Path(f"{name}.html")
    text = getattr(formats, f"as_{format}")(shown)
    _put(text, shown.headline(), format, target, is_named=output is not None)


def _put(text: str, answer: str, format: ReportFormat, target: Path, *, is_named: bool) -> None:
    if not is_named and format != "html":
        typer.echo(text, nl=False)
        return
    with writing(target):
        target.write_text(text)
    typer.echo(f"{target}: {answer}")
