"""A page that compares common claims about torch.backends.cudnn with measurements."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from statistics import median

from cudnn_sweep.analysis.engine.queries import part_names
from cudnn_sweep.analysis.report.pages.page import APART, Entry, Page, Row
from cudnn_sweep.analysis.words import figure, interval, ratio

ABOUT = (
    "Each claim is compared with measured figures, with other settings at PyTorch's defaults. A "
    "figure is undecided if its interval allows both answers or if its cell has too few blocks. A "
    "claim holds if it is true of all decided figures, which are at least half of all. If it is true "
    "of some, the verdict lists conditions with all of them true, then with some. A ratio is the "
    "candidate's value divided by the baseline's, with a 95% interval."
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
    """Return one paragraph for each claim. The rows have to be sorted by claim and GPU."""
    return [_entry(list(group), options) for _, group in groupby(rows, itemgetter("claim"))]


def _entry(rows: list[Row], options: str) -> Entry:
    first = rows[0]
    places = [list(group) for _, group in groupby(rows, itemgetter("gpu", "torch", "cudnn"))]
    groups = {VERDICTS[row["verdict"]] for row in rows}
    is_measured = groups != {"not measured here"}
    question = QUESTIONS[first["claim"] - 1]
    facts = {f"verdict{_place(place, places)}": _verdict(place) for place in places}
    for place in places if is_measured else []:
        _, *further = _conditions(place)
        facts |= {f"{name}{_place(place, places)}": text for name, text in further}
    return Entry(
        name=f"claim {first['claim']}",
        said=first["said"],
        group=groups.pop() if len(groups) == 1 else APART,
        facts={
            **facts,
            "conditions with one or two decided figures": first["rests_on_few"],
            "trials compared": f"{trials:,}" if (trials := _trials(rows)) else "",
            "measure it": first["measured_by"],
        },
        unfolded=len(places),
        command=f"sweep query {question} {options}",
        figures=[{name: row[name] for name in FIGURE} for row in rows] if is_measured else [],
    )


def _place(rows: Sequence[Row], places: Sequence[Sequence[Row]]) -> str:
    """Return the end of a label. It names the GPU if there are several places."""
    one_torch = len({place[0]["torch"] for place in places}) == 1
    place = rows[0]["gpu"] if one_torch else f"{rows[0]['gpu']}, torch {rows[0]['torch']}"
    return f", {place}" if len(places) > 1 else ""


def _verdict(rows: list[Row]) -> str:
    """Return the verdict in words. If the claim was measured, add counts and ranges."""
    conditions = [f"{name}: {text}" for name, text in _conditions(rows) if text]
    is_measured = rows[0]["verdict"] != "not measured"
    return "; ".join(filter(None, [rows[0]["in_words"], *conditions[:is_measured]]))


def _trials(figures: Sequence[Row]) -> int:
    """Return the number of trials. Trials that several measures use are counted only once."""
    by_measure: Counter[tuple[object, ...]] = Counter()
    for row in figures:
        if row["outcome"]:
            by_measure[row["cell_id"], row["contrast"], row["measure"]] += row["trials"] or 0
    most = {key[:2]: trials for key, trials in sorted(by_measure.items(), key=itemgetter(1))}
    return sum(most.values())


def _conditions(figures: Sequence[Row]) -> Iterator[tuple[str, str]]:
    """Yield each condition, with its counts and ranges as text."""
    sizes = Counter(row["condition"] for row in figures)
    decide_first = sorted(
        figures, key=lambda row: (row["holds_here"] is None, -sizes[row["condition"]])
    )
    for name in dict.fromkeys(row["condition"] for row in decide_first):
        rows = [row for row in decide_first if row["condition"] == name]
        counted = rows[0]["holds_here"] or ""
        decided_first = sorted(rows, key=lambda row: row["outcome"] is None)
        measures = dict.fromkeys(row["measure"] for row in decided_first)
        ranges = [_range([row for row in rows if row["measure"] == name]) for name in measures]
        held = f"holds in {counted}" if " of " in counted else counted
        yield name, "; ".join(filter(None, [held, *ranges]))


def _range(rows: Sequence[Row]) -> str:
    """Return a value with its interval, or the range and the median of several values."""
    measured = [row for row in rows if row["value"] is not None]
    measured.sort(key=itemgetter("value"))
    if not measured:
        return ""
    least, most = measured[0], measured[-1]
    name = _named(least)
    if len(measured) == 1:
        ends = interval(least["value_low"], least["value_high"], _words(least))
        return f"{name} {_value(least)}{ends}"
    if least["value"] == most["value"]:
        return f"{name} {_value(least)} each"
    middle = {**least, "value": median(row["value"] for row in measured)}
    return f"{name} {_value(least)} to {_value(most)}, median {_value(middle)}"


def _is_ratio(row: Row) -> bool:
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
        APART: "inconclusive",
        "undecided": "no-effect",
        "not measured here": "no-effect",
    },
    entries=entries,
)
