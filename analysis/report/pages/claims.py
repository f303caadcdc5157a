"""What people say of torch.backends.cudnn, and what the measurements say."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from statistics import median

from cudnn_sweep.analysis.asking.queries import load_query, part_names
from cudnn_sweep.analysis.report.pages.page import Entry, Page, Row
from cudnn_sweep.analysis.words import figure, interval, ratio

ABOUT = (
    "Each claim is judged figure by figure, under PyTorch's other settings. A figure holds, does not hold, or is "
    "undecided: its interval leaves both open, or its cell still lacks blocks. A claim holds if all decided figures say so, and at least half of all are "
    "decided. If only some say so, the verdict names the conditions in which all of them do, then those in which some "
    "do. A ratio is candidate / baseline, with its 95% interval. Figures are listed below each claim."
)
VERDICTS = {
    "holds": "hold",
    "holds only when": "hold in part",
    "does not hold": "do not hold",
    "undecided": "undecided",
    "not measured": "not measured here",
}
FIGURE = (
    *("cell", "condition", "measure", "contrast", "baseline_value", "candidate_value"),
    *("value", "value_low", "value_high", "trials", "outcome"),
)
QUESTIONS = tuple(name for name in part_names() if name.startswith("claims/"))


def entries(rows: Sequence[Row], options: str) -> list[Entry]:
    """A paragraph a claim and GPU; the rows of one follow each other."""
    place = itemgetter("claim", "gpu", "torch", "cudnn")
    return [_entry(list(found), options) for _, found in groupby(rows, place)]


def _entry(rows: list[Row], options: str) -> Entry:
    first = rows[0]
    is_measured = first["verdict"] != "not measured"
    figures = rows if is_measured else []
    question = QUESTIONS[first["claim"] - 1]
    return Entry(
        name=f"claim {first['claim']}",
        said=first["said"],
        group=VERDICTS[first["verdict"]],
        facts={
            "verdict": first["in_words"],
            "what is judged": load_query(question).notes,
            **dict(_conditions(figures)),
            "one or two figures only": first["rests_on_few"],
            "trials compared": f"{trials:,}" if (trials := _trials(figures)) else "",
            "measured on": f"{first['gpu']}, torch {first['torch']}" if is_measured else "",
            "measure it": first["measured_by"],
        },
        command=f"sweep query {question} {options}",
        figures=[{name: row[name] for name in FIGURE} for row in figures],
    )


def _trials(figures: Sequence[Row]) -> int:
    """Those of a cell's contrast once, however many measures it has."""
    by_measure: Counter[tuple[object, ...]] = Counter()
    for row in figures:
        if row["outcome"]:
            by_measure[row["cell_id"], row["contrast"], row["measure"]] += row["trials"] or 0
    most = {key[:2]: trials for key, trials in sorted(by_measure.items(), key=itemgetter(1))}
    return sum(most.values())


def _conditions(figures: Sequence[Row]) -> Iterator[tuple[str, str]]:
    """What holds where: counted, with the range of the figures. Conditions that decide come first."""
    decide_first = sorted(figures, key=lambda row: row["holds_here"] is None)
    for name in dict.fromkeys(row["condition"] for row in decide_first):
        rows = [row for row in decide_first if row["condition"] == name]
        counted = rows[0]["holds_here"] or ""
        measures = dict.fromkeys(row["measure"] for row in sorted(rows, key=_stands_beside))
        ranges = [_range([row for row in rows if row["measure"] == each]) for each in measures]
        held = f"holds in {counted}" if " of " in counted else counted
        yield name, "; ".join(filter(None, [held, *ranges]))


def _stands_beside(row: Row) -> bool:
    return row["outcome"] is None


def _range(rows: Sequence[Row]) -> str:
    """Of one measure: its figure, or the ends and the middle of several; where the ends are, if the measure decides."""
    measured = sorted(
        (row for row in rows if row["value"] is not None), key=lambda row: row["value"]
    )
    if not measured:
        return ""
    least, most = measured[0], measured[-1]
    what = _named(least)
    if len(measured) == 1:
        ends = interval(least["value_low"], least["value_high"], _words(least))
        return f"{what} {_value(least)}{ends}"
    if least["value"] == most["value"]:
        return f"{what} {_value(least)} each"
    middle = {**least, "value": median(row["value"] for row in measured)}
    text = f"{what} {_value(least)} to {_value(most)}, median {_value(middle)}"
    if all(map(_stands_beside, measured)) and least["holds_here"]:
        return text
    for end, row in (("least", least), ("most", most)):
        if [other["value"] for other in measured].count(row["value"]) == 1:
            text += f", {end} in {row['cell']}"
    return text


def _is_ratio(row: Row) -> bool:
    """A time or a memory has two sides, and the value is their ratio."""
    return ", " in row["measure"] and bool(row["contrast"]) and "extra" not in row["measure"]


def _named(row: Row) -> str:
    return f"ratio of {row['measure'].partition(', ')[0]}" if _is_ratio(row) else row["measure"]


def _words(row: Row) -> Callable[[float], str]:
    return ratio if _is_ratio(row) else figure


def _value(row: Row) -> str:
    return _words(row)(row["value"])


CLAIMS = Page(
    name="claims",
    title="What people say of torch.backends.cudnn",
    about=ABOUT,
    questions=QUESTIONS,
    noun="claim",
    groups={
        "hold": "helps",
        "hold in part": "inconclusive",
        "do not hold": "hurts",
        "undecided": "no-effect",
        "not measured here": "no-effect",
    },
    entries=entries,
)
