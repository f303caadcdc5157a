"""The report of one sweep in which another is its baseline: each cell and config of both, by `comparing`."""

from collections.abc import Sequence
from dataclasses import fields, replace

from cudnn_sweep.analysis.answering.contrast import Contrast
from cudnn_sweep.analysis.answering.verdicts import Verdict
from cudnn_sweep.analysis.asking.database import open_database
from cudnn_sweep.analysis.comparing.comparison import Comparison, compare
from cudnn_sweep.analysis.report.content import Compared, Content, gather
from cudnn_sweep.analysis.storing.stored import Stored

COUNTS = ("split_blocks", "doubtful_blocks", "unpaired_blocks", "baseline_failed")
BLANK = {field.name: None for field in fields(Verdict)} | dict.fromkeys(COUNTS, 0)
AS_VERDICT = {
    "settings": "other_settings",
    "verdict": "wall_verdict",
    "a_ms": "baseline_ms",
    "b_ms": "candidate_ms",
    "a_device_ms": "baseline_device_ms",
    "b_device_ms": "candidate_device_ms",
    "b_software_hash": "software_hash",
}


def gather_two(
    store: Stored, locations: Sequence[str], a: str, b: str | None, min_effect: float
) -> Content:
    """`a` is the baseline; the last sweep stands for no `b`. Raises QueryError for one that is not there."""
    last = ([sweep_id for sweep_id in store.sweep_ids() if sweep_id != a] or [""])[-1]
    with open_database(store) as database:
        found = compare(database, f"sweep={a}", f"sweep={b or last}", min_effect)
    differing = ", ".join(map(str, found.differences)) or "nothing else differs"
    contrast = Contrast(
        field="sweep", baseline=found.a.name, candidate=f"{found.b.name} ({differing})"
    )
    verdicts = _verdicts(found)
    content = gather(store, locations, found.b.name, [], min_effect)
    one = Compared(contrast=contrast, verdicts=verdicts, break_evens={}, cold_costs=None)
    return replace(content, compared=[one] if verdicts else [], charts=("effect",))


def _verdicts(found: Comparison) -> list[Verdict]:
    names = [AS_VERDICT.get(name, name) for name in found.rows.column_names]
    rows = found.rows.rename_columns(names).to_pylist()
    told = [
        BLANK
        | {name: row[name] for name in BLANK.keys() & row.keys()}
        | {"blocks": min(row["a_processes"], row["b_processes"]), "warnings": []}
        | {"wall_statistical_verdict": row["wall_verdict"]}
        for row in rows
    ]
    return sorted((Verdict(**each) for each in told), key=lambda each: each.ratio or float("inf"))
