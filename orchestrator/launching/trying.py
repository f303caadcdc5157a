"""`sweep try`: one step with benchmark off and on, here and now, and what that says in a sentence: the short
form of `sweep advise`.
"""

import json
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import median
from typing import Any

from rich.console import Console

from cudnn_sweep.analysis.answering.min_effect import MIN_EFFECT
from cudnn_sweep.analysis.answering.verdicts import BreakEven, Verdict
from cudnn_sweep.analysis.words import milliseconds, number, percent
from cudnn_sweep.orchestrator.launching.one_step import (
    LOOKING,
    NO_GPU,
    plan_step,
    suite_of,
)
from cudnn_sweep.orchestrator.launching.step_options import StepOptions
from cudnn_sweep.orchestrator.planning.contrasts import break_evens_of, verdicts_of
from cudnn_sweep.orchestrator.running.place import Place
from cudnn_sweep.orchestrator.running.run_sweep import CELL_FAILED, Ran, run_sweep
from cudnn_sweep.orchestrator.showing.say import say
from cudnn_sweep.orchestrator.showing.verdict_table import NOT_MEASURED, payback_text, ratio_text
from cudnn_sweep.workloads.problem import sizes_text

SUITE = "try"
REPLICATES = 5
MINUTES = 2.0  # of the whole command
TIMED = ["workload", "direction", "input_shape", "steady_wall_ms", "message"]


def try_step(
    options: StepOptions, console: Console, place: Place, json_out: Console | None = None
) -> int:
    """Measure, say what was found, and return the exit code of a launch. `json_out` gets it as JSON too."""
    suite = suite_of(options, REPLICATES)
    say(console, LOOKING.format(workload=options.workload))
    machine = place.look(suite)
    has_gpu = machine.environment.device == "cuda"
    if not has_gpu:
        say(console, NO_GPU)
    planned = plan_step(options, suite, machine, suite_name=SUITE, minutes=MINUTES)
    ran = run_sweep(planned, place, console)
    found, payback, rows = _found(ran)
    said = _verdict_sentence(found, payback, rows) if found else _time_sentence(rows)
    say(console, f"\n{said}")
    if json_out is not None:
        told = {
            "sweep_id": ran.choice.sweep_id,
            "answer": said,
            "verdict": found and asdict(found),
            "break_even": payback and asdict(payback),
            "step_times_ms": [row["steady_wall_ms"] for row in rows if row["steady_wall_ms"]],
            "messages": sorted({row["message"] for row in rows if row["message"]}),
        }
        json_out.print(json.dumps(told, indent=2), soft_wrap=True, highlight=False)
    failed = ran.exit_code == CELL_FAILED
    question = "failures" if failed else "helps_or_hurts"
    query = [options.program, "query", question, *options.where()]
    if has_gpu or failed:
        say(console, f"Next: {shlex.join([*query, '--sweep-id', ran.choice.sweep_id])}")
    else:
        say(console, f"On a machine with a GPU: {options.command()}")
    return ran.exit_code


def _found(ran: Ran) -> tuple[Verdict | None, BreakEven | None, list[dict[str, Any]]]:
    """The verdict, when it pays with an empty compute cache, and all trials."""
    store, sweep_id, contrasts = ran.store, ran.choice.sweep_id, ran.session.contrasts
    verdicts = verdicts_of(store, sweep_id, contrasts)
    paybacks = break_evens_of(store, sweep_id, contrasts)
    empty = [row for row in paybacks if row.compute_cache == "empty"]
    rows = store.snapshot(sweep_id).table(TIMED).to_pylist()
    return next(iter(verdicts), None), next(iter(empty), None), rows


def _verdict_sentence(
    verdict: Verdict, payback: BreakEven | None, rows: Sequence[Mapping[str, Any]]
) -> str:
    step = f"{_step(verdict)} on {verdict.gpu}"
    if verdict.wall_verdict == NOT_MEASURED:
        return _failed_sentence(rows)
    reason = verdict.no_effect_reason
    if reason is not None:
        return f"benchmark cannot have an effect on {step} ({reason}): leave it as it is."
    if verdict.wall_verdict == "fails":
        return (
            f"Leave benchmark off: with it {verdict.candidate_failed} processes of {step} failed."
        )
    if verdict.ratio is None:
        return f"{step}: no pair of processes was measured completely."
    times = f"{ratio_text(verdict)} times the time, {number(verdict.baseline_ms, '?')} → "
    figures = f"{times}{number(verdict.candidate_ms, '?')} ms"
    match verdict.wall_verdict:
        case "helps":
            return f"Turn benchmark on: {step} takes {figures}{_when_it_pays(payback)}."
        case "hurts":
            return f"Leave benchmark off: with it {step} takes {figures}."
        case "equivalent":
            return f"benchmark makes no difference of {percent(MIN_EFFECT)} or more: {step} takes {figures}."
        case _:
            return f"{verdict.wall_in_words.capitalize()}: with benchmark {step} takes {figures}."


def _when_it_pays(payback: BreakEven | None) -> str:
    match payback.outcome if payback else None:
        case "at once":
            return "; with an empty compute cache it saves time from the first iteration on"
        case "after":
            iterations = payback_text(payback, wide=False)
            return f"; with an empty compute cache it breaks even after {iterations} iterations"
        case _:
            return ""


def _time_sentence(rows: Sequence[Mapping[str, Any]]) -> str:
    times = [row["steady_wall_ms"] for row in rows if row["steady_wall_ms"] is not None]
    if not times:
        return _failed_sentence(rows)
    row = rows[0]
    shape = sizes_text(tuple(row["input_shape"]))
    step = f"A {row['direction']} step of {row['workload']} at {shape}"
    return (
        f"{step} takes {milliseconds(median(times))} on this CPU "
        f"({len(times)} processes, {number(min(times))} to {milliseconds(max(times))})."
    )


def _failed_sentence(rows: Sequence[Mapping[str, Any]]) -> str:
    messages = Counter(row["message"] for row in rows if row["message"])
    told = messages.most_common(1)[0][0] if messages else "nothing was recorded"
    more = "; `sweep advise` has more time: --minutes" if told.startswith("no result after") else ""
    return f"Not measured: {told}{more}"


def _step(verdict: Verdict) -> str:
    what = verdict.problem or verdict.workload
    return f"a {verdict.direction} step of {what} at {verdict.input_shape}"
