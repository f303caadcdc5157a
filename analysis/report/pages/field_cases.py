"""A page that compares cases that people reported with new measurements."""

import re
from collections.abc import Mapping
from typing import Any

from cudnn_sweep.analysis.report.pages.page import Entry, Page
from cudnn_sweep.analysis.words import figure, given, interval, number, ratio

ABOUT = (
    "Each case is a published claim about a convolution, with a new measurement of the same cell. "
    "A ratio is the candidate's value divided by the baseline's. Its 95% interval is in brackets, "
    "or the range over processes if only one config was measured. The cause explains today's "
    "difference. Details that a report did not state are listed as assumed. A change of 3% or more "
    "confirms most claims of a speed-up or slowdown, whatever factor was reported."
)
UNITS = {
    "wall": "wall time, ms",
    "device": "device time, ms",
    "memory": "peak memory reserved, MB",
    "cold": "first call, ms",
    "cold_ms": "first call, ms",
    "device_ms": "device time, ms",
    "roofline": "share of the roofline",
    "first_over_second": "time of the first call divided by the second",
    "failed": "share of processes that fail",
    "unrepeatable": "share of processes whose second run computed other bits",
    "outside_cudnn": "share of processes whose convolutions ran outside cuDNN",
    "choices": "different choices of kernels",
}
MB = 1e6


def entry(row: Mapping[str, Any]) -> Entry:
    # without a version of PyTorch, the text names another framework
    torch = "torch" if re.match(r"(<=? ?)?\d+\.", row["torch_then"] or "") else ""
    labels = {"torch_then": torch, "cudnn_then": "cuDNN", "gpu_then": "on"}
    known = [name for name in labels if row[name] and row[name] != "unstated"]
    routes = filter(None, dict.fromkeys((row["baseline_routes"], row["candidate_routes"])))
    has_script = row["workload"] == "conv" and row["regime"] == "fixed"
    return Entry(
        name=row["case_id"],
        address=row["address"],
        said=row["claim"],
        group=row["outcome"],
        facts={
            "compared": row["contrast"],
            "claim holds if": _bound(row),
            "today": _today(row),
            "cause": row["cause"],
            "because": row["because"],
            "routes": " → ".join(routes),
            "then": ", ".join(f"{labels[name]} {row[name]}".strip() for name in known),
            "assumed": row["assumed"],
            "measured on": row["gpu"],
        },
        command=f"sweep repro {row['case_id']}" if has_script else None,
    )


def _bound(row: Mapping[str, Any]) -> str | None:
    if row["measure"] is None:
        return None
    unit = UNITS[row["measure"]]
    label = unit if row["kind"] == "bound" else f"ratio of {unit.partition(',')[0]}"
    if row["holds"] == "within":
        return f"{label} within {ratio(1 / row['bound'])} and {given(row['bound'])}"
    return f"{label} {row['holds']} {given(row['bound'])}"


def _today(row: Mapping[str, Any]) -> str | None:
    if row["value"] is None:
        return None
    is_alone = row["candidate_value"] is None
    text = figure if is_alone else ratio
    value = text(row["value"]) + interval(row["value_low"], row["value_high"], text)
    if is_alone:
        return f"{UNITS[row['measure']]}: {value}"
    scale = MB if row["measure"] == "memory" else 1
    sides = " → ".join(number(row[f"{side}_value"] / scale) for side in ("baseline", "candidate"))
    return f"{UNITS[row['measure']]}: {sides}, ratio {value}"


FIELD_CASES = Page(
    name="field_cases",
    title="What became of reported cases",
    about=ABOUT,
    questions=("field_cases",),
    noun="case",
    groups={
        "still there": "hurts",
        "reversed": "helps",
        "gone": "equivalent",
        "undecided": "inconclusive",
        "not to be run here": "no-effect",
        "not measured yet": "no-effect",
    },
    entries=lambda rows, _: list(map(entry, rows)),
)
