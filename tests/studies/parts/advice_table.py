"""What the advice study compares: a prediction with the runs both ways."""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from tests.studies.parts.advice_cases import OFF, ON, RUNS, Case, Rows, cases

COLUMNS = (
    "case", "start", "steps", "side", "advice", "predicted on/off", "actual on/off", "inside",
    "right", "run", "advice took",
)  # fmt: skip


def table(asked: argparse.Namespace) -> int:
    known = cases(tiny=asked.tiny)
    done = list(compared(known, asked.results))
    print(f"| {' | '.join(COLUMNS)} |")
    print("|" + "---|" * len(COLUMNS))
    for line in done:
        print(f"| {' | '.join(map(str, line['cells']))} |")
    if done:
        inside = sum(line["inside"] for line in done)
        narrow = sum(line["half_width"] <= 0.10 for line in done)
        right = sum(line["right"] for line in done)
        print(
            f"\n{inside} of {len(done)} actual ratios are inside the 95% interval; {narrow} intervals are no "
            f"wider than ±10%; {right} of {len(done)} recommendations are right."
        )
    for case in known:
        rows = Rows(asked.results, case.name)
        if rows.of("failed") and not len(rows.of("run")) >= 2 * RUNS:
            print(f"\n{case.name} failed: {rows.of('failed')[-1]['why']}")
    return 0


def compared(known: Sequence[Case], folder: Path) -> Iterator[dict[str, Any]]:
    for case in known:
        rows = Rows(folder, case.name)
        runs = rows.of("run")
        if len(runs) < 2 * RUNS:
            continue
        told = rows.of("prediction")[0]["answer"]["asked"]
        chosen = rows.of("steps")[0]
        off_s, on_s = (
            fmean(run["seconds"] for run in runs if run["setting"] == setting)
            for setting in (OFF, ON)
        )
        actual = on_s / off_s
        low, high = told["ratio_low"], told["ratio_high"]
        inside = low is not None and low <= actual <= high
        half_width = (high - low) / (2 * told["ratio"]) if low is not None else float("inf")
        right = is_right(told["advice"], actual)
        shown = "?" if low is None else f"{told['ratio']:.3f} ({low:.3f}–{high:.3f})"
        yield {
            "inside": inside,
            "half_width": half_width,
            "right": right,
            "cells": [
                case.name, told["start"], chosen["steps"], chosen["side"], told["advice"], shown,
                f"{actual:.3f}", "yes" if inside else "no", "yes" if right else "no",
                f"{off_s:.1f} s", f"{rows.of('advice')[0]['seconds']:.0f} s",
            ],
        }  # fmt: skip


def is_right(advice: str, actual: float) -> bool:
    """The sign where the settings differ by more than 3%; no difference where by less than 1%."""
    if actual < 1 / 1.03:
        return advice == ON
    if actual > 1.03:
        return advice in (OFF, "does not fit", "fails")
    if abs(actual - 1) < 0.01:
        return advice == "no difference"
    return True
