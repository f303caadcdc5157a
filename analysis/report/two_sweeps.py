"""The report of a sweep that has another one as its baseline: each cell and config that both measured."""

from collections.abc import Sequence
from dataclasses import fields, replace
from math import inf

import pyarrow as pa

from cudnn_sweep.analysis.answering.contrast import Contrast
from cudnn_sweep.analysis.answering.verdicts import Verdict
from cudnn_sweep.analysis.asking.database import open_database
from cudnn_sweep.analysis.comparing.comparison import compare
from cudnn_sweep.analysis.report.content import Compared, Content, gather
from cudnn_sweep.analysis.storing.stored import Stored

BLANK = {
    each.name: each.type() if each.type in (int, float, str) else None for each in fields(Verdict)
}


def gather_two(
    store: Stored, locations: Sequence[str], a: str, b: str | None, min_effect: float
) -> Content:
    """`a` is the baseline; the last sweep stands for no `b`. Raises QueryError for one that is not there."""
    named = b or (store.sweep_ids() or [""])[-1]
    with open_database(store) as database:
        found = compare(database, f"sweep={a}", f"sweep={named}", min_effect)
    differing = ", ".join(found.differences.values()) or "the same software and hardware"
    contrast = Contrast(field="sweep", baseline=found.a.name, candidate=found.b.name)
    verdicts = sorted(_verdicts(found.rows, str(contrast)), key=lambda each: each.ratio or inf)
    one = Compared(contrast=contrast, verdicts=verdicts, break_evens={}, cold_costs=None)
    content = gather(store, locations, found.b.name, [], min_effect)
    against = f"{contrast} ({differing})"
    return replace(content, compared=[one] if verdicts else [], against=against)


def _verdicts(rows: pa.Table, contrast: str) -> list[Verdict]:
    return [
        Verdict(
            **BLANK
            | {name: value for name, value in row.items() if name in BLANK}
            | {"other_settings": row["settings"], "software_hash": row["b_software_hash"]}
            | {"baseline_ms": row["a_ms"], "baseline_device_ms": row["a_device_ms"]}
            | {"candidate_ms": row["b_ms"], "candidate_device_ms": row["b_device_ms"]}
            | dict.fromkeys(("wall_verdict", "wall_statistical_verdict"), row["verdict"])
            | {"blocks": min(row["a_processes"], row["b_processes"]), "contrast": contrast}
            | {"warnings": []}
        )
        for row in rows.to_pylist()
    ]
