"""Verdicts on the screen: one line of text each, and the table that ends a sweep."""

from rich.table import Table
from rich.text import Text

from cudnn_sweep.analysis.verdicts import BreakEven, Verdict

VERDICT_STYLES = {"helps": "bold green", "hurts": "bold red", "equivalent": "cyan"}


def verdict_label(verdict: Verdict) -> str:
    """The cell in the words of orchestrator/labels.py; a row of the results has no Cell."""
    what = verdict.problem or verdict.workload
    sizes = verdict.input_shape
    parts = (what, verdict.direction, sizes, verdict.regime, verdict.precision, verdict.layout)
    return " ".join(part for part in parts if part != "contiguous")


def verdict_text(verdict: Verdict) -> str:
    if verdict.no_effect_reason is not None:
        return f"no_effect ({verdict.no_effect_reason})"
    return verdict.wall_verdict


def ratio_text(verdict: Verdict) -> str:
    """Candidate time / baseline time and its 95% interval."""
    if verdict.ratio is None:
        return ""
    if verdict.ratio_low is None or verdict.ratio_high is None:
        return f"{verdict.ratio:.3f}"
    return f"{verdict.ratio:.3f} ({verdict.ratio_low:.3f}–{verdict.ratio_high:.3f})"


def verdict_table(verdicts: list[Verdict], break_evens: list[BreakEven]) -> Table:
    """A row a cell and contrast. Times are medians over blocks, wall time per iteration."""
    gpus = ", ".join(sorted({verdict.gpu for verdict in verdicts}))
    contrasts = {verdict.contrast for verdict in verdicts}
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", title_justify="left")
    table.title = (
        f"{gpus}, {', '.join(sorted(contrasts))}: milliseconds an iteration; "
        "ratio = candidate / baseline (95% interval)"
    )
    table.add_column("workload")
    for name in ("input", "regime", "precision"):
        table.add_column(name)
    if len(contrasts) > 1:
        table.add_column("contrast")
    for name in ("baseline", "candidate"):
        table.add_column(name, justify="right")
    for name in ("ratio", "verdict"):
        table.add_column(name, no_wrap=True)
    table.add_column("pays back after")
    for verdict in verdicts:
        mine = [row for row in break_evens if _same(row, verdict)]
        precision = verdict.precision + (" channels_last" if verdict.layout != "contiguous" else "")
        table.add_row(
            f"{verdict.problem or verdict.workload} {verdict.direction}",
            verdict.input_shape,
            verdict.regime,
            precision,
            *([verdict.contrast] if len(contrasts) > 1 else []),
            _milliseconds(verdict.baseline_ms),
            _milliseconds(verdict.candidate_ms),
            ratio_text(verdict),
            Text(verdict_text(verdict), style=VERDICT_STYLES.get(verdict.wall_verdict, "")),
            "; ".join(text for row in mine if (text := _pays_back(row))),
        )
    return table


def _same(row: BreakEven, verdict: Verdict) -> bool:
    return (row.cell_id, row.contrast, row.loop_kind, row.software_hash) == (
        verdict.cell_id,
        verdict.contrast,
        verdict.loop_kind,
        verdict.software_hash,
    )


def _milliseconds(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}" if value < 100 else f"{value:.0f}"


def _pays_back(row: BreakEven) -> str:
    """In iterations, for the state of the compute cache."""
    if row.outcome in ("no_effect", "open loop"):
        return ""
    number = row.break_even_iterations
    count = f" {number:,.0f}" if row.outcome in ("after", "until") and number is not None else ""
    outcome = count.strip() if row.outcome == "after" else row.outcome + count
    return f"{outcome} ({row.compute_cache} cache)"
