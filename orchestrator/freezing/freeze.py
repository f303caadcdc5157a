"""Saves rules that ban slow plans, or checks a saved file of rules, for `sweep freeze`."""

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from cudnn_sweep.analysis.answers.answer import Answer, Section, State
from cudnn_sweep.analysis.engine.settings import as_text
from cudnn_sweep.analysis.results.advice import UNDECIDED
from cudnn_sweep.analysis.results.verdicts import Verdict
from cudnn_sweep.analysis.words import counted, interval, milliseconds, ratio
from cudnn_sweep.orchestrator.errors import NeedsGpuError, SpecError
from cudnn_sweep.orchestrator.freezing.find import find_rules
from cudnn_sweep.orchestrator.freezing.probe import Probe, forked_probe
from cudnn_sweep.orchestrator.gating import answer as gating
from cudnn_sweep.orchestrator.gating.answer import STATES
from cudnn_sweep.orchestrator.gating.gate import MEASURE, state_of, verdict_of
from cudnn_sweep.orchestrator.planning.plan import first_calls
from cudnn_sweep.orchestrator.planning.request import Planned
from cudnn_sweep.orchestrator.running.run_sweep import Place, run_sweep
from cudnn_sweep.orchestrator.steps.advice_text import WAYS, Kept, answer_of, minutes_needed
from cudnn_sweep.orchestrator.steps.advising import SUITE, answered_of, kept_choice, kept_rules
from cudnn_sweep.orchestrator.steps.one_step import (
    LOOKING,
    UNTIL,
    plan_step,
    suite_of,
    suite_to_compare,
)
from cudnn_sweep.orchestrator.steps.step_options import FreezeOptions
from cudnn_sweep.orchestrator.terminal.say import say
from cudnn_sweep.workloads.cells.config import Config
from cudnn_sweep.workloads.cells.errata import as_json, read_kept

SLOWER = 0.01  # slowdown of a step that --check accepts
HOLDS: dict[State, str] = {
    "fine": "The file is still valid here.",
    "worse": "The file is not valid here.",
    "cannot tell": "Cannot tell yet whether the file is still valid here. Raise --minutes.",
    "does not run": "A step does not run with the file.",
}
COLUMNS = ("baseline_ms", "candidate_ms", "ratio", "ratio_low", "ratio_high", "blocks")
OF_ENVIRONMENT = ("gpu", "torch", "cuda", "cudnn", "driver")
OF_STEP = ("workload", "input", "direction", "precision", "layout", "regime", "shapes")
OpenProbe = Callable[[Planned, Console], AbstractContextManager[Probe]]


def freeze(
    options: FreezeOptions, console: Console, place: Place, opened: OpenProbe = forked_probe
) -> Answer:
    if options.check is not None:
        return _check(options, console, place, opened)
    if options.file.exists():
        raise SpecError(
            f"{options.file} exists: test it with --check, or name another file with --output"
        )
    if not os.access(options.file.parent, os.W_OK):
        raise SpecError(f"--output: {options.file.parent} is not a writable folder")
    planned = _looked(options, None, console, place)
    environment = planned.machine.environment
    with opened(planned, console) as probe:
        frozen = find_rules(probe, environment.cudnn or 0, partial(say, console))
    if not frozen.rules:
        count = counted(len(frozen.plans), "convolution operation")
        why = f"Nothing to gain: with benchmark off, no rule makes the step's {count} faster."
        return _nothing(options, why)
    ways = "with benchmark off, with benchmark on, and with the new rules"
    say(console, f"Timing steps {ways}, for at most {options.minutes:g} minutes.")
    suite, machine = suite_to_compare(options, frozen.text, options.float64), planned.machine
    left_s, job = 60 * options.minutes, options.job
    compared = plan_step(options, suite, machine, suite_name=SUITE, left_s=left_s, job=job)
    ran = run_sweep(compared, place, console)
    sweep_id, file = ran.session.sweep_id, str(options.file)
    answered = answered_of(options, ran.store, sweep_id)
    kept = kept_choice(options, ran.store, sweep_id, file, frozen.text)
    if kept is None:
        answer = answer_of(answered)
        ran.check_not_stopped(is_decided=answer.state != "cannot tell")
        return answer
    if not kept.gains:
        ran.check_not_stopped(is_decided=False)
        return _nothing(options, _not_shown(kept))
    kept = replace(kept, cannot=frozen.cannot, operations=len(frozen.plans))
    found_for = {
        **{name: getattr(options, name) for name in OF_STEP},
        **{name: getattr(environment, name) for name in OF_ENVIRONMENT},
        "command": options.command(),
        "sweep_id": sweep_id,
        "date": datetime.now(UTC).date().isoformat(),
        **{f"{way}_ms": getattr(kept.measured, f"{way}_ms") for way in WAYS},
        "plans": list(frozen.plans),
    }
    answer = answer_of(replace(answered, kept=kept))
    rules = as_json(frozen.rules, indent=1, frozen=found_for)
    return replace(answer, state="fine", files={file: rules})


def _looked(options: FreezeOptions, errata: str | None, console: Console, place: Place) -> Planned:
    """Plan the step and run the model once. Raises NeedsGpuError."""
    say(console, LOOKING.format(workload=options.workload))
    suite = suite_to_compare(options, errata)
    machine = place.look(suite, needs_cuda=True)
    if machine.environment.device != "cuda":
        raise NeedsGpuError("sweep freeze needs a GPU, because cuDNN does not run on a CPU")
    planned = plan_step(options, suite, machine, suite_name=SUITE, left_s=60 * options.minutes)
    place.call(first_calls(planned.chosen), machine, console)
    return planned


def _nothing(options: FreezeOptions, why: str) -> Answer:
    text = f"{why} No file is written."
    values = {"frozen": None, "why": text}
    return Answer(
        kind="freeze", subject=options.workload, state="fine", headline=text, values=values
    )


def _not_shown(kept: Kept) -> str:
    row, text = kept.advice, f"No gain is shown {kept.step}."
    if row.advice != UNDECIDED or row.blocks_needed is None:
        return text
    more = counted(row.blocks_needed, "more block")
    return f"{text} About {more} would decide. {minutes_needed(row.minutes_needed)}".rstrip()


def _check(options: FreezeOptions, console: Console, place: Place, opened: OpenProbe) -> Answer:
    """Check that a step uses the file's plans and is not slower than a step with benchmark off."""
    file = str(options.check)
    errata, then = kept_rules(file), _frozen_in(file)
    planned = _looked(options, errata, console, place)
    environment = planned.machine.environment
    with opened(planned, console) as probe:
        log = probe.log(Config(errata=errata))
    taken = [choice.engine for choice in log.logged_choices or []]
    plans = then["plans"]
    pairs = list(enumerate(zip(plans, taken, strict=False), 1))
    moved = [f"operation {at}: {old} saved, {now} used" for at, (old, now) in pairs if old != now]
    changed = [
        f"{name}: made with {then.get(name)}, here {now}"
        for name in OF_ENVIRONMENT
        if (now := getattr(environment, name)) != then.get(name)
    ]
    of_gate, row = _in_turns(options, errata, planned, console, place)
    state = STATES[of_gate] if taken == plans else "worse"
    same = len(pairs) - len(moved)
    step = "no block has both a frozen step and one with benchmark off"
    if row is not None and row.ratio is not None:
        share = f"{ratio(row.ratio)} of the time with benchmark off{interval(row.ratio_low, row.ratio_high)}"
        step = f"{milliseconds(row.candidate_ms)}, {share}"
    facts = [
        ("Plans", f"{same} of {counted(len(taken), 'operation')} take the plan of {file}"),
        ("A step", step),
        *(("Changed", text) for text in (*changed, *moved)),
    ]
    return Answer(
        kind="freeze",
        subject=options.workload,
        state=state,
        headline=HOLDS[state],
        sections=[Section(rows=facts)],
        commands=[("Make a new file", options.command())] if state == "worse" else (),
        values={
            "holds": state == "fine",
            "operations": len(taken),
            "same_plans": same,
            **{name: getattr(row, name, None) for name in COLUMNS},
            "frozen_ms_then": then.get("frozen_ms"),
            "changed": changed,
            "other_plans": moved,
        },
    )


def _in_turns(
    options: FreezeOptions, errata: str, looked: Planned, console: Console, place: Place
) -> tuple[gating.State, Verdict | None]:
    """Time a step with and without errata. Raises UnfinishedError if it stops undecided."""
    suite = suite_of(options, UNTIL, MEASURE, (Config(), Config(errata=errata)))
    planned = plan_step(
        options,
        suite,
        looked.machine,
        suite_name="freeze-check",
        left_s=60 * options.minutes,
        min_effect=SLOWER,
        one_sided=True,
    )
    ran = run_sweep(planned, place, console)
    row = verdict_of(ran, "errata", "null", as_text(errata))
    state = state_of(row)
    ran.check_not_stopped(is_decided=state != "cannot tell yet")
    return state, row


def _frozen_in(file: str) -> Mapping[str, Any]:
    """Read plans, times and versions from a file. Raises SpecError if it has only rules."""
    frozen = read_kept(Path(file))[1].get("frozen")
    if not isinstance(frozen, dict) or not isinstance(frozen.get("plans"), list):
        raise SpecError(f"--check: {file} has only rules; allowed: a file that `sweep freeze` made")
    return frozen
