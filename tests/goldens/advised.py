"""The words of `sweep advise` on stored answers: the first of each kind of advice, with kept choices, and of failures."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from cudnn_sweep.analysis.answers.text import to_text
from cudnn_sweep.analysis.results.advice import Advice, Freeze, KernelChange, RankPrediction
from cudnn_sweep.orchestrator.steps.advice_text import Answered, Kept, answer_of
from cudnn_sweep.orchestrator.steps.step_options import AdviseOptions
from tests.goldens import kept

KINDS = ("advice", "setting", "start", "no_effect_reason")
KERNELS = [
    KernelChange(operation="aten::cudnn_convolution", kernel=kernel, baseline=of, candidate=2 - of)
    for kernel, of in (("winograd", 2), ("fprop" * 20, 0), ("a", 1), ("b", 2), ("c", 0))
]
CANNOT = ["ConvFwd 3x3", "ConvFwd 1x1", "ConvBwdData 3x3", "ConvBwdFilter 3x3", "ConvFwd 7x7"]


def advised() -> str:
    """Each answer as the terminal shows it, with its decision, setting and lines to paste."""
    return "\n".join(
        "\n".join(
            [f"=== {name}: {answered.said}, {answered.setting}", to_text(answer_of(answered))]
        )
        for name, answered in answers()
    )


def answers() -> Iterator[tuple[str, Answered]]:
    yield from _of_stored_advice()
    yield from _of_kept_choices()
    yield "no trial", _answered()
    for status in ("out_of_memory", "timeout", "error"):
        failures = [(status, "it stopped"), ("crash", "SIGSEGV"), (status, "it stopped")]
        yield f"fails by {status}", _answered(failures=failures)
    yield "on a CPU", _answered(times_ms=[2.5, 3.0, 2.75], warnings=["not_finite"])


def _of_stored_advice() -> Iterator[tuple[str, Answered]]:
    """The first two rows of each kind, in which more and more of what stands beside the advice is known."""
    stored = kept.read("answers/advice.json.xz")
    ranks = kept.read("answers/choice_stability.json.xz")
    seen: dict[tuple[Any, ...], int] = {}
    for store, rows in stored.items():
        for row in rows:
            kind = tuple(row[name] for name in KINDS)
            if seen.setdefault(kind, 0) == 2:
                continue
            place = sum(seen.values())
            seen[kind] += 1
            others = (
                other
                for other in rows
                if other["start"] != row["start"] and _place(other) == _place(row)
            )
            of_cell = (each for each in ranks[store] if each["cell_id"] == row["cell_id"])
            yield (
                " ".join(map(str, kind)),
                _answered(
                    advice=Advice(**row),
                    other=next((Advice(**other) for other in others), None),
                    kernels=KERNELS[: place % 6],
                    ranks=[RankPrediction(**each) for each in islice(of_cell, place % 3)],
                    times_ms=[row["baseline_ms"] or 1.0],
                    options=_options(
                        input=(row["input_shape"],) if place % 2 and row["input_shape"] else ()
                    ),
                ),
            )


def _of_kept_choices() -> Iterator[tuple[str, Answered]]:
    store = "h100-2026-11-24/freeze"
    advice = kept.read("answers/advice.json.xz")[store]
    freezes = kept.read("answers/freezes.json.xz")[store]
    for place, row in enumerate(freezes[::6]):
        of_cell = [Advice(**each) for each in advice if each["cell_id"] == row["cell_id"]]
        if not of_cell:
            continue
        lost = CANNOT[: place % 6]
        measured = Kept(
            file="/srv/kept.json",
            advice=of_cell[-1],
            measured=Freeze(**row),
            cannot=lost,
            operations=12 if lost else None,
        )
        found = _answered(advice=of_cell[0], kept=measured, times_ms=[row["off_ms"]])
        yield f"kept, which gains: {measured.gains}", found


def _place(row: dict[str, Any]) -> tuple[Any, ...]:
    names = ("cell_id", "contrast", "other_settings", "env_hash", "software_hash", "in_turns")
    return tuple(row[name] for name in names)


def _answered(**found: Any) -> Answered:
    return Answered(**{"sweep_id": "one", "options": _options(), **found})


def _options(**given: Any) -> AdviseOptions:
    return AdviseOptions(workload="nets.py:Net", results="my results", **given)
