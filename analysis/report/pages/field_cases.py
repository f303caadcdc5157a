"""The page of cases that people reported, each beside a new measurement of the same cell."""

import re
from collections.abc import Mapping
from typing import Any

from cudnn_sweep.analysis.report.pages.page import Entry, Page
from cudnn_sweep.analysis.words import figure, given, interval, number, ratio

ABOUT = (
    "Each case is a claim that somebody published about a convolution, beside a measurement of the "
    "same cell today. A ratio is candidate / baseline. In brackets is its 95% interval, or the "
    "range over processes if a case is about one side. The cause explains today's difference. What "
    "a report did not say is listed as assumed. Most claims of a speed-up or slowdown hold if the "
    "change is 3% or more, whatever factor was reported."
)
UNITS = {
    "wall": "wall time, ms",
    "device": "device time, ms",
    "memory": "peak memory reserved, MB",
    "cold": "first call, ms",
    "cold_ms": "first call, ms",
    "device_ms": "device time, ms",
    "roofline": "share of the roofline",
    "first_over_second": "first call / second call",
    "failed": "share of processes that fail",
    "unrepeatable": "share of processes whose second run gave other bits",
    "outside_cudnn": "share of processes whose convolutions ran outside cuDNN",
    "choices": "different choices of kernels",
}
MB = 1e6


def entry(row: Mapping[str, Any]) -> Entry:
    labels = {"torch_then": _framework(row["torch_then"]), "cudnn_then": "cuDNN", "gpu_then": "on"}
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


def _framework(version: str | None) -> str:
    """Return `torch` if `version` is a version of PyTorch; empty for a date or another framework."""
    return "torch" if version and re.match(r"(<=? ?)?\d+\.", version) else ""


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
