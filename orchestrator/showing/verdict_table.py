"""Verdicts on the screen: one line of text each, and the table that ends a sweep."""

from collections.abc import Mapping

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from cudnn_sweep.analysis.answering.short_texts import short_names
from cudnn_sweep.analysis.answering.verdicts import BreakEven, Verdict
from cudnn_sweep.analysis.asking.settings import shortened, unusual_in
from cudnn_sweep.analysis.words import interval, number, ratio, two_digits

WIDE = 125
GAP = 2
LEAST_NAME = 36  # where there is less room it takes two lines
WIDEST = 100.0  # times its low end: an interval beyond it says no more than that
SHORT_VERDICTS = {"equivalent": "=", "inconclusive": "?", "undecided": "?", "no_effect": ""}
VERDICT_STYLES = {
    "helps": "bold green",
    "hurts": "bold red",
    "fails": "bold red",
    "equivalent": "cyan",
}


def verdict_label(verdict: Verdict, cells: Mapping[str, str]) -> str:
    """The cell as `cells` calls it by cell_id, and the settings that both configs share where they are
    not PyTorch's defaults.
    """
    return " ".join([cells[verdict.cell_id], *unusual_in(verdict.other_settings)])


def device_text(verdict: Verdict) -> str:
    """The ratio of device times and its verdict in short; a star where the loop waits for the CPU."""
    if verdict.device_ratio is None or verdict.device_verdict is None:
        return ""
    short = SHORT_VERDICTS.get(verdict.device_verdict, verdict.device_verdict)
    return f"{ratio(verdict.device_ratio)} {short}{' *' if verdict.launch_bound else ''}"


def ratio_text(verdict: Verdict) -> str:
    """Candidate time / baseline time and its 95% interval."""
    if verdict.ratio_low is None or verdict.ratio_high is None:
        return ratio(verdict.ratio)
    if verdict.ratio_high > WIDEST * verdict.ratio_low:
        return f"{ratio(verdict.ratio)} (too few blocks)"
    return f"{ratio(verdict.ratio)}{interval(verdict.ratio_low, verdict.ratio_high, to='–')}"


def verdict_table(
    verdicts: list[Verdict],
    break_evens: list[BreakEven],
    cells: Mapping[str, str],
    brief: Mapping[str, str],
    width: int,
) -> Table:
    """A row a cell and contrast. Times are geometric means over blocks, wall time per iteration. `cells` are
    the cells' names by cell_id, `brief` those where there is no room for them.

    A terminal of less than WIDE columns has no room for the intervals.
    """
    wide = width >= WIDE
    contrasts = {shortened(verdict.contrast) for verdict in verdicts}
    both = len({verdict.in_turns for verdict in verdicts if verdict.loop_kind == "closed"}) > 1
    paid = {(row.identity, row.compute_cache): row for row in break_evens}
    columns: dict[str, list[str | Text]] = {}
    if len(contrasts) > 1:
        columns["contrast"] = [shortened(each.contrast) for each in verdicts]
    columns["baseline"] = [number(each.baseline_ms) for each in verdicts]
    columns["candidate"] = [number(each.candidate_ms) for each in verdicts]
    if wide:
        columns["ratio (95%)"] = [ratio_text(each) for each in verdicts]
    else:
        columns["ratio"] = [ratio(each.ratio) for each in verdicts]
    columns["verdict"] = [_in_words(each, wide=wide) for each in verdicts]
    if any(each.device_ratio is not None for each in verdicts):
        columns["device"] = [device_text(each) for each in verdicts]
    for state in sorted({row.compute_cache for row in break_evens if row.outcome != "no_effect"}):
        rows = (paid.get((each.identity, state)) for each in verdicts)
        head = f"break-even,\n{state}{' cache' if wide else ''}"
        columns[head] = [payback_text(row, wide=wide) for row in rows]
    table = Table(box=None, padding=(0, GAP, 0, 0), header_style="bold", title_justify="left")
    gpus = ", ".join(sorted({verdict.gpu for verdict in verdicts}))
    table.title = f"{gpus}, {', '.join(sorted(contrasts))}; milliseconds an iteration"
    table.add_column("cell", min_width=20)
    for head in columns:
        is_right = head in ("baseline", "candidate") or "\n" in head
        may_wrap = head == "contrast" or "\n" in head
        table.add_column(head, justify="right" if is_right else "left", no_wrap=not may_wrap)
    taken = sum(max(map(_wide, [head, *texts])) + GAP for head, texts in columns.items())
    room = max(LEAST_NAME, width - taken - GAP)
    for called in (cells, brief):
        names = [
            verdict_label(verdict, called) + (" in turns" if both and verdict.in_turns else "")
            for verdict in verdicts
        ]
        if max(map(cell_len, names)) <= room:
            break
    for row in zip(short_names(names, room), *columns.values(), strict=True):
        table.add_row(*row)
    return table


def _in_words(verdict: Verdict, *, wide: bool) -> Text:
    words = verdict.wall_in_words if wide else verdict.wall_in_words.replace(" (", "\n(")
    return Text(words, style=VERDICT_STYLES.get(verdict.wall_verdict, ""))


def _wide(cell: str | Text) -> int:
    return max(map(cell_len, str(cell).splitlines()), default=0)


def payback_text(row: BreakEven | None, *, wide: bool) -> str:
    """After how many iterations, in two digits; where there is room, with the interval if it has one."""
    if row is None or row.outcome in ("no_effect", "open loop"):
        return ""
    if row.outcome == "inconclusive":
        return "?"
    if row.break_even_iterations is None or row.outcome in ("never", "at once"):
        return row.outcome
    until = "until " if row.outcome == "until" else ""
    ends = interval(row.break_even_low, row.break_even_high, two_digits, "–")
    iterations = two_digits(row.break_even_iterations)
    return f"{until}{iterations}{ends if wide else ''}" if ends else f"{until}about {iterations}"
