"""Whether benchmark should be on in a job of each stored cell: the whole answer of `sweep advise`."""

from collections.abc import Iterable, Mapping
from typing import Any

from cudnn_sweep.analysis.answering.advice import (
    DOES_NOT_FIT,
    FAILS,
    NO_DIFFERENCE,
    UNDECIDED,
    Advice,
    Alternative,
    KernelChange,
    kernel_changes,
)
from cudnn_sweep.analysis.answering.advice_words import advice_facts, advice_headline
from cudnn_sweep.analysis.asking.database import Database
from cudnn_sweep.analysis.report.pages.page import Entry, Page, Rows
from cudnn_sweep.analysis.storing.schema import axes
from cudnn_sweep.analysis.words import counted, cudnn_version, milliseconds, percent

ABOUT = (
    "What a job of so many steps takes with torch.backends.cudnn.benchmark on and off, by the trials that are "
    "stored. --steps, --hours and --state say which job. Intervals are 95%. They hold for this GPU and these versions."
)
SOFTWARE = """
select
    cell_id,
    string_agg(distinct torch, ', ' order by torch) as torch,
    list(distinct cudnn order by cudnn) filter (where cudnn is not null) as cudnn,
    string_agg(distinct driver, ', ' order by driver) as driver
from records
where $sweep_id is null or sweep_id glob $sweep_id
group by cell_id
"""


NAMED = ("workload", "problem", "direction", "input_shape")
"""What an entry's name says."""
ALIKE = (
    "cell_id",
    "gpu",
    "other_settings",
    "in_turns",
    "recorded_blocks",
    "baseline_ms",  # tells apart two softwares or machines, which have rows of their own
    "candidate_ms",
)
"""What both rows of an answer, a start each, have in common."""


def gather(database: Database, rows: Rows, sweep_id: str | None) -> Rows:
    """A row a cell and way to measure it: both starts, and what the store says of its kernels."""
    software = {
        row.pop("cell_id"): row | {"cudnn": ", ".join(map(cudnn_version, row["cudnn"] or []))}
        for row in database.query(SOFTWARE, {"sweep_id": sweep_id}).to_pylist()
    }
    pairs: dict[tuple[object, ...], dict[bool, dict[str, Any]]] = {}
    for row in rows:
        key = tuple(row[name] for name in ALIKE)
        pairs.setdefault(key, {})[row["asked"]] = row
    kept = database.ask("freezes", sweep_id=sweep_id).to_pylist()
    others = _others(database, sorted({row["precision"] for row in rows}))
    return [
        {
            **software[found[True]["cell_id"]],
            "gpu": found[True]["gpu"],
            "asked": found[True],
            "other_start": found.get(False),
            "kernels": [
                vars(each) for each in kernel_changes(database, sweep_id, found[True]["cell_id"])
            ],
            "alternatives": [each for each in others if _is_beside(each, found[True])],
            "frozen": [each for each in kept if each["cell_id"] == found[True]["cell_id"]],
        }
        for found in pairs.values()
        if True in found
    ]


def _others(database: Database, precisions: Iterable[str]) -> Rows:
    """Every pair of layouts, and of these precisions and others, that is stored."""
    found: Rows = database.ask("axis_effect", axis="layout", baseline="contiguous").to_pylist()
    for precision in precisions:
        found += database.ask("axis_effect", baseline=precision).to_pylist()
    return found


def _is_beside(other: Mapping[str, Any], asked: Mapping[str, Any]) -> bool:
    """Whether it compares the step that was asked about with another layout or precision, as is advised."""
    changed, _, values = other["contrast"].partition(": ")
    same = {*axes(), "gpu"} - {changed}
    before = values.partition(" → ")[0]
    setting = "true" if asked["setting"] == "on" else "false"
    return (
        all(other[name] == asked[name] for name in same)
        and before == asked[changed]
        and f"benchmark={setting}" in other["settings"]
    )


def entry(row: Mapping[str, Any]) -> Entry:
    advice = Advice(**row["asked"])
    other = None if row["other_start"] is None else Advice(**row["other_start"])
    kernels = [KernelChange(**each) for each in row["kernels"]]
    alternatives = [Alternative(**each) for each in row["alternatives"]]
    asked = row["asked"]
    return Entry(
        name=f"{asked['problem'] or asked['workload']} {asked['direction']} {asked['input_shape']}",
        address=None,
        said=f"{advice_headline(advice)} ({_setting(asked)})",
        group=advice.advice if advice.advice in dict(GROUPS) else UNDECIDED,
        facts=_joined(
            [*map(_frozen, row["frozen"]), *advice_facts(advice, other, kernels, alternatives)]
        ),
    )


def _frozen(row: Mapping[str, Any]) -> tuple[str, str]:
    text = f"{counted(row['rules'], 'rule')}: {milliseconds(row['frozen_ms'])} a step, {milliseconds(row['off_ms'])} off, "
    kept = "" if row["kept"] is None else f"; keeps {percent(row['kept'])} of what on gains"
    return "Frozen", f"{text}{milliseconds(row['on_ms'])} on{kept}"


def _setting(asked: Mapping[str, Any]) -> str:
    """What the entry's name does not say."""
    others = [name for name, axis in axes().items() if asked[name] != axis.usual]
    words = [asked[name] for name in (*others, "gpu") if name not in NAMED]
    return ", ".join([*words, *([] if asked["in_turns"] else ["processes not in turns"])])


def _joined(facts: Iterable[tuple[str, str]]) -> dict[str, str]:
    """What continues a fact stands with it."""
    found: dict[str, str] = {}
    label = ""
    for name, text in facts:
        label = name or label
        found[label] = f"{found[label]}; {text}" if label in found else text
    return found


GROUPS = (
    ("on", "helps"),
    ("off", "hurts"),
    (DOES_NOT_FIT, "hurts"),
    (FAILS, "hurts"),
    (NO_DIFFERENCE, "equivalent"),
    (UNDECIDED, "inconclusive"),
)
ADVICE = Page(
    name="advice",
    title="Should benchmark be on?",
    about=ABOUT,
    questions=("advice",),
    noun="cell",
    groups=GROUPS,
    entries=lambda rows: [entry(row) for row in rows],
    gather=gather,
)
