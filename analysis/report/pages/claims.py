"""What people say of torch.backends.cudnn, and what the measurements say."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, groupby, islice, zip_longest
from math import log
from typing import Any

from cudnn_sweep.analysis.asking.queries import part_names
from cudnn_sweep.analysis.report.pages.page import Entry, Page, Row, Samples, Table

ABOUT = (
    "Each claim is judged figure by figure, under PyTorch's other settings. A figure holds, does not hold, or is "
    "undecided: its interval leaves both open. A claim holds if all decided figures say so, and at least half of all are "
    "decided; it holds in part if some do. A ratio is candidate / baseline, with its 95% interval."
)
VERDICTS = {
    "holds": "hold",
    "holds only when": "hold in part",
    "does not hold": "do not hold",
    "undecided": "undecided",
    "not measured": "not measured here",
}
MOST_SAMPLES = 3  # pictures of a claim


def entries(rows: Sequence[Row]) -> list[Entry]:
    """A paragraph a claim and GPU; the rows of one follow each other."""
    return [
        _entry(list(found)) for _, found in groupby(rows, lambda row: (row["claim"], *_place(row)))
    ]


def _place(row: Row) -> tuple[Any, ...]:
    return row["gpu"], row["torch"], row["cudnn"]


def _entry(rows: list[Row]) -> Entry:
    first = rows[0]
    is_measured = first["verdict"] != "not measured"
    figures = rows if is_measured else []
    facts = {
        "verdict": _verdict(first["verdict"], figures),
        **dict(_conditions(figures)),
        "trials compared": str(_trials(figures) or ""),
        "measured on": f"{first['gpu']}, torch {first['torch']}" if is_measured else "",
        "measure it": first["measured_by"],
    }
    return Entry(
        name=f"claim {first['claim']}",
        address=None,
        said=first["said"],
        group=VERDICTS[first["verdict"]],
        facts={name: text for name, text in facts.items() if text},
        command=f"sweep query {question_of(first['claim'])}",
        samples=tuple(_contradicting(figures)),
        table=_table(figures) if figures else None,
    )


def _verdict(verdict: str, figures: Sequence[Row]) -> str:
    """With the conditions in which some figure holds, and in how many of those that are decided."""
    if verdict != "holds only when":
        return str(verdict)
    decided = [row for row in figures if row["outcome"] in ("holds", "does not hold")]
    of = Counter(row["condition"] for row in decided)
    holds = Counter(row["condition"] for row in decided if row["outcome"] == "holds")
    where = sorted(holds, key=lambda name: -holds[name] / of[name])
    return f"{verdict}: {'; '.join(f'{name} ({holds[name]} of {of[name]})' for name in where)}"


def _trials(figures: Sequence[Row]) -> int:
    """Those of a cell's contrast once, however many measures it has."""
    by_measure: Counter[tuple[object, object, object]] = Counter()
    for row in figures:
        if row["outcome"]:
            by_measure[row["cell_id"], row["contrast"], row["measure"]] += row["trials"] or 0
    most: dict[tuple[object, object], int] = {}
    for (cell_id, contrast, _), trials in by_measure.items():
        most[cell_id, contrast] = max(trials, most.get((cell_id, contrast), 0))
    return sum(most.values())


def question_of(claim: int) -> str:
    return next(name for name in part_names() if name.startswith(f"claims/{claim:02d}_"))


def _conditions(figures: Sequence[Row]) -> Iterator[tuple[str, str]]:
    """What holds where: counted, with the range of the figures."""
    names = dict.fromkeys(row["condition"] for row in figures)
    for name in sorted(names, key=lambda name: not _decides(figures, name)):
        rows = [row for row in figures if row["condition"] == name]
        counted = [row for row in rows if row["outcome"]]
        measures = dict.fromkeys(row["measure"] for row in counted or rows)
        parts = []
        if counted:
            outcomes = [row["outcome"] for row in counted]
            undecided = outcomes.count("undecided")
            if undecided < len(counted):
                parts.append(f"holds in {outcomes.count('holds')} of {len(counted) - undecided}")
            parts += [f"{undecided} undecided"] if undecided else []
        parts += [_range(measure, counted or rows) for measure in measures]
        yield name, "; ".join(part for part in parts if part)


def _decides(figures: Sequence[Row], condition: str) -> bool:
    return any(row["outcome"] for row in figures if row["condition"] == condition)


def _range(measure: str, rows: Sequence[Row]) -> str:
    of_it = [row for row in rows if row["measure"] == measure]
    if len(of_it) == 1 and of_it[0]["value"] is not None:
        return f"{_named(of_it[0])} {_with_interval(of_it[0])}"
    values = [row["value"] for row in of_it if row["value"] is not None]
    if not values:
        return ""
    ends = dict.fromkeys(map(_number, (min(values), max(values))))
    return f"{_named(of_it[0])} {' to '.join(ends)}"


def _named(row: Row) -> str:
    """What the value is: a time has two sides, and the value is their ratio."""
    what, _, unit = row["measure"].partition(", ")
    is_ratio = unit and row["contrast"] and "extra" not in what
    return f"ratio of {what}" if is_ratio else row["measure"]


def _with_interval(row: Row) -> str:
    if row["value"] is None:
        return ""
    if row["value_low"] is None:
        return _number(row["value"])
    return f"{_number(row['value'])} ({_number(row['value_low'])} to {_number(row['value_high'])})"


def cell_name(row: Row) -> str:
    """In the words that tell the cells of a page apart."""
    parts = [
        row["problem"] or str(row["workload"]).rpartition(":")[2],
        row["direction"],
        row["input_shape"],
        row["precision"],
        row["layout"] if row["layout"] != "contiguous" else None,
        row["regime"] if row["regime"] != "fixed" else None,
        row["state"] if row["state"] not in (None, "plain") else None,
    ]
    return " ".join(str(part) for part in parts if part)


def _table(figures: Sequence[Row]) -> Table:
    return Table(
        header=(
            "cell",
            "condition",
            "figure",
            "contrast",
            "from",
            "to",
            "value (95%)",
            "trials",
            "says",
        ),
        rows=tuple(
            (
                cell_name(row),
                row["condition"],
                row["measure"],
                row["contrast"] or "",
                _number(row["baseline_value"]),
                _number(row["candidate_value"]),
                _with_interval(row),
                _number(row["trials"]),
                row["outcome"] or "",
            )
            for row in figures
        ),
        numbers=frozenset({4, 5, 6, 7}),
    )


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _contradicting(figures: Sequence[Row]) -> Iterator[Samples]:
    """What single processes gave, of figures that say the opposite: of each condition the clearest first."""
    by_condition: dict[str, list[Row]] = {}
    for row in sorted(figures, key=_clarity, reverse=True):
        if (
            row["outcome"] == "does not hold"
            and row["baseline_samples"]
            and row["candidate_samples"]
        ):
            by_condition.setdefault(row["condition"], []).append(row)
    in_turns = chain.from_iterable(zip_longest(*by_condition.values()))
    for row in islice(filter(None, in_turns), MOST_SAMPLES):
        yield _samples(row)


def _clarity(row: Row) -> float:
    """How far its value is from 1, on a logarithmic scale."""
    return abs(log(row["value"])) if row["value"] and row["value"] > 0 else 0.0


def _samples(row: Mapping[str, Any]) -> Samples:
    setting, _, values = str(row["contrast"]).partition(": ")
    before, _, after = values.partition(" → ")
    what, _, unit = row["measure"].partition(", ")
    each = f"{what} of each process" if unit else f"{what}, numbered"
    return Samples(
        title=f"{cell_name(row)}: {each}",
        unit=unit,
        rows=(
            (f"{setting} {before}", tuple(row["baseline_samples"])),
            (f"{setting} {after}", tuple(row["candidate_samples"])),
        ),
    )


CLAIMS = Page(
    name="claims",
    title="What people say of torch.backends.cudnn",
    about=ABOUT,
    questions=tuple(name for name in part_names() if name.startswith("claims/")),
    noun="claim",
    groups=(
        ("hold", "helps"),
        ("hold in part", "inconclusive"),
        ("do not hold", "hurts"),
        ("undecided", "no-effect"),
        ("not measured here", "no-effect"),
    ),
    entries=entries,
)
